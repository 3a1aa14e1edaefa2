//! A writer and its backends.

use gimbal_wire::pb;

use super::result::CheckResult;
use crate::output::age;

/// Checks whether the writer leads, and each of its backends. A standby knows nothing of their streams.
pub fn results(answer: &pb::ListBackendsResponse) -> Vec<CheckResult> {
    let leads = ("writer.leads", "the writer");
    let leads = match &answer.writer {
        Some(writer) if writer.leading => CheckResult::ok(leads.0, leads.1, ""),
        Some(writer) => {
            let (found, hint) = match &*writer.leader {
                "" => (
                    "no writer leads, so nothing is written".to_owned(),
                    "are writers running, and what do their logs say?",
                ),
                leader => (format!("it is a standby; the leader is {leader}"), "ask the leader for its backends"),
            };
            let backends = answer.backends.iter();
            let skipped = backends.map(|one| CheckResult::skip("backend", &one.name, "only the leader has streams"));
            return std::iter::once(CheckResult::fail(leads.0, leads.1, found, hint)).chain(skipped).collect();
        }
        None => CheckResult::skip(leads.0, leads.1, "it is a discoverer"),
    };
    std::iter::once(leads).chain(answer.backends.iter().flat_map(of_backend)).collect()
}

fn of_backend(backend: &pb::Backend) -> Vec<CheckResult> {
    let name = &*backend.name;
    let mut results = vec![listed(backend)];
    if !backend.connected {
        let loss = backend.loss.as_ref();
        let since = loss.and_then(|loss| loss.disconnected_ms).map(|time| format!(" for {}", age(Some(time))));
        let found = format!("no agent is connected{}", since.unwrap_or_default());
        let hint = "is its discoverer running, and what does its log say? What was last known stays published";
        // Where it is to go, its agent may have gone before.
        results.push(match goes(backend) {
            true => CheckResult::warn("backend.connected", name, found, ""),
            false => CheckResult::fail("backend.connected", name, found, hint),
        });
        results.extend(
            ["backend.source", "backend.complete"].map(|id| CheckResult::skip(id, name, "no agent is connected")),
        );
    } else {
        results.push(CheckResult::ok("backend.connected", name, backend.agent_version.clone()));
        results.push(source(backend));
        results.push(if backend.complete {
            CheckResult::ok("backend.complete", name, "")
        } else {
            CheckResult::warn("backend.complete", name, "its snapshot has not ended yet", "wait, or --wait 60")
        });
    }
    results.extend([held(backend), rejected(backend), trouble(backend)]);
    results
}

fn listed(backend: &pb::Backend) -> CheckResult {
    let (id, name) = ("backend.admitted", &*backend.name);
    let Some(policy) = &backend.policy else { return CheckResult::ok(id, name, "") };
    if backend.decommission.is_some() {
        return CheckResult::warn(id, name, "it is being removed", "");
    }
    if !policy.listed {
        let hint = format!("list it in backends again, or gimbalctl decommission --backend {name} --dry-run");
        return CheckResult::warn(id, name, "the configuration does not list it any more", hint);
    }
    match policy.mode() {
        pb::BackendMode::Quarantine => CheckResult::warn(
            id,
            name,
            "quarantine: nothing of it is written",
            "mode: admit in the configuration ends it",
        ),
        _ => CheckResult::ok(id, name, ""),
    }
}

fn source(backend: &pb::Backend) -> CheckResult {
    let (id, name) = ("backend.source", &*backend.name);
    if let Some(silent) = backend.loss.as_ref().and_then(|loss| loss.source_silent_ms) {
        let found = format!("its source has been silent for {}", age(Some(silent)));
        return CheckResult::fail(
            id,
            name,
            found,
            "does the discoverer reach its API server or cloud? Its log says why not",
        );
    }
    if let Some(unknown) = backend.unknown.first() {
        let scopes = backend.unknown.len();
        let found = format!("{scopes} of its parts cannot be read, for instance: {}", unknown.reason);
        return CheckResult::fail(
            id,
            name,
            found,
            "what cannot be read stays as it was: give the discoverer its rights back",
        );
    }
    CheckResult::ok(id, name, "")
}

fn held(backend: &pb::Backend) -> CheckResult {
    let (id, name) = ("backend.held", &*backend.name);
    let Some(held) = backend.held_changes.first() else { return CheckResult::ok(id, name, "") };
    let hint = format!("is it right? Then gimbalctl approve {} --backend {name}", held.id);
    CheckResult::fail(id, name, format!("held for {}: {}", age(Some(held.held_ms)), held.message), hint)
}

fn rejected(backend: &pb::Backend) -> CheckResult {
    let (id, name) = ("backend.rejected", &*backend.name);
    match backend.rejected {
        0 => CheckResult::ok(id, name, ""),
        count => {
            let hint = format!("gimbalctl services --backend {name} --trouble says which and why");
            CheckResult::warn(id, name, format!("{count} Services are not published"), hint)
        }
    }
}

