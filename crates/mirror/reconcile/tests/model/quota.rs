//! Quotas: existing objects stay, Services over the limit wait, and waiting loses nothing.

use std::time::Duration;

use gimbal_plan::{Body, EndpointsApi};
use gimbal_session::RejectReason;

use super::OPEN;
use super::check::check;
use super::policy::{check_policies, claim, endpoints, name, open, quota};
use super::server::Luck;
use super::world::{BACKENDS, INVALID, World, key, service};

/// The first Services keep their room, also over a restart of everything; a waiting one is published when there is
/// room.
#[test]
fn a_quota_keeps_what_stands_and_lets_the_rest_wait() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.configure(0, Some(quota(Some(2), Some(6), None)));
    for k in [2, 3] {
        world.set(0, &key(k), Some(service(0, 0, &[1, 2])));
    }
    world.settle();
    world.set(0, &key(0), Some(service(0, 0, &[1])));
    world.settle();
    assert_eq!((world.rejects(0).len(), endpoints(&world)), (1, 4));
    let reject = world.rejects(0).remove(0);
    assert_eq!((reject.reason, reject.retryable, reject.key), (RejectReason::Quota, true, Some(key(0))));
    assert!(reject.message.contains("services") && reject.message.contains("would be 3"), "{}", reject.message);
    // The Services that were published before the restart come after the new one in the order of keys.
    world.restart_writer();
    world.restart_agent(0);
    world.settle();
    assert_eq!(world.rejects(0).iter().map(|r| r.key.clone()).collect::<Vec<_>>(), [Some(key(0))]);
    world.set(0, &key(2), Some(service(0, 0, &[1, 2, 3, 4, 5])));
    world.settle();
    assert_eq!((endpoints(&world), world.rejects(0).len()), (4, 2), "growth over the quota waits, what exists stays");
    // With a lower quota nothing is removed, and a Service may shrink.
    world.configure(0, Some(quota(Some(1), Some(1), None)));
    world.settle();
    assert_eq!(endpoints(&world), 4);
    world.set(0, &key(3), Some(service(0, 0, &[1])));
    world.settle();
    assert_eq!(endpoints(&world), 3);
    world.configure(0, Some(quota(Some(2), Some(6), None)));
    world.set(0, &key(3), None);
    world.settle();
    assert_eq!((endpoints(&world), world.rejects(0).len()), (6, 0), "there is room for all that wait");
    assert_eq!(world.writer.backends()[&name(0)].usage().total().endpoints, 6);
}

/// Deletions wait for their turn like changes, and none of them is lost. Another backend is not slowed.
#[test]
fn a_paced_backend_ends_as_its_source_is() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.configure(0, Some(quota(None, None, Some(1))));
    for k in 0..4 {
        world.set(0, &key(k), Some(service(0, 0, &[k])));
    }
    world.set(1, &key(3), Some(service(0, 0, &[9])));
    world.connect(0);
    world.connect(1);
    let run = |world: &mut World| {
        for _ in 0..100 {
            let _moved = world.speak(0) | world.hear(0) | world.speak(1) | world.hear(1) | world.watch();
            let _moved = world.start_job() | world.finish_job(Luck::Good);
        }
    };
    run(&mut world);
    let of = |world: &World, n: usize| world.services().filter(|s| claim(&s.metadata).unwrap().0 == n).count();
    assert_eq!((of(&world, 0), of(&world, 1)), (1, 1), "one at once, and the other backend's");
    world.settle();
    check(&world);
    for k in 0..4 {
        world.set(0, &key(k), None);
    }
    run(&mut world);
    assert!(of(&world, 0) > 1);
    world.settle();
    assert_eq!(of(&world, 0), 0);
    assert!(world.rejects(0).is_empty());
}

/// Of two Services that want one name and both wait for room, neither keeps the other out forever.
#[test]
fn two_that_wait_for_one_name_and_for_room_come_to_rest() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    for agent in 0..BACKENDS.len() {
        world.configure(agent, Some(quota(Some(0), None, None)));
    }
    world.set(0, &key(1), Some(service(0, 0, &[1])));
    world.set(1, &key(0), Some(service(0, 0, &[2])));
    world.settle();
    assert_eq!(world.server.objects.len(), 0);
    world.configure(1, Some(open()));
    world.settle();
    assert_eq!(endpoints(&world), 1, "who has room has the name");
    check_policies(&world);
}

