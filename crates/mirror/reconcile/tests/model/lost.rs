//! What happens to the objects of a backend that is lost or decommissioned.

use std::time::Duration;

use gimbal_guard::GuardConfig;
use gimbal_kubernetes_objects::keys;
use gimbal_model::BackendName;
use gimbal_plan::{Body, EndpointsApi};
use gimbal_reconcile::{LossPolicy, Mode, NotDecommissioned, Policy, Quota, Stage};
use proptest::prelude::*;

use super::check::{check, come_to_rest};
use super::server::{Luck, is_marked};
use super::world::{BACKENDS, INVALID, World, key, service};
use super::{OPEN, Op, op, step};

const SECOND: Duration = Duration::from_secs(1);
const T1: Duration = Duration::from_secs(60);
const T2: Duration = Duration::from_secs(180);

const POLICY: LossPolicy = LossPolicy { not_ready_after: Some(T1), drain_after: Some(T2), source_stale_after: None };

fn name(agent: usize) -> BackendName {
    BackendName::parse(BACKENDS[agent]).unwrap()
}

fn under(world: &mut World, agent: usize, on_loss: LossPolicy) {
    let policy = Policy { on_loss, ..world.policy(agent).unwrap().clone() };
    world.configure(agent, Some(policy));
}

/// Lets time pass, with everything but agent 0 running normally.
fn pass(world: &mut World, time: Duration) {
    let mut left = time;
    while !left.is_zero() {
        let tick = left.min(SECOND);
        left -= tick;
        world.pass(tick);
        for _ in 0..4 {
            world.speak(1);
            world.hear(1);
            world.start_job();
            world.finish_job(Luck::Good);
            world.watch();
        }
    }
}

/// Returns how many endpoints of a backend are ready, and how many are not.
fn endpoints(world: &World, agent: usize) -> (usize, usize) {
    let theirs = world.slices().filter(|slice| *slice.metadata.labels[keys::BACKEND] == *BACKENDS[agent]);
    let (ready, not): (Vec<_>, Vec<_>) =
        theirs.flat_map(|slice| &slice.endpoints).partition(|endpoint| endpoint.conditions.ready == Some(true));
    (ready.len(), not.len())
}

fn services(world: &World, agent: usize) -> usize {
    world.services().filter(|service| *service.metadata.labels[keys::BACKEND] == *BACKENDS[agent]).count()
}

fn filled(api: EndpointsApi) -> World {
    let mut world = World::new(api, GuardConfig::default());
    let hosts: Vec<u8> = (0..40).collect();
    world.set(0, &key(0), Some(service(0, 0, &hosts)));
    world.set(0, &key(2), Some(service(0, 0, &[50, 51])));
    world.set(1, &key(3), Some(service(0, 0, &[60])));
    under(&mut world, 0, POLICY);
    world.settle();
    assert_eq!((endpoints(&world, 0), services(&world, 0)), ((42, 0), 2));
    world
}

/// A loss waits until its record is stored; additions to the same object wait with it.
#[test]
fn what_gains_and_loses_is_written_once() {
    let mut world = filled(EndpointsApi::EndpointSlices);
    let writes = world.server.writes;
    let hosts: Vec<u8> = (15..40).chain(70..75).collect();
    world.set(0, &key(0), Some(service(0, 0, &hosts)));
    world.settle();
    assert_eq!((endpoints(&world, 0), world.server.writes), ((32, 0), writes + 1));
    check(&world);
}

