//! The state machine of a watch: which call comes next, and which events follow from an answer. Pure: the caller
//! supplies answers, time and randomness.

use std::borrow::Cow;
use std::time::Duration;

use gimbal_kubernetes_objects::{Object, OwnedMeta, Status};
use gimbal_schedule::Backoff;
use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::WatchEvent;
use crate::ApiError;
use crate::list_page::{ListPage, is_named, read_object};
use crate::page_tokens::PageTokens;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The pauses after failures of a server that answers.
const REFUSED: Backoff = Backoff { first: FIRST_PAUSE, longest: LONGEST_PAUSE };
/// The pauses while the server cannot be reached. They are short: retries cost it nothing then, and it is found soon after
/// it is back.
const AWAY: Backoff = Backoff { first: FIRST_PAUSE, longest: Duration::from_secs(1) };
/// After an outage longer than this the watch lists again: its consumer may have declared the source unknown by then,
/// and needs a complete list.
pub(super) const RESUMABLE: Duration = Duration::from_secs(10);

/// The next call to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NextCall {
    /// None yet: `ListBegin` comes first.
    Begin,
    /// A page of a list. The first page has no token.
    List(Option<String>),
    /// A watch that starts after this version.
    Watch(String),
}

#[derive(Debug)]
enum Position {
    /// The next call begins a list.
    Start,
    /// A list has begun. With a token, some of its pages have been read.
    Pages { next: Option<String>, tokens: PageTokens, unreadable: Option<ApiError> },
    /// All events up to this version have been delivered.
    At { version: String },
}

/// A list followed by watches, between two calls.
#[derive(Debug)]
pub(crate) struct ListWatch {
    position: Position,
    /// Consecutive failures to reach the server.
    away: u32,
    /// Consecutive failures of a server that answers. Failures to reach it are not counted.
    failures: u32,
    /// The last version seen before the current list.
    seen: Option<String>,
}

/// An event whose object is parsed at once, as almost all can be.
#[derive(Deserialize)]
struct ParsedEvent<'a, T> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    object: T,
}

/// An event whose object is parsed once its type is known.
#[derive(Deserialize)]
struct UnparsedEvent<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl ListWatch {
    pub(crate) fn new() -> Self {
        Self { position: Position::Start, away: 0, failures: 0, seen: None }
    }

    pub(crate) fn ask(&self) -> NextCall {
        match &self.position {
            Position::Start => NextCall::Begin,
            Position::Pages { next, .. } => NextCall::List(next.clone()),
            Position::At { version } => NextCall::Watch(version.clone()),
        }
    }

    /// A list begins.
    pub(crate) fn begin<T: Object>(&mut self) -> WatchEvent<T> {
        self.start_over();
        self.position = Position::Pages { next: None, tokens: PageTokens::default(), unreadable: None };
        WatchEvent::ListBegin
    }

    /// Handles a page. Returns an error after the last page if an object could not be read, and for a page that leads to
    /// an earlier one: such a list is not complete.
    pub(crate) fn page<T: Object>(&mut self, page: ListPage<T>) -> (Vec<WatchEvent<T>>, Result<(), ApiError>) {
        let mut events = vec![WatchEvent::Alive, WatchEvent::Listed(page.items)];
        let (mut tokens, before) = match std::mem::replace(&mut self.position, Position::Start) {
            Position::Pages { tokens, unreadable, .. } => (tokens, unreadable),
            Position::Start | Position::At { .. } => Default::default(),
        };
        let unreadable = before.or(page.unreadable);
        match (page.next, unreadable) {
            (Some(next), unreadable) => match tokens.check::<T>(&next, page.objects) {
                Ok(()) => self.position = Position::Pages { next: Some(next), tokens, unreadable },
                Err(error) => return (events, Err(error)),
            },
            (None, Some(error)) => return (events, Err(error)),
            (None, None) => {
                let seen = self.seen.take().filter(|seen| is_older(&page.version, seen));
                events.extend(seen.map(|seen| WatchEvent::WentBack { seen, listed: page.version.clone() }));
                self.position = Position::At { version: page.version };
                events.push(WatchEvent::ListDone);
            }
        }
        (events, Ok(()))
    }

    /// Makes the next call a list, because events were lost, or may have been: after its store was restored to an older state, the
    /// server accepts a watch from a newer version and stays silent.
    pub(crate) fn start_over(&mut self) {
        if let Position::At { version } = std::mem::replace(&mut self.position, Position::Start) {
            self.seen = Some(version);
        }
    }

