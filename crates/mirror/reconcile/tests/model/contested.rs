//! Cases that random policies found: a name that several Services want, or that is left to another, while policies
//! change. Most are shrunk failures of `ends_as_the_policies_say`.

use std::time::Duration;

use gimbal_guard::GuardConfig;
use gimbal_plan::EndpointsApi;
use gimbal_reconcile::{LossPolicy, Policy, Quota};
use gimbal_session::RejectReason;

use super::policy::PolicyOp::{self, Configure, Other};
use super::policy::{check_policies, endpoints, ends_as_its_policies_say, map, open};
use super::server::Luck;
use super::world::{INVALID, World, key, service};
use super::{OPEN, Op};

fn set(agent: usize, key: u8, hosts: &[u8]) -> PolicyOp {
    Other(Op::Set { agent, key, label: 0, ports: 0, hosts: hosts.to_vec() })
}

/// A Service that is denied its namespace loses the name to another, which is quarantined before its first write.
#[test]
fn a_name_that_is_given_stands_for_the_one_before_until_it_is_written() {
    ends_as_its_policies_say(vec![
        Other(Op::Connect(0)),
        set(0, 3, &[0]),
        Configure(0, 3),
        Configure(1, 5),
        Configure(1, 5),
        set(1, 2, &[0]),
        Other(Op::Connect(1)),
        Other(Op::Run(5)),
        Configure(0, 0),
        Other(Op::HandEdit(135)),
        set(0, 1, &[]),
        Configure(0, 0),
        Configure(1, 1),
        Configure(0, 2),
        set(0, 0, &[]),
        Other(Op::Run(1)),
        Other(Op::Speak(0)),
        Configure(0, 4),
    ]);
}

/// An object whose create was not answered is charged to the quota. Otherwise another Service would take its room, and
/// it would get no endpoints until the writer restarts.
#[test]
fn what_stands_takes_room_though_the_answer_to_its_create_was_lost() {
    ends_as_its_policies_say(vec![
        set(0, 0, &[0]),
        Configure(0, 0),
        Other(Op::Connect(0)),
        Configure(0, 4),
        Other(Op::Run(4)),
        Configure(0, 5),
        Other(Op::StartJob),
        set(0, 1, &[]),
        Other(Op::FinishJob(Luck::AnswerLost)),
        Configure(0, 5),
        Other(Op::Speak(0)),
    ]);
}

/// A Service that was removed and is back before its object was deleted now wants a name that is taken, and its agent
/// has to be notified.
#[test]
fn what_comes_back_and_leads_elsewhere_is_not_settled_as_gone() {
    ends_as_its_policies_say(vec![
        Other(Op::Connect(0)),
        Configure(0, 2),
        set(0, 1, &[]),
        set(1, 0, &[]),
        Other(Op::Run(4)),
        Other(Op::Remove { agent: 0, key: 1 }),
        Other(Op::HandEdit(0)),
        Other(Op::Connect(1)),
        Other(Op::Run(4)),
        set(0, 1, &[]),
        Configure(0, 0),
    ]);
}

/// An edit by hand made an object name no known owner. The first Service that wants it has no room, so the second gets
/// it.
#[test]
fn who_waits_for_room_keeps_nobodys_object_from_none() {
    ends_as_its_policies_say(vec![
        Other(Op::Connect(0)),
        set(1, 0, &[]),
        set(0, 1, &[]),
        Other(Op::Run(4)),
        set(0, 1, &[1, 0]),
        Other(Op::HandEdit(67)),
        set(0, 2, &[0, 1]),
        Other(Op::RestartWriter),
        Configure(0, 5),
    ]);
}

/// The writer used to hang here: each Service that arrived had the other one's target decided again, although that had
/// arrived, too.
#[test]
fn two_that_change_places_come_to_rest() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    let one_to_two = || Some(map("one", "two", false));
    // Both have the name a-b-svc, the first in "two" and the second in "one".
    world.configure(0, one_to_two());
    world.set(0, &key(1), Some(service(0, 0, &[1])));
    world.set(1, &key(0), Some(service(0, 0, &[2])));
    world.settle();
    world.configure(0, Some(open()));
    world.configure(1, one_to_two());
    world.settle();
    check_policies(&world);
    assert!(world.rejects(0).is_empty() && world.rejects(1).is_empty());
}

