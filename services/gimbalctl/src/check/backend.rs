//! A writer and its backends.

use gimbal_wire::pb;

use super::result::CheckResult;
use crate::output::age;

/// Checks whether the writer leads, and each of its backends. A standby knows nothing of their streams.
pub fn findings(answer: &pb::ListBackendsResponse) -> Vec<CheckResult> {
    let standby = answer.writer.as_ref().filter(|writer| !writer.leading);
    if let Some(standby) = standby {
        let leader = if standby.leader.is_empty() { "not known" } else { &standby.leader };
        let found = format!("it is a standby; the leader is {leader}");
        let mut findings =
            vec![CheckResult::warn("writer.leads", "the writer", found, "ask the leader for its backends")];
        findings.extend(
            answer.backends.iter().map(|one| CheckResult::skip("backend", &one.name, "a standby has no streams")),
        );
        return findings;
    }
    let leads = CheckResult::ok("writer.leads", "the writer", "");
    std::iter::once(leads).chain(answer.backends.iter().flat_map(of_backend)).collect()
}

fn of_backend(backend: &pb::Backend) -> Vec<CheckResult> {
    let name = &*backend.name;
    let mut findings = vec![listed(backend)];
    if !backend.connected {
        let loss = backend.loss.as_ref();
        let since = loss.and_then(|loss| loss.disconnected_ms).map(|time| format!(" for {}", age(Some(time))));
        let found = format!("no agent is connected{}", since.unwrap_or_default());
        let hint = "is its discoverer running, and what does its log say? What was last known stays published";
        findings.push(CheckResult::fail("backend.connected", name, found, hint));
        findings.extend(
            ["backend.source", "backend.complete"].map(|id| CheckResult::skip(id, name, "no agent is connected")),
        );
    } else {
        findings.push(CheckResult::ok("backend.connected", name, backend.agent_version.clone()));
        findings.push(source(backend));
        findings.push(if backend.complete {
            CheckResult::ok("backend.complete", name, "")
        } else {
            CheckResult::warn("backend.complete", name, "its snapshot has not ended yet", "wait, or --wait 60")
        });
    }
    findings.extend([held(backend), rejected(backend), trouble(backend)]);
    findings
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

fn trouble(backend: &pb::Backend) -> CheckResult {
    let (id, name) = ("backend.trouble", &*backend.name);
    // That no one is connected is a check of its own.
    if backend.trouble.is_empty() || !backend.connected {
        return CheckResult::ok(id, name, "");
    }
    CheckResult::fail(id, name, backend.trouble.clone(), "docs/troubleshooting.md has what to do, by symptom")
}

#[cfg(test)]
mod tests {
    use super::super::result::CheckLevel;
    use super::*;

    fn levels(backends: Vec<pb::Backend>, leading: bool) -> Vec<(&'static str, CheckLevel)> {
        let writer = Some(pb::WriterStanding { leading, leader: "writer-1".into() });
        let findings = findings(&pb::ListBackendsResponse { backends, writer });
        findings.into_iter().filter(|one| one.level != CheckLevel::Ok).map(|one| (one.id, one.level)).collect()
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
        assert_eq!(levels(vec![away], false), [("writer.leads", CheckLevel::Warn), ("backend", CheckLevel::Skip)]);
    }
}