    /// Handles a line of a watch. After an error, close the watch.
    pub(crate) fn line<T: Object>(&mut self, line: &[u8]) -> Result<WatchEvent<T>, ApiError> {
        let event = read::<T>(line);
        match event {
            Ok((version, event)) => {
                self.position = Position::At { version };
                Ok(event)
            }
            // The event is lost, or the server does not have this version any more.
            Err(error) => {
                self.start_over();
                Err(error)
            }
        }
    }

    /// Called when a call succeeded.
    pub(crate) fn succeeded(&mut self) {
        self.away = 0;
        self.failures = 0;
    }

    /// Handles the failure of a call, or of an open watch if `watching`. `outage` is the time since the first failure.
    /// Returns the longest pause before the next call.
    pub(crate) fn failed(&mut self, error: &ApiError, watching: bool, outage: Duration) -> Duration {
        let begun = matches!(self.position, Position::Pages { next: None, .. });
        let lost = match error {
            ApiError::Gone { .. } | ApiError::Undecodable { .. } => true,
            // Events during the time without rights, or without the API, may never be delivered.
            ApiError::Forbidden { .. }
            | ApiError::Unauthorized { .. }
            | ApiError::NotFound { .. }
            | ApiError::NotServed { .. }
            | ApiError::Invalid { .. } => true,
            // The server itself was unreachable, not only this connection: it may come back with another store.
            _ if error.nobody_answered() && !watching && self.away > 0 => true,
            _ => outage >= RESUMABLE,
        };
        if lost || begun {
            self.start_over();
        }
        let (failures, backoff) =
            if error.nobody_answered() { (&mut self.away, AWAY) } else { (&mut self.failures, REFUSED) };
        let pause = backoff.delay(*failures);
        *failures = failures.saturating_add(1);
        // The server may have ended with the connection: if the next call finds no one, it may come back with another store.
        if matches!(error, ApiError::Truncated { .. }) && !watching {
            self.away = self.away.max(1);
        }
        pause.max(error.retry_after().unwrap_or_default().min(2 * LONGEST_PAUSE))
    }
}

/// Whether `version` is older than `than`. False if one of them is not a number.
fn is_older(version: &str, than: &str) -> bool {
    matches!((version.parse::<u128>(), than.parse::<u128>()), (Ok(version), Ok(than)) if version < than)
}

fn read<T: Object>(line: &[u8]) -> Result<(String, WatchEvent<T>), ApiError> {
    if let Ok(ParsedEvent::<T> { kind, object }) = serde_json::from_slice(line)
        && !object.meta().resource_version.is_empty()
        && is_named(&object)
    {
        let version = object.meta().resource_version.to_string();
        match &*kind {
            "ADDED" | "MODIFIED" => return Ok((version, WatchEvent::Applied(object))),
            "DELETED" => return Ok((version, WatchEvent::Deleted(object))),
            _ => {}
        }
    }
    read_closely(line)
}

/// Reads an event in two steps, for those that are not usual and for a precise error.
fn read_closely<T: Object>(line: &[u8]) -> Result<(String, WatchEvent<T>), ApiError> {
    let what = || format!("an event of {}", T::KIND.plural);
    let event: UnparsedEvent<'_> =
        serde_json::from_slice(line).map_err(|error| ApiError::undecodable(&what(), &error))?;
    let json = event.object.get();
    let object = || read_object::<T>(json);
    let event = match &*event.kind {
        "ADDED" | "MODIFIED" => WatchEvent::Applied(object()?),
        "DELETED" => WatchEvent::Deleted(object()?),
        "BOOKMARK" => WatchEvent::Alive,
        "ERROR" => {
            let status: Status =
                serde_json::from_str(json).map_err(|error| ApiError::undecodable("an error event", &error))?;
            let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            return Err(ApiError::from_status(code, None, status));
        }
        other => return Err(ApiError::Undecodable { message: format!("{} has the type {other:?}", what()) }),
    };
    let version = match &event {
        WatchEvent::Applied(object) | WatchEvent::Deleted(object) => object.meta().resource_version.to_string(),
        _ => {
            let bookmark: OwnedMeta =
                serde_json::from_str(json).map_err(|error| ApiError::undecodable("a bookmark", &error))?;
            bookmark.metadata.resource_version.to_string()
        }
    };
    if version.is_empty() {
        return Err(ApiError::Undecodable { message: format!("{} has no resourceVersion", what()) });
    }
    Ok((version, event))
}

#[cfg(test)]
mod tests {
    use gimbal_kubernetes_objects::Service;

    use super::*;

    fn page(version: &str, next: Option<&str>) -> ListPage<Service> {
        ListPage { items: vec![], objects: 0, version: version.into(), next: next.map(Into::into), unreadable: None }
    }

    fn at(version: &str) -> ListWatch {
        let mut list_watch = ListWatch::new();
        begin(&mut list_watch);
        list_watch.page(page(version, None)).1.unwrap();
        list_watch
    }

