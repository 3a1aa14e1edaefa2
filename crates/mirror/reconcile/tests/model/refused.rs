//! An object that the API server refuses keeps nothing else from being written, least of all the removal of
//! endpoints.

use std::collections::BTreeSet;
use std::time::Duration;

use gimbal_guard::GuardConfig;
use gimbal_kubernetes_objects::keys;
use gimbal_plan::{Body, EndpointsApi};
use gimbal_session::RejectReason;

use super::OPEN;
use super::check::check;
use super::policy::quota;
use super::server::{id, meta_mut};
use super::world::{INVALID, World, key, service};

fn filled(hosts: &[u8]) -> World {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.set(0, &key(0), Some(service(0, 0, hosts)));
    world.settle();
    world
}

/// Returns the last bytes of the addresses that exist.
fn hosts(world: &World) -> BTreeSet<u8> {
    let addresses = world.slices().flat_map(|slice| &slice.endpoints).map(|endpoint| &endpoint.addresses[0]);
    addresses.map(|address| address.rsplit_once('.').unwrap().1.parse::<u8>().unwrap() - 1).collect()
}

fn reasons(world: &World) -> Vec<RejectReason> {
    world.rejects(0).iter().map(|reject| reject.reason).collect()
}

fn again(world: &mut World) {
    world.server.refuses.clear();
    world.server.full.clear();
    world.settle_for(Duration::from_secs(310));
    assert!(world.rejects(0).is_empty());
    assert_eq!(world.unacknowledged(0), 0);
    check(world);
}

#[test]
fn a_header_that_is_refused_does_not_keep_dead_endpoints() {
    let mut world = filled(&[1, 2, 3]);
    world.server.refuses.insert(("Service", "1".into()));
    world.set(0, &key(0), Some(service(1, 0, &[2, 3])));
    world.settle();
    assert_eq!((hosts(&world), reasons(&world)), ([2, 3].into(), vec![RejectReason::Invalid]));
    assert_eq!(world.unacknowledged(0), 0);
    // Later changes are written too, and the Service is not tried with each of them.
    let writes = world.server.writes;
    for n in 4..8 {
        world.set(0, &key(0), Some(service(1, 0, &[2, n])));
        world.settle_for(Duration::from_secs(2));
        assert_eq!(hosts(&world), [2, n].into());
    }
    assert_eq!(world.server.writes, writes + 4);
    again(&mut world);
}

#[test]
fn slices_that_are_refused_lose_what_is_gone_and_nothing_more() {
    let mut world = filled(&[1, 2, 3]);
    for kind in ["Service", "EndpointSlice"] {
        world.server.refuses.insert((kind, "1".into()));
    }
    world.set(0, &key(0), Some(service(1, 0, &[2, 3, 4])));
    world.settle();
    assert_eq!((hosts(&world), reasons(&world)), ([2, 3].into(), vec![RejectReason::Invalid]));
    world.set(0, &key(0), Some(service(1, 0, &[4])));
    world.settle();
    assert_eq!(hosts(&world), [].into());
    again(&mut world);
}

#[test]
fn a_slice_that_cannot_be_created_keeps_no_removal() {
    let mut world = filled(&[1, 2, 3]);
    world.server.full.insert("EndpointSlice");
    // With other ports they need another slice. Endpoints that only wait for that slice stay where they are.
    world.set(0, &key(0), Some(service(0, 1, &[2, 3, 4])));
    world.settle();
    assert_eq!((hosts(&world), reasons(&world)), ([2, 3].into(), vec![RejectReason::ApiError]));
    again(&mut world);
}

/// A write that keeps failing, in whatever way, keeps nothing else from being written, and no acknowledgement waits
/// for it.
#[test]
fn a_slice_whose_creation_fails_for_long_keeps_no_removal() {
    let mut world = filled(&[1, 2, 3]);
    world.server.full.insert("EndpointSlice");
    world.server.webhook_is_down = true;
    world.set(0, &key(0), Some(service(0, 1, &[2, 3, 4])));
    world.settle_for(Duration::from_secs(5));
    assert_eq!((hosts(&world), reasons(&world)), ([2, 3].into(), vec![RejectReason::ApiError]));
    assert_eq!(world.unacknowledged(0), 0);
    // With each change it is tried once more, and delays nothing.
    world.set(0, &key(0), Some(service(0, 1, &[3, 4, 5])));
    world.settle_for(Duration::from_secs(1));
    assert_eq!(hosts(&world), [3].into());
    // It is retried without a change.
    world.server.full.clear();
    world.settle_for(Duration::from_secs(16));
    assert_eq!((hosts(&world), reasons(&world)), ([3, 4, 5].into(), vec![]));
    again(&mut world);
}

#[test]
fn a_service_that_was_given_away_keeps_no_dead_endpoints_and_gets_no_new_ones() {
    let mut world = filled(&[1, 2, 3]);
    let mut given = Body::Service(world.services().next().unwrap().clone());
    meta_mut(&mut given).labels.remove(keys::MANAGED_BY);
    let id = id(given.kind(), given.meta());
    world.server.put(given);
    world.set(0, &key(0), Some(service(0, 0, &[2, 3, 4])));
    world.settle();
    assert_eq!((hosts(&world), reasons(&world)), ([2, 3].into(), vec![RejectReason::NameConflict]));
    world.server.remove(&id);
    again(&mut world);
}

