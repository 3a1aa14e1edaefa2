//! The mass-change guard within the whole writer: endpoints that are missing now are counted by Service.

use std::time::Duration;

use gimbal_guard::{GuardConfig, HeldDrop};
use gimbal_model::{BackendName, EndpointPort, Header, PortSet, Protocol, Service, SourceKey};
use gimbal_plan::EndpointsApi;
use gimbal_reconcile::Policy;
use gimbal_session::RejectReason;

use super::server::Luck;
use super::world::{BACKENDS, World, key, service};

const SECOND: Duration = Duration::from_secs(1);

fn name(agent: usize) -> BackendName {
    BackendName::parse(BACKENDS[agent]).unwrap()
}

fn one(n: usize) -> SourceKey {
    SourceKey::new("one", format!("s{n}"))
}

fn held(world: &World, agent: usize) -> Option<HeldDrop> {
    world.writer.backends()[&name(agent)].guards().removals().held()
}

fn endpoints(world: &World) -> usize {
    world.slices().map(|slice| slice.endpoints.len()).sum()
}

/// Returns a world in which agent 0 has this number of Services, each with `each` endpoints.
fn filled(services: usize, each: u8) -> World {
    let mut world = World::new(EndpointsApi::EndpointSlices, GuardConfig::default());
    let hosts: Vec<u8> = (0..each).collect();
    for n in 0..services {
        world.set(0, &one(n), Some(service(0, 0, &hosts)));
    }
    world.settle();
    assert_eq!(endpoints(&world), services * usize::from(each));
    world
}

/// An endpoint that is back is not lost: never more than one of ten is missing at a time.
#[test]
fn services_that_go_and_come_one_after_the_other_are_not_held() {
    let mut world = filled(10, 10);
    let hosts: Vec<u8> = (0..10).collect();
    for n in 0..10 {
        world.set(0, &one(n), None);
        world.settle_for(SECOND);
        assert_eq!((endpoints(&world), held(&world, 0)), (90, None), "the removal of Service {n}");
        world.set(0, &one(n), Some(service(0, 0, &hosts)));
        world.settle_for(SECOND);
        assert_eq!(endpoints(&world), 100);
    }
}

/// The same holds for endpoints that were back before a restart of the writer.
#[test]
fn what_is_back_is_not_lost_though_the_writer_restarts() {
    let mut world = filled(20, 5);
    for n in 0..20 {
        world.set(0, &one(n), None);
        world.settle_for(SECOND);
        assert_eq!((endpoints(&world), held(&world, 0)), (95, None), "the removal of Service {n}");
        if n % 2 == 0 {
            world.restart_writer();
            world.settle_for(SECOND);
        }
        world.set(0, &one(n), Some(service(0, 0, &[0, 1, 2, 3, 4])));
        world.settle_for(SECOND);
        if n % 3 == 0 {
            world.restart_writer();
            world.settle_for(SECOND);
        }
        assert_eq!(endpoints(&world), 100);
    }
}

/// After a restart no claim was ever decided for objects that vanished meanwhile; they count as lost all the same.
#[test]
fn what_went_while_the_writer_was_down_counts() {
    let mut world = filled(10, 10);
    for n in 0..4 {
        world.set(0, &one(n), None);
    }
    world.restart_writer();
    world.settle_for(2 * SECOND);
    assert_eq!(endpoints(&world), 60);
    for n in 4..8 {
        world.set(0, &one(n), None);
    }
    world.settle_for(5 * SECOND);
    assert_eq!(endpoints(&world), 60, "80 of 100 within a window");
    let held = held(&world, 0).expect("held");
    assert_eq!((held.endpoints_removed, held.endpoints_before), (40, 100));
}

/// Endpoints that somebody else deletes are missing until they are back.
#[test]
fn what_another_hand_removed_counts_until_it_is_back() {
    let mut world = filled(10, 10);
    // A deleted namespace takes all of its objects with it, and the writer cannot create it again.
    for n in 0..4 {
        world.set(0, &SourceKey::new("two", format!("t{n}")), Some(service(0, 0, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10])));
    }
    world.settle();
    world.server.set_namespace("two", false);
    world.settle_for(SECOND);
    assert_eq!(endpoints(&world), 100);
    for n in 0..3 {
        world.set(0, &one(n), None);
        world.settle_for(SECOND);
    }
    assert_eq!(endpoints(&world), 70, "70 of 140");
    world.set(0, &one(3), None);
    world.settle_for(SECOND);
    assert_eq!((endpoints(&world), held(&world, 0).is_some()), (70, true));
    world.server.set_namespace("two", true);
    world.settle_for(SECOND);
    assert_eq!((endpoints(&world), held(&world, 0)), (100, None), "what is back is not lost");
}