/// Each stage comes at its time, also if the writer restarted in between and forgot the desired state. Services stay,
/// each slice is written once, and all is as before when the agent is back.
#[test]
fn not_ready_then_drained_then_back() {
    for restarts in [false, true] {
        let mut world = filled(EndpointsApi::EndpointSlices);
        let restart = |world: &mut World| {
            if restarts {
                let writes = world.server.writes;
                world.restart_writer();
                world.connect(1);
                pass(world, SECOND);
                assert_eq!(world.server.writes, writes, "a restart wrote");
            }
        };
        world.cut(0);
        pass(&mut world, 30 * SECOND);
        restart(&mut world);
        pass(&mut world, T1 - 32 * SECOND);
        assert_eq!(endpoints(&world, 0), (42, 0), "before its time");
        let writes = world.server.writes;
        // After a restart the agent has a grace period to come back.
        pass(&mut world, 10 * SECOND);
        assert_eq!((endpoints(&world, 0), services(&world, 0)), ((0, 42), 2), "restarts: {restarts}");
        assert_eq!(world.server.writes, writes + 2, "one write for each slice");
        restart(&mut world);
        pass(&mut world, T2 - T1 - 20 * SECOND);
        assert_eq!(endpoints(&world, 0), (0, 42));
        pass(&mut world, 40 * SECOND);
        assert_eq!((endpoints(&world, 0), services(&world, 0)), ((0, 0), 2));
        assert!(
            world.writer.backends()[&name(0)].guards().removals().held().is_none(),
            "the operator's decision is not held"
        );
        assert_eq!(world.writer.backends()[&name(0)].drained(), 42);
        assert_eq!(endpoints(&world, 1), (1, 0), "the other backend notices nothing");
        restart(&mut world);
        assert_eq!(endpoints(&world, 0), (0, 0));
        let writes = world.server.writes;
        world.settle();
        check(&world);
        assert_eq!(world.server.writes, writes + 2, "back with one write for each slice");
    }
}

/// Its agent dials all that time, and is heard once the writer runs again.
#[test]
fn a_writer_that_was_stopped_takes_no_agent_for_lost() {
    let mut world = filled(EndpointsApi::EndpointSlices);
    world.cut(0);
    pass(&mut world, SECOND);
    world.now += T2;
    world.wall += T2;
    world.writer.excuse_silence(world.now);
    pass(&mut world, 5 * SECOND);
    assert_eq!(endpoints(&world, 0), (42, 0));
    // One that stays away is lost as ever.
    pass(&mut world, 60 * SECOND);
    assert_eq!(endpoints(&world, 0), (0, 0));
}

/// Endpoints objects pass through the same stages.
#[test]
fn endpoints_objects_too() {
    let mut world = filled_with_objects();
    let ready = |world: &World| {
        let subsets = world.server.objects.values().filter_map(|body| match body {
            Body::Endpoints(object) if *object.metadata.labels[keys::BACKEND] == *BACKENDS[0] => Some(&object.subsets),
            _ => None,
        });
        let counts = subsets.flatten().map(|subset| (subset.addresses.len(), subset.not_ready_addresses.len()));
        counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1))
    };
    assert_eq!(ready(&world), (42, 0));
    world.cut(0);
    pass(&mut world, 30 * SECOND);
    world.restart_writer();
    pass(&mut world, T1);
    assert_eq!((ready(&world), services(&world, 0)), ((0, 42), 2));
    pass(&mut world, T2);
    assert_eq!((ready(&world), services(&world, 0)), ((0, 0), 2));
    world.settle();
    assert_eq!(ready(&world), (42, 0));
}

fn filled_with_objects() -> World {
    let mut world = World::new(EndpointsApi::Endpoints, OPEN);
    let hosts: Vec<u8> = (0..40).collect();
    world.set(0, &key(0), Some(service(0, 0, &hosts)));
    world.set(0, &key(2), Some(service(0, 0, &[50, 51])));
    under(&mut world, 0, POLICY);
    world.settle();
    world
}

/// Endpoints that the guard holds become not ready like the rest and stay held, because a loss is no approval.
#[test]
fn what_the_guard_holds_stays_held_while_the_backend_is_lost() {
    let mut world = filled(EndpointsApi::EndpointSlices);
    world.pass(3600 * SECOND);
    world.settle();
    world.set(0, &key(0), None);
    world.settle_for(10 * SECOND);
    assert_eq!(endpoints(&world, 0), (42, 0));
    world.cut(0);
    pass(&mut world, T1 + 5 * SECOND);
    assert_eq!((endpoints(&world, 0), services(&world, 0)), ((0, 42), 2));
    assert!(world.writer.backends()[&name(0)].guards().removals().held().is_some());
    pass(&mut world, T2);
    assert_eq!((endpoints(&world, 0), services(&world, 0)), ((0, 0), 2), "the Service stays for the source to remove");
    world.settle();
    check(&world);
    assert_eq!(services(&world, 0), 1);
}

