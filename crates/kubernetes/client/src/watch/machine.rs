//! What a watch asks next, and what it makes of the answers. Pure: the edge brings answers, time and randomness.

use std::borrow::Cow;
use std::time::Duration;

use gimbal_kubernetes_objects::{Object, OwnedMeta, Status};
use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::WatchEvent;
use crate::ApiError;
use crate::page::{Page, unreadable_object};

const FIRST_PAUSE: Duration = Duration::from_millis(200);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Where nobody answers, asking again costs nobody anything, and whoever comes back is to be found at once.
const LONGEST_AWAY: Duration = Duration::from_secs(1);
/// An outage longer than this ends in a new list: whoever has called the source unknown by then gets whole evidence.
pub(super) const RESUMABLE: Duration = Duration::from_secs(10);

/// What to ask the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Nothing yet: that a list begins is to be told first.
    Begin,
    /// A page of a list; the first one without a token.
    List(Option<String>),
    /// What happened since this version.
    Watch(String),
}

#[derive(Debug)]
enum State {
    /// A list is to begin.
    Start,
    /// A list has begun; with a token, some pages of it are in.
    Pages { next: Option<String>, unreadable: Option<ApiError> },
    /// Everything up to this version is told.
    At { version: String },
}

/// The state between two questions.
#[derive(Debug)]
pub(crate) struct Machine {
    state: State,
    /// Failures in a row to reach the server.
    away: u32,
    /// Failures in a row of a server that answers. What it was asked in vain while it was away does not count against it.
    failures: u32,
    /// The last version seen before the list that runs.
    seen: Option<String>,
}

/// An event as almost all are.
#[derive(Deserialize)]
struct Usual<'a, T> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    object: T,
}

/// An event of which nothing is known yet.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self { state: State::Start, away: 0, failures: 0, seen: None }
    }

    pub(crate) fn ask(&self) -> Ask {
        match &self.state {
            State::Start => Ask::Begin,
            State::Pages { next, .. } => Ask::List(next.clone()),
            State::At { version } => Ask::Watch(version.clone()),
        }
    }

    /// A list begins.
    pub(crate) fn begin<T: Object>(&mut self) -> WatchEvent<T> {
        self.lose_place();
        self.state = State::Pages { next: None, unreadable: None };
        WatchEvent::ListBegin
    }

    /// Takes a page. An error: the list is through, but one of its objects could not be read, so it proves nothing.
    pub(crate) fn page<T: Object>(&mut self, page: Page<T>) -> (Vec<WatchEvent<T>>, Result<(), ApiError>) {
        let mut events = vec![WatchEvent::Alive, WatchEvent::Listed(page.items)];
        let before = match std::mem::replace(&mut self.state, State::Start) {
            State::Pages { unreadable, .. } => unreadable,
            State::Start | State::At { .. } => None,
        };
        let unreadable = before.or(page.unreadable);
        match (page.next, unreadable) {
            (Some(next), unreadable) => self.state = State::Pages { next: Some(next), unreadable },
            (None, Some(error)) => return (events, Err(error)),
            (None, None) => {
                let seen = self.seen.take().filter(|seen| is_older(&page.version, seen));
                events.extend(seen.map(|seen| WatchEvent::WentBack { seen, listed: page.version.clone() }));
                self.state = State::At { version: page.version };
                events.push(WatchEvent::ListDone);
            }
        }
        (events, Ok(()))
    }

    /// Only a list puts right what is lost.
    fn lose_place(&mut self) {
        if let State::At { version } = std::mem::replace(&mut self.state, State::Start) {
            self.seen = Some(version);
        }
    }

    /// Takes a line of a watch. An error: nothing more is to be read from this watch.
    pub(crate) fn line<T: Object>(&mut self, line: &[u8]) -> Result<WatchEvent<T>, ApiError> {
        let event = read::<T>(line);
        match event {
            Ok((version, event)) => {
                self.state = State::At { version };
                Ok(event)
            }
            // What the line told is lost, or the server lost its place: only a list puts that right.
            Err(error) => {
                self.lose_place();
                Err(error)
            }
        }
    }

    /// The server does what is asked of it.
    pub(crate) fn thrives(&mut self) {
        self.away = 0;
        self.failures = 0;
    }

    /// Takes a failure, of a watch that was open or of a question, after an outage of this length so far; returns the
    /// longest time to wait.
    pub(crate) fn failed(&mut self, error: &ApiError, watching: bool, outage: Duration) -> Duration {
        let begun = matches!(self.state, State::Pages { next: None, .. });
        let lost = match error {
            ApiError::Gone { .. } | ApiError::Undecodable { .. } => true,
            // Rights or a whole API come and go: what happened meanwhile may never be told.
            ApiError::Forbidden { .. }
            | ApiError::Unauthorized { .. }
            | ApiError::NotFound { .. }
            | ApiError::Invalid { .. } => true,
            // A watch from a version that the server has yet to come to is accepted, and tells nothing: so it is after the
            // store was put back to an older state.
            ApiError::Timeout { .. } if watching => true,
            // The server was away, not this connection alone: nothing says that it comes back with the same store.
            _ if error.nobody_answered() && !watching && self.away > 0 => true,
            _ => outage >= RESUMABLE,
        };
        if lost || begun {
            self.lose_place();
        }
        let (failures, longest) =
            if error.nobody_answered() { (&mut self.away, LONGEST_AWAY) } else { (&mut self.failures, LONGEST_PAUSE) };
        let pause = FIRST_PAUSE.saturating_mul(1 << (*failures).min(16)).min(longest);
        *failures = failures.saturating_add(1);
        pause.max(error.retry_after().unwrap_or_default().min(2 * LONGEST_PAUSE))
    }
}

