//! A writer and its backends.

use gimbal_wire::pb;

use super::names::{self, Conflicts};
use super::pair::{RENEW, SOON_HOURS};
use super::result::CheckResult;
use super::{facts, versions};
use crate::output::age;

/// What else is known of the writer.
#[derive(Debug)]
pub struct WriterFacts {
    /// Its version, if it says so.
    pub version: Option<String>,
    /// The names that are taken.
    pub conflicts: Conflicts,
}

/// Checks whether the writer leads, and each of its backends. A standby knows nothing of their streams, and a discoverer nothing
/// that only a writer can know.
pub fn results(answer: &pb::ListBackendsResponse, known: &WriterFacts) -> Vec<CheckResult> {
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
    let known = answer.writer.as_ref().map(|_| known);
    std::iter::once(leads).chain(answer.backends.iter().flat_map(|backend| of_backend(backend, known))).collect()
}

/// Checks one backend. `known`: as a writer says it; `None`: a discoverer.
fn of_backend(backend: &pb::Backend, known: Option<&WriterFacts>) -> Vec<CheckResult> {
    let name = &*backend.name;
    let mut results = vec![listed(backend)];
    results.extend(known.map(|_| [orphans(backend), identity(backend)]).into_iter().flatten());
    if !backend.connected {
        let loss = backend.loss.as_ref();
        let since = loss.and_then(|loss| loss.disconnected_ms).map(|time| format!(" for {}", age(Some(time))));
        let found = format!("no agent is connected{}", since.unwrap_or_default());
        let identity = backend.policy.as_ref().map(|policy| policy.identity.as_str()).filter(|name| !name.is_empty());
        let named =
            identity.map(|identity| format!(" Its certificate must have the name {identity}.")).unwrap_or_default();
        let hint =
            format!("is its discoverer running, and what does its log say?{named} What was last known stays published");
        // Where it is to go, its agent may have gone before.
        results.push(match goes(backend) {
            true => CheckResult::warn("backend.connected", name, found, ""),
            false => CheckResult::fail("backend.connected", name, found, hint),
        });
        let skip = |id| CheckResult::skip(id, name, "no agent is connected");
        results.extend(known.map(|_| STREAM.map(skip)).into_iter().flatten());
        results.extend(["backend.source", "backend.rights", "backend.complete"].map(skip));
    } else {
        results.push(CheckResult::ok("backend.connected", name, backend.agent_version.clone()));
        results.extend(known.map(|known| of_stream(backend, known)).into_iter().flatten());
        results.extend([source(backend), rights(backend)]);
        results.push(if backend.complete {
            CheckResult::ok("backend.complete", name, "")
        } else {
            CheckResult::warn("backend.complete", name, "its snapshot has not ended yet", "wait, or --wait 60")
        });
    }
    results.extend([held(backend), rejected(backend)]);
    results.extend(known.map(|known| names::result(backend, &known.conflicts)));
    results.push(trouble(backend));
    results
}

/// The checks of a stream.
const STREAM: [&str; 3] = ["backend.certificate", "backend.version", "backend.clock"];

fn of_stream(backend: &pb::Backend, known: &WriterFacts) -> Vec<CheckResult> {
    let ([certificate, version, clock], name) = (STREAM, &*backend.name);
    let soon = u64::try_from(SOON_HOURS * 3_600_000).unwrap_or_default();
    let ends = |left| format!("it ends in {}", age(Some(left)));
    vec![
        match backend.certificate_left_ms {
            None => CheckResult::skip(certificate, name, "its stream has no certificate"),
            Some(0) => CheckResult::fail(certificate, name, "it has ended", RENEW),
            Some(left) if left < soon => CheckResult::warn(certificate, name, ends(left), RENEW),
            Some(left) => CheckResult::ok(certificate, name, ends(left)),
        },
        match &known.version {
            None => CheckResult::skip(version, name, "the writer's own version is not known"),
            Some(than) => versions::result(version, name, than, "the writer", &backend.agent_version),
        },
        match backend.clock_ahead_ms {
            None => CheckResult::skip(clock, name, "its agent does not say"),
            Some(ahead) => facts::clock(clock, name, ahead),
        },
    ]
}

/// An agent that comes with a certificate of another name is why no agent connects, or one that is set up wrongly beside it.
fn identity(backend: &pb::Backend) -> CheckResult {
    let (id, name) = ("backend.identity", &*backend.name);
    let Some(refused) = &backend.refused_agent else { return CheckResult::ok(id, name, "") };
    let names = if refused.names.is_empty() { "no name".to_owned() } else { refused.names.join(", ") };
    let found = format!(
        "{} ago an agent that calls itself {name} was refused: its certificate has {names}",
        age(Some(refused.age_ms))
    );
    let wanted = backend.policy.as_ref().map(|policy| policy.identity.as_str()).unwrap_or_default();
    let hint = format!(
        "issue it with the name {wanted}, or correct identity in the configuration; or is --backend-name of that agent wrong?"
    );
    match backend.connected {
        true => CheckResult::warn(id, name, found, hint),
        false => CheckResult::fail(id, name, found, hint),
    }
}

