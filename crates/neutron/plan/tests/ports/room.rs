//! Quotas, limits and exhausted subnets.

use std::time::Duration;

use gimbal_kuryr_model::Text;
use gimbal_neutron_plan::{PortObstacle, PortPoolKey, PortReport};

use crate::world::{PROJECT, Way, World};

const MINUTE: Duration = Duration::from_secs(60);

fn beside(world: &mut World, place: &PortPoolKey, node: &str) -> PortPoolKey {
    world.kubernetes.add_node(node);
    PortPoolKey { node: node.into(), ..place.clone() }
}

#[test]
fn where_a_quota_is_short_pods_have_ports_and_pools_have_none() {
    let (mut world, place) = World::simple(|_| {});
    let other = beside(&mut world, &place, "node-2");
    let mut pods: Vec<Text> = (0..4).map(|_| world.add_pod(&place)).collect();
    world.run_for(MINUTE);
    assert_eq!(world.ours().len(), 9, "five of them are ready");
    world.neutron.set_port_quota(PROJECT, Some(9));
    pods.extend((0..5).map(|_| world.add_pod(&other)));
    world.run_for(MINUTE);
    let have: Vec<usize> = pods.iter().map(|pod| world.ports_of(pod).len()).collect();
    assert_eq!(have, [1; 9], "what was ready elsewhere has made room");
    let late = world.add_pod(&other);
    world.run_for(MINUTE);
    let report = world.reports.get(&late);
    assert!(matches!(report, Some(PortReport::Waiting { obstacle: PortObstacle::Quota(_), .. })), "{report:?}");
    world.kubernetes.unplug(&pods[0], &mut world.neutron);
    world.end_pod(&pods[0]);
    world.run_for(MINUTE);
    assert_eq!(world.ports_of(&late).len(), 1, "the port of a Pod that is over makes room at once");
}

#[test]
fn a_used_up_quota_is_asked_about_rarely() {
    let (mut world, place) = World::simple(|_| {});
    world.neutron.set_port_quota(PROJECT, Some(0));
    (0..3).for_each(|_| _ = world.add_pod(&place));
    world.run_for(60 * MINUTE);
    assert!((10..=20).contains(&world.sent.len()), "{}", world.sent.len());
    world.neutron.set_port_quota(PROJECT, None);
    world.run_for(6 * MINUTE);
    assert!(world.kubernetes.pods.keys().all(|pod| world.ports_of(pod).len() == 1));
    world.run_for(10 * MINUTE);
    assert!(world.plan().ready(&place) >= 5);
}

#[test]
fn a_cluster_has_no_more_ports_than_its_policy_allows() {
    let (mut world, place) = World::simple(|settings| settings.most_ports = Some(7));
    let other = beside(&mut world, &place, "node-2");
    let mut pods: Vec<Text> = (0..3).map(|_| world.add_pod(&place)).collect();
    world.run_for(MINUTE);
    assert_eq!(world.ours().len(), 7);
    pods.extend((0..5).map(|_| world.add_pod(&other)));
    world.run_for(10 * MINUTE);
    assert_eq!(pods.iter().filter(|pod| world.ports_of(pod).len() == 1).count(), 7);
    assert_eq!(world.ours().len(), 7);
    let waiting = pods.iter().find(|pod| world.ports_of(pod).is_empty()).unwrap();
    let report = world.reports.get(waiting);
    assert!(matches!(report, Some(PortReport::Waiting { obstacle: PortObstacle::Limit(7), .. })), "{report:?}");
}

/// A creation that was given up and made again arrives after all.
#[test]
fn what_is_ready_beyond_what_the_policy_allows_goes() {
    let (mut world, place) = World::simple(|settings| settings.most_ports = Some(7));
    let mut pods = vec![world.add_pod(&place)];
    for way in [Way::Arrives, Way::Late] {
        assert!(world.begin(0));
        world.end(0, 0, way);
    }
    world.run_for(Duration::from_secs(11));
    pods.extend((0..4).map(|_| world.add_pod(&place)));
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.ours().len(), 7, "two of them are ready");
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.ours().len(), 13, "six came late");
    world.run_for(20 * MINUTE);
    assert_eq!((world.ours().len(), world.ready_on("node-1").len()), (7, 2));
    assert!(pods.iter().all(|pod| world.ports_of(pod).len() == 1));
}

#[test]
fn where_no_address_is_left_pods_have_those_that_there_are() {
    let (mut world, place) = World::simple(|settings| settings.pool_min = 2);
    // Six hosts, of which the gateway has one.
    let network = world.neutron.add_network(PROJECT, "10.1.0.0/29");
    let place = PortPoolKey { network: network.as_str().into(), ..place };
    let other = beside(&mut world, &place, "node-2");
    let mut pods: Vec<Text> = vec![world.add_pod(&place), world.add_pod(&place)];
    world.run_for(MINUTE);
    assert_eq!(world.ours().len(), 4);
    pods.extend((0..3).map(|_| world.add_pod(&other)));
    world.run_for(2 * MINUTE);
    assert!(pods.iter().all(|pod| world.ports_of(pod).len() == 1), "{:?}", world.ours());
    let late = world.add_pod(&other);
    world.run_for(MINUTE);
    let report = world.reports.get(&late);
    assert!(matches!(report, Some(PortReport::Waiting { obstacle: PortObstacle::Exhausted(_), .. })), "{report:?}");
}

#[test]
fn a_pool_that_cannot_be_had_stops_no_other() {
    let (mut world, place) = World::simple(|_| {});
    let nowhere = PortPoolKey { network: "no-such-network".into(), ..place.clone() };
    let (bad, good) = (world.add_pod(&nowhere), world.add_pod(&place));
    world.run();
    let report = world.reports.get(&bad);
    assert!(matches!(report, Some(PortReport::Waiting { obstacle: PortObstacle::Missing(_), .. })), "{report:?}");
    assert_eq!(world.ports_of(&good).len(), 1);
    let before = world.sent.len();
    world.run_for(60 * MINUTE);
    assert!(world.sent.len() < before + 40, "it is tried again, less and less often: {}", world.sent.len() - before);
}
