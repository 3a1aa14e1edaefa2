//! One candidate, step by step.

use std::time::Duration;

use gimbal_kubernetes_objects::{Lease, LeaseSpec, Meta};

use gimbal_lease::{Election, Leadership, LeaseCall, LeaseFailure, Moment, Times, identity};

const NAME: &str = "lease";

const DURATION: Duration = Duration::from_secs(3);
const DEADLINE: Duration = Duration::from_secs(2);

fn machine(now: Moment) -> Election {
    Election::new("ns", NAME, "me", Times::new(DURATION), now)
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Returns a Lease as the API server stores it.
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

/// Returns the answer of the server to the write that the candidate wants to send.
fn write(machine: &Election, now: Moment) -> Lease {
    match machine.next_call(now, "wall", true) {
        LeaseCall::Create(lease) | LeaseCall::Replace(lease) => {
            let metadata = Meta { resource_version: "9".into(), ..lease.metadata };
            Lease { metadata, ..lease }
        }
        other => panic!("no write but {other:?}"),
    }
}

#[test]
fn the_first_one_creates_the_lease_and_renews_it() {
    let now = Moment::now();
    let mut me = machine(now);
    assert_eq!(me.next_call(now, "", true), LeaseCall::Read);
    me.read(None, now);
    // The leader may not know yet that the Lease was deleted.
    assert_eq!(me.next_call(now, "", true), LeaseCall::Wait(now + seconds(0.5)));
    assert_eq!(me.next_call(now + seconds(2.9), "", true), LeaseCall::Read, "another may create it");
    let now = now + DURATION;
    let created = write(&me, now);
    assert_eq!(created.spec.holder_identity.as_deref(), Some("me"));
    assert_eq!((created.spec.lease_duration_seconds, created.spec.lease_transitions), (Some(3), Some(1)));
    me.written(created, now, now + seconds(0.5));
    let lead = me.lead(now + seconds(0.5)).unwrap();
    assert_eq!((lead.epoch, lead.until), (1, now + DEADLINE), "counted from before the call");
    assert_eq!(me.next_call(now + seconds(0.9), "", true), LeaseCall::Wait(now + seconds(1.0)));
    let renewed = write(&me, now + seconds(1.0));
    assert_eq!(renewed.spec.lease_transitions, Some(1), "the holder is the same");
    assert_eq!(renewed.spec.acquire_time.as_deref(), Some("wall"));
    assert!(me.lead(now + DEADLINE).is_none());
}

#[test]
fn a_foreign_lease_is_taken_when_it_did_not_change_for_its_duration() {
    let now = Moment::now();
    let mut me = machine(now);
    me.read(Some(lease("other", "1", 4)), now);
    assert_eq!(me.holder(), "other");
    let mut at = now;
    for _ in 0..5 {
        at = at + seconds(0.5);
        assert_eq!(me.next_call(at, "", true), LeaseCall::Read);
        me.read(Some(lease("other", "1", 4)), at);
    }
    // It changes at the last moment: the wait begins again, whatever time the lease names.
    me.read(Some(lease("other", "2", 4)), at);
    assert!(matches!(me.next_call(at + seconds(2.9), "", true), LeaseCall::Read));
    me.read(Some(lease("other", "2", 4)), at + seconds(2.9));
    assert_eq!(me.next_call(at + seconds(2.9), "", true), LeaseCall::Wait(at + DURATION));
    let taken = write(&me, at + DURATION);
    assert_eq!(taken.spec.holder_identity.as_deref(), Some("me"));
    assert_eq!((taken.spec.lease_transitions, taken.spec.acquire_time.as_deref()), (Some(5), Some("wall")));
}

#[test]
fn a_longer_lease_is_respected_and_a_shorter_one_not_believed() {
    let now = Moment::now();
    for (seconds, expected) in [(Some(15), 15), (Some(1), 3), (Some(-1), 3), (None, 3)] {
        let mut me = machine(now);
        let mut foreign = lease("other", "1", 4);
        foreign.spec.lease_duration_seconds = seconds;
        me.read(Some(foreign), now);
        let expiry = now + Duration::from_secs(expected);
        assert!(
            !matches!(me.next_call(now + Duration::from_millis(expected * 1000 - 1), "", true), LeaseCall::Replace(_)),
            "{seconds:?}"
        );
        assert!(matches!(me.next_call(expiry, "", true), LeaseCall::Replace(_)), "{seconds:?}");
    }
}

#[test]
fn a_lease_of_its_own_or_without_a_holder_is_taken_at_once() {
    let now = Moment::now();
    for (holder, transitions) in [("me", 4), ("", 5)] {
        let mut me = machine(now);
        me.read(Some(lease(holder, "1", 4)), now);
        assert!(me.lead(now).is_none(), "not before it is written");
        assert_eq!(write(&me, now).spec.lease_transitions, Some(transitions), "{holder:?}");
    }
}

#[test]
fn after_a_failure_it_reads_before_it_writes() {
    let now = Moment::now();
    let mut me = machine(now);
    me.read(Some(lease("", "1", 4)), now);
    me.written(write(&me, now), now, now);
    me.failed(LeaseFailure::Unknown, now + seconds(1.1));
    assert_eq!(me.next_call(now + seconds(1.1), "", true), LeaseCall::Wait(now + seconds(1.1) + seconds(0.2)));
    assert_eq!(me.next_call(now + seconds(1.3), "", true), LeaseCall::Read);
    assert!(me.lead(now + seconds(1.3)).is_some(), "it still leads until its deadline");
    me.failed(LeaseFailure::Outrun, now + seconds(1.3));
    assert_eq!(me.next_call(now + seconds(1.3), "", true), LeaseCall::Read, "at once");
    me.read(Some(lease("other", "7", 2)), now + seconds(1.4));
    assert!(me.lead(now + seconds(1.4)).is_none(), "what it read ends its lead before the deadline");
}

#[test]
fn a_deleted_lease_may_still_have_a_leader() {
    let now = Moment::now();
    let mut me = machine(now);
    me.read(Some(lease("other", "1", 4)), now);
    let later = now + seconds(0.5);
    me.read(None, later);
    // The holder may have renewed it since.
    assert_eq!(me.next_call(later + seconds(2.9), "", true), LeaseCall::Read);
    assert!(matches!(me.next_call(later + DURATION, "", true), LeaseCall::Create(_)));
}

#[test]
fn an_epoch_never_falls_while_the_process_lives() {
    let now = Moment::now();
    let mut me = machine(now);
    me.read(Some(lease("other", "1", 7)), now);
    // Created again by a client that never saw the first one, and free now.
    me.read(Some(lease("", "2", 1)), now);
    assert_eq!(write(&me, now).spec.lease_transitions, Some(8));
    // Deleted, and created again by this process.
    me.written(write(&me, now), now, now);
    me.read(None, now);
    assert_eq!(write(&me, now).spec.lease_transitions, Some(9));
    // Created again by an earlier process of the same identity.
    me.read(Some(lease("me", "3", 1)), now);
    let taken = write(&me, now);
    assert_eq!(taken.spec.lease_transitions, Some(9));
    me.written(taken, now, now);
    assert_eq!(write(&me, now + seconds(1.0)).spec.lease_transitions, Some(9), "a renewal changes no epoch");
}

#[test]
fn an_answer_that_names_another_holder_is_no_lead() {
    let now = Moment::now();
    let mut me = machine(now);
    me.read(None, now);
    me.written(lease("other", "1", 1), now, now);
    assert!(me.lead(now).is_none());
}

#[test]
fn a_release_frees_the_lease_of_its_holder_only() {
    let now = Moment::now();
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
fn one_that_is_late_still_leads_until_another_is_seen() {
    let now = Moment::now();
    let late = now + seconds(60.0);
    let mine = |version| {
        let mut lease = lease("me", version, 5);
        lease.metadata.uid = "first".into();
        lease
    };
    let led = || {
        let mut me = machine(now);
        me.written(mine("2"), now, now);
        me.failed(LeaseFailure::Unknown, now + seconds(2.0));
        me
    };
    let mut me = led();
    assert!(me.lead(late).is_none() && me.held().is_some(), "it writes nothing, and no other process is known to lead");
    me.read(Some(mine("3")), late);
    assert_eq!(me.held().unwrap().epoch, 5, "its own write arrived after all");
    me.written(mine("4"), late, late);
    assert_eq!(me.lead(late).unwrap().epoch, 5);
    let (mut again, mut anew) = (mine("9"), mine("9"));
    again.spec.lease_transitions = Some(7);
    anew.metadata.uid = "second".into();
    for (what, seen) in [
        ("another", Some(lease("other", "9", 6))),
        ("no holder", Some(lease("", "9", 5))),
        ("itself, after another", Some(again)),
        ("itself, of another Lease", Some(anew)),
        ("no Lease", None),
    ] {
        let mut me = led();
        me.read(seen, late);
        assert!(me.held().is_none(), "{what}");
    }
}

#[test]
fn answers_that_take_longer_than_a_renewal_are_waited_for() {
    let now = Moment::now();
    let mut me = machine(now);
    me.written(lease("me", "1", 1), now, now);
    assert_eq!(me.call_timeout(), seconds(1.0), "time for another call before the lease runs out");
    me.observe_latency(seconds(1.2));
    assert_eq!(me.call_timeout(), DEADLINE);
    // Each renewal takes 1.2 s: it leads for two thirds of the time.
    me.written(lease("me", "2", 1), now + seconds(1.0), now + seconds(2.2));
    assert!(me.lead(now + seconds(2.2)).is_some());
    assert!(matches!(me.next_call(now + seconds(2.2), "", true), LeaseCall::Replace(_)));
    for _ in 0..3 {
        me.observe_latency(seconds(0.01));
    }
    assert_eq!(me.call_timeout(), seconds(1.0), "and not for ever");
}

#[test]
fn who_does_not_work_neither_takes_nor_renews() {
    let now = Moment::now();
    let mut me = machine(now);
    me.written(lease("me", "1", 1), now, now);
    let later = now + seconds(5.0);
    assert_eq!(me.next_call(later, "", false), LeaseCall::Read);
    me.read(Some(lease("me", "1", 1)), later);
    assert_eq!(me.next_call(later, "", false), LeaseCall::Wait(later + seconds(0.5)));
    assert!(me.held().is_some(), "no other process led meanwhile");
    assert!(matches!(me.next_call(later, "", true), LeaseCall::Replace(_)));
    me.read(Some(lease("", "2", 2)), later);
    assert_eq!(me.next_call(later + seconds(9.0), "", false), LeaseCall::Read);
    me.stand_back(later + seconds(10.0));
    assert_eq!(
        me.next_call(later + seconds(9.0), "", true),
        LeaseCall::Read,
        "it leaves the lease to others for a while"
    );
    assert!(matches!(me.next_call(later + seconds(10.0), "", true), LeaseCall::Replace(_)));
}

#[test]
fn its_own_lease_that_vanished_is_created_at_once_only_while_it_leads() {
    let now = Moment::now();
    for (at, waits) in [(seconds(1.0), false), (seconds(2.5), true)] {
        let mut me = machine(now);
        me.written(lease("me", "1", 1), now, now);
        me.read(None, now + at);
        assert_eq!(matches!(me.next_call(now + at, "", true), LeaseCall::Create(_)), !waits, "{at:?}");
        assert!(matches!(me.next_call(now + at + DURATION, "", true), LeaseCall::Create(_)), "{at:?}");
    }
}

#[test]
fn leadership_writes_until_its_deadline() {
    let now = Moment::now();
    let leader = Leadership::Leader { epoch: 3, until: now + DEADLINE };
    assert!(leader.may_write(now) && !leader.may_write(now + DEADLINE));
    assert_eq!(leader.epoch(), Some(3));
    let follower = Leadership::Follower { holder: "x".into() };
    assert!(!follower.may_write(now) && follower.epoch().is_none());
    assert!(Leadership::unopposed().borrow().may_write(now + Duration::from_secs(1 << 30)));
}

#[test]
fn an_identity_is_of_a_host_a_network_and_an_address() {
    let of = |address: &str| identity(&address.parse().unwrap());
    assert_eq!(of("127.0.0.1:1"), of("127.0.0.1:1"));
    assert_ne!(of("127.0.0.1:1"), of("127.0.0.1:2"));
    // The network namespace, as the kernel numbers it.
    let network = of("127.0.0.1:1").rsplit('_').next().unwrap().to_owned();
    let link = std::fs::read_link("/proc/self/ns/net").unwrap();
    assert_eq!(format!("net:[{network}]"), link.to_string_lossy());
}
