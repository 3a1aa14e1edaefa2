//! The time between the order to remove a backend and the first deletion, in which its endpoints are not ready.

use std::time::{Duration, SystemTime};

use gimbal_kubernetes_objects::Endpoints;
use gimbal_model::{BackendName, SourceKey};
use gimbal_plan::{Body, EndpointsApi};
use gimbal_reconcile::{Mode, Policy, Quota, RemovalPolicy, RemovalState, Written};

use super::OPEN;
use super::check::check;
use super::server::Luck;
use super::world::{BACKENDS, World, key, service};

pub(super) const WAIT: Duration = Duration::from_secs(60);

/// Two Services of a backend that is to leave, and whose removal is ordered. The order is not stored yet.
pub(super) fn ordered(api: EndpointsApi, not_ready_for: Duration) -> (World, BackendName, Policy) {
    ordered_with(api, not_ready_for, &[key(0), key(3)])
}

/// The same with these Services, each with an endpoint and with the label of its number.
fn ordered_with(api: EndpointsApi, not_ready_for: Duration, keys: &[SourceKey]) -> (World, BackendName, Policy) {
    let (mut world, name, admitted) = prepared(api, not_ready_for, keys);
    world.configure(0, Some(Policy { leaving: true, ..admitted.clone() }));
    order(&mut world, &name);
    (world, name, admitted)
}

pub(super) fn prepared(api: EndpointsApi, not_ready_for: Duration, keys: &[SourceKey]) -> (World, BackendName, Policy) {
    let name = BackendName::parse(BACKENDS[0]).unwrap();
    let mut world = World::new(api, OPEN);
    for (n, key) in (0..).zip(keys) {
        world.set(0, key, Some(service(n, 0, &[n])));
    }
    let admitted = Policy { on_removal: RemovalPolicy { not_ready_for }, ..world.policy(0).unwrap().clone() };
    world.configure(0, Some(admitted.clone()));
    world.settle();
    (world, name, admitted)
}

pub(super) fn order(world: &mut World, name: &BackendName) {
    world.silent = Some(0);
    let id = world.writer.inventory(name).id(name);
    world.writer.decommission(name, &id).unwrap();
}

/// Returns how many objects with endpoints there are, and how many of these endpoints are ready.
pub(super) fn ready(world: &World) -> (usize, usize) {
    let slices = world.slices().flat_map(|slice| &slice.endpoints);
    let ready = slices.filter(|endpoint| endpoint.conditions.ready == Some(true)).count();
    let packed = world.server.objects.values().filter_map(|body| match body {
        Body::Endpoints(object) => Some(object),
        _ => None,
    });
    let addresses = |object: &Endpoints| object.subsets.iter().map(|subset| subset.addresses.len()).sum::<usize>();
    let (mut objects, mut ready) = (world.slices().count(), ready);
    for object in packed {
        objects += 1;
        ready += addresses(object);
    }
    (objects, ready)
}

/// Whoever still needs them notices while everything is there.
#[test]
fn endpoints_are_not_ready_for_a_while_before_objects_go() {
    for api in [EndpointsApi::EndpointSlices, EndpointsApi::Endpoints] {
        let (mut world, name, _) = ordered(api, WAIT);
        let begun = world.wall;
        let writes = world.server.writes;
        let Some(RemovalState::Ordered { inventory }) = world.writer.removal(&name, 5) else { panic!("not ordered") };
        assert_eq!(inventory.services, 2);
        assert!(!world.start_job(), "nothing changes before the order is stored");
        world.collect();
        let making = RemovalState::NotReady { inventory, until: None };
        assert_eq!(world.writer.removal(&name, 5), Some(making), "the time has not begun");
        world.settle_for(Duration::from_secs(5));
        let until = until(&world, &name).unwrap();
        assert!((begun + WAIT..begun + WAIT + Duration::from_secs(2)).contains(&until));
        assert_eq!((ready(&world), world.services().count()), ((2, 0), 2), "{api:?}");
        assert_eq!(world.server.writes, writes + 2, "one write for each");
        assert!(world.writer.backends()[&name].guards().removals().held().is_none(), "a person's word is not held");
        world.connect(0);
        while world.speak(0) | world.hear(0) {}
        assert!(!world.writer.backends()[&name].is_connected(), "its agent is refused");
        while world.wall < begun + WAIT - Duration::from_secs(6) {
            world.settle_for(Duration::from_secs(5));
            assert_eq!((ready(&world), world.services().count(), world.server.writes), ((2, 0), 2, writes + 2));
        }
        assert_eq!(world.writer.counters().comparison_differences, 0);
        world.settle_for(Duration::from_secs(12));
        assert_eq!((ready(&world), world.services().count()), ((0, 0), 0));
        assert_eq!(world.writer.removal(&name, 5), Some(RemovalState::Over));
    }
}