/// Of two namespaces one has 20 endpoints, and the removal of the other's 40 is held.
fn emptied_and_held() -> World {
    let mut world = World::new(EndpointsApi::EndpointSlices, GuardConfig::default());
    let hosts: Vec<u8> = (0..40).collect();
    world.set(0, &key(0), Some(service(0, 0, &hosts[..20])));
    world.set(0, &key(2), Some(service(0, 0, &hosts)));
    world.settle();
    world.set(0, &key(2), None);
    world.settle_for(SECOND);
    assert_eq!(endpoints(&world), 60);
    assert!(held(&world, 0).is_some_and(|held| !held.to_nothing));
    world
}

/// A snapshot that does not cover the namespace with the loss confirms nothing.
#[test]
fn a_snapshot_releases_no_more_than_it_covers() {
    let mut world = emptied_and_held();
    world.scope_unknown(0, Some("two"));
    // The guard asks for a snapshot each minute.
    (0..150).for_each(|_| world.settle_for(SECOND));
    assert_eq!((endpoints(&world), held(&world, 0).is_some()), (60, true), "namespace two is unknown");
    world.source_complete(0);
    world.settle_for(200 * SECOND);
    assert_eq!((endpoints(&world), held(&world, 0)), (20, None));
}

/// An unknown scope elsewhere does not keep a hold forever: an emptied namespace is known, and is confirmed by name.
#[test]
fn a_namespace_that_was_emptied_is_confirmed_though_another_is_unknown() {
    let named = |world: &mut World| world.scope_unknown(0, Some("three"));
    let restarted = |world: &mut World| {
        world.restart_agent(0);
        world.scope_unknown(0, Some("three"));
    };
    let rest = |world: &mut World| world.agents[0].end.set_rest_unknown(true);
    type Change = fn(&mut World);
    for (case, becomes_unknown) in [("named", named as Change), ("restarted", restarted), ("rest", rest)] {
        let mut world = emptied_and_held();
        becomes_unknown(&mut world);
        (0..200).for_each(|_| world.settle_for(SECOND));
        assert_eq!((endpoints(&world), held(&world, 0)), (20, None), "{case}");
    }
}

/// A hold of removed Services continues over a restart, like one of Services that shrank.
#[test]
fn a_hold_of_removed_services_keeps_its_age() {
    let mut world = World::new(
        EndpointsApi::EndpointSlices,
        GuardConfig { release_all_after: Some(600 * SECOND), ..GuardConfig::default() },
    );
    for n in 0..10 {
        world.set(0, &one(n), Some(service(0, 0, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9])));
    }
    world.settle();
    for n in 0..10 {
        world.set(0, &one(n), None);
    }
    world.settle_for(400 * SECOND);
    let before = held(&world, 0).expect("held");
    world.restart_writer();
    world.settle_for(150 * SECOND);
    assert_eq!(held(&world, 0), Some(before), "the same id");
    world.settle_for(60 * SECOND);
    assert_eq!((endpoints(&world), held(&world, 0)), (0, None), "released by its age");
}

/// While its removal is held, a Service keeps the name; the Service that waits for the name gets it after the
/// release.
#[test]
fn a_name_is_not_handed_over_while_the_removal_of_who_had_it_is_held() {
    let mut world = World::new(EndpointsApi::EndpointSlices, GuardConfig::default());
    let hosts: Vec<u8> = (0..40).collect();
    // Both want one/a-b-svc.
    world.set(0, &key(1), Some(service(1, 0, &hosts)));
    world.settle();
    world.set(1, &key(0), Some(service(2, 0, &[200, 201, 202])));
    world.settle();
    world.set(0, &key(1), None);
    world.settle_for(5 * SECOND);
    let owner = |world: &World| {
        world.services().next().unwrap().metadata.labels[gimbal_kubernetes_objects::keys::BACKEND].to_string()
    };
    assert!(held(&world, 0).is_some());
    assert_eq!((endpoints(&world), owner(&world)), (40, BACKENDS[0].to_string()));
    assert_eq!(world.rejects(0).iter().map(|r| r.reason).collect::<Vec<_>>(), [RejectReason::Held]);
    assert_eq!(world.rejects(1).iter().map(|r| r.reason).collect::<Vec<_>>(), [RejectReason::NameConflict]);
    // The waiting Service changes meanwhile and is sent again.
    world.set(1, &key(0), Some(service(3, 0, &[200, 201])));
    world.settle_for(5 * SECOND);
    assert_eq!((endpoints(&world), owner(&world)), (40, BACKENDS[0].to_string()));
    let id = held(&world, 0).unwrap().id;
    assert!(world.writer.approve(&name(0), &id).is_some());
    world.settle();
    assert_eq!((endpoints(&world), owner(&world)), (2, BACKENDS[1].to_string()));
    assert!(world.rejects(0).is_empty() && world.rejects(1).is_empty());
}