/// After an edit by hand, the owner of the object is not known. Of the two Services that want it, one is quarantined
/// and the other has no room.
#[test]
fn who_waits_for_room_is_not_told_of_a_rivals_quarantine() {
    ends_as_its_policies_say(vec![
        set(0, 1, &[]),
        set(1, 0, &[]),
        Other(Op::Connect(0)),
        set(1, 1, &[]),
        Other(Op::Run(4)),
        Configure(1, 5),
        Configure(0, 4),
        Other(Op::HandEdit(220)),
        Other(Op::HandEdit(45)),
    ]);
}

/// An object without our mark has the name, so the Service cannot grow back to its previous size.
#[test]
fn what_cannot_be_written_takes_the_room_that_it_has_and_no_more() {
    ends_as_its_policies_say(vec![
        set(1, 3, &[0]),
        Configure(0, 2),
        set(1, 2, &[0]),
        set(0, 2, &[0, 1]),
        Other(Op::Connect(0)),
        Configure(0, 5),
        Other(Op::Connect(1)),
        set(1, 1, &[0]),
        Other(Op::Run(5)),
        Other(Op::Run(8)),
        Other(Op::HandDelete(39)),
        set(0, 0, &[0, 1]),
        Other(Op::HandDelete(14)),
        Configure(0, 0),
        Other(Op::HandEdit(2)),
        Other(Op::Foreign(true)),
        Configure(0, 6),
    ]);
}

/// Objects that were created in the new place are deleted by hand; those in the old place still exist and need no
/// additional room.
#[test]
fn what_moves_takes_room_where_it_still_stands() {
    ends_as_its_policies_say(vec![
        Other(Op::Namespace(false)),
        set(1, 1, &[0]),
        Other(Op::Watch),
        Other(Op::Connect(1)),
        Other(Op::Namespace(true)),
        set(1, 2, &[0]),
        Other(Op::Run(4)),
        Other(Op::HandEdit(15)),
        Other(Op::Watch),
        Configure(1, 2),
        Other(Op::Run(4)),
        Other(Op::RestartWriter),
        Configure(1, 5),
        Other(Op::HandDelete(207)),
    ]);
}

/// The Service's label names no known backend, but the slice's label names the owner.
#[test]
fn a_policy_reaches_what_an_edited_object_hides() {
    ends_as_its_policies_say(vec![
        set(0, 2, &[]),
        set(1, 2, &[0]),
        Other(Op::Connect(0)),
        Other(Op::Connect(1)),
        Other(Op::Run(3)),
        Configure(1, 3),
        Other(Op::Run(3)),
        Other(Op::Relist),
        Other(Op::Run(2)),
        Other(Op::HandEdit(223)),
        Configure(1, 4),
    ]);
}

/// A deleted object gives its room back, although the next Service that wants the name cannot have it.
#[test]
fn who_left_takes_no_room_for_a_rival_in_quarantine() {
    ends_as_its_policies_say(vec![
        Other(Op::Connect(0)),
        set(0, 1, &[]),
        Other(Op::Run(4)),
        Other(Op::RestartWriter),
        set(0, 2, &[]),
        set(1, 0, &[]),
        Other(Op::Remove { agent: 0, key: 1 }),
        Configure(0, 5),
        Configure(1, 4),
    ]);
}

/// No object exists, and the Service that had the name now wants another target. The next one gets the name, or is
/// notified why not.
#[test]
fn who_left_before_anything_was_written_keeps_no_name() {
    ends_as_its_policies_say(vec![
        set(0, 1, &[]),
        set(0, 0, &[]),
        set(1, 1, &[0]),
        Configure(1, 5),
        Configure(0, 2),
        Other(Op::Connect(0)),
        set(1, 0, &[]),
        set(1, 2, &[]),
        Configure(0, 0),
        Configure(0, 5),
        Other(Op::Connect(1)),
        Other(Op::Run(7)),
        Other(Op::Connect(1)),
        Configure(0, 2),
    ]);
}