/// Objects of a backend that no configuration lists have no owner: nothing follows them, and nothing removes them.
fn orphans(backend: &pb::Backend) -> CheckResult {
    let (id, name) = ("backend.orphans", &*backend.name);
    let listed = backend.policy.as_ref().is_none_or(|policy| policy.listed);
    if listed || backend.decommission.is_some() || has_nothing(backend) {
        return CheckResult::ok(id, name, "");
    }
    // A writer learns the source of each backend of its own from the first Hello, and records it.
    if backend.source_incarnation.is_empty() {
        return CheckResult::ok(id, name, "this writer has no record of it: its objects are another writer's");
    }
    let hint = format!("gimbalctl decommission --backend {name} --dry-run counts them, and says how they are removed");
    CheckResult::warn(id, name, format!("{} endpoints of it stay in the Gimbal cluster", backend.endpoints), hint)
}

/// Whether nothing of a backend is published, not even a Service without endpoints.
fn has_nothing(backend: &pb::Backend) -> bool {
    let services = backend.policy.as_ref().and_then(|policy| policy.services.as_ref());
    backend.endpoints == 0 && services.is_none_or(|services| services.used == 0)
}

fn listed(backend: &pb::Backend) -> CheckResult {
    let (id, name) = ("backend.admitted", &*backend.name);
    let Some(policy) = &backend.policy else { return CheckResult::ok(id, name, "") };
    if backend.decommission.is_some() {
        return CheckResult::warn(id, name, "it is being removed", "");
    }
    if !policy.listed {
        return CheckResult::warn(id, name, "the configuration does not list it", "list it in backends, if it is one");
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
    let hint = "what cannot be read stays as it was; the discoverer's log says more";
    unreadable(id, backend, |reason| !is_refusal(reason), hint).unwrap_or_else(|| CheckResult::ok(id, name, ""))
}

/// Rights that its agent lacks in its source show as parts that it may not read.
fn rights(backend: &pb::Backend) -> CheckResult {
    let (id, name) = ("backend.rights", &*backend.name);
    let hint = "what cannot be read stays as it was: give the discoverer its rights back (deploy/rbac, or its roles in OpenStack)";
    unreadable(id, backend, is_refusal, hint).unwrap_or_else(|| CheckResult::ok(id, name, ""))
}

/// Whether a source said that its reader may not read, and not that it cannot: 403 and 401, as our clients word them.
fn is_refusal(reason: &str) -> bool {
    ["forbidden: ", "unauthorized: "].iter().any(|words| reason.contains(words))
}

/// Fails a check for the parts that cannot be read for such reasons, if there are any.
fn unreadable(id: &'static str, backend: &pb::Backend, such: impl Fn(&str) -> bool, hint: &str) -> Option<CheckResult> {
    let mut all = backend.unknown.iter().filter(|unknown| such(&unknown.reason)).peekable();
    let first = &all.peek()?.reason;
    let found = format!("cannot be read, for instance: {first}");
    Some(CheckResult::fail(id, &backend.name, format!("{} of its parts {found}", all.count()), hint))
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
        let results = results(&pb::ListBackendsResponse { backends, writer }, &known());
        results.into_iter().filter(|one| one.level != CheckLevel::Ok).map(|one| (one.id, one.level)).collect()
    }

    fn known() -> WriterFacts {
        WriterFacts { version: Some("0.1.0".into()), conflicts: Ok(Default::default()) }
    }

    fn good() -> pb::Backend {
        let policy = pb::BackendPolicy { listed: true, mode: pb::BackendMode::Admit.into(), ..Default::default() };
        pb::Backend {
            name: "a".into(),
            connected: true,
            complete: true,
            policy: Some(policy),
            agent_version: "gimbal-kubernetes-discoverer/0.1.2".into(),
            source_incarnation: "uid-of-a".into(),
            certificate_left_ms: Some(90 * 24 * 3_600_000),
            clock_ahead_ms: Some(-20),
            ..Default::default()
        }
    }

    fn unknown(reason: &str) -> Vec<pb::UnknownScope> {
        vec![pb::UnknownScope { reason: reason.into(), ..Default::default() }]
    }

    type Change = fn(&mut pb::Backend);

    #[test]
    fn each_trouble_has_a_check_of_its_own() {
        assert_eq!(levels(vec![good()], true), []);
        let cases: [(Change, &[(&str, CheckLevel)]); 20] = [
            (
                |one| (one.connected, one.trouble) = (false, "no agent is connected".into()),
                &[
                    ("backend.connected", CheckLevel::Fail),
                    ("backend.certificate", CheckLevel::Skip),
                    ("backend.version", CheckLevel::Skip),
                    ("backend.clock", CheckLevel::Skip),
                    ("backend.source", CheckLevel::Skip),
                    ("backend.rights", CheckLevel::Skip),
                    ("backend.complete", CheckLevel::Skip),
                ],
            ),
            (|one| one.certificate_left_ms = Some(13 * 24 * 3_600_000), &[("backend.certificate", CheckLevel::Warn)]),
            (|one| one.certificate_left_ms = Some(0), &[("backend.certificate", CheckLevel::Fail)]),
            (|one| one.certificate_left_ms = None, &[("backend.certificate", CheckLevel::Skip)]),
            (|one| one.agent_version = "x/0.2.0".into(), &[("backend.version", CheckLevel::Warn)]),
            (|one| one.clock_ahead_ms = Some(90_000), &[("backend.clock", CheckLevel::Warn)]),
            (|one| one.clock_ahead_ms = None, &[("backend.clock", CheckLevel::Skip)]),
            (|one| one.refused_agent = Some(Default::default()), &[("backend.identity", CheckLevel::Warn)]),
            (|one| one.complete = false, &[("backend.complete", CheckLevel::Warn)]),
            (
                |one| one.loss = Some(pb::BackendLoss { source_silent_ms: Some(90_000), ..Default::default() }),
                &[("backend.source", CheckLevel::Fail)],
            ),
            (|one| one.unknown = unknown("project a: 500"), &[("backend.source", CheckLevel::Fail)]),
            (|one| one.unknown = unknown("services: forbidden: no"), &[("backend.rights", CheckLevel::Fail)]),
            (|one| one.held_changes = vec![pb::HeldChange::default()], &[("backend.held", CheckLevel::Fail)]),
            (|one| one.rejected = 2, &[("backend.rejected", CheckLevel::Warn)]),
            (|one| one.trouble = "the record cannot be kept".into(), &[("backend.trouble", CheckLevel::Fail)]),
            (
                |one| one.policy.as_mut().unwrap().mode = pb::BackendMode::Quarantine.into(),
                &[("backend.admitted", CheckLevel::Warn)],
            ),
            (
                |one| (one.policy.as_mut().unwrap().listed, one.endpoints) = (false, 5),
                &[("backend.admitted", CheckLevel::Warn), ("backend.orphans", CheckLevel::Warn)],
            ),
            // A Service without endpoints stays as well.
            (
                |one| {
                    let policy = one.policy.as_mut().unwrap();
                    (policy.listed, policy.services) = (false, Some(pb::QuotaUse { used: 1, limit: None }));
                },
                &[("backend.admitted", CheckLevel::Warn), ("backend.orphans", CheckLevel::Warn)],
            ),
            (|one| one.policy.as_mut().unwrap().listed = false, &[("backend.admitted", CheckLevel::Warn)]),
            // What another writer published is no orphan, and not for this one to remove.
            (
                |one| {
                    one.policy.as_mut().unwrap().listed = false;
                    (one.endpoints, one.source_incarnation) = (5, String::new());
                },
                &[("backend.admitted", CheckLevel::Warn)],
            ),
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
        let bare = pb::Backend { clock_ahead_ms: None, certificate_left_ms: None, policy: None, ..good() };
        let of_discoverer = results(&pb::ListBackendsResponse { backends: vec![bare], writer: None }, &known());
        assert_eq!(of_discoverer[0].level, CheckLevel::Skip);
        let ids: Vec<_> = of_discoverer.iter().map(|one| one.id).collect();
        assert!(!ids.contains(&"backend.clock") && ids.contains(&"backend.rights"), "{ids:?}");
        assert!(of_discoverer[1..].iter().all(|one| one.level == CheckLevel::Ok), "{of_discoverer:?}");
    }

    #[test]
    fn an_agent_that_is_away_is_told_its_name_and_one_that_goes_has_no_orphans() {
        let mut away = pb::Backend { connected: false, ..good() };
        away.policy.as_mut().unwrap().identity = "spiffe://gimbal.example/a".into();
        let hint = |id: &str, one: pb::Backend| {
            of_backend(&one, Some(&known())).into_iter().find(|one| one.id == id).unwrap().hint
        };
        assert!(hint("backend.connected", away).contains("the name spiffe://gimbal.example/a"));
        let mut going = pb::Backend { decommission: Some(Default::default()), ..good() };
        going.policy.as_mut().unwrap().listed = false;
        assert_eq!(hint("backend.orphans", going), "");
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
