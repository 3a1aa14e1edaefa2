//! A watch against a scripted peer, on a paused clock.

use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use gimbal_kubernetes_objects::Service;
use http::{Request, Response};
use http_body_util::channel::Sender;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Channel, Full, StreamBody};
use hyper::body::Frame;
use tokio::time::Instant;
use tower::BoxError;

use super::list_watch::{LONGEST_PAUSE, RESUMABLE};
use super::*;
use crate::access::Pool;

type Answer = Response<BoxBody<Bytes, std::io::Error>>;
type Pieces = Sender<Bytes, std::io::Error>;

/// Answers in the order of the script, then never again; records the requests and their times.
#[derive(Clone)]
struct Peer {
    script: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<(String, Instant)>>>,
}

impl Peer {
    fn new(script: Vec<Answer>) -> Self {
        Self { script: Arc::new(Mutex::new(script.into())), asked: Arc::default() }
    }

    /// Replaces the script by this one answer.
    fn answer_next(&self, answer: Answer) {
        *self.script.lock().unwrap() = VecDeque::from([answer]);
    }

    fn cluster(&self) -> Cluster {
        let peer = self.clone();
        let service = tower::service_fn(move |request: Request<Full<Bytes>>| {
            peer.asked.lock().unwrap().push((request.uri().to_string(), Instant::now()));
            let answer = peer.script.lock().unwrap().pop_front();
            async move {
                match answer {
                    Some(answer) => Ok::<_, BoxError>(answer.map(|body| body.map_err(BoxError::from).boxed_unsync())),
                    None => std::future::pending().await,
                }
            }
        });
        Cluster::new(Pool::new(service), "http://peer", "test")
    }

    /// Returns the requests in short form: `list`, `list <token>`, `watch <version>`.
    fn asked(&self) -> Vec<String> {
        let short = |uri: &String| {
            let parameter = |key: &str| {
                let from = uri.find(&format!("&{key}="))? + key.len() + 2;
                uri[from..].split('&').next()
            };
            match (parameter("continue"), parameter("resourceVersion")) {
                (Some(token), _) => format!("list {token}"),
                (_, Some(version)) => format!("watch {version}"),
                _ => "list".to_owned(),
            }
        };
        self.asked.lock().unwrap().iter().map(|(uri, _)| short(uri)).collect()
    }

    /// Returns the seconds between two requests.
    fn seconds_between(&self, a: usize, b: usize) -> f64 {
        let asked = self.asked.lock().unwrap();
        (asked[b].1 - asked[a].1).as_secs_f64()
    }
}

fn answer(code: u16, body: impl Into<String>) -> Answer {
    let body = Full::new(Bytes::from(body.into())).map_err(|never| match never {}).boxed();
    Response::builder().status(code).body(body).unwrap()
}

