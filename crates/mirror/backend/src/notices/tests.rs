//! Two statuses, and what happened between them.

use gimbal_reconcile::Stage;

use super::*;
use crate::StatusFacts;

/// Returns the status that follows from what is known of a backend.
fn status(standing: &Standing) -> BackendResourceStatus {
    let facts = StatusFacts { generation: 1, problem: None, standing: Some(standing), answers: &[], removal: None };
    let mut status = facts.rest();
    for (type_, flag, reason, message) in facts.conditions() {
        status.conditions.push(crate::BackendCondition {
            type_,
            status: flag.into(),
            reason: reason.into(),
            message,
            last_transition_time: String::new(),
            observed_generation: 1,
        });
    }
    status
}

fn removal(phase: RemovalPhase) -> BackendRemoval {
    BackendRemoval {
        phase,
        id: String::new(),
        services: 1,
        endpoint_slices: 1,
        endpoints_objects: 0,
        endpoints: 8,
        first: vec!["team1/node02-web0".to_owned()],
        until: None,
    }
}

/// The loss of who is being removed is forgotten, and its endpoints are further from its source than before.
#[test]
fn who_is_being_removed_is_not_back() {
    let name = BackendName::parse("node02").unwrap();
    let (before, after) = (lost(Stage::NotReady), Standing { connected: false, ..Standing::example() });
    let reasons = |phase| {
        let removal = BackendRemoval { until: Some("noon".to_owned()), ..removal(phase) };
        let next = BackendResourceStatus { removal: Some(removal), ..status(&after) };
        let found = notices(&name, &status(&before), &next, Some(&after));
        found.iter().map(|notice| notice.reason).collect::<Vec<_>>()
    };
    assert_eq!(reasons(RemovalPhase::NotReady), ["NotReadyBeforeRemoval"]);
    assert_eq!(reasons(RemovalPhase::Removing), ["Decommissioning"]);
    assert_eq!(reasons(RemovalPhase::Removed), ["Drained"]);
    assert_eq!(reasons(RemovalPhase::Ordered), ["BackendBack"], "its agent is still heard");
    assert_eq!(reasons(RemovalPhase::AwaitsApproval), ["RemovalAwaitsApproval", "BackendBack"]);
}

/// Returns the reasons of what happened between two standings, those of warnings with an exclamation mark.
fn between(before: &Standing, after: &Standing) -> Vec<String> {
    let name = BackendName::parse("node02").unwrap();
    let found = notices(&name, &status(before), &status(after), Some(after));
    found.iter().map(|notice| format!("{}{}", notice.reason, if notice.is_warning { "!" } else { "" })).collect()
}

fn holding(ids: &[&str]) -> Standing {
    let held = ids.iter().map(|id| ((*id).to_owned(), format!("holds {id}"))).collect();
    Standing { held, ..Standing::example() }
}

fn lost(stage: Stage) -> Standing {
    Standing { connected: false, stage, ..Standing::example() }
}

#[test]
fn a_hold_is_reported_once_and_its_end_with_its_reason() {
    let (none, one) = (holding(&[]), holding(&["0a"]));
    assert_eq!(between(&none, &one), ["RemovalHeld!"]);
    assert_eq!(between(&one, &one), [""; 0], "as after a restart of the writer");
    // It grew: the id before is not one that can be approved.
    assert_eq!(between(&one, &holding(&["0b"])), ["RemovalHeld!"]);
    assert_eq!(between(&one, &none), ["HoldEnded"]);
    let release = LastRelease { id: "0a".into(), endpoints: 40, by: Release::Approval };
    let released = Standing { released: vec![release], ..holding(&[]) };
    assert_eq!(between(&one, &released), ["HoldReleased"]);
    assert_eq!(between(&none, &released), [""; 0]);
    // Both guards may hold the same, each under an id of its own.
    assert_eq!(between(&holding(&["0a", "0b"]), &one), [""; 0], "something is still held");
}

#[test]
fn the_message_of_a_hold_says_how_to_let_it_through() {
    let (name, one) = (BackendName::parse("node02").unwrap(), holding(&["0a"]));
    let found = notices(&name, &BackendResourceStatus::default(), &status(&one), Some(&one));
    assert_eq!(
        found[0].message,
        "holds 0a; `kubectl annotate backend node02 --overwrite gimbal.projectcontour.io/approve=0a` lets it through, as \
         `gimbalctl approve 0a --backend node02` does"
    );
}

#[test]
fn each_stage_of_a_loss_is_reported_once() {
    let stages = [Stage::Hold, Stage::NotReady, Stage::Drained];
    let expected = [
        ["", "EndpointsNotReady!", "EndpointsRemoved!"],
        ["BackendBack", "", "EndpointsRemoved!"],
        ["BackendBack", "EndpointsNotReady!", ""],
    ];
    for (before, row) in stages.into_iter().zip(expected) {
        for (after, reason) in stages.into_iter().zip(row) {
            assert_eq!(between(&lost(before), &lost(after)).concat(), reason, "{before:?} to {after:?}");
        }
    }
}

#[test]
fn another_source_is_reported_when_it_is_refused_and_when_it_is_confirmed() {
    let of = |incarnation: &str, refused: Option<&str>| Standing {
        incarnation: Some(incarnation.to_owned()),
        refused_incarnation: refused.map(ToOwned::to_owned),
        ..Standing::example()
    };
    assert_eq!(between(&of("a", None), &of("a", Some("b"))), ["IncarnationRefused!"]);
    assert_eq!(between(&of("a", Some("b")), &of("a", Some("b"))), [""; 0]);
    assert_eq!(between(&of("a", Some("b")), &of("b", None)), ["IncarnationConfirmed"]);
    // The first source of a backend takes its name without anybody's word.
    assert_eq!(between(&Standing::example(), &of("a", None)), [""; 0]);
}

