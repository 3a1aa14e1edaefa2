//! The guard of readiness: endpoints that stay and become not ready.

use std::sync::Arc;
use std::time::Duration;

use gimbal_guard::{GuardConfig, HeldDrop};
use gimbal_model::{BackendName, Conditions, Endpoint, Service};
use gimbal_plan::EndpointsApi;
use gimbal_reconcile::{LossPolicy, Policy};
use gimbal_session::RejectReason;

use super::world::{BACKENDS, World, key, service};

const SECOND: Duration = Duration::from_secs(1);

fn name() -> BackendName {
    BackendName::parse(BACKENDS[0]).unwrap()
}

fn held(world: &World) -> Option<HeldDrop> {
    world.writer.backends()[&name()].guards().readiness().held()
}

/// Returns the same Service with these hosts not ready.
fn without(service: &Service, not_ready: &[u8]) -> Arc<Service> {
    let is_hit = |endpoint: &Endpoint| {
        not_ready.iter().any(|host| endpoint.address.to_string() == format!("10.0.0.{}", host + 1))
    };
    let endpoints = service.endpoints().map(|(ports, endpoint)| {
        let conditions = if is_hit(&endpoint) { Conditions::NOT_READY } else { endpoint.conditions };
        (ports.clone(), Endpoint { conditions, ..endpoint })
    });
    Arc::new(Service::new(service.header.clone(), endpoints))
}

/// Returns how many endpoints are ready, and how many are not.
fn endpoints(world: &World) -> (usize, usize) {
    let slices = world.slices().flat_map(|slice| slice.endpoints.iter().map(|one| one.conditions.ready == Some(true)));
    let packed = world.server.objects.values().filter_map(|body| match body {
        gimbal_plan::Body::Endpoints(object) => Some(object),
        _ => None,
    });
    let subsets = packed.flat_map(|object| &object.subsets).flat_map(|subset| {
        let ready = subset.addresses.iter().map(|_| true);
        ready.chain(subset.not_ready_addresses.iter().map(|_| false))
    });
    let (ready, not): (Vec<bool>, Vec<bool>) = slices.chain(subsets).partition(|ready| *ready);
    (ready.len(), not.len())
}

fn hosts(range: std::ops::Range<u8>) -> Vec<u8> {
    range.collect()
}

/// Returns a world with 40 endpoints in one Service and 10 in another.
fn filled(api: EndpointsApi, readiness: bool) -> World {
    let mut world = World::new(api, GuardConfig { readiness, ..GuardConfig::default() });
    world.set(0, &key(0), Some(service(0, 0, &hosts(0..40))));
    world.set(0, &key(2), Some(service(0, 0, &hosts(50..60))));
    world.settle();
    assert_eq!(endpoints(&world), (50, 0));
    world
}

#[test]
fn off_by_default() {
    let mut world = filled(EndpointsApi::EndpointSlices, GuardConfig::default().readiness);
    world.set(0, &key(0), Some(without(&service(0, 0, &hosts(0..40)), &hosts(0..40))));
    world.settle_for(SECOND);
    assert_eq!(endpoints(&world), (10, 40));
}

/// Held endpoints stay ready while everything else of the Service is written; an approval releases them.
#[test]
fn too_many_at_once_stay_ready_until_they_are_released() {
    for api in [EndpointsApi::EndpointSlices, EndpointsApi::Endpoints] {
        let mut world = filled(api, true);
        // A new label and a new endpoint come with it.
        world.set(0, &key(0), Some(without(&service(1, 0, &hosts(0..41)), &hosts(0..40))));
        world.settle_for(5 * SECOND);
        assert_eq!(endpoints(&world), (51, 0), "{api:?}");
        let service_of = |world: &World| {
            world.services().find(|service| *service.metadata.namespace == *"one").unwrap().metadata.labels["label"]
                .to_string()
        };
        assert_eq!(service_of(&world), "1");
        assert_eq!(world.rejects(0).iter().map(|r| r.reason).collect::<Vec<_>>(), [RejectReason::Held]);
        let hold = held(&world).expect("held");
        assert_eq!((hold.endpoints_removed, hold.endpoints_before, hold.to_nothing), (40, 51, false));
        assert!(world.writer.backends()[&name()].trouble().contains("keeps ready"));
        // A writer that restarts keeps them ready too, with the same hold.
        world.restart_writer();
        world.settle_for(5 * SECOND);
        assert_eq!((endpoints(&world), held(&world).map(|held| held.endpoints_removed)), ((51, 0), Some(40)));
        let writes = world.server.writes;
        world.settle_for(30 * SECOND);
        assert_eq!(world.server.writes, writes, "what is held is not written over and over");
        let id = held(&world).unwrap().id;
        assert!(world.writer.approve(&name(), &id).is_some());
        world.settle_for(SECOND);
        assert_eq!((endpoints(&world), held(&world)), ((11, 40), None));
        assert!(world.rejects(0).is_empty());
    }
}

#[test]
fn a_part_is_released_by_a_snapshot_that_still_says_so_and_nothing_is_left_when_it_is_over() {
    let mut world = filled(EndpointsApi::EndpointSlices, true);
    let gone = without(&service(0, 0, &hosts(0..40)), &hosts(0..40));
    world.set(0, &key(0), Some(gone.clone()));
    world.settle_for(5 * SECOND);
    assert!(held(&world).is_some());
    world.set(0, &key(0), Some(service(0, 0, &hosts(0..40))));
    world.settle_for(5 * SECOND);
    assert_eq!((endpoints(&world), held(&world), world.rejects(0).len()), ((50, 0), None, 0));
    world.set(0, &key(0), Some(gone));
    world.settle_for(200 * SECOND);
    assert_eq!((endpoints(&world), held(&world)), ((10, 40), None));
}

/// Rolling updates, and endpoints that become ready again in time, are not held.
#[test]
fn what_comes_and_goes_is_not_held() {
    let mut world = filled(EndpointsApi::EndpointSlices, true);
    let all = service(0, 0, &hosts(0..40));
    for round in 0..12 {
        let first = round * 10 % 40;
        world.set(0, &key(0), Some(without(&all, &hosts(first..first + 10))));
        world.settle_for(SECOND);
        assert_eq!((endpoints(&world), held(&world)), ((40, 10), None));
    }
}

/// Endpoints that the operator's policy marks not ready are no loss of readiness in the source.
#[test]
fn a_policy_of_loss_is_not_held() {
    let mut world = filled(EndpointsApi::EndpointSlices, true);
    let on_loss = LossPolicy { not_ready_after: Some(60 * SECOND), drain_after: None, source_stale_after: None };
    let policy = Policy { on_loss, ..world.policy(0).unwrap().clone() };
    world.configure(0, Some(policy));
    world.settle();
    world.cut(0);
    for _ in 0..90 {
        world.pass(SECOND);
        while world.start_job() {}
        while world.finish_job(super::server::Luck::Good) {}
        while world.watch() {}
    }
    assert_eq!((endpoints(&world), held(&world)), ((0, 50), None));
    // The backend is back, with fewer ready endpoints.
    world.set(0, &key(0), Some(without(&service(0, 0, &hosts(0..40)), &hosts(0..20))));
    world.settle_for(5 * SECOND);
    assert_eq!((endpoints(&world), held(&world)), ((30, 20), None));
}
