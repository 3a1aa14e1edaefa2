//! Defines the format in which the state of each backend is stored over restarts: see [`BackendState`].

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use gimbal_guard::{HoldRecord, WindowRecord};
use gimbal_kubernetes_client::ApiError;
use gimbal_kubernetes_objects::keys;
use gimbal_model::{BackendName, TargetKey};
use gimbal_reconcile::{BackendState, DecommissionOrder, LossRecord, Stage};
use jiff::Timestamp;

use gimbal_state::{Format, NewerRecord, RecordData};
pub use gimbal_state::{StateEvent, StateKeeper, StoredRecord};

/// The id of an order that removes objects at once.
const DECOMMISSION: &str = "decommission";
/// The id of an order before which endpoints are not ready for a while. It has a key of its own, because programs of format
/// 1 remove objects at once for whatever the other one names; this one they do not see, so they remove nothing.
const DECOMMISSION_LATER: &str = "decommissionLater";
/// Every key. One that is left out here would stay for ever in a record that a newer program wrote before.
const KEYS: [&str; 28] = [
    "incarnation",
    WINDOW.at,
    WINDOW.base,
    WINDOW.lost,
    WINDOW.listed,
    WINDOW.unlisted,
    READY_WINDOW.at,
    READY_WINDOW.base,
    READY_WINDOW.lost,
    READY_WINDOW.listed,
    READY_WINDOW.unlisted,
    HOLD.id,
    HOLD.since,
    HOLD.endpoints,
    HOLD.told,
    HOLD.to_nothing,
    READY_HOLD.id,
    READY_HOLD.since,
    READY_HOLD.endpoints,
    READY_HOLD.told,
    READY_HOLD.to_nothing,
    "lostSince",
    "lostStage",
    DECOMMISSION,
    DECOMMISSION_LATER,
    "decommissionObject",
    "decommissionSince",
    "decommissionNotReadyMs",
];

/// Keeps a [`BackendState`] in a `ConfigMap` `gimbal-backend-<name>`.
pub struct BackendFormat;

impl Format for BackendFormat {
    type Tenant = BackendName;
    type State = BackendState;
    const PREFIX: &str = "gimbal-backend-";
    const TENANT_LABEL: &str = keys::BACKEND;
    // 2: orders that remove nothing at once.
    const VERSION: u32 = 2;
    const OLDEST_READER: u32 = 1;

    fn parse_tenant(name: &str) -> Option<BackendName> {
        BackendName::parse(name).ok()
    }

    fn has_key(key: &str) -> bool {
        KEYS.contains(&key)
    }

    fn render(state: &BackendState) -> RecordData {
        render(state)
    }

    fn parse(data: &RecordData) -> (BackendState, Vec<&'static str>) {
        parse(data)
    }

    fn log_not_written(backend: &BackendName, error: &ApiError) {
        tracing::warn!(%backend, %error, "cannot write the state of a backend; retrying, and removals that need it wait");
    }

    fn log_not_read(backend: &BackendName, config_map: &str, keys: &str) {
        tracing::warn!(%backend, configmap = config_map, keys, "part of the stored state of a backend cannot be read and is ignored");
    }

    fn log_newer(backend: &BackendName, newer: &NewerRecord) {
        tracing::warn!(%backend, %newer, "the stored state of a backend is not for this writer; nothing of the backend is removed");
    }
}

/// The keys of a window.
struct Window {
    at: &'static str,
    base: &'static str,
    lost: &'static str,
    listed: &'static str,
    unlisted: &'static str,
}

const WINDOW: Window = Window {
    at: "windowAt",
    base: "windowBase",
    lost: "windowLost",
    listed: "windowListed",
    unlisted: "windowUnlisted",
};
const READY_WINDOW: Window = Window {
    at: "readyWindowAt",
    base: "readyWindowBase",
    lost: "readyWindowLost",
    listed: "readyWindowListed",
    unlisted: "readyWindowUnlisted",
};

