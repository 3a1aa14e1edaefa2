//! How the state of a backend is written down: one plain text for each figure, so that `kubectl` shows it.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::SystemTime;

use gimbal_plan::{HoldRecord, WindowRecord};
use gimbal_reconcile::{BackendState, LossRecord, Stage};
use jiff::Timestamp;

type Data = BTreeMap<String, String>;

/// Writes a state down.
pub(super) fn render(state: &BackendState) -> Data {
    let mut data = Data::new();
    let mut put = |key: &str, value: String| data.insert(key.to_owned(), value);
    if let Some(incarnation) = &state.incarnation {
        put("incarnation", incarnation.clone());
    }
    if let Some(window) = &state.window {
        put("windowAt", time(window.at));
        put("windowBase", window.base.to_string());
        put("windowLost", window.lost.to_string());
    }
    if let Some(hold) = &state.hold {
        put("held", hold.id.clone());
        put("heldSince", time(hold.since));
        put("heldEndpoints", hold.endpoints.to_string());
        put("heldToNothing", hold.to_nothing.to_string());
    }
    if let Some(loss) = &state.loss {
        put("lostSince", time(loss.since));
        put("lostStage", loss.stage.as_str().to_owned());
    }
    if let Some(id) = &state.decommission {
        put("decommission", id.clone());
    }
    data
}

/// Reads a state. Second, the keys of what could not be read: somebody edited it.
pub(super) fn parse(data: &Data) -> (BackendState, Vec<&'static str>) {
    let mut odd = Vec::new();
    let text = |key: &str| data.get(key).filter(|value| !value.is_empty());
    let window = record(data, "windowAt", &mut odd, |at| {
        Some(WindowRecord { at, base: number(data, "windowBase")?, lost: number(data, "windowLost")? })
    });
    let hold = record(data, "heldSince", &mut odd, |since| {
        let (id, to_nothing) = (text("held")?.clone(), number(data, "heldToNothing")?);
        Some(HoldRecord { id, since, endpoints: number(data, "heldEndpoints")?, to_nothing })
    });
    let loss = record(data, "lostSince", &mut odd, |since| {
        let stages = [Stage::Hold, Stage::NotReady, Stage::Drained];
        let stage = stages.into_iter().find(|stage| text("lostStage").is_some_and(|text| text == stage.as_str()))?;
        Some(LossRecord { since, stage })
    });
    let (incarnation, decommission) = (text("incarnation").cloned(), text("decommission").cloned());
    (BackendState { incarnation, window, hold, loss, decommission }, odd)
}

/// What belongs to a time; nothing where that is missing.
fn record<T>(
    data: &Data,
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

fn number<T: FromStr>(data: &Data, key: &str) -> Option<T> {
    data.get(key)?.parse().ok()
}

/// RFC 3339.
fn time(at: SystemTime) -> String {
    Timestamp::try_from(at).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(seconds * 1000 + 123)
    }

    #[test]
    fn what_is_written_is_read() {
        let full = BackendState {
            incarnation: Some("uid".into()),
            window: Some(WindowRecord { at: at(1_800_000_000), base: 100, lost: 25 }),
            hold: Some(HoldRecord { id: "0f".into(), since: at(1_700_000_000), endpoints: 60, to_nothing: true }),
            loss: Some(LossRecord { since: at(1_600_000_000), stage: Stage::NotReady }),
            decommission: Some("node02-1-2-0-3".into()),
        };
        for state in [BackendState::default(), full.clone()] {
            assert_eq!(parse(&render(&state)), (state, Vec::new()));
        }
        assert_eq!(render(&full)["lostSince"], "2020-09-13T12:26:40.123Z");
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