    fn begin(list_watch: &mut ListWatch) {
        assert_eq!(list_watch.ask(), NextCall::Begin);
        assert_eq!(list_watch.begin::<Service>(), WatchEvent::ListBegin);
    }

    fn bad() -> ApiError {
        ApiError::Undecodable { message: "x".into() }
    }

    #[test]
    fn pages_then_watch() {
        let mut list_watch = ListWatch::new();
        begin(&mut list_watch);
        assert_eq!(list_watch.ask(), NextCall::List(None));
        let (events, through) = list_watch.page(page("5", Some("more")));
        assert_eq!(events, [WatchEvent::Alive, WatchEvent::Listed(vec![])]);
        assert!(through.is_ok());
        assert_eq!(list_watch.ask(), NextCall::List(Some("more".into())));
        let (events, _) = list_watch.page(page("5", None));
        assert_eq!(events, [WatchEvent::Alive, WatchEvent::Listed(vec![]), WatchEvent::ListDone]);
        assert_eq!(list_watch.ask(), NextCall::Watch("5".into()));
    }

    #[test]
    fn a_server_that_ends_in_the_middle_of_a_page_is_listed_anew() {
        let mut list_watch = ListWatch::new();
        begin(&mut list_watch);
        list_watch.page(page("5", Some("more"))).1.unwrap();
        let broken = ApiError::Truncated { message: "x".into() };
        list_watch.failed(&broken, false, Duration::ZERO);
        assert_eq!(list_watch.ask(), NextCall::List(Some("more".into())), "a broken answer alone is asked for again");
        // It was the server and not the connection alone: it may come back with another store.
        let unreachable = ApiError::Transport { message: "x".into() };
        list_watch.failed(&unreachable, false, Duration::from_secs(1));
        assert_eq!(list_watch.ask(), NextCall::Begin);
    }

    #[test]
    fn a_list_with_an_unreadable_object_is_never_done() {
        let mut list_watch = ListWatch::new();
        begin(&mut list_watch);
        list_watch.page(ListPage { unreadable: Some(bad()), ..page("5", Some("more")) }).1.unwrap();
        let (events, through) = list_watch.page(page("5", None));
        assert!(!events.contains(&WatchEvent::ListDone));
        assert_eq!(through, Err(bad()));
        assert_eq!(list_watch.ask(), NextCall::Begin);
    }

    #[test]
    fn a_list_whose_pages_lead_in_a_circle_is_never_done() {
        let mut list_watch = ListWatch::new();
        begin(&mut list_watch);
        list_watch.page(page("5", Some("more"))).1.unwrap();
        let (events, through) = list_watch.page(page("5", Some("more")));
        assert!(!events.contains(&WatchEvent::ListDone));
        assert!(matches!(through, Err(ApiError::Undecodable { .. })), "{through:?}");
        assert_eq!(list_watch.ask(), NextCall::Begin);
    }

