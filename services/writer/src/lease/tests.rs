//! One candidate, step by step.

use std::time::{Duration, Instant};

use gimbal_objects::{Lease, LeaseSpec, Meta};

use super::machine::{DEADLINE, DURATION, Failure, Machine, Step};
use super::*;

fn machine(now: Instant) -> Machine {
    Machine::new("ns", NAME, "me", now)
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// A lease in the API server.
fn lease(holder: &str, version: &str, transitions: i32) -> Lease {
    let metadata =
        Meta { namespace: "ns".into(), name: NAME.into(), resource_version: version.into(), ..Meta::default() };
    let spec = LeaseSpec {
        holder_identity: Some(holder.into()),
        lease_duration_seconds: Some(3),
        lease_transitions: Some(transitions),
        acquire_time: Some("before".into()),
        ..LeaseSpec::default()
    };
    Lease { metadata, spec }
}

/// What the machine writes, and the answer to it.
fn write(machine: &Machine, now: Instant) -> Lease {
    match machine.step(now, "wall") {
        Step::Create(lease) | Step::Replace(lease) => {
            let metadata = Meta { resource_version: "9".into(), ..lease.metadata };
            Lease { metadata, ..lease }
        }
        other => panic!("no write but {other:?}"),
    }
}

#[test]
fn the_first_one_creates_the_lease_and_renews_it() {
    let now = Instant::now();
    let mut me = machine(now);
    assert_eq!(me.step(now, ""), Step::Read);
    me.read(None, now);
    let created = write(&me, now);
    assert_eq!(created.spec.holder_identity.as_deref(), Some("me"));
    assert_eq!((created.spec.lease_duration_seconds, created.spec.lease_transitions), (Some(3), Some(1)));
    me.written(created, now, now + seconds(0.5));
    let lead = me.lead(now + seconds(0.5)).unwrap();
    assert_eq!((lead.epoch, lead.until), (1, now + DEADLINE), "counted from before the call");
    assert_eq!(me.step(now + seconds(0.9), ""), Step::Wait(now + seconds(1.0)));
    let renewed = write(&me, now + seconds(1.0));
    assert_eq!(renewed.spec.lease_transitions, Some(1), "the holder is the same");
    assert_eq!(renewed.spec.acquire_time.as_deref(), Some("wall"));
    assert!(me.lead(now + DEADLINE).is_none());
}

#[test]
fn a_foreign_lease_is_taken_when_it_did_not_change_for_its_duration() {
    let now = Instant::now();
    let mut me = machine(now);
    me.read(Some(lease("other", "1", 4)), now);
    assert_eq!(me.holder(), "other");
    let mut at = now;
    for _ in 0..5 {
        at += seconds(0.5);
        assert_eq!(me.step(at, ""), Step::Read);
        me.read(Some(lease("other", "1", 4)), at);
    }
    // It changes at the last moment: all begins anew, whatever the lease says of the time of day.
    me.read(Some(lease("other", "2", 4)), at);
    assert!(matches!(me.step(at + seconds(2.9), ""), Step::Read));
    me.read(Some(lease("other", "2", 4)), at + seconds(2.9));
    assert_eq!(me.step(at + seconds(2.9), ""), Step::Wait(at + DURATION));
    let taken = write(&me, at + DURATION);
    assert_eq!(taken.spec.holder_identity.as_deref(), Some("me"));
    assert_eq!((taken.spec.lease_transitions, taken.spec.acquire_time.as_deref()), (Some(5), Some("wall")));
}

#[test]
fn a_longer_lease_is_respected_and_a_shorter_one_not_believed() {
    let now = Instant::now();
    for (seconds, expected) in [(Some(15), 15), (Some(1), 3), (Some(-1), 3), (None, 3)] {
        let mut me = machine(now);
        let mut foreign = lease("other", "1", 4);
        foreign.spec.lease_duration_seconds = seconds;
        me.read(Some(foreign), now);
        let expiry = now + Duration::from_secs(expected);
        assert!(!matches!(me.step(expiry - Duration::from_millis(1), ""), Step::Replace(_)), "{seconds:?}");
        assert!(matches!(me.step(expiry, ""), Step::Replace(_)), "{seconds:?}");
    }
}

#[test]
fn a_lease_of_its_own_or_of_nobody_is_taken_at_once() {
    let now = Instant::now();
    for (holder, transitions) in [("me", 4), ("", 5)] {
        let mut me = machine(now);
        me.read(Some(lease(holder, "1", 4)), now);
        assert!(me.lead(now).is_none(), "not before it is written");
        assert_eq!(write(&me, now).spec.lease_transitions, Some(transitions), "{holder:?}");
    }
}

#[test]
fn after_a_failure_it_reads_before_it_writes() {
    let now = Instant::now();
    let mut me = machine(now);
    me.read(None, now);
    me.written(write(&me, now), now, now);
    me.failed(Failure::Unknown, now + seconds(1.1));
    assert_eq!(me.step(now + seconds(1.1), ""), Step::Wait(now + seconds(1.1) + seconds(0.2)));
    assert_eq!(me.step(now + seconds(1.3), ""), Step::Read);
    assert!(me.lead(now + seconds(1.3)).is_some(), "it still leads until its deadline");
    me.failed(Failure::Outrun, now + seconds(1.3));
    assert_eq!(me.step(now + seconds(1.3), ""), Step::Read, "at once");
    me.read(Some(lease("other", "7", 2)), now + seconds(1.4));
    assert!(me.lead(now + seconds(1.4)).is_none(), "what it read ends its lead before the deadline");
}

#[test]
fn a_deleted_lease_may_still_have_a_leader() {
    let now = Instant::now();
    let mut me = machine(now);
    me.read(Some(lease("other", "1", 4)), now);
    me.read(None, now + seconds(0.5));
    assert_eq!(me.step(now + seconds(0.5), ""), Step::Wait(now + DURATION));
    assert!(matches!(me.step(now + DURATION, ""), Step::Create(_)));
}

#[test]
fn an_answer_that_names_another_holder_is_no_lead() {
    let now = Instant::now();
    let mut me = machine(now);
    me.read(None, now);
    me.written(lease("other", "1", 1), now, now);
    assert!(me.lead(now).is_none());
}

#[test]
fn a_release_frees_the_lease_of_its_holder_only() {
    let now = Instant::now();
    let mut me = machine(now);
    me.read(Some(lease("other", "1", 4)), now);
    assert_eq!(me.release("wall"), None);
    me.read(Some(lease("me", "2", 4)), now);
    me.written(write(&me, now), now, now);
    let released = me.release("wall").unwrap();
    assert_eq!(released.metadata.resource_version.as_ref(), "9");
    assert_eq!((released.spec.holder_identity.as_deref(), released.spec.lease_duration_seconds), (Some(""), Some(1)));
    assert!(me.lead(now).is_none());
}

#[test]
fn leadership_ends_with_its_deadline() {
    let now = Instant::now();
    let leader = Leadership::Leader { epoch: 3, until: now + DEADLINE };
    assert_eq!((leader.epoch(now), leader.epoch(now + DEADLINE)), (Some(3), None));
    assert!(leader.may_write(now) && !leader.may_write(now + DEADLINE));
    assert!(!Leadership::Follower { holder: "x".into() }.may_write(now));
    let (unopposed, task) = Leadership::unopposed();
    assert!(unopposed.borrow().may_write(now + Duration::from_secs(1 << 30)) && task.is_none());
}

#[test]
fn an_identity_is_of_a_host_and_an_address() {
    let of = |address: &str| identity(&address.parse().unwrap());
    assert_eq!(of("127.0.0.1:1"), of("127.0.0.1:1"));
    assert_ne!(of("127.0.0.1:1"), of("127.0.0.1:2"));
}