/// A stream alone does not count as alive: if the agent hears nothing of its source, the policy may count the
/// silence.
#[test]
fn a_silent_source_counts_where_the_policy_says_so() {
    for (limit, expected) in [(None, (42, 0)), (Some(30 * SECOND), (0, 42))] {
        let mut world = filled(EndpointsApi::EndpointSlices);
        under(&mut world, 0, LossPolicy { source_stale_after: limit, ..POLICY });
        // The agent goes on, and reports in each heartbeat that its source is silent.
        for _ in 0..120 {
            world.say_silent(0, 3600 * SECOND);
            pass(&mut world, SECOND);
        }
        assert_eq!(endpoints(&world, 0), expected, "{limit:?}");
        // A restart of the writer and a new stream change nothing before the source is heard.
        let writes = world.server.writes;
        if limit.is_some() {
            world.restart_writer();
            world.connect(0);
            for _ in 0..20 {
                world.speak(0);
                world.hear(0);
                world.say_silent(0, 3600 * SECOND);
                pass(&mut world, SECOND);
            }
            assert_eq!((endpoints(&world, 0), world.server.writes), (expected, writes));
        }
        world.say_silent(0, SECOND);
        world.settle();
        assert_eq!(endpoints(&world, 0), (42, 0));
    }
}

fn removed(world: &mut World, agent: usize) -> usize {
    let id = world.writer.inventory(&name(agent)).id(&name(agent));
    world.writer.decommission(&name(agent), &id).unwrap();
    let writes = world.server.writes;
    world.settle();
    world.server.writes - writes
}

/// Every object of one backend is removed, whether or not an agent or the writer remembers it, and none of another
/// backend's.
#[test]
fn a_decommission_removes_one_backend_wholly() {
    for forgotten in [false, true] {
        let mut world = filled(EndpointsApi::EndpointSlices);
        // Another backend waits for one of the names, and gets it.
        world.set(1, &gimbal_model::SourceKey::new("one", "svc"), Some(service(3, 0, &[9])));
        world.set(0, &key(1), Some(service(1, 0, &[8])));
        world.settle();
        world.configure(0, None);
        if forgotten {
            world.restart_writer();
        }
        world.settle();
        let before = world.server.objects.len();
        let inventory = world.writer.inventory(&name(0));
        assert!(inventory.services >= 2 && inventory.endpoints >= 42, "{inventory:?}");
        let other = world.writer.decommission(&name(0), "a-1-1-1-1");
        assert!(matches!(other, Err(NotDecommissioned::OtherFigures { .. })), "{other:?}");
        let writes = removed(&mut world, 0);
        assert_eq!(world.writer.inventory(&name(0)), gimbal_reconcile::Inventory::default());
        assert_eq!(services(&world, 0), 0);
        assert!(!world.kept.contains_key(&name(0)) && world.kept.contains_key(&name(1)));
        assert!(world.server.objects.len() < before && writes > 0);
        assert!(!world.writer.backends().contains_key(&name(0)), "it is not known any more");
        assert_eq!(
            (services(&world, 1), endpoints(&world, 1)),
            (2, (2, 0)),
            "the other one has the name, if it had to wait"
        );
    }
}

/// The standby sees the objects but has no state of the backend, so it refuses the order.
#[test]
fn a_writer_that_never_heard_a_backend_does_not_remove_it() {
    let mut world = filled(EndpointsApi::EndpointSlices);
    world.configure(0, None);
    world.kept.remove(&name(0));
    world.restart_writer();
    let id = world.writer.inventory(&name(0)).id(&name(0));
    let refused = world.writer.decommission(&name(0), &id).unwrap_err();
    assert!(matches!(refused, NotDecommissioned::Unrecorded(_)), "{refused}");
    world.settle();
    assert_eq!(services(&world, 0), 2);
}