    #[test]
    fn every_event_moves_the_version() {
        let mut list_watch = at("5");
        for (line, version) in [
            (r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"6"}}}"#, "6"),
            (r#"{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"7"}}}"#, "7"),
            (r#"{"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"8"}}}"#, "8"),
            (r#"{"type":"BOOKMARK","object":{"kind":"Service","metadata":{"resourceVersion":"9"}}}"#, "9"),
        ] {
            list_watch.line::<Service>(line.as_bytes()).unwrap();
            assert_eq!(list_watch.ask(), NextCall::Watch(version.into()), "{line}");
        }
    }

    #[test]
    fn an_unusable_line_leads_to_a_list() {
        for (line, expected) in [
            ("{", "cannot read the answer: an event of services: "),
            (r#"{"type":"NEW","object":{}}"#, "cannot read the answer: an event of services has the type \"NEW\""),
            (
                r#"{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"n"},"spec":1}}"#,
                "cannot read the answer: Service n/a: ",
            ),
            (
                r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#,
                "cannot read the answer: an event of services has no resourceVersion",
            ),
            (
                r#"{"type":"ADDED","object":{"metadata":{"resourceVersion":"6"}}}"#,
                "cannot read the answer: Service ?/?: it has no name",
            ),
            (r#"{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"old"}}"#, "gone: old"),
            (r#"{"type":"ERROR","object":{"code":500,"message":"x"}}"#, "server error: x"),
        ] {
            let mut list_watch = at("5");
            let error = list_watch.line::<Service>(line.as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
            assert_eq!(list_watch.ask(), NextCall::Begin, "{line}");
        }
    }

    fn cut() -> ApiError {
        ApiError::Transport { message: "x".into() }
    }

    fn busy() -> ApiError {
        ApiError::Server { message: "x".into(), status: 500, retry_after: None }
    }

    #[test]
    fn a_short_outage_resumes_and_a_long_one_lists() {
        let mut list_watch = at("5");
        list_watch.failed(&cut(), true, Duration::ZERO);
        assert_eq!(list_watch.ask(), NextCall::Watch("5".into()));
        list_watch.failed(&busy(), false, Duration::from_secs(9));
        assert_eq!(list_watch.ask(), NextCall::Watch("5".into()));
        list_watch.failed(&busy(), false, Duration::from_secs(10));
        assert_eq!(list_watch.ask(), NextCall::Begin);
    }

    /// A server that cannot be reached may come back with another store.
    #[test]
    fn a_server_that_was_away_lists() {
        let mut list_watch = at("5");
        list_watch.failed(&cut(), false, Duration::ZERO);
        assert_eq!(list_watch.ask(), NextCall::Watch("5".into()), "an idle connection that was closed");
        list_watch.failed(&cut(), false, Duration::ZERO);
        assert_eq!(list_watch.ask(), NextCall::Begin);
    }

    #[test]
    fn a_store_that_went_back_is_reported() {
        let mut list_watch = at("50");
        list_watch.line::<Service>(br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"70"}}}"#).unwrap();
        list_watch.failed(&bad(), true, Duration::ZERO);
        begin(&mut list_watch);
        // A list that fails does not clear the newest version seen.
        list_watch.failed(&busy(), false, Duration::ZERO);
        begin(&mut list_watch);
        list_watch.page(page("60", Some("more"))).1.unwrap();
        let (events, _) = list_watch.page(page("60", None));
        let went_back = WatchEvent::WentBack { seen: "70".into(), listed: "60".into() };
        assert_eq!(events, [WatchEvent::Alive, WatchEvent::Listed(vec![]), went_back, WatchEvent::ListDone]);
        list_watch.failed(&bad(), true, Duration::ZERO);
        begin(&mut list_watch);
        let (events, _) = list_watch.page(page("60", None));
        assert_eq!(events, [WatchEvent::Alive, WatchEvent::Listed(vec![]), WatchEvent::ListDone], "nothing happened");
    }

    #[test]
    fn what_may_have_lost_events_lists() {
        let message = String::new;
        for error in [
            ApiError::Gone { message: message() },
            ApiError::Forbidden { message: message() },
            ApiError::Unauthorized { message: message() },
            ApiError::NotFound { message: message(), namespace: false },
            ApiError::NotServed { message: message() },
            bad(),
        ] {
            let mut list_watch = at("5");
            list_watch.failed(&error, true, Duration::ZERO);
            assert_eq!(list_watch.ask(), NextCall::Begin, "{error:?}");
        }
    }

    #[test]
    fn a_page_is_asked_again_unless_it_is_too_old() {
        let mut list_watch = ListWatch::new();
        begin(&mut list_watch);
        list_watch.page(page("5", Some("more"))).1.unwrap();
        list_watch.failed(&busy(), false, Duration::ZERO);
        assert_eq!(list_watch.ask(), NextCall::List(Some("more".into())));
        list_watch.failed(&ApiError::Gone { message: "x".into() }, false, Duration::ZERO);
        begin(&mut list_watch);
        list_watch.failed(&busy(), false, Duration::ZERO);
        // A list that starts over emits `ListBegin` again, because the events after the first one are newer than it.
        begin(&mut list_watch);
    }

    #[test]
    fn pauses() {
        let mut list_watch = ListWatch::new();
        let mut ten = |error: ApiError| {
            (0..10).map(|_| list_watch.failed(&error, false, Duration::ZERO).as_millis()).collect::<Vec<_>>()
        };
        assert_eq!(ten(cut()), [200, 400, 800, 1000, 1000, 1000, 1000, 1000, 1000, 1000]);
        // A server that is just back may refuse for a moment: the pauses are those of any other refusal.
        assert_eq!(ten(busy()), [200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
        assert_eq!(ten(cut())[0], 1000, "one that comes and goes is not asked more often for it");
        list_watch.succeeded();
        assert_eq!(list_watch.failed(&cut(), false, Duration::ZERO), FIRST_PAUSE);
        assert_eq!(list_watch.failed(&busy(), false, Duration::ZERO), FIRST_PAUSE);
        let busy =
            |seconds| ApiError::Throttled { message: "x".into(), retry_after: Some(Duration::from_secs(seconds)) };
        assert_eq!(list_watch.failed(&busy(7), false, Duration::ZERO), Duration::from_secs(7));
        assert_eq!(list_watch.failed(&busy(100_000), false, Duration::ZERO), Duration::from_secs(60));
    }
}