/// Only growth is refused: endpoints that are gone are removed, those that are not ready are marked so, and a new one
/// may replace one that is gone.
#[test]
fn what_would_grow_over_its_quota_still_changes() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.configure(0, Some(quota(None, Some(4), None)));
    world.set(0, &key(0), Some(service(0, 0, &[1, 2, 3, 4])));
    world.settle();
    let there = |world: &World| {
        let addresses =
            world.slices().flat_map(|slice| &slice.endpoints).map(|endpoint| endpoint.addresses[0].to_string());
        addresses.collect::<std::collections::BTreeSet<_>>()
    };
    let at = |hosts: &[u8]| hosts.iter().map(|host| format!("10.0.0.{}", host + 1)).collect();
    world.set(0, &key(0), Some(service(1, 0, &[3, 4, 5, 6, 7])));
    world.settle();
    assert_eq!(there(&world), at(&[3, 4, 5, 6]));
    assert_eq!(*world.services().next().unwrap().metadata.labels["label"], *"1");
    let reasons: Vec<_> = world.rejects(0).iter().map(|reject| reject.reason).collect();
    assert_eq!((reasons, world.unacknowledged(0)), (vec![RejectReason::Quota], 0));
    // With other ports, the Service keeps as many endpoints as it had.
    world.set(0, &key(0), Some(service(1, 1, &[3, 4, 5, 6, 7])));
    world.settle();
    assert_eq!(there(&world), at(&[3, 4, 5, 6]));
    let writes = world.server.writes;
    world.restart_writer();
    world.restart_agent(0);
    world.settle();
    assert_eq!((world.server.writes, there(&world)), (writes, at(&[3, 4, 5, 6])));
    world.set(0, &key(0), Some(service(1, 1, &[5, 6, 7])));
    world.settle();
    assert_eq!((there(&world), world.rejects(0).len()), (at(&[5, 6, 7]), 0));
}

/// An `Endpoints` object holds an address with two port sets once, and it counts once. One address more than there is
/// room for removes no address from either port set.
#[test]
fn growth_over_a_quota_takes_no_port_from_packed_addresses() {
    let both = |hosts: &[u8]| {
        let [one, other] = [0, 1].map(|ports| service(0, ports, hosts));
        let endpoints = one.endpoints().chain(other.endpoints());
        let endpoints = endpoints.map(|(ports, endpoint)| (ports.clone(), endpoint));
        std::sync::Arc::new(gimbal_model::Service::new(one.header.clone(), endpoints))
    };
    let mut world = World::new(EndpointsApi::Endpoints, OPEN);
    world.configure(0, Some(quota(None, Some(4), None)));
    world.set(0, &key(0), Some(both(&[1, 2, 3, 4])));
    world.settle();
    let there = |world: &World| {
        let objects = world.server.objects.values();
        let packed = objects.filter_map(|body| if let Body::Endpoints(object) = body { Some(object) } else { None });
        let pairs = packed.flat_map(|object| &object.subsets).flat_map(|subset| {
            let address = |at: usize| subset.addresses[at].ip.to_string();
            subset
                .ports
                .iter()
                .flat_map(move |port| (0..subset.addresses.len()).map(move |at| (address(at), port.port)))
        });
        pairs.collect::<std::collections::BTreeSet<_>>()
    };
    let at = |hosts: &[u8]| {
        let ports = |host: &u8| [8080, 8081].map(|port| (format!("10.0.0.{}", host + 1), port));
        hosts.iter().flat_map(ports).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(there(&world), at(&[1, 2, 3, 4]));
    world.set(0, &key(0), Some(both(&[0, 1, 2, 3, 4])));
    world.settle();
    assert_eq!((there(&world), world.rejects(0)[0].reason), (at(&[1, 2, 3, 4]), RejectReason::Quota));
    // One address is gone, and another takes its place on all ports.
    world.set(0, &key(0), Some(both(&[0, 2, 3, 4, 5])));
    world.settle();
    assert_eq!((there(&world), world.rejects(0).len()), (at(&[0, 2, 3, 4]), 1));
    assert_eq!(world.writer.backends()[&name(0)].usage().total().endpoints, 4);
}

/// There is no room for the bytes of a larger header, so the header stays as it is; removed endpoints are removed.
#[test]
fn a_header_that_has_no_room_keeps_no_dead_endpoints() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.set(0, &key(0), Some(service(0, 0, &[1, 2, 3])));
    world.settle();
    let mut policy = open();
    policy.quota.bytes = Some(world.writer.backends()[&name(0)].usage().total().bytes);
    world.configure(0, Some(policy));
    let mut large = (*service(0, 0, &[1, 2])).clone();
    let mut header = (*large.header).clone();
    header.annotations.insert("long".into(), "x".repeat(1000).into());
    large.header = header.into();
    world.set(0, &key(0), Some(large.into()));
    world.settle();
    assert_eq!((endpoints(&world), world.rejects(0)[0].reason), (2, RejectReason::Quota));
    assert!(!world.services().next().unwrap().metadata.annotations.contains_key("long"));
}