/// The keys of a hold.
struct Hold {
    id: &'static str,
    since: &'static str,
    endpoints: &'static str,
    told: &'static str,
    to_nothing: &'static str,
}

const HOLD: Hold =
    Hold { id: "held", since: "heldSince", endpoints: "heldEndpoints", told: "heldTold", to_nothing: "heldToNothing" };
const READY_HOLD: Hold = Hold {
    id: "readyHeld",
    since: "readyHeldSince",
    endpoints: "readyHeldEndpoints",
    told: "readyHeldTold",
    to_nothing: "readyHeldToNothing",
};

/// Renders a state as data, one key for each figure.
fn render(state: &BackendState) -> RecordData {
    let mut data = RecordData::new();
    let mut put = |key: &str, value: String| data.insert(key.to_owned(), value);
    if let Some(incarnation) = &state.incarnation {
        put("incarnation", incarnation.clone());
    }
    for (names, window) in [(&WINDOW, &state.window), (&READY_WINDOW, &state.ready_window)] {
        let Some(window) = window else { continue };
        let listed: Vec<_> = window.listed.iter().map(|(target, had)| format!("{target}={had}")).collect();
        put(names.at, time(window.at));
        put(names.base, window.base.to_string());
        put(names.lost, window.lost.to_string());
        put(names.listed, listed.join(" "));
        put(names.unlisted, window.unlisted.to_string());
    }
    for (names, hold) in [(&HOLD, &state.hold), (&READY_HOLD, &state.ready_hold)] {
        let Some(hold) = hold else { continue };
        put(names.id, hold.id.clone());
        put(names.since, time(hold.since));
        put(names.endpoints, hold.endpoints.to_string());
        put(names.told, hold.told.to_string());
        put(names.to_nothing, hold.to_nothing.to_string());
    }
    if let Some(loss) = &state.loss {
        put("lostSince", time(loss.since));
        put("lostStage", loss.stage.as_str().to_owned());
    }
    if let Some(order) = &state.decommission {
        let DecommissionOrder { id, object, since, not_ready_for } = &**order;
        put(if not_ready_for.is_zero() { DECOMMISSION } else { DECOMMISSION_LATER }, id.clone());
        if let Some(object) = object {
            put("decommissionObject", object.to_string());
        }
        if let Some(since) = since {
            put("decommissionSince", time(*since));
        }
        put("decommissionNotReadyMs", not_ready_for.as_millis().to_string());
    }
    data
}

/// Parses a state, and returns with it the keys of records that could not be read, for example because a person edited
/// them.
fn parse(data: &RecordData) -> (BackendState, Vec<&'static str>) {
    let mut odd = Vec::new();
    let text = |key: &str| data.get(key).filter(|value| !value.is_empty());
    let [window, ready_window] = [&WINDOW, &READY_WINDOW].map(|names| {
        record(data, names.at, &mut odd, |at| {
            let (base, lost) = (number(data, names.base)?, number(data, names.lost)?);
            // Earlier versions wrote no names: all of it counts as unlisted.
            let listed = data.get(names.listed).map_or(Some(BTreeMap::new()), |text| listed(text))?;
            let unlisted = data.get(names.unlisted).map_or(Some(lost), |text| text.parse().ok())?;
            Some(WindowRecord { at, base, lost, listed, unlisted })
        })
    });
    let [hold, ready_hold] = [&HOLD, &READY_HOLD].map(|names| {
        record(data, names.since, &mut odd, |since| {
            let (id, to_nothing) = (text(names.id)?.clone(), number(data, names.to_nothing)?);
            let endpoints = number(data, names.endpoints)?;
            // Earlier versions gave one id to a hold, however it grew.
            let told = data.get(names.told).map_or(Some(endpoints), |text| text.parse().ok())?;
            Some(HoldRecord { id, since, endpoints, told, to_nothing })
        })
    });
    let loss = record(data, "lostSince", &mut odd, |since| {
        let stages = [Stage::Hold, Stage::NotReady, Stage::Drained];
        let stage = stages.into_iter().find(|stage| text("lostStage").is_some_and(|text| text == stage.as_str()))?;
        Some(LossRecord { since, stage })
    });
    let decommission = text(DECOMMISSION).or_else(|| text(DECOMMISSION_LATER)).map(|id| {
        // Format 1 removed at once, and wrote neither figure. The time begins anew where it cannot be read when it began.
        let since = record(data, "decommissionSince", &mut odd, Some);
        let not_ready_for = number(data, "decommissionNotReadyMs").map(Duration::from_millis).unwrap_or_default();
        let object = text("decommissionObject").map(|uid| uid.as_str().into());
        Box::new(DecommissionOrder { id: id.clone(), object, since, not_ready_for })
    });
    let incarnation = text("incarnation").cloned();
    (BackendState { incarnation, window, hold, ready_window, ready_hold, loss, decommission }, odd)
}