/// What the writer says in one sentence. Much of it has a check of its own, and is no second failure.
fn trouble(backend: &pb::Backend) -> CheckResult {
    let (id, name) = ("backend.trouble", &*backend.name);
    let words = &*backend.trouble;
    if words.is_empty() || (!backend.connected && words.starts_with("no agent is connected")) {
        return CheckResult::ok(id, name, "");
    }
    let hint = "docs/troubleshooting.md has what to do, by symptom";
    let is_silent = backend.loss.as_ref().is_some_and(|loss| loss.source_silent_ms.is_some());
    let quarantine = |policy: &pb::BackendPolicy| policy.mode() == pb::BackendMode::Quarantine;
    let is_quarantined = backend.policy.as_ref().is_some_and(quarantine);
    if is_quarantined || is_silent || goes(backend) || !backend.held_changes.is_empty() || !backend.unknown.is_empty() {
        return CheckResult::warn(id, name, words, hint);
    }
    CheckResult::fail(id, name, words, hint)
}

/// Whether a person has ordered that it goes.
fn goes(backend: &pb::Backend) -> bool {
    backend.decommission.is_some() || backend.policy.as_ref().is_some_and(|policy| !policy.listed)
}

#[cfg(test)]
mod tests {
    use super::super::result::CheckLevel;
    use super::*;

    fn levels(backends: Vec<pb::Backend>, leading: bool) -> Vec<(&'static str, CheckLevel)> {
        let writer = Some(pb::WriterStanding { leading, leader: "writer-1".into() });
        let results = results(&pb::ListBackendsResponse { backends, writer });
        results.into_iter().filter(|one| one.level != CheckLevel::Ok).map(|one| (one.id, one.level)).collect()
    }

    fn good() -> pb::Backend {
        let policy = pb::BackendPolicy { listed: true, mode: pb::BackendMode::Admit.into(), ..Default::default() };
        pb::Backend { name: "a".into(), connected: true, complete: true, policy: Some(policy), ..Default::default() }
    }

    type Change = fn(&mut pb::Backend);

    #[test]
    fn each_trouble_has_a_check_of_its_own() {
        assert_eq!(levels(vec![good()], true), []);
        let cases: [(Change, &[(&str, CheckLevel)]); 9] = [
            (
                |one| (one.connected, one.trouble) = (false, "no agent is connected".into()),
                &[
                    ("backend.connected", CheckLevel::Fail),
                    ("backend.source", CheckLevel::Skip),
                    ("backend.complete", CheckLevel::Skip),
                ],
            ),
            (|one| one.complete = false, &[("backend.complete", CheckLevel::Warn)]),
            (
                |one| one.loss = Some(pb::BackendLoss { source_silent_ms: Some(90_000), ..Default::default() }),
                &[("backend.source", CheckLevel::Fail)],
            ),
            (|one| one.unknown = vec![pb::UnknownScope::default()], &[("backend.source", CheckLevel::Fail)]),
            (|one| one.held_changes = vec![pb::HeldChange::default()], &[("backend.held", CheckLevel::Fail)]),
            (|one| one.rejected = 2, &[("backend.rejected", CheckLevel::Warn)]),
            (|one| one.trouble = "the record cannot be kept".into(), &[("backend.trouble", CheckLevel::Fail)]),
            (
                |one| one.policy.as_mut().unwrap().mode = pb::BackendMode::Quarantine.into(),
                &[("backend.admitted", CheckLevel::Warn)],
            ),
            (|one| one.policy.as_mut().unwrap().listed = false, &[("backend.admitted", CheckLevel::Warn)]),
        ];
        for (change, expected) in cases {
            let mut one = good();
            change(&mut one);
            assert_eq!(levels(vec![one], true), expected);
        }
    }

    #[test]
    fn a_standby_is_not_asked_about_streams() {
        let away = pb::Backend { connected: false, ..good() };
        let expected = [("writer.leads", CheckLevel::Fail), ("backend", CheckLevel::Skip)];
        assert_eq!(levels(vec![away], false), expected);
        let of_discoverer = results(&pb::ListBackendsResponse { backends: vec![good()], writer: None });
        assert_eq!(of_discoverer[0].level, CheckLevel::Skip);
    }

    #[test]
    fn what_a_person_has_ordered_is_no_failure_and_what_refuses_an_agent_is_one() {
        let words = |change: Change| {
            let mut one = good();
            change(&mut one);
            levels(vec![one], true)
        };
        let quarantined: Change = |one| {
            one.policy.as_mut().unwrap().mode = pb::BackendMode::Quarantine.into();
            one.trouble = "quarantine: nothing of it is written".into();
        };
        assert_eq!(words(quarantined), [("backend.admitted", CheckLevel::Warn), ("backend.trouble", CheckLevel::Warn)]);
        let unlisted: Change = |one| {
            one.policy.as_mut().unwrap().listed = false;
            (one.connected, one.trouble) = (false, "it is not configured".into());
        };
        assert!(words(unlisted).iter().all(|(_, level)| *level != CheckLevel::Fail));
        let refused: Change = |one| {
            (one.connected, one.trouble) = (false, "an agent of source 2 was refused: this name belongs to 1".into());
        };
        assert!(words(refused).contains(&("backend.trouble", CheckLevel::Fail)));
    }
}