/// Neither begins the time anew, nor ends it: a restart, another leader, a change of the process's clock.
#[test]
fn the_time_before_a_removal_survives_a_restart() {
    let (mut world, name, _) = ordered(EndpointsApi::EndpointSlices, WAIT);
    world.settle_for(Duration::from_secs(20));
    let writes = world.server.writes;
    world.restart_writer();
    world.settle_for(Duration::from_secs(30));
    assert_eq!((ready(&world), world.services().count(), world.server.writes), ((2, 0), 2, writes));
    world.settle_for(Duration::from_secs(15));
    assert_eq!(world.services().count(), 0);
    // A clock that was set back never gives more than the whole time.
    let (mut world, name2, _) = ordered(EndpointsApi::EndpointSlices, WAIT);
    assert_eq!(name2, name);
    world.settle_for(Duration::from_secs(20));
    world.wall -= Duration::from_secs(3600);
    world.restart_writer();
    let said = until(&world, &name).unwrap();
    world.collect();
    let since = world.kept[&name].decommission.as_ref().unwrap().since;
    assert_eq!(since, Some(world.wall), "the next leader counts from there, too");
    world.settle_for(Duration::from_secs(55));
    assert_eq!(world.services().count(), 2);
    let mut gone = None;
    world.settle_watched(Duration::from_secs(10), |world| gone = gone.or(Some(world.wall)));
    assert_eq!(world.services().count(), 0);
    let late = gone.unwrap().duration_since(said).expect("not before it was said");
    assert!(late < Duration::from_secs(2), "it goes when that was said: {late:?} later");
}

/// Who has seen enough does not wait, and who needs more time takes it.
#[test]
fn the_time_before_a_removal_follows_the_spec_while_it_lasts() {
    let (mut world, name, admitted) = ordered(EndpointsApi::EndpointSlices, WAIT);
    let lasting = |not_ready_for| {
        let on_removal = RemovalPolicy { not_ready_for };
        Some(Policy { leaving: true, on_removal, ..admitted.clone() })
    };
    world.settle_for(Duration::from_secs(5));
    world.configure(0, lasting(2 * WAIT));
    world.settle_for(WAIT + Duration::from_secs(10));
    assert_eq!((ready(&world), world.services().count()), ((2, 0), 2));
    assert_eq!(world.kept[&name].decommission.as_ref().unwrap().not_ready_for, 2 * WAIT, "another leader knows it");
    world.configure(0, lasting(Duration::ZERO));
    world.settle_for(Duration::from_secs(5));
    assert_eq!(world.services().count(), 0);
}

/// The object is made anew while its endpoints are not ready: all of them are back, and nothing was gone. Taking the object away
/// does not shorten the time.
#[test]
fn who_is_kept_while_its_endpoints_are_not_ready_loses_nothing() {
    let (mut world, name, admitted) = ordered(EndpointsApi::EndpointSlices, WAIT);
    world.settle_for(Duration::from_secs(5));
    world.configure(0, None);
    world.settle_for(Duration::from_secs(20));
    assert_eq!((ready(&world), world.services().count()), ((2, 0), 2), "nothing is gone yet");
    world.configure(0, Some(admitted));
    world.silent = None;
    let mut fewest = 2;
    world.settle_watched(2 * WAIT, |world| fewest = fewest.min(world.services().count()));
    assert_eq!((ready(&world), fewest), ((2, 2), 2));
    assert_eq!(world.kept[&name].decommission, None);
    check(&world);
}

/// What is in quarantine is not written, but it is not ready before it is removed like any other.
#[test]
fn who_is_in_quarantine_is_not_ready_before_it_is_removed() {
    let (mut world, name, admitted) = ordered(EndpointsApi::EndpointSlices, WAIT);
    world.configure(0, Some(Policy { mode: Mode::Quarantine, ..admitted }));
    world.settle_for(Duration::from_secs(5));
    assert_eq!((ready(&world), world.services().count()), ((2, 0), 2));
    world.settle_for(WAIT);
    assert_eq!(world.writer.inventory(&name).services, 0);
}