/// Parses a record that has its time under `key`. Returns `None` if there is none. Also returns `None` if it cannot be
/// read, and adds `key` to `odd`.
fn record<T>(
    data: &RecordData,
    key: &'static str,
    odd: &mut Vec<&'static str>,
    rest: impl FnOnce(SystemTime) -> Option<T>,
) -> Option<T> {
    let text = data.get(key)?;
    let record = text.parse::<Timestamp>().ok().and_then(|at| rest(at.into()));
    if record.is_none() {
        odd.push(key);
    }
    record
}

/// Parses `namespace/name=endpoints` entries separated by spaces.
fn listed(text: &str) -> Option<BTreeMap<TargetKey, u64>> {
    let entry = |entry: &str| {
        let (target, had) = entry.split_once('=')?;
        let (namespace, name) = target.split_once('/')?;
        Some((TargetKey::new(namespace, name), had.parse().ok()?))
    };
    text.split_whitespace().map(entry).collect()
}

fn number<T: FromStr>(data: &RecordData, key: &str) -> Option<T> {
    data.get(key)?.parse().ok()
}

/// Formats a time as RFC 3339.
fn time(at: SystemTime) -> String {
    Timestamp::try_from(at).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(seconds * 1000 + 123)
    }

    fn full() -> BackendState {
        BackendState {
            incarnation: Some("uid".into()),
            window: Some(WindowRecord {
                at: at(1_800_000_000),
                base: 100,
                lost: 25,
                listed: [(TargetKey::new("one", "a"), 10), (TargetKey::new("two", "b"), 8)].into(),
                unlisted: 7,
            }),
            hold: Some(HoldRecord {
                id: "0f".into(),
                since: at(1_700_000_000),
                endpoints: 60,
                told: 50,
                to_nothing: true,
            }),
            ready_window: Some(WindowRecord {
                at: at(1_800_000_001),
                base: 90,
                lost: 5,
                listed: BTreeMap::new(),
                unlisted: 5,
            }),
            ready_hold: Some(HoldRecord {
                id: "0a".into(),
                since: at(1_700_000_001),
                endpoints: 50,
                told: 50,
                to_nothing: false,
            }),
            loss: Some(LossRecord { since: at(1_600_000_000), stage: Stage::NotReady }),
            decommission: Some(Box::new(DecommissionOrder {
                id: "node02-1-2-0-3".into(),
                object: Some("uid-1".into()),
                since: Some(at(1_600_000_001)),
                not_ready_for: Duration::from_millis(90_500),
            })),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for state in [BackendState::default(), full()] {
            assert_eq!(parse(&render(&state)), (state, Vec::new()));
        }
        assert_eq!(render(&full())["lostSince"], "2020-09-13T12:26:40.123Z");
    }

    #[test]
    fn the_keys_are_those_that_are_written() {
        let mut at_once = full();
        at_once.decommission =
            at_once.decommission.map(|order| Box::new(DecommissionOrder { not_ready_for: Duration::ZERO, ..*order }));
        let mut written = render(&full());
        written.extend(render(&at_once));
        let mut keys = KEYS;
        keys.sort_unstable();
        assert_eq!(written.keys().collect::<Vec<_>>(), keys);
        assert!(BackendFormat::has_key("heldTold") && !BackendFormat::has_key("format"));
    }

    /// Operators search for `backend=`.
    #[test]
    fn log_lines_name_the_backend() {
        let log = Log::default();
        let to = log.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || to.clone()).finish();
        let name = BackendName::parse("node02").unwrap();
        tracing::subscriber::with_default(subscriber, || {
            BackendFormat::log_not_written(&name, &ApiError::Withheld);
            BackendFormat::log_not_read(&name, "gimbal-backend-node02", "held");
            let newer = NewerRecord { config_map: "gimbal-backend-node02".into(), needed: "3".into(), known: 2 };
            BackendFormat::log_newer(&name, &newer);
        });
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert_eq!(log.lines().filter(|line| line.contains(" backend=node02 ")).count(), 3, "{log}");
    }

    /// Keeps what is logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// An earlier version wrote no names, and reads what is written now.
    #[test]
    fn a_window_of_another_version_is_understood() {
        let window = WindowRecord { at: at(1), base: 100, lost: 25, listed: BTreeMap::new(), unlisted: 25 };
        let mut data = render(&BackendState { window: Some(window.clone()), ..BackendState::default() });
        for key in ["windowUnlisted", "windowListed"] {
            data.remove(key);
        }
        assert_eq!(data.keys().collect::<Vec<_>>(), ["windowAt", "windowBase", "windowLost"]);
        assert_eq!(parse(&data), (BackendState { window: Some(window), ..BackendState::default() }, Vec::new()));
    }

    #[test]
    fn an_order_of_an_earlier_version_is_one_that_removes_at_once() {
        let order = |since, not_ready_for| DecommissionOrder { id: "a-1".into(), object: None, since, not_ready_for };
        let state = |order| BackendState { decommission: Some(Box::new(order)), ..BackendState::default() };
        let minute = Duration::from_secs(60);
        let mut data = render(&state(order(Some(at(1)), minute)));
        // Format 1 does not see it, so a writer that is taken back removes nothing.
        assert_eq!(data.get("decommission"), None);
        assert_eq!(parse(&data), (state(order(Some(at(1)), minute)), Vec::new()));
        data.insert("decommissionSince".into(), "yesterday".into());
        assert_eq!(parse(&data), (state(order(None, minute)), vec!["decommissionSince"]), "its time begins anew");
        data.remove("decommissionSince");
        assert_eq!(data, render(&state(order(None, minute))), "its time has not begun");
        assert_eq!(parse(&data), (state(order(None, minute)), Vec::new()));
        let data = render(&state(order(Some(at(1)), Duration::ZERO)));
        assert_eq!((&*data["decommission"], data.get("decommissionLater")), ("a-1", None));
        let of_format_1 = RecordData::from([("decommission".to_owned(), "a-1".to_owned())]);
        assert_eq!(parse(&of_format_1), (state(order(None, Duration::ZERO)), Vec::new()));
    }

    #[test]
    fn what_cannot_be_read_is_told_and_the_rest_is_taken() {
        let state = BackendState {
            incarnation: Some("uid".into()),
            loss: Some(LossRecord { since: at(1), stage: Stage::Drained }),
            ..BackendState::default()
        };
        let mut data = render(&state);
        data.insert("lostStage".into(), "gone".into());
        data.insert("windowAt".into(), "yesterday".into());
        // As an older writer left it: an id without its figures.
        data.insert("held".into(), "0f".into());
        let (read, odd) = parse(&data);
        assert_eq!(odd, ["windowAt", "lostSince"]);
        assert_eq!(read, BackendState { incarnation: Some("uid".into()), ..BackendState::default() });
    }
}