/// Whether `version` is surely older than `than`; one that is no number may be anything.
fn is_older(version: &str, than: &str) -> bool {
    matches!((version.parse::<u128>(), than.parse::<u128>()), (Ok(version), Ok(than)) if version < than)
}

fn read<T: Object>(line: &[u8]) -> Result<(String, WatchEvent<T>), ApiError> {
    if let Ok(Usual::<T> { kind, object }) = serde_json::from_slice(line)
        && !object.meta().resource_version.is_empty()
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

/// Finds out what an event is, and what is wrong with it.
fn read_closely<T: Object>(line: &[u8]) -> Result<(String, WatchEvent<T>), ApiError> {
    let what = || format!("an event of {}", T::KIND.plural);
    let event: Event<'_> = serde_json::from_slice(line).map_err(|error| ApiError::undecodable(&what(), &error))?;
    let json = event.object.get();
    let object = || serde_json::from_str::<T>(json).map_err(|error| unreadable_object::<T>(json, &error));
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

    fn page(version: &str, next: Option<&str>) -> Page<Service> {
        Page { items: vec![], objects: 0, version: version.into(), next: next.map(Into::into), unreadable: None }
    }

    fn at(version: &str) -> Machine {
        let mut machine = Machine::new();
        begin(&mut machine);
        machine.page(page(version, None)).1.unwrap();
        machine
    }

    fn begin(machine: &mut Machine) {
        assert_eq!(machine.ask(), Ask::Begin);
        assert_eq!(machine.begin::<Service>(), WatchEvent::ListBegin);
    }

    fn bad() -> ApiError {
        ApiError::Undecodable { message: "x".into() }
    }

    #[test]
    fn pages_then_watch() {
        let mut machine = Machine::new();
        begin(&mut machine);
        assert_eq!(machine.ask(), Ask::List(None));
        let (events, through) = machine.page(page("5", Some("more")));
        assert_eq!(events, [WatchEvent::Alive, WatchEvent::Listed(vec![])]);
        assert!(through.is_ok());
        assert_eq!(machine.ask(), Ask::List(Some("more".into())));
        let (events, _) = machine.page(page("5", None));
        assert_eq!(events, [WatchEvent::Alive, WatchEvent::Listed(vec![]), WatchEvent::ListDone]);
        assert_eq!(machine.ask(), Ask::Watch("5".into()));
    }

    #[test]
    fn a_list_with_an_unreadable_object_is_never_done() {
        let mut machine = Machine::new();
        begin(&mut machine);
        machine.page(Page { unreadable: Some(bad()), ..page("5", Some("more")) }).1.unwrap();
        let (events, through) = machine.page(page("5", None));
        assert!(!events.contains(&WatchEvent::ListDone));
        assert_eq!(through, Err(bad()));
        assert_eq!(machine.ask(), Ask::Begin);
    }

    #[test]
    fn every_event_moves_the_version() {
        let mut machine = at("5");
        for (line, version) in [
            (r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"6"}}}"#, "6"),
            (r#"{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"7"}}}"#, "7"),
            (r#"{"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"8"}}}"#, "8"),
            (r#"{"type":"BOOKMARK","object":{"kind":"Service","metadata":{"resourceVersion":"9"}}}"#, "9"),
        ] {
            machine.line::<Service>(line.as_bytes()).unwrap();
            assert_eq!(machine.ask(), Ask::Watch(version.into()), "{line}");
        }
    }

    #[test]
    fn a_line_that_tells_nothing_leads_to_a_list() {
        for (line, expected) in [
            ("{", "cannot read the answer: an event of services: "),
            (r#"{"type":"NEW","object":{}}"#, "cannot read the answer: an event of services has the type \"NEW\""),
            (
                r#"{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"n"},"spec":1}}"#,
                "cannot read the answer: Service n/a: ",
            ),
            (r#"{"type":"ADDED","object":{}}"#, "cannot read the answer: an event of services has no resourceVersion"),
            (r#"{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"old"}}"#, "gone: old"),
            (r#"{"type":"ERROR","object":{"code":500,"message":"x"}}"#, "server error: x"),
        ] {
            let mut machine = at("5");
            let error = machine.line::<Service>(line.as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
            assert_eq!(machine.ask(), Ask::Begin, "{line}");
        }
    }

    fn cut() -> ApiError {
        ApiError::Transport { message: "x".into() }
    }

    fn busy() -> ApiError {
        ApiError::Server { message: "x".into(), retry_after: None }
    }

    #[test]
    fn a_short_outage_resumes_and_a_long_one_lists() {
        let mut machine = at("5");
        machine.failed(&cut(), true, Duration::ZERO);
        assert_eq!(machine.ask(), Ask::Watch("5".into()));
        machine.failed(&busy(), false, Duration::from_secs(9));
        assert_eq!(machine.ask(), Ask::Watch("5".into()));
        machine.failed(&busy(), false, Duration::from_secs(10));
        assert_eq!(machine.ask(), Ask::Begin);
    }

    /// A server that cannot be reached may come back with another store.
    #[test]
    fn a_server_that_was_away_lists() {
        let mut machine = at("5");
        machine.failed(&cut(), false, Duration::ZERO);
        assert_eq!(machine.ask(), Ask::Watch("5".into()), "a connection that was closed while nobody used it");
        machine.failed(&cut(), false, Duration::ZERO);
        assert_eq!(machine.ask(), Ask::Begin);
    }

    /// The server accepts a watch from a version of the future, and tells nothing.
    #[test]
    fn a_watch_that_was_silent_lists() {
        let mut machine = at("5");
        machine.failed(&ApiError::Timeout { message: "silent".into() }, true, Duration::ZERO);
        assert_eq!(machine.ask(), Ask::Begin);
    }

    #[test]
    fn a_store_that_went_back_is_told() {
        let mut machine = at("50");
        machine.line::<Service>(br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"70"}}}"#).unwrap();
        machine.failed(&bad(), true, Duration::ZERO);
        begin(&mut machine);
        // A list that fails takes nothing away from what was seen.
        machine.failed(&busy(), false, Duration::ZERO);
        begin(&mut machine);
        machine.page(page("60", Some("more"))).1.unwrap();
        let (events, _) = machine.page(page("60", None));
        let told = WatchEvent::WentBack { seen: "70".into(), listed: "60".into() };
        assert_eq!(events, [WatchEvent::Alive, WatchEvent::Listed(vec![]), told, WatchEvent::ListDone]);
        machine.failed(&bad(), true, Duration::ZERO);
        begin(&mut machine);
        let (events, _) = machine.page(page("60", None));
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
            bad(),
        ] {
            let mut machine = at("5");
            machine.failed(&error, true, Duration::ZERO);
            assert_eq!(machine.ask(), Ask::Begin, "{error:?}");
        }
    }

    #[test]
    fn a_page_is_asked_again_unless_it_is_too_old() {
        let mut machine = Machine::new();
        begin(&mut machine);
        machine.page(page("5", Some("more"))).1.unwrap();
        machine.failed(&busy(), false, Duration::ZERO);
        assert_eq!(machine.ask(), Ask::List(Some("more".into())));
        machine.failed(&ApiError::Gone { message: "x".into() }, false, Duration::ZERO);
        begin(&mut machine);
        machine.failed(&busy(), false, Duration::ZERO);
        // A list that starts over says so: what was known before it is asked for is more by now.
        begin(&mut machine);
    }

    #[test]
    fn pauses() {
        let mut machine = Machine::new();
        let mut ten = |error: ApiError| {
            (0..10).map(|_| machine.failed(&error, false, Duration::ZERO).as_millis()).collect::<Vec<_>>()
        };
        assert_eq!(ten(cut()), [200, 400, 800, 1000, 1000, 1000, 1000, 1000, 1000, 1000]);
        // A server that is just back refuses for a moment: it is asked again as soon as any other.
        assert_eq!(ten(busy()), [200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
        assert_eq!(ten(cut())[0], 1000, "one that comes and goes is not asked more often for it");
        machine.thrives();
        assert_eq!(machine.failed(&cut(), false, Duration::ZERO), FIRST_PAUSE);
        assert_eq!(machine.failed(&busy(), false, Duration::ZERO), FIRST_PAUSE);
        let busy =
            |seconds| ApiError::Throttled { message: "x".into(), retry_after: Some(Duration::from_secs(seconds)) };
        assert_eq!(machine.failed(&busy(7), false, Duration::ZERO), Duration::from_secs(7));
        assert_eq!(machine.failed(&busy(100_000), false, Duration::ZERO), Duration::from_secs(60));
    }
}