/// Another backend that waits for a name gets it when the one before is gone.
#[test]
fn who_waits_for_a_name_does_not_get_it_before_its_holder_is_removed() {
    let (mut world, name, _) = ordered(EndpointsApi::EndpointSlices, WAIT);
    // "b-svc" of "a" has the name that "svc" of "a-b" wants.
    world.configure(0, world.policy(0).cloned().map(|policy| Policy { leaving: false, ..policy }));
    world.silent = None;
    world.set(0, &key(1), Some(service(0, 0, &[7])));
    world.settle();
    world.configure(0, world.policy(0).cloned().map(|policy| Policy { leaving: true, ..policy }));
    order(&mut world, &name);
    world.set(1, &key(0), Some(service(3, 0, &[9])));
    world.settle_for(Duration::from_secs(5));
    assert_eq!((ready(&world), world.services().count()), ((3, 0), 3));
    world.settle_for(WAIT + Duration::from_secs(5));
    assert_eq!((ready(&world), world.services().count()), ((1, 1), 1), "it has the name");
}

/// Returns until when the endpoints of a backend are not ready; `None` if that is not known.
fn until(world: &World, name: &BackendName) -> Option<SystemTime> {
    match world.writer.removal(name, 5) {
        Some(RemovalState::NotReady { until, .. }) => until,
        _ => None,
    }
}

/// Time in which no writer leads.
fn sleep(world: &mut World, time: Duration) {
    world.now += time;
    world.wall += time;
}

pub(super) const LATE: Duration = Duration::from_secs(61);

/// The writer ends before it wrote anything of that, and the next one leads only much later.
#[test]
fn the_time_before_a_removal_begins_when_no_endpoint_is_ready() {
    for api in [EndpointsApi::EndpointSlices, EndpointsApi::Endpoints] {
        let (mut world, name, _) = ordered(api, WAIT);
        world.collect();
        assert!(world.kept[&name].decommission.is_some());
        sleep(&mut world, LATE);
        world.restart_writer();
        let begun = world.wall;
        world.settle_for(Duration::from_secs(5));
        assert_eq!((ready(&world), world.services().count()), ((2, 0), 2), "{api:?}");
        let until = until(&world, &name).unwrap();
        assert!((begun + WAIT..begun + WAIT + Duration::from_secs(5)).contains(&until), "it is said");
        world.settle_for(WAIT);
        assert_eq!(world.services().count(), 0);
    }
}

/// The same with one change in a second.
fn slow(policy: &Policy) -> Policy {
    Policy { quota: Quota { changes_per_second: Some(1), ..policy.quota }, ..policy.clone() }
}

/// Whoever has seen enough need not wait until everything is not ready.
#[test]
fn the_time_before_a_removal_can_be_left_out_before_it_begins() {
    let keys: Vec<SourceKey> = (0..20).map(|n| SourceKey::new("one", format!("s{n}"))).collect();
    let (mut world, _, admitted) = ordered_with(EndpointsApi::EndpointSlices, WAIT, &keys);
    world.collect();
    let on_removal = RemovalPolicy { not_ready_for: Duration::ZERO };
    world.configure(0, Some(Policy { leaving: true, on_removal, ..slow(&admitted) }));
    let mut first = None;
    world.settle_watched(Duration::from_secs(5), |world| {
        let (slices, ready) = ready(world);
        first = first.or_else(|| (slices < keys.len()).then_some(ready));
    });
    assert!(first.unwrap() > 15, "{first:?} are ready when the first goes");
    assert_eq!(world.services().count(), 0);
}

/// A writer that knows of the order, and not yet of the objects, takes nothing for done.
#[test]
fn the_time_before_a_removal_does_not_begin_before_everything_is_listed() {
    let (mut world, name, _) = ordered(EndpointsApi::EndpointSlices, WAIT);
    world.collect();
    world.restart_writer_unlisted();
    world.pass(Duration::from_secs(2));
    assert_eq!(world.kept[&name].decommission.as_ref().unwrap().since, None);
    world.list();
    world.settle_for(Duration::from_secs(5));
    assert_eq!((ready(&world), world.services().count()), ((2, 0), 2));
}

/// A webhook that has all endpoints ready keeps no removal either: its form is accepted.
#[test]
fn endpoints_that_are_ready_whatever_is_written_do_not_count() {
    let (mut world, name, _) = ordered(EndpointsApi::EndpointSlices, WAIT);
    world.collect();
    while let Some(job) = world.writer.next_job(world.now) {
        let written = job.carry_out(|action| match world.server.write(action, Luck::Good) {
            Written::Answered(Body::Slice(mut slice)) => {
                slice.endpoints.iter_mut().for_each(|endpoint| endpoint.conditions.ready = Some(true));
                Written::Answered(world.server.put(Body::Slice(slice)))
            }
            other => other,
        });
        world.writer.finish(&job, written, world.now);
        while world.watch() {}
    }
    world.settle_for(Duration::from_secs(5));
    assert_eq!((ready(&world), until(&world, &name).is_some()), ((2, 2), true));
    world.settle_for(WAIT);
    assert_eq!(world.services().count(), 0);
}