fn list(version: &str, names: &[&str], next: &str) -> Answer {
    let items: Vec<_> = names.iter().map(|name| format!(r#"{{"metadata":{{"name":"{name}"}}}}"#)).collect();
    answer(
        200,
        format!(
            r#"{{"kind":"ServiceList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","continue":"{next}"}},"items":[{}]}}"#,
            items.join(",")
        ),
    )
}

/// Returns an open watch, and the end that writes into it.
fn open() -> (Pieces, Answer) {
    let (pieces, body) = Channel::new(16);
    (pieces, Response::new(body.boxed()))
}

fn gone() -> Answer {
    answer(410, r#"{"reason":"Expired","message":"old","code":410}"#)
}

/// Returns an event in short form.
fn short(event: WatchEvent<Service>) -> String {
    let names = |list: &[Service]| list.iter().map(|item| item.metadata.name.to_string()).collect::<Vec<_>>().join(",");
    match event {
        WatchEvent::ListBegin => "begin".into(),
        WatchEvent::Listed(list) => format!("[{}]", names(&list)),
        WatchEvent::WentBack { seen, listed } => format!("{seen}->{listed}"),
        WatchEvent::ListDone => "done".into(),
        WatchEvent::Applied(object) => format!("+{}", names(&[object])),
        WatchEvent::Deleted(object) => format!("-{}", names(&[object])),
        WatchEvent::Alive => "alive".into(),
        WatchEvent::Failed(error) => variant(&error),
    }
}

fn variant(error: &impl Debug) -> String {
    format!("{error:?}").split(' ').next().unwrap_or_default().to_owned()
}

async fn next(events: &mut (impl Stream<Item = WatchEvent<Service>> + Unpin), count: usize) -> String {
    let events: Vec<_> = events.take(count).map(short).collect().await;
    events.join(" ")
}

const ADDED: &str = r#"{"type":"ADDED","object":{"metadata":{"name":"b","resourceVersion":"6"}}}"#;

async fn write(pieces: &mut Pieces, text: impl Into<String>) {
    pieces.send_data(text.into().into()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pages_then_events_then_a_bookmark() {
    let (mut pieces, watching) = open();
    let peer = Peer::new(vec![list("5", &["a"], "x"), list("5", &["c"], ""), watching]);
    let mut events = watch::<Service>(peer.cluster(), WatchScope::default());
    assert_eq!(next(&mut events, 7).await, "begin alive [a] alive [c] done alive");
    let (half, rest) = ADDED.split_at(30);
    write(&mut pieces, half).await;
    write(&mut pieces, format!("{rest}\n")).await;
    write(&mut pieces, "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}\n").await;
    write(&mut pieces, ADDED.replace("ADDED", "DELETED") + "\n").await;
    assert_eq!(next(&mut events, 3).await, "+b alive -b");
    assert_eq!(peer.asked(), ["list", "list x", "watch 5"]);
}

#[tokio::test(start_paused = true)]
async fn a_clean_end_goes_on_at_once_from_the_bookmark() {
    let (mut first, one) = open();
    let (_second, two) = open();
    let peer = Peer::new(vec![list("5", &[], ""), one, two]);
    let mut events = watch::<Service>(peer.cluster(), WatchScope::default());
    assert_eq!(next(&mut events, 5).await, "begin alive [] done alive");
    tokio::time::advance(Duration::from_secs(2)).await;
    write(&mut first, "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}\n").await;
    drop(first);
    assert_eq!(next(&mut events, 2).await, "alive alive");
    assert_eq!(peer.asked(), ["list", "watch 5", "watch 9"]);
    assert!(peer.seconds_between(1, 2) < 2.1);
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_are_spaced_out() {
    let ended = || open().1;
    let peer = Peer::new(vec![list("5", &[], ""), ended(), ended(), ended()]);
    let mut events = watch::<Service>(peer.cluster(), WatchScope::default());
    assert_eq!(next(&mut events, 10).await, "begin alive [] done alive Transport alive Transport alive Transport");
    assert!(peer.seconds_between(2, 3) >= 0.2, "{}", peer.seconds_between(2, 3));
}

#[tokio::test(start_paused = true)]
async fn gone_on_the_watch_lists_again() {
    let (mut pieces, watching) = open();
    let peer = Peer::new(vec![list("5", &[], ""), gone(), list("7", &[], ""), watching, list("8", &[], "")]);
    let mut events = watch::<Service>(peer.cluster(), WatchScope::default());
    assert_eq!(next(&mut events, 10).await, "begin alive [] done Gone begin alive [] done alive");
    write(&mut pieces, "{\"type\":\"ERROR\",\"object\":{\"code\":410,\"reason\":\"Expired\"}}\n").await;
    assert_eq!(next(&mut events, 5).await, "Gone begin alive [] done");
    assert_eq!(peer.asked(), ["list", "watch 5", "list", "watch 7", "list"]);
}

#[tokio::test(start_paused = true)]
async fn gone_on_a_page_starts_the_list_over() {
    let peer = Peer::new(vec![list("5", &["a"], "x"), gone(), list("7", &["a"], "")]);
    let mut events = watch::<Service>(peer.cluster(), WatchScope::default());
    assert_eq!(next(&mut events, 8).await, "begin alive [a] Gone begin alive [a] done");
    assert_eq!(peer.asked(), ["list", "list x", "list"]);
}

#[tokio::test(start_paused = true)]
async fn forbidden_is_never_empty_and_is_asked_again() {
    let forbidden = || answer(403, r#"{"reason":"Forbidden","message":"no","code":403}"#);
    let peer = Peer::new(vec![forbidden(), forbidden(), list("5", &["a"], "")]);
    let mut events = watch::<Service>(peer.cluster(), WatchScope::default());
    assert_eq!(next(&mut events, 8).await, "begin Forbidden begin Forbidden begin alive [a] done");
    assert!(peer.seconds_between(0, 1) >= 0.1 && peer.seconds_between(1, 2) >= 0.2);
}

/// The kind of a custom resource that is not installed, or not any more.
#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_unknown_and_never_empty() {
    let unserved = || answer(404, "404 page not found\n");
    let (mut pieces, watching) = open();
    let peer = Peer::new(vec![unserved(), list("5", &["a"], ""), watching, unserved(), list("9", &[], "")]);
    let mut events = watch::<Service>(peer.cluster(), WatchScope::default());
    assert_eq!(next(&mut events, 7).await, "begin NotServed begin alive [a] done alive");
    write(&mut pieces, "{\"type\":\"ERROR\",\"object\":{\"code\":410,\"reason\":\"Expired\"}}\n").await;
    assert_eq!(next(&mut events, 7).await, "Gone begin NotServed begin alive [] done");
}

#[test]
fn pauses_are_spread_between_half_and_all() {
    let longest = Duration::from_secs(2);
    assert_eq!(spread(longest, 0), Duration::from_secs(1));
    assert_eq!(spread(longest, 999), Duration::from_millis(1999));
    assert_eq!(spread(longest, 1000), Duration::from_secs(1));
    assert_eq!(spread(Duration::ZERO, u64::MAX), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_cut_in_the_middle_of_a_line_loses_nothing() {
    let (mut first, one) = open();
    let (mut second, two) = open();
    let peer = Peer::new(vec![list("5", &[], ""), one, two]);
    let mut events = watch::<Service>(peer.cluster(), WatchScope::default());
    assert_eq!(next(&mut events, 5).await, "begin alive [] done alive");
    tokio::time::advance(Duration::from_secs(2)).await;
    write(&mut first, &ADDED[..30]).await;
    drop(first);
    assert_eq!(next(&mut events, 2).await, "Transport alive");
    write(&mut second, format!("{ADDED}\n")).await;
    assert_eq!(next(&mut events, 1).await, "+b");
    assert_eq!(peer.asked(), ["list", "watch 5", "watch 5"]);
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_goes_on_where_it_was() {
    let (mut first, one) = open();
    let (_second, two) = open();
    let peer = Peer::new(vec![list("5", &[], ""), one, two]);
    let mut events = watch::<Service>(peer.cluster(), WatchScope::default());
    assert_eq!(next(&mut events, 5).await, "begin alive [] done alive");
    write(&mut first, format!("{ADDED}\n")).await;
    first.abort(std::io::ErrorKind::ConnectionReset.into());
    assert_eq!(next(&mut events, 3).await, "+b Transport alive");
    assert_eq!(peer.asked(), ["list", "watch 5", "watch 6"]);
}

/// After a restoration a watch from a future version is accepted and stays silent: only a list shows that the store
/// went back.
#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_given_up_for_a_list() {
    let (_first, one) = open();
    let (_second, two) = open();
    let peer = Peer::new(vec![list("5", &[], ""), one, list("3", &["a"], ""), two]);
    let mut events = watch::<Service>(peer.cluster(), WatchScope::default());
    assert_eq!(next(&mut events, 5).await, "begin alive [] done alive");
    assert_eq!(next(&mut events, 6).await, "begin alive [a] 5->3 done alive", "silence alone is no failure");
    let waited = peer.seconds_between(1, 2);
    assert!((90.0..91.0).contains(&waited), "{waited}");
    assert_eq!(peer.asked(), ["list", "watch 5", "list", "watch 3"]);
}

/// The list is requested only after `ListBegin` was consumed, so it is newer than what the consumer knew then.
#[tokio::test(start_paused = true)]
async fn a_list_is_asked_for_once_its_begin_is_taken() {
    let peer = Peer::new(vec![list("5", &[], "")]);
    let mut events = watch::<Service>(peer.cluster(), WatchScope::default());
    assert_eq!(next(&mut events, 1).await, "begin");
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(peer.asked(), [""; 0]);
    assert_eq!(next(&mut events, 1).await, "alive");
    assert_eq!(peer.asked(), ["list"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_times_out() {
    let peer = Peer::new(vec![]);
    let cluster = peer.cluster().with_timeout(Duration::from_secs(3));
    let mut events = watch::<Service>(cluster, WatchScope::default());
    assert_eq!(next(&mut events, 4).await, "begin Timeout begin Timeout");
    assert!((3.1..3.2).contains(&peer.seconds_between(0, 1)), "{}", peer.seconds_between(0, 1));
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_event_lists_again() {
    let (mut pieces, watching) = open();
    let peer = Peer::new(vec![list("5", &[], ""), watching, list("9", &["b"], "")]);
    let mut events = watch::<Service>(peer.cluster(), WatchScope::default());
    assert_eq!(next(&mut events, 5).await, "begin alive [] done alive");
    write(&mut pieces, ADDED.replace("\"b\"", "1") + "\n" + ADDED + "\n").await;
    assert_eq!(next(&mut events, 5).await, "Undecodable begin alive [b] done");
    assert_eq!(peer.asked(), ["list", "watch 5", "list"]);
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_object_keeps_its_list_from_being_done() {
    let bad = answer(
        200,
        r#"{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"},"spec":1}]}"#,
    );
    let peer = Peer::new(vec![bad, list("6", &["a", "b"], "")]);
    let mut events = watch::<Service>(peer.cluster(), WatchScope::default());
    assert_eq!(next(&mut events, 8).await, "begin alive [a] Undecodable begin alive [a,b] done");
}

/// The number of requests within ten seconds depends on random pauses; that a list follows does not.
#[tokio::test(start_paused = true)]
async fn after_a_long_outage_a_list_gives_whole_evidence() {
    let (first, one) = open();
    let mut script = vec![list("5", &[], ""), one];
    script.extend(std::iter::repeat_with(|| answer(503, "")).take(100));
    let peer = Peer::new(script);
    let mut events = watch::<Service>(peer.cluster(), WatchScope::default());
    assert_eq!(next(&mut events, 5).await, "begin alive [] done alive");
    first.abort(std::io::ErrorKind::ConnectionReset.into());
    assert_eq!(next(&mut events, 1).await, "Transport");
    let since = Instant::now();
    let mut resumed = 0;
    while next(&mut events, 1).await == "Server" {
        resumed += 1;
        assert_eq!(peer.asked().last().map(String::as_str), Some("watch 5"));
    }
    assert!(resumed > 3, "{resumed}");
    // The last pause may have begun just before.
    let away = since.elapsed();
    assert!((RESUMABLE..RESUMABLE + 2 * LONGEST_PAUSE).contains(&away), "{away:?}");
    peer.answer_next(list("9", &[], ""));
    assert_eq!(next(&mut events, 3).await, "alive [] done");
    assert_eq!(peer.asked().last().map(String::as_str), Some("list"));
}

/// An outage of 20 s: the first watch that reaches the server wakes the others, so none is a second late.
#[tokio::test(start_paused = true)]
async fn after_an_outage_all_watches_are_back_at_once() {
    for seed in 0..20 {
        let begun = Instant::now();
        // Spreads the outage's end over the random pauses, because only the clock is controlled here.
        let away = Duration::from_secs(20) + Duration::from_millis(37 * seed);
        let service = tower::service_fn(move |_: Request<Full<Bytes>>| async move {
            if begun.elapsed() < away {
                return Err::<Response<_>, BoxError>("connection refused".into());
            }
            Ok(list("7", &["a"], "").map(|body| body.map_err(BoxError::from).boxed_unsync()))
        });
        let cluster = Cluster::new(Pool::new(service), "http://peer", "test");
        let listed = async || {
            let mut events = watch::<Service>(cluster.clone(), WatchScope::default());
            while !matches!(events.next().await, Some(WatchEvent::ListDone)) {}
            begun.elapsed() - away
        };
        let (first, second, third) = tokio::join!(listed(), listed(), listed());
        let (earliest, latest) = (first.min(second).min(third), first.max(second).max(third));
        assert!(latest < Duration::from_secs(1), "{latest:?} late");
        assert_eq!(earliest, latest, "one woke the others");
    }
}

/// Two watches must not end each other's pauses: that the headers of an answer came says little of a server that breaks off
/// its answers.
#[tokio::test(start_paused = true)]
async fn a_server_that_breaks_off_its_answers_is_asked_with_pauses() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let service = tower::service_fn(move |_: Request<Full<Bytes>>| {
        counted.fetch_add(1, Ordering::Relaxed);
        let rest = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Err::<Frame<Bytes>, BoxError>("connection reset".into())
        };
        let body = stream::iter([Ok(Frame::data(Bytes::from_static(b"{")))]).chain(stream::once(rest));
        std::future::ready(Ok::<_, BoxError>(Response::new(StreamBody::new(body).boxed_unsync())))
    });
    let cluster = Cluster::new(Pool::new(service), "http://peer", "test");
    let failures = async || {
        let mut events = watch::<Service>(cluster.clone(), WatchScope::default());
        while let Some(event) = events.next().await {
            assert!(matches!(event, WatchEvent::ListBegin | WatchEvent::Failed(_)), "{event:?}");
        }
    };
    let both = async { tokio::join!(failures(), failures()) };
    timeout(Duration::from_secs(10), both).await.unwrap_err();
    // The pauses are 0.2, 0.4, 0.8, 1.6, 3.2 and 6.4 seconds, or half of that.
    let asked = asked.load(Ordering::Relaxed);
    assert!((12..=14).contains(&asked), "{asked} requests");
    assert!(cluster.failing_for().is_some());
}

/// A peer whose pages are long if they may have more than `most` objects. Returns the limits asked for.
fn long_pages(most: u32) -> (Cluster, Arc<Mutex<Vec<u32>>>, Arc<AtomicUsize>) {
    const PIECE: &[u8] = &[b' '; 1 << 20];
    let (limits, sent) = (Arc::<Mutex<Vec<u32>>>::default(), Arc::new(AtomicUsize::new(0)));
    let (asked, counted) = (limits.clone(), sent.clone());
    let service = tower::service_fn(move |request: Request<Full<Bytes>>| {
        let limit = request.uri().query().and_then(|query| query.strip_prefix("limit=")?.parse().ok()).unwrap_or(0);
        asked.lock().unwrap().push(limit);
        let counted = counted.clone();
        let answer = if limit > most {
            let pieces = std::iter::repeat_with(move || {
                counted.fetch_add(PIECE.len(), Ordering::Relaxed);
                Ok::<_, BoxError>(Frame::data(Bytes::from_static(PIECE)))
            });
            Response::new(StreamBody::new(stream::iter(pieces.take(200))).boxed_unsync())
        } else {
            list("5", &["a"], "").map(|body| body.map_err(BoxError::from).boxed_unsync())
        };
        std::future::ready(Ok::<_, BoxError>(answer))
    });
    (Cluster::new(Pool::new(service), "http://peer", "test"), limits, sent)
}

#[tokio::test(start_paused = true)]
async fn a_page_without_end_is_not_read_to_its_end() {
    let (cluster, limits, sent) = long_pages(0);
    let mut events = watch::<Service>(cluster, WatchScope::default());
    assert_eq!(next(&mut events, 3).await, "begin Undecodable begin");
    assert_eq!(*limits.lock().unwrap(), [50, 6, 1]);
    let sent = sent.load(Ordering::Relaxed) >> 20;
    assert!(sent <= 3 * 65, "{sent} MiB were read");
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_too_large_is_asked_for_in_smaller_ones() {
    let (cluster, limits, _) = long_pages(6);
    let mut events = watch::<Service>(cluster, WatchScope::default());
    assert_eq!(next(&mut events, 4).await, "begin alive [a] done");
    assert_eq!(*limits.lock().unwrap(), [50, 6]);
}

/// It sends often enough for the time-out of each piece, and is given up all the same.
#[tokio::test(start_paused = true)]
async fn a_page_that_trickles_is_given_up() {
    let (mut pieces, trickle) = open();
    let cluster = Peer::new(vec![trickle]).cluster();
    let sending = tokio::spawn(async move {
        while pieces.send_data(" ".into()).await.is_ok() {
            tokio::time::sleep(Duration::from_secs(9)).await;
        }
    });
    let (start, scope) = (Instant::now(), WatchScope::default());
    let listed = tokio::time::timeout(Duration::from_secs(3600), cluster.list::<Service>(&scope)).await.unwrap();
    assert_eq!(variant(&listed.unwrap_err()), "Timeout");
    assert_eq!(start.elapsed().as_secs(), 100);
    sending.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_object_without_end_is_not_read_to_its_end() {
    let pieces = (0..200).map(|_| Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(&[b' '; 1 << 20]))));
    let peer = Peer::new(vec![Response::new(BodyExt::boxed(StreamBody::new(stream::iter(pieces))))]);
    let error = peer.cluster().get::<Service>("n", "a").await.unwrap_err();
    assert_eq!(error.to_string(), "cannot read the answer: it is longer than any object");
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_pages_lead_in_a_circle_is_given_up() {
    let circle = || vec![list("5", &[], "x"), list("5", &[], "x"), list("5", &["a"], "")];
    let peer = Peer::new(circle());
    let mut events = watch::<Service>(peer.cluster(), WatchScope::default());
    assert_eq!(next(&mut events, 9).await, "begin alive [] alive [] Undecodable begin alive [a]");
    assert!(peer.seconds_between(1, 2) >= 0.1);
    let error = Peer::new(circle()).cluster().list::<Service>(&WatchScope::default()).await.unwrap_err();
    assert_eq!(variant(&error), "Undecodable");
}