/// A Service that cannot be written does not delay the removal of the object with its name, and does not keep the
/// name from others.
#[test]
fn who_cannot_be_written_keeps_nobodys_object() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.set(0, &key(1), Some(service(0, 0, &[1])));
    world.settle();
    world.set(1, &key(0), Some(service(0, INVALID, &[2])));
    world.settle();
    world.set(0, &key(1), None);
    world.settle();
    assert_eq!((world.services().count(), world.slices().count()), (0, 0));
    assert_eq!(world.rejects(1)[0].reason, RejectReason::Invalid);
    world.set(0, &key(1), Some(service(0, 0, &[1])));
    world.settle();
    assert_eq!(world.services().count(), 1, "the name is free");
    assert_eq!((world.unacknowledged(0), world.unacknowledged(1)), (0, 0));
    check_policies(&world);
}

/// While the guard holds the object that has the name, changes of a Service that waits for it without room are
/// acknowledged.
#[test]
fn who_waits_for_what_is_held_is_acknowledged() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    let policy = |endpoints| Policy {
        guard: GuardConfig::default(),
        quota: Quota { endpoints: Some(endpoints), ..Quota::default() },
        ..map("two", "one", false)
    };
    world.configure(0, Some(policy(40)));
    let hosts: Vec<u8> = (0..40).collect();
    world.set(0, &key(0), Some(service(0, 0, &hosts)));
    world.settle();
    world.set(0, &key(2), Some(service(0, 0, &hosts[..30])));
    world.settle();
    world.pass(Duration::from_secs(3600));
    world.set(0, &key(0), None);
    world.settle_for(Duration::from_secs(10));
    assert_eq!(endpoints(&world), 40, "its removal is held");
    for n in 1..5 {
        world.set(0, &key(2), Some(service(n, 0, &hosts[..30])));
        world.settle_for(Duration::from_secs(5));
        assert_eq!(world.unacknowledged(0), 0);
    }
}

/// A claim is answered although the object belongs to a lost backend whose endpoints are drained.
#[test]
fn who_waits_for_the_name_of_a_drained_backend_is_acknowledged() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    let on_loss = LossPolicy { drain_after: Some(Duration::from_secs(60)), ..LossPolicy::default() };
    world.configure(0, Some(Policy { on_loss, ..open() }));
    world.set(0, &key(1), Some(service(0, 0, &[1])));
    world.settle();
    world.cut(0);
    world.connect(1);
    for _ in 0..200 {
        world.pass(Duration::from_secs(1));
        while world.speak(1) | world.hear(1) | world.watch() | world.start_job() | world.finish_job(Luck::Good) {}
    }
    assert_eq!(endpoints(&world), 0);
    world.set(1, &key(0), Some(service(0, 0, &[2])));
    for _ in 0..10 {
        while world.speak(1) | world.hear(1) | world.watch() | world.start_job() | world.finish_job(Luck::Good) {}
        world.pass(Duration::from_secs(1));
    }
    assert_eq!(world.unacknowledged(1), 0);
    assert_eq!(world.rejects(1)[0].reason, RejectReason::NameConflict);
}

/// A Service that cannot be written still loses removed endpoints, and gives back their room.
#[test]
fn who_shrinks_though_it_cannot_be_written_gives_room_back() {
    let invalid = Other(Op::Set { agent: 1, key: 1, label: 0, ports: INVALID, hosts: vec![] });
    let up = [Other(Op::Connect(1)), Other(Op::Run(60))];
    let quota_of_three = Configure(1, 6);
    let ops = [set(1, 1, &[0, 2])].into_iter().chain(up).chain([set(1, 2, &[1, 0]), invalid, quota_of_three]);
    ends_as_its_policies_say(ops.collect());
}
