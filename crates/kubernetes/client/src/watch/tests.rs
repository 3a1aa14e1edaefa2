//! A watch against a scripted peer, on a paused clock.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use gimbal_kubernetes_objects::Service;
use http::{Request, Response};
use http_body_util::channel::Sender;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Channel, Full};
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
            r#"{{"metadata":{{"resourceVersion":"{version}","continue":"{next}"}},"items":[{}]}}"#,
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
    assert_eq!(next(&mut events, 7).await, "Timeout begin alive [a] 5->3 done alive");
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
        r#"{"metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"},"spec":1}]}"#,
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