/// An order survives the writer that accepted it, at whatever moment that process ends.
#[test]
fn a_decommission_goes_on_after_a_restart() {
    for writes in 0..6 {
        let mut world = filled(EndpointsApi::EndpointSlices);
        world.configure(0, None);
        let id = world.writer.inventory(&name(0)).id(&name(0));
        world.writer.decommission(&name(0), &id).unwrap();
        assert!(!world.start_job(), "nothing goes before the order is kept");
        world.pass(SECOND);
        world.collect();
        world.pass(2 * SECOND);
        for _ in 0..writes {
            world.start_job();
            world.finish_job(Luck::Good);
        }
        world.restart_writer();
        world.settle();
        assert_eq!((services(&world, 0), endpoints(&world, 0)), (0, (0, 0)), "after {writes} writes");
        assert_eq!(services(&world, 1), 1);
        assert!(!world.kept.contains_key(&name(0)));
    }
}

/// A quarantined backend may be decommissioned too, and starts anew when it is back.
#[test]
fn a_quarantined_backend_is_removed_though_its_agent_is_there() {
    let mut world = filled(EndpointsApi::EndpointSlices);
    let policy = Policy { mode: Mode::Quarantine, ..world.policy(0).unwrap().clone() };
    world.configure(0, Some(policy.clone()));
    world.settle();
    removed(&mut world, 0);
    assert_eq!(services(&world, 0), 0);
    world.settle();
    assert_eq!(services(&world, 0), 0, "its agent is back, and in quarantine");
    world.configure(0, Some(Policy { mode: Mode::Admit, ..policy }));
    world.settle();
    check(&world);
    assert_eq!(services(&world, 0), 2);
}

#[derive(Debug, Clone)]
enum Twist {
    Ordinary(Op),
    Long(u16),
    Decommission,
    List,
}

fn twists() -> impl Strategy<Value = Vec<Twist>> {
    let twist = prop_oneof![
        12 => op().prop_map(Twist::Ordinary),
        2 => (0u16..240).prop_map(Twist::Long),
        1 => Just(Twist::Decommission),
        1 => Just(Twist::List),
    ];
    proptest::collection::vec(twist, 0..100)
}

/// After losses, drains, decommissioning, restarts and edits by hand in any order, the end is as the sources are, and
/// decommissioning never removed anything of the other backend.
#[test]
fn ends_as_the_sources_are_through_losses_and_removals() {
    gimbal_property::check(64, &twists(), |twists| {
        ends_as_the_sources_are(twists);
        Ok(())
    });
}

fn ends_as_the_sources_are(twists: Vec<Twist>) {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    under(&mut world, 0, POLICY);
    under(&mut world, 1, LossPolicy { not_ready_after: None, drain_after: Some(T1), source_stale_after: None });
    let policy = world.policy(0).unwrap().clone();
    for twist in twists {
        match twist {
            Twist::Ordinary(op) => step(&mut world, op),
            Twist::Long(seconds) => {
                for _ in 0..4 {
                    world.pass(SECOND * u32::from(seconds) / 4);
                }
            }
            Twist::Decommission => {
                world.configure(0, None);
                let id = world.writer.inventory(&name(0)).id(&name(0));
                // It is refused if it is in progress already.
                world.writer.decommission(&name(0), &id).ok();
            }
            Twist::List => world.configure(0, Some(policy.clone())),
        }
        assert_eq!(world.writer.audit(), [""; 0]);
        for backend in world.writer.backends().values() {
            let lost = backend.loss().lost_for(world.now).unwrap_or_default();
            let least = match backend.loss().stage() {
                Stage::Hold => Duration::ZERO,
                Stage::NotReady => T1,
                Stage::Drained => backend.policy().on_loss.drain_after.unwrap_or_default(),
            };
            assert!(lost >= least, "{} is {:?} after {lost:?}", backend.name(), backend.loss().stage());
        }
    }
    world.configure(0, Some(policy));
    come_to_rest(&mut world);
    check(&world);
    let theirs = world.server.objects.values().filter(|body| is_marked(body)).count();
    world.settle();
    assert_eq!(world.server.objects.values().filter(|body| is_marked(body)).count(), theirs);
}

