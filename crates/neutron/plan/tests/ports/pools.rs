//! How large pools are, and how fast they are filled.

use std::time::Duration;

use gimbal_kuryr_model::Text;
use gimbal_neutron_plan::{PortChange, PortPoolKey};

use crate::world::World;

const MINUTE: Duration = Duration::from_secs(60);

/// Lets Pods come at this rate, and go after a minute.
fn churn(world: &mut World, place: &PortPoolKey, per_second: u32, time: Duration) {
    let mut pods: Vec<Text> = Vec::new();
    for second in 0..time.as_secs() {
        (0..per_second).for_each(|_| pods.push(world.add_pod(place)));
        if second >= 60 {
            for pod in pods.drain(..per_second as usize).collect::<Vec<_>>() {
                world.kubernetes.unplug(&pod, &mut world.neutron);
                world.end_pod(&pod);
            }
        }
        world.run_for(Duration::from_secs(1));
    }
}

#[test]
fn after_a_minute_a_pool_covers_the_next_ten_seconds_and_idle_it_is_back_at_the_least_in_ten_minutes() {
    let (mut world, place) = World::simple(|settings| settings.ports_per_second = 200);
    churn(&mut world, &place, 3, MINUTE);
    world.run_for(Duration::from_secs(1));
    let ready = world.plan().ready(&place);
    assert!((27..=33).contains(&ready), "{ready}");
    world.run_for(10 * MINUTE);
    assert_eq!(world.plan().ready(&place), 5);
}

#[test]
fn a_pool_has_at_most_as_many_as_it_may() {
    let (mut world, place) = World::simple(|settings| (settings.pool_max, settings.ports_per_second) = (8, 200));
    churn(&mut world, &place, 3, 90 * Duration::from_secs(1));
    for _ in 0..30 {
        world.run_for(Duration::from_secs(1));
        assert!(world.plan().ready(&place) <= 8, "{}", world.plan().ready(&place));
    }
}

#[test]
fn a_pool_without_pods_goes_after_some_minutes() {
    let (mut world, place) = World::simple(|_| {});
    let pod = world.add_pod(&place);
    world.run_for(MINUTE);
    world.kubernetes.unplug(&pod, &mut world.neutron);
    world.end_pod(&pod);
    world.run_for(3 * MINUTE);
    assert!(world.plan().ready(&place) >= 5, "another Pod may come");
    world.run_for(20 * MINUTE);
    assert_eq!(world.ours().len(), 0);
}

/// Pools have brought Neutron down when they were all filled at once.
#[test]
fn neutron_is_never_asked_for_more_than_the_bucket_gives() {
    let (mut world, place) = World::simple(|settings| settings.ports_per_second = 10);
    let places: Vec<PortPoolKey> = (2..40)
        .map(|n| {
            let name = format!("node-{n}");
            world.kubernetes.add_node(&name);
            PortPoolKey { node: name.as_str().into(), ..place.clone() }
        })
        .collect();
    places.iter().for_each(|place| _ = world.add_pod(place));
    world.run_for(MINUTE);
    let cost = |change: &PortChange| match change {
        PortChange::Create { bodies } => bodies.len(),
        _ => 1,
    };
    for (nth, (from, _)) in world.sent.iter().enumerate() {
        let window = world.sent[nth..].iter().take_while(|(at, _)| *at < *from + Duration::from_secs(10));
        let ports: usize = window.map(|(_, change)| cost(change)).sum();
        // A second's burst, and what the last request makes beyond it.
        assert!(ports <= 10 * 10 + 10 + 10, "{ports} ports in ten seconds");
    }
    assert!(world.sent.len() > 50);
}

#[test]
fn pods_that_wait_come_before_ports_in_advance() {
    let (mut world, place) = World::simple(|settings| (settings.ports_per_second, settings.pool_min) = (5, 50));
    let first = world.add_pod(&place);
    world.run_for(Duration::from_secs(2));
    let others: Vec<Text> = (0..5).map(|_| world.add_pod(&place)).collect();
    world.run_for(Duration::from_secs(5));
    let have = [first].iter().chain(&others).filter(|pod| world.ports_of(pod).len() == 1).count();
    assert_eq!(have, 6, "{:?}", world.sent);
    assert!(world.plan().ready(&place) < 40, "the pool is still being filled");
}

#[test]
fn many_pods_at_once_are_few_requests() {
    let (mut world, place) = World::simple(|settings| (settings.ports_per_second, settings.pool_batch) = (1000, 50));
    let pods: Vec<Text> = (0..100).map(|_| world.add_pod(&place)).collect();
    world.run();
    assert!(pods.iter().all(|pod| world.ports_of(pod).len() == 1));
    let creates = world.sent.iter().filter(|(_, change)| matches!(change, PortChange::Create { .. })).count();
    assert!(creates <= 5, "{creates}");
    let updates = world.sent.iter().filter(|(_, change)| matches!(change, PortChange::Update { .. })).count();
    assert!(updates <= 20, "those that are made for a Pod need no other change: {updates}");
}

#[test]
fn a_network_is_warm_once_its_pools_are_filled() {
    let (mut world, place) = World::simple(|_| {});
    world.add_pod(&place);
    assert!(!world.plan().is_warm(&place.network), "a Pod waits");
    world.run();
    assert!(world.plan().is_warm(&place.network) && world.plan().is_warm("another"));
    world.add_pod(&place);
    let now = world.now;
    assert!(world.plan().next(now).is_some());
    assert!(!world.plan().is_warm(&place.network), "one of five has been taken");
}

#[test]
fn different_groups_are_different_pools() {
    let (mut world, place) = World::simple(|_| {});
    let group = world.neutron.add_group();
    let other = PortPoolKey { groups: [group.as_str().into()].into(), ..place.clone() };
    let pods = [world.add_pod(&place), world.add_pod(&other)];
    world.run_for(MINUTE);
    assert_eq!(pods.map(|pod| world.port_of(&pod).groups), [place.groups.clone(), other.groups.clone()]);
    assert_eq!((world.plan().ready(&place), world.plan().ready(&other)), (5, 5));
}