/// `Endpoints` objects hold an address with two port sets once. Observed and wanted endpoints are counted in the same
/// way.
#[test]
fn endpoints_objects_are_counted_alike_on_both_sides() {
    let set = |port: u16| {
        let port = EndpointPort {
            name: format!("p{port}").into(),
            port: Some(port),
            protocol: Protocol::Tcp,
            app_protocol: None,
        };
        PortSet::new(vec![port])
    };
    let both = |hosts: &[u8]| {
        let header: std::sync::Arc<Header> = service(0, 0, &[]).header.clone();
        let endpoint = |host: &u8| gimbal_model::Endpoint::ready(std::net::IpAddr::from([10, 0, 0, *host + 1]));
        let endpoints = [80, 81].into_iter().flat_map(|port| hosts.iter().map(move |host| (set(port), endpoint(host))));
        std::sync::Arc::new(Service::new(header, endpoints))
    };
    let hosts: Vec<u8> = (0..100).collect();
    let mut world = World::new(EndpointsApi::Endpoints, GuardConfig::default());
    world.set(0, &key(0), Some(both(&hosts)));
    world.settle();
    world.set(0, &key(0), Some(both(&hosts[..49])));
    world.settle_for(2 * SECOND);
    let held = held(&world, 0).expect("51 of 100 would go");
    assert_eq!((held.endpoints_removed, held.endpoints_before), (51, 100));
}

/// A policy with another window does not change what was recorded.
#[test]
fn a_longer_window_is_in_force_at_once() {
    let mut world = filled(10, 10);
    for n in 0..4 {
        world.set(0, &one(n), None);
    }
    world.settle_for(30 * SECOND);
    let guard = GuardConfig { window: 600 * SECOND, ..GuardConfig::default() };
    let policy = Policy { guard, ..world.policy(0).unwrap().clone() };
    world.configure(0, Some(policy));
    world.settle_for(100 * SECOND);
    for n in 4..8 {
        world.set(0, &one(n), None);
    }
    world.settle_for(5 * SECOND);
    assert_eq!((endpoints(&world), held(&world, 0).is_some()), (60, true));
}

/// Returns a world with two Services. The delete of the first ended with `luck`; then it is wanted again unchanged
/// and the second is removed. No watch has reported anything.
fn unanswered_delete(luck: Luck) -> World {
    let mut world = filled(2, 20);
    let hosts: Vec<u8> = (0..20).collect();
    world.set(0, &one(0), None);
    while world.speak(0) {}
    while !world.start_job() {
        world.pass(SECOND);
        world.collect();
    }
    assert!(world.finish_job(luck));
    world.set(0, &one(0), Some(service(0, 0, &hosts)));
    world.set(0, &one(1), None);
    while world.speak(0) {}
    world
}

/// An unanswered delete that was carried out counts, whatever its source wants by now.
#[test]
fn what_an_unanswered_delete_may_have_taken_counts() {
    let mut world = unanswered_delete(Luck::AnswerLost);
    assert_eq!(endpoints(&world), 20);
    for _ in 0..20 {
        while world.start_job() | world.finish_job(Luck::Good) {}
        world.pass(SECOND);
        world.collect();
        assert_eq!(endpoints(&world), 20, "all of both");
    }
    world.settle_for(5 * SECOND);
    assert_eq!((endpoints(&world), held(&world, 0)), (20, None), "what is back is not lost");
    assert_eq!(world.services().count(), 1);
}

/// An unanswered delete that was not carried out is not counted forever.
#[test]
fn what_an_unanswered_delete_did_not_take_is_there_after_a_minute() {
    let mut world = unanswered_delete(Luck::Refused);
    world.settle_for(30 * SECOND);
    assert_eq!((endpoints(&world), held(&world, 0).is_some()), (40, true));
    world.settle_for(62 * SECOND);
    assert_eq!((endpoints(&world), held(&world, 0)), (20, None));
}