/// The endpoints belong to a backend that has been lost long enough to drain; the backend that has the name now is
/// not lost.
#[test]
fn who_takes_the_name_of_a_drained_backend_is_not_drained() {
    let set = |agent, key, hosts| Twist::Ordinary(Op::Set { agent, key, label: 0, ports: 0, hosts });
    ends_as_the_sources_are(vec![
        set(1, 0, vec![]),
        set(0, 1, vec![0]),
        Twist::Long(51),
        Twist::Ordinary(Op::Connect(1)),
        Twist::Ordinary(Op::Run(4)),
        Twist::Ordinary(Op::Connect(1)),
        Twist::Decommission,
        Twist::Decommission,
        Twist::Long(22),
        Twist::Ordinary(Op::Remove { agent: 1, key: 0 }),
        Twist::Ordinary(Op::Namespace(false)),
    ]);
}

/// Whatever is wrong with its new form, the existing endpoints follow the loss of their backend.
#[test]
fn what_is_rejected_is_lost_like_the_rest() {
    for ports in [0, INVALID] {
        let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
        let quota = Quota { endpoints: Some(3), ..Quota::default() };
        world.configure(0, Some(Policy { on_loss: POLICY, quota, guard: OPEN, ..Policy::default() }));
        world.set(0, &key(0), Some(service(0, 0, &[1, 2])));
        world.settle();
        world.set(0, &key(0), Some(service(0, ports, &[1, 2, 3, 4])));
        world.settle();
        assert_eq!((endpoints(&world, 0), world.rejects(0).len()), ((2, 0), 1));
        world.cut(0);
        pass(&mut world, T1 + 5 * SECOND);
        assert_eq!(endpoints(&world, 0), (0, 2));
        pass(&mut world, T2);
        assert_eq!((endpoints(&world, 0), services(&world, 0)), ((0, 0), 1));
        world.set(0, &key(0), Some(service(0, 0, &[1, 2])));
        world.settle();
        check(&world);
    }
}

/// A Service that was never written before its backend was lost is not published as ready.
#[test]
fn what_is_first_written_while_its_backend_is_lost_is_not_ready() {
    let mut world = filled(EndpointsApi::EndpointSlices);
    world.server.set_namespace("two", false);
    world.settle();
    world.set(0, &key(3), Some(service(0, 0, &[7])));
    world.settle();
    world.cut(0);
    pass(&mut world, T1 + 5 * SECOND);
    world.server.set_namespace("two", true);
    pass(&mut world, 10 * SECOND);
    assert_eq!((endpoints(&world, 0), services(&world, 0)), ((0, 43), 3));
    pass(&mut world, 60 * SECOND);
    assert_eq!(world.writer.counters().comparison_differences, 0);
    world.settle();
    check(&world);
}

/// The target waits in the queue under the backend that waits for its name, and follows the loss of the backend that
/// owns it.
#[test]
fn what_another_waits_for_is_lost_at_its_time_after_a_restart() {
    let mut world = filled(EndpointsApi::EndpointSlices);
    world.set(0, &key(1), Some(service(1, 0, &[8])));
    world.settle();
    world.set(1, &key(0), Some(service(3, 0, &[9])));
    world.settle();
    world.cut(0);
    pass(&mut world, 10 * SECOND);
    world.restart_writer();
    world.connect(1);
    pass(&mut world, T1 + 15 * SECOND);
    assert_eq!(endpoints(&world, 0), (0, 43));
}