#[test]
fn a_service_that_cannot_be_created_is_tried_again_and_acknowledged() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.server.full.insert("Service");
    world.set(0, &key(0), Some(service(0, 0, &[1])));
    world.settle();
    assert_eq!((world.slices().count(), reasons(&world)), (0, vec![RejectReason::ApiError]));
    assert_eq!(world.unacknowledged(0), 0);
    again(&mut world);
}

/// An endpoint that is removed and cannot be replaced is lost, and the guard counts it.
#[test]
fn the_guard_sees_what_goes_without_anything_in_its_place() {
    let mut world = World::new(EndpointsApi::EndpointSlices, GuardConfig::default());
    let some = |from: u8| (from..from + 90).collect::<Vec<_>>();
    world.set(0, &key(0), Some(service(0, 0, &some(0))));
    world.settle();
    world.server.refuses.insert(("EndpointSlice", "1".into()));
    world.set(0, &key(0), Some(service(1, 0, &some(100))));
    world.settle_for(Duration::from_secs(30));
    assert_eq!(hosts(&world), some(0).into_iter().collect());
    assert!(world.writer.backends().values().any(|backend| backend.guards().removals().held().is_some()));
    again(&mut world);
}

/// An object that we know to be invalid is not written, but its removed endpoints are removed.
#[test]
fn a_service_that_cannot_be_written_keeps_no_dead_endpoints() {
    for api in [EndpointsApi::EndpointSlices, EndpointsApi::Endpoints] {
        let mut world = World::new(api, OPEN);
        world.set(0, &key(0), Some(service(0, 0, &[1, 2, 3])));
        world.settle();
        let stood = world.services().next().unwrap().clone();
        world.set(0, &key(0), Some(service(1, INVALID, &[2, 3, 4])));
        world.settle();
        let packed = world.server.objects.values().filter_map(|body| match body {
            Body::Endpoints(object) => Some(object),
            _ => None,
        });
        let packed: Vec<_> = packed.flat_map(|object| &object.subsets).flat_map(|subset| &subset.addresses).collect();
        assert_eq!(hosts(&world).len() + packed.len(), 2, "{:?} {packed:?}", hosts(&world));
        assert_eq!((reasons(&world), world.unacknowledged(0)), (vec![RejectReason::Invalid], 0));
        assert_eq!(*world.services().next().unwrap(), stood);
        world.set(0, &key(0), Some(service(1, INVALID, &[])));
        world.settle();
        assert_eq!(hosts(&world), [].into());
        assert_eq!(*world.services().next().unwrap(), stood);
        world.set(0, &key(0), Some(service(1, 1, &[2])));
        world.settle();
        assert_eq!((reasons(&world), world.unacknowledged(0)), (vec![], 0));
        assert_eq!(*world.services().next().unwrap().metadata.labels["label"], *"1");
    }
}

/// The guard holds the removal of such endpoints like any other loss, because nothing replaces them.
#[test]
fn the_guard_sees_what_goes_of_a_service_that_cannot_be_written() {
    let mut world = World::new(EndpointsApi::EndpointSlices, GuardConfig::default());
    let some = |from: u8| (from..from + 90).collect::<Vec<_>>();
    world.set(0, &key(0), Some(service(0, 0, &some(0))));
    world.settle();
    world.set(0, &key(0), Some(service(0, INVALID, &some(100))));
    world.settle_for(Duration::from_secs(30));
    assert_eq!(hosts(&world), some(0).into_iter().collect());
    assert!(world.writer.backends().values().any(|backend| backend.guards().removals().held().is_some()));
}

/// A refused write that is no longer wanted blocks nothing, even if the rest waits for room.
#[test]
fn what_is_refused_and_wanted_no_more_is_forgotten() {
    let mut world = World::new(EndpointsApi::EndpointSlices, GuardConfig::default());
    let some = |from: u8, to: u8| (from..to).collect::<Vec<_>>();
    let policy = gimbal_reconcile::Policy { guard: GuardConfig::default(), ..quota(None, Some(90), None) };
    world.configure(0, Some(policy));
    world.set(0, &key(0), Some(service(0, 0, &some(0, 90))));
    world.settle();
    world.server.full.insert("EndpointSlice");
    world.set(0, &key(0), Some(service(0, 1, &some(0, 90))));
    world.settle_for(Duration::from_secs(5));
    assert_eq!(reasons(&world), [RejectReason::ApiError]);
    world.set(0, &key(0), Some(service(0, 0, &some(0, 95))));
    world.settle_for(Duration::from_secs(5));
    assert_eq!(reasons(&world), [RejectReason::Quota]);
    // All endpoints are replaced by others.
    world.set(0, &key(0), Some(service(0, 0, &some(100, 195))));
    world.settle_for(Duration::from_secs(5));
    assert_eq!((hosts(&world), reasons(&world)), (some(100, 190).into_iter().collect(), vec![RejectReason::Quota]));
}
