//! A backend in few words for people, from what a server says of it: its state, how old it is, what a person has to do, and how
//! far one of its Services has come. `gimbalctl` and the status pages show the same.

mod progress;

use std::collections::BTreeMap;

use gimbal_wire::pb;
pub use progress::{carried, written};

/// Something about a backend that has no place in a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendNote {
    /// A sentence.
    pub text: String,
    /// The command that a person may give about it.
    pub command: Option<String>,
}

/// Returns a time for people, in the largest unit that leaves at least two of it; empty: there is none.
#[must_use]
pub fn age(millis: Option<u64>) -> String {
    let Some(millis) = millis else { return String::new() };
    match millis / 1000 {
        0..2 => format!("{millis}ms"),
        seconds @ 2..120 => format!("{seconds}s"),
        seconds @ 120..7200 => format!("{}m", seconds / 60),
        seconds @ 7200..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// Returns the age of what the source said last of a kind, in milliseconds: since the agent reported it, time has gone on.
#[must_use]
pub fn kind_age(backend: &pb::Backend, source: &pb::SourceFreshness) -> Option<u64> {
    source.age_ms.map(|age| age.saturating_add(backend.last_heard_ms.unwrap_or_default()))
}

/// Returns how old the view of the source is: the kind that was heard the longest ago says it.
#[must_use]
pub fn source_age(backend: &pb::Backend) -> String {
    let ages: Option<Vec<u64>> = backend.sources.iter().map(|source| kind_age(backend, source)).collect();
    match ages {
        Some(ages) => age(ages.into_iter().max()),
        None => "never".to_owned(),
    }
}

/// Returns the number of endpoints that the guard holds. Both guards may hold the same ones, under one id.
#[must_use]
pub fn held_endpoints(backend: &pb::Backend) -> u64 {
    let mut by_id = BTreeMap::<&str, u64>::new();
    for held in &backend.held_changes {
        let most = by_id.entry(&held.id).or_default();
        *most = held.endpoints_removed.max(*most);
    }
    by_id.values().sum()
}

/// Returns the whole days until the client certificate of the backend's stream ends.
#[must_use]
pub fn certificate_days(backend: &pb::Backend) -> Option<u64> {
    backend.certificate_left_ms.map(|left| left / (24 * 3600 * 1000))
}

/// Returns one word for what a person must know first.
#[must_use]
pub fn state(backend: &pb::Backend) -> &'static str {
    let loss = backend.loss.as_ref();
    let stage = loss.map(pb::BackendLoss::stage);
    let policy = backend.policy.as_ref();
    match () {
        () if backend.decommission.is_some() => "going",
        () if policy.is_some_and(|policy| !policy.listed) => "unlisted",
        () if stage == Some(pb::LossStage::Drained) => "drained",
        () if stage == Some(pb::LossStage::NotReady) => "not-ready",
        () if policy.is_some_and(|policy| policy.mode() == pb::BackendMode::Quarantine) => "quarantine",
        () if !backend.connected => "away",
        () if loss.is_some_and(|loss| loss.source_silent_ms.is_some()) => "silent",
        () if !backend.unknown.is_empty() => "unreadable",
        () if !backend.complete => "syncing",
        () if !backend.held_changes.is_empty() => "held",
        () if !backend.trouble.is_empty() => "trouble",
        () if backend.pending > 0 => "pending",
        () => "synced",
    }
}

/// Returns what has no place in a column, with what to do.
#[must_use]
pub fn notes(backend: &pb::Backend) -> Vec<BackendNote> {
    let mut notes = Vec::new();
    let mut note = |text, command| notes.push(BackendNote { text, command });
    for (place, pb::HeldChange { id, message, held_ms, .. }) in backend.held_changes.iter().enumerate() {
        // One approval is for everything with its id.
        let is_last = !backend.held_changes[place + 1..].iter().any(|later| later.id == *id);
        let approve = || format!("gimbalctl approve {id} --backend {}", backend.name);
        note(format!("held for {}: {message}", age(Some(*held_ms))), is_last.then(approve));
    }
    for unknown in &backend.unknown {
        let namespaces = unknown.scope.as_ref().map(|scope| scope.namespaces.join(", ")).unwrap_or_default();
        let scope = if namespaces.is_empty() { "the source".to_owned() } else { format!("namespace {namespaces}") };
        note(format!("{scope} cannot be read and stays as it was: {}", unknown.reason), None);
    }
    let quarantined = |policy: &&pb::BackendPolicy| policy.listed && policy.mode() == pb::BackendMode::Quarantine;
    if let Some(planned) = backend.policy.as_ref().filter(quarantined).and_then(|policy| policy.planned) {
        let pb::PlannedCounts { created, changed, deleted } = planned;
        note(format!("admitted now, it would create {created}, change {changed} and delete {deleted} objects"), None);
    }
    if let Some(pb::DecommissionProgress { id, services, endpoint_slices, removed_in_ms, .. }) = &backend.decommission {
        let what = format!("{services} Services and {endpoint_slices} slices");
        note(
            match removed_in_ms {
                Some(_) => format!("is not ready ({id}); {what} are removed in {}", age(*removed_in_ms)),
                None => format!("is being removed ({id}); {what} are left"),
            },
            None,
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(name: &str) -> pb::Backend {
        pb::Backend { name: name.into(), connected: true, complete: true, ..pb::Backend::default() }
    }

    type Change = fn(&mut pb::Backend);

    #[test]
    fn a_backend_is_called_by_what_matters_most() {
        let loss = |stage: pb::LossStage, source_silent_ms| {
            Some(pb::BackendLoss { stage: stage.into(), source_silent_ms, ..pb::BackendLoss::default() })
        };
        let policy = |listed, mode: pb::BackendMode| {
            Some(pb::BackendPolicy { listed, mode: mode.into(), ..pb::BackendPolicy::default() })
        };
        // Each is what it is called for all that came before it.
        let steps: [(&str, Change); 6] = [
            ("synced", |_| ()),
            ("pending", |one| one.pending = 3),
            ("trouble", |one| one.trouble = "the record of the guard cannot be kept".into()),
            ("held", |one| one.held_changes = vec![pb::HeldChange::default()]),
            ("syncing", |one| one.complete = false),
            ("unreadable", |one| one.unknown = vec![pb::UnknownScope::default()]),
        ];
        let mut one = backend("a");
        for (called, change) in steps {
            change(&mut one);
            assert_eq!(state(&one), called);
        }
        one.loss = loss(pb::LossStage::Hold, Some(90_000));
        assert_eq!(state(&one), "silent");
        one.connected = false;
        assert_eq!(state(&one), "away");
        one.policy = policy(true, pb::BackendMode::Quarantine);
        assert_eq!(state(&one), "quarantine");
        for (stage, called) in [(pb::LossStage::NotReady, "not-ready"), (pb::LossStage::Drained, "drained")] {
            one.loss = loss(stage, None);
            assert_eq!(state(&one), called);
        }
        one.policy = policy(false, pb::BackendMode::Admit);
        assert_eq!(state(&one), "unlisted");
        one.decommission = Some(pb::DecommissionProgress::default());
        assert_eq!(state(&one), "going");
    }

    #[test]
    fn what_was_heard_long_ago_has_grown_older_since() {
        let of = |age_ms| pb::SourceFreshness { kind: "services".into(), age_ms };
        let mut one = pb::Backend { last_heard_ms: Some(7_200_000), sources: vec![of(Some(3000))], ..backend("a") };
        assert_eq!(source_age(&one), "2h");
        assert_eq!(kind_age(&one, &one.sources[0]), Some(7_203_000));
        one.sources.push(of(None));
        assert_eq!(source_age(&one), "never", "one kind was never heard");
        one.sources.clear();
        assert_eq!(source_age(&one), "");
    }

    #[test]
    fn what_both_guards_hold_is_counted_once_and_approved_once() {
        let held =
            |id: &str, endpoints_removed| pb::HeldChange { id: id.into(), endpoints_removed, ..Default::default() };
        let one = pb::Backend { held_changes: vec![held("1", 40), held("1", 38), held("2", 5)], ..backend("a") };
        assert_eq!(held_endpoints(&one), 45);
        let commands: Vec<String> = notes(&one).into_iter().filter_map(|note| note.command).collect();
        assert_eq!(commands, ["gimbalctl approve 1 --backend a", "gimbalctl approve 2 --backend a"]);
    }

    #[test]
    fn what_cannot_be_read_what_is_planned_and_what_goes_have_lines() {
        let unknown = |namespaces: &[&str]| pb::UnknownScope {
            scope: Some(pb::Scope { namespaces: namespaces.iter().map(ToString::to_string).collect() }),
            reason: "403".into(),
        };
        let planned = Some(pb::PlannedCounts { created: 1, changed: 2, deleted: 3 });
        let one = pb::Backend {
            unknown: vec![unknown(&["x", "y"]), unknown(&[])],
            policy: Some(pb::BackendPolicy { listed: true, planned, mode: 2, ..Default::default() }),
            decommission: Some(pb::DecommissionProgress { id: "a-1".into(), services: 4, ..Default::default() }),
            ..backend("a")
        };
        let texts: Vec<String> = notes(&one).into_iter().map(|note| note.text).collect();
        assert_eq!(
            texts,
            [
                "namespace x, y cannot be read and stays as it was: 403",
                "the source cannot be read and stays as it was: 403",
                "admitted now, it would create 1, change 2 and delete 3 objects",
                "is being removed (a-1); 4 Services and 0 slices are left",
            ]
        );
        let waits = pb::DecommissionProgress {
            id: "a-1".into(),
            services: 4,
            removed_in_ms: Some(90_000),
            ..Default::default()
        };
        let waits = notes(&pb::Backend { decommission: Some(waits), ..backend("a") });
        assert_eq!(waits[0].text, "is not ready (a-1); 4 Services and 0 slices are removed in 90s");
    }

    #[test]
    fn times_are_as_exact_as_people_need() {
        for (millis, text) in [
            (None, ""),
            (Some(0), "0ms"),
            (Some(1999), "1999ms"),
            (Some(2000), "2s"),
            (Some(119_999), "119s"),
            (Some(120_000), "2m"),
            (Some(7_200_000), "2h"),
            (Some(172_800_000), "2d"),
        ] {
            assert_eq!(age(millis), text);
        }
    }

    #[test]
    fn a_day_that_has_begun_is_no_day_left() {
        let day = 24 * 3600 * 1000;
        let left = |left| certificate_days(&pb::Backend { certificate_left_ms: left, ..backend("a") });
        assert_eq!((left(None), left(Some(day - 1)), left(Some(30 * day))), (None, Some(0), Some(30)));
    }
}