/// However slowly it is written, nothing is deleted whose endpoints were ready until then. That other writes were refused before is no
/// reason to delete it.
#[test]
fn a_backend_that_is_written_slowly_has_the_whole_time_too() {
    const REFUSED: u8 = 200;
    let keys: Vec<SourceKey> = (0..100).map(|n| SourceKey::new("one", format!("s{n}"))).collect();
    for has_refusals in [false, true] {
        let (mut world, name, admitted) = prepared(EndpointsApi::EndpointSlices, WAIT, &keys);
        if has_refusals {
            world.server.refuses.insert(("Service", REFUSED.to_string()));
            (0..).zip(&keys).for_each(|(n, key)| world.set(0, key, Some(service(REFUSED, 0, &[n]))));
            world.settle_for(Duration::from_secs(5));
            assert_eq!(world.rejects(0).len(), keys.len());
        }
        world.configure(0, Some(Policy { leaving: true, ..slow(&admitted) }));
        if has_refusals {
            // The one change of this second: until the next, none of what was refused is tried again.
            world.set(0, &keys[0], Some(service(REFUSED, 0, &[0, 1])));
            while world.speak(0) | world.hear(0) {}
            assert!(world.start_job() && world.finish_job(Luck::Good));
        }
        order(&mut world, &name);
        world.settle_watched(WAIT + Duration::from_secs(5), |world| {
            let (slices, ready) = ready(world);
            assert!(slices == keys.len() || ready == 0, "{slices} slices are left, {ready} endpoints are ready");
        });
        assert_eq!(world.writer.inventory(&name).services, 0);
    }
}

/// What the API server refuses keeps no removal: it is not made not ready, and goes.
#[test]
fn a_slice_that_cannot_be_written_does_not_keep_the_others() {
    let (mut world, _, _) = ordered(EndpointsApi::EndpointSlices, WAIT);
    world.server.refuses.insert(("EndpointSlice", "1".into()));
    world.settle_for(Duration::from_secs(20));
    assert_eq!((ready(&world), world.services().count()), ((2, 1), 2), "one of them");
    world.settle_for(WAIT);
    assert_eq!(world.services().count(), 0);
}

/// Of a backend that has nothing, there is nothing to let go of.
#[test]
fn who_has_nothing_is_not_kept_out() {
    for stored in [false, true] {
        let (mut world, name, admitted) = ordered_with(EndpointsApi::EndpointSlices, WAIT, &[]);
        world.keeps = stored;
        world.collect();
        world.keeps = true;
        world.configure(0, None);
        world.configure(0, Some(admitted));
        world.silent = None;
        world.settle_for(Duration::from_secs(5));
        assert!(world.writer.backends()[&name].is_connected(), "stored: {stored}");
        assert_eq!(world.writer.backends()[&name].decommission(), None);
        assert_eq!(world.kept[&name].decommission, None);
    }
    let (mut world, name, _) = ordered_with(EndpointsApi::EndpointSlices, WAIT, &[]);
    world.settle_for(Duration::from_secs(5));
    assert_eq!(world.writer.removal(&name, 5), Some(RemovalState::Over), "it is not waited for either");
}

/// Whose endpoints were ready is known to its source alone: until its agent is back, they stay as they are.
#[test]
fn who_is_kept_is_ready_again_once_its_agent_is_back() {
    let (mut world, name, admitted) = ordered(EndpointsApi::EndpointSlices, WAIT);
    world.settle_for(Duration::from_secs(5));
    world.configure(0, None);
    world.configure(0, Some(admitted));
    world.settle_for(2 * WAIT);
    assert_eq!((ready(&world), world.services().count()), ((2, 0), 2), "no agent says what is ready");
    assert_eq!(world.kept[&name].decommission, None);
    world.silent = None;
    world.settle_for(Duration::from_secs(5));
    assert_eq!((ready(&world), world.services().count()), ((2, 2), 2));
    check(&world);
}

/// It has no policy any more, and whoever took it out of the configuration had the time to look.
#[test]
fn what_no_configuration_names_goes_at_once() {
    let name = BackendName::parse(BACKENDS[0]).unwrap();
    for restarts in [false, true] {
        let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
        world.set(0, &key(0), Some(service(0, 0, &[1])));
        let on_removal = RemovalPolicy { not_ready_for: WAIT };
        world.configure(0, Some(Policy { on_removal, ..world.policy(0).unwrap().clone() }));
        world.settle();
        world.configure(0, None);
        if restarts {
            world.restart_writer();
        }
        order(&mut world, &name);
        world.settle_for(Duration::from_secs(5));
        assert_eq!(world.services().count(), 0, "restarts: {restarts}");
    }
}