#[test]
fn a_refused_source_stays_refused_over_a_restart_until_an_agent_of_the_right_one_is_back() {
    let refused = || Standing {
        connected: false,
        incarnation: Some("a".into()),
        refused_incarnation: Some("b".into()),
        ..Standing::example()
    };
    let restarted = || Standing { refused_incarnation: None, ..refused() };
    let said = status(&refused());
    assert_eq!(between(&refused(), &restarted().or_as_said(&said)), [""; 0]);
    assert_eq!(restarted().or_as_said(&said).refused_incarnation.as_deref(), Some("b"));
    let confirmed = Standing { incarnation: Some("b".into()), ..restarted() };
    assert_eq!(confirmed.or_as_said(&said).refused_incarnation, None);
    let back = Standing { connected: true, ..restarted() };
    assert_eq!(back.or_as_said(&said).refused_incarnation, None);
}

#[test]
fn an_annotation_that_is_refused_is_reported_once() {
    let answer = |result| BackendAnswer {
        annotation: BackendOrder::Approve.annotation().to_owned(),
        value: "0a".to_owned(),
        result,
        message: "nothing is held".to_owned(),
        earlier: Vec::new(),
    };
    let (name, standing) = (BackendName::parse("node02").unwrap(), Standing::example());
    let with = |result| BackendResourceStatus { answers: vec![answer(result)], ..status(&standing) };
    let refused = with(AnswerResult::Refused);
    let found = notices(&name, &status(&standing), &refused, Some(&standing));
    assert_eq!(found[0].message, "gimbal.projectcontour.io/approve=0a: nothing is held");
    assert_eq!((found.len(), found[0].reason, found[0].is_warning), (1, "OrderRefused", true));
    assert!(notices(&name, &refused, &refused, Some(&standing)).is_empty());
    assert!(notices(&name, &status(&standing), &with(AnswerResult::Done), Some(&standing)).is_empty());
}

#[test]
fn each_phase_of_a_removal_is_reported_once() {
    let name = BackendName::parse("node02").unwrap();
    // The text is an id, or until when nothing is ready.
    let with = |phase: Option<(RemovalPhase, &str)>| {
        let removal = phase.map(|(phase, text)| match phase {
            RemovalPhase::NotReady => {
                let until = (!text.is_empty()).then(|| text.to_owned());
                BackendRemoval { until, ..removal(phase) }
            }
            _ => BackendRemoval { id: text.to_owned(), ..removal(phase) },
        });
        BackendResourceStatus { removal, ..BackendResourceStatus::default() }
    };
    let between = |before, after| notices(&name, &with(before), &with(after), None);
    let reasons = |before, after| between(before, after).iter().map(|notice| notice.reason).collect::<Vec<_>>();
    let awaits = Some((RemovalPhase::AwaitsApproval, "node02-1-1-0-8"));
    let other = Some((RemovalPhase::AwaitsApproval, "node02-2-2-0-16"));
    let (removing, removed) = (Some((RemovalPhase::Removing, "")), Some((RemovalPhase::Removed, "")));
    assert_eq!(reasons(None, awaits), ["RemovalAwaitsApproval"]);
    assert_eq!(reasons(awaits, awaits), [""; 0]);
    assert_eq!(reasons(awaits, other), ["RemovalAwaitsApproval"], "the id before approves it no more");
    assert_eq!(reasons(awaits, removing), ["Decommissioning"]);
    let waits = Some((RemovalPhase::NotReady, "noon"));
    assert_eq!(reasons(awaits, waits), ["NotReadyBeforeRemoval"]);
    // Its time is not known yet.
    let (ordered, begins) = (Some((RemovalPhase::Ordered, "node02-1-1-0-8")), Some((RemovalPhase::NotReady, "")));
    for (before, after) in [(awaits, ordered), (ordered, ordered), (ordered, begins), (awaits, begins), (ordered, None)]
    {
        assert_eq!(reasons(before, after), [""; 0], "{before:?} {after:?}");
    }
    assert_eq!(reasons(begins, waits), ["NotReadyBeforeRemoval"]);
    assert_eq!(reasons(begins, removing), ["Decommissioning"]);
    assert!(between(awaits, waits)[0].message.contains("not ready until noon"));
    assert_eq!(reasons(waits, waits), [""; 0]);
    assert_eq!(reasons(waits, removing), ["Decommissioning"]);
    assert_eq!(reasons(removing, removed), ["Drained"]);
    assert_eq!(reasons(removed, removed), [""; 0]);
    assert_eq!(reasons(removing, None), ["Drained"]);
    for (quarantined, reason) in [(true, "Drained"), (false, "RemovalEnded")] {
        let standing = Standing { quarantined, ..Standing::example() };
        for before in [waits, removing] {
            let found = notices(&name, &with(before), &with(None), Some(&standing));
            let is = |reason: &str| found.iter().filter(|notice| notice.reason == reason).count();
            assert_eq!((is(reason), is("Drained") + is("RemovalEnded")), (1, 1), "{found:?}");
        }
    }
    assert_eq!(reasons(None, Some((RemovalPhase::OfAnotherWriter, ""))), ["RemovalRefused"]);
    let message = &between(None, awaits)[0].message;
    assert!(
        message.contains(
            "kubectl annotate backend node02 --overwrite gimbal.projectcontour.io/decommission=node02-1-1-0-8"
        )
    );
    assert!(
        message.ends_with("1 Services, 1 EndpointSlices and 8 endpoints would go, first team1/node02-web0"),
        "{message}"
    );
}