/// The same process gets the lease again: existing objects get their room before waiting Services.
#[test]
fn a_lease_that_is_lost_and_regained_gives_no_room_away() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.configure(0, Some(quota(Some(1), None, None)));
    world.set(0, &key(2), Some(service(0, 0, &[1])));
    world.settle();
    world.set(0, &key(0), Some(service(0, 0, &[2])));
    world.settle();
    let rejected = |world: &World| world.rejects(0).iter().map(|reject| reject.key.clone()).collect::<Vec<_>>();
    assert_eq!(rejected(&world), [Some(key(0))]);
    world.regain_lease();
    world.set(0, &key(2), Some(service(0, 0, &[1, 3])));
    world.settle();
    assert_eq!((rejected(&world), endpoints(&world)), (vec![Some(key(0))], 2));
}

/// Returns a world in which agent 0 has ten Services, each in a namespace that must be created, and room for one of
/// them.
fn ten_namespaces() -> World {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    let mut policy = quota(Some(1), None, None);
    policy.namespaces.create = true;
    world.configure(0, Some(policy));
    for n in 0..10 {
        world.set(0, &gimbal_model::SourceKey::new(format!("ns{n}"), "svc"), Some(service(0, 0, &[n])));
    }
    world
}

/// No more namespaces are created than there is room for Services in them.
#[test]
fn namespaces_are_created_within_the_quota() {
    let mut world = ten_namespaces();
    world.settle();
    assert_eq!((world.created.len(), world.services().count(), world.rejects(0).len()), (1, 1, 9));
    // No namespace is created for an invalid Service.
    world.set(0, &gimbal_model::SourceKey::new("bad", "svc"), Some(service(0, INVALID, &[1])));
    world.settle();
    assert_eq!(world.created.len(), 1);
}

/// If all creations failed while the API server was away, no more are retried than there is room for.
#[test]
fn namespaces_that_could_not_be_created_are_tried_again_within_the_quota() {
    let mut world = ten_namespaces();
    world.unlucky.extend((0..10).map(|n| format!("ns{n}")));
    world.connect(0);
    // Before the first retry.
    for _ in 0..90 {
        let _moved = world.speak(0) | world.hear(0) | world.start_job() | world.hear(0);
        world.pass(Duration::from_millis(10));
    }
    assert!(world.unlucky.is_empty() && world.created.is_empty());
    let rejects = world.rejects(0);
    assert!(rejects.len() == 10 && rejects.iter().all(|reject| reject.message.contains("a test")), "{rejects:?}");
    world.settle();
    assert_eq!((world.created.len(), world.services().count(), world.rejects(0).len()), (1, 1, 9));
    // Each Service that has the room is removed, and so is each that follows: all of them get their turn.
    for left in (0..10_usize).rev() {
        let has = world.services().next().map(|service| claim(&service.metadata).unwrap().1);
        world.set(0, &has.unwrap(), None);
        world.settle();
        assert_eq!((world.services().count(), world.rejects(0).len()), (left.min(1), left.saturating_sub(1)));
    }
}

/// The namespaces created in one second are limited like the changes in one second.
#[test]
fn namespaces_are_created_at_the_pace_of_changes() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    let mut policy = quota(None, None, Some(1));
    policy.namespaces.create = true;
    world.configure(0, Some(policy));
    for n in 0..10 {
        world.set(0, &gimbal_model::SourceKey::new(format!("ns{n}"), "svc"), Some(service(0, 0, &[n])));
    }
    world.connect(0);
    for _ in 0..100 {
        let _moved = world.speak(0) | world.hear(0) | world.start_job() | world.finish_job(Luck::Good);
    }
    assert_eq!(world.created.len(), 1);
    world.settle();
    assert_eq!((world.created.len(), world.services().count()), (10, 10));
}
