//! A namespace comes, and goes.

use std::time::Duration;

use gimbal_neutron_plan::network::{NetworkChange, NetworkEntry, NetworkObstacle, NetworkStep};
use gimbal_octavia_sim::SimRequest;
use serde_json::json;

use crate::world::World;

fn names(world: &World) -> Vec<&'static str> {
    let name = |change: &NetworkChange| match change {
        NetworkChange::CreateNetwork { .. } => "network",
        NetworkChange::CreateSubnet { .. } => "subnet",
        NetworkChange::AddInterface { .. } => "interface",
        NetworkChange::RemoveInterface { .. } => "-interface",
        NetworkChange::DeleteSubnet { .. } => "-subnet",
        NetworkChange::DeleteNetwork { .. } => "-network",
    };
    world.sent.iter().map(name).collect()
}

#[test]
fn a_network_is_made_in_order_and_removed_in_the_opposite_one() {
    let mut world = World::new();
    assert_eq!(world.run(), NetworkStep::Done);
    assert_eq!((names(&world), world.looks), (vec!["network", "subnet", "interface"], 1));
    assert_eq!(world.parts(), [1, 1, 1]);
    assert_eq!(world.actor.subnet().map(|subnet| subnet.cidr.to_string()).as_deref(), Some("10.32.0.0/24"));
    world.sent.clear();
    world.actor.want(world.leaving());
    assert_eq!(world.run(), NetworkStep::Gone);
    assert_eq!(names(&world), ["-interface", "-subnet", "-network"]);
    assert_eq!(world.parts(), [0, 0, 0]);
}

#[test]
fn a_second_namespace_gets_another_range_of_the_pool() {
    let mut world = World::new();
    world.run();
    let mut other = world.wish.clone();
    other.owner = "ns-uid-2".into();
    world.actor = gimbal_neutron_plan::network::NetworkActor::new("c1", "prod1", NetworkEntry::Wanted(other));
    world.run();
    assert_eq!(world.actor.subnet().map(|subnet| subnet.cidr.to_string()).as_deref(), Some("10.32.1.0/24"));
    assert_eq!(world.parts(), [2, 2, 2]);
}

#[test]
fn who_is_in_the_way_of_a_removal_is_named_and_left_alone() {
    let mut world = World::new();
    world.run();
    let ports =
        [("shop/web-1", "compute:kuryr"), ("", "compute:nova")].map(|(name, owner)| world.add_port(name, owner));
    world.add_port("dhcp", "network:dhcp");
    let stranger = world.neutron.add_router();
    world.actor.want(world.leaving());
    world.actor.look_again();
    let NetworkStep::Blocked(obstacle, until) = world.run_or_block() else {
        panic!("{:?}", world.actor.step(world.now))
    };
    let words = obstacle.to_string();
    assert!(words.contains(&format!("{} (shop/web-1, compute:kuryr)", ports[0])), "{words}");
    assert!(words.contains(&format!("{} (compute:nova)", ports[1])) && !words.contains("dhcp"), "{words}");
    assert!(until <= world.now + Duration::from_secs(5), "it is looked again soon");
    assert_eq!(world.parts(), [1, 1, 1], "nothing is removed before the ports are");
    world.remove_port(&ports[0]);
    world.remove_port(&ports[1]);
    // Somebody has led another router there.
    let subnet = world.actor.subnet().unwrap().id.clone();
    let second = json!({"subnet": {"network_id": &*world.actor.network().unwrap().id, "cidr": "192.0.2.0/24"}});
    let second = world.neutron.handle(&SimRequest::post("/v2.0/subnets", second)).body["subnet"]["id"].clone();
    let lead = SimRequest::put(&format!("/v2.0/routers/{stranger}/add_router_interface"), json!({"subnet_id": second}));
    assert_eq!(world.neutron.handle(&lead).status, 200);
    world.advance_to(until);
    let NetworkStep::Blocked(NetworkObstacle::Ports(left), _) = world.run_or_block() else { panic!("not blocked") };
    assert_eq!(left.iter().map(|port| &*port.device_owner).collect::<Vec<_>>(), ["network:router_interface"]);
    assert!(world.sent.iter().all(|change| *change != NetworkChange::DeleteSubnet { id: subnet.clone() }));
    let back =
        SimRequest::put(&format!("/v2.0/routers/{stranger}/remove_router_interface"), json!({"subnet_id": second}));
    world.neutron.handle(&back);
    // The agents' own ports go with the network; the model has none that do.
    let dhcp = world.neutron.rows("ports").find(|row| row["device_owner"] == "network:dhcp").unwrap()["id"].clone();
    world.remove_port(dhcp.as_str().unwrap());
    world.advance_to(world.now + Duration::from_secs(5));
    assert_eq!(world.run(), NetworkStep::Gone);
    assert_eq!(world.parts(), [0, 0, 0]);
}

#[test]
fn a_pool_that_is_used_up_is_an_obstacle_until_there_is_room() {
    let mut world = World::new();
    world.wish.subnet_pool = world.neutron.add_subnet_pool("10.99.0.0/24", 24).into();
    let taken = world.neutron.add_network("p1", "10.99.0.0/24");
    world.actor.want(NetworkEntry::Wanted(world.wish.clone()));
    let NetworkStep::Blocked(obstacle, _) = world.run_or_block() else { panic!("there is no room") };
    assert!(obstacle.to_string().contains("Insufficient prefix space"), "{obstacle}");
    world.neutron.handle(&SimRequest::delete(&format!("/v2.0/networks/{taken}")));
    assert_eq!(world.run(), NetworkStep::Done);
}

#[test]
fn what_is_missing_is_named_and_tried_again_rarely() {
    let mut world = World::new();
    world.wish.router = Some("no-such-router".into());
    world.actor.want(NetworkEntry::Wanted(world.wish.clone()));
    let NetworkStep::Blocked(obstacle, until) = world.run_or_block() else { panic!("there is no such router") };
    assert!(obstacle.to_string().contains("Router no-such-router could not be found"), "{obstacle}");
    assert!(until >= world.now + Duration::from_secs(60));
    world.wish.router = None;
    world.actor.want(NetworkEntry::Wanted(world.wish.clone()));
    assert_eq!(world.run_or_block(), NetworkStep::Done, "what is wanted now is tried at once");
}

#[test]
fn networks_of_others_are_not_taken_for_their_name() {
    let mut world = World::new();
    let names = json!({"network": {"name": "ns/shop", "description": "gimbal-cluster:prod2 k8s-cluster:c2 k8s-svc-uid:ns-uid-1"}});
    let other = world.neutron.handle(&SimRequest::post("/v2.0/networks", names)).body["network"]["id"].clone();
    world.run();
    assert_ne!(json!(*world.actor.network().unwrap().id), other);
    world.actor.want(world.leaving());
    world.run();
    assert_eq!(world.neutron.rows("networks").map(|row| row["id"].clone()).collect::<Vec<_>>(), [other]);
}

#[test]
fn what_somebody_has_removed_is_made_again_at_the_next_look() {
    let mut world = World::new();
    world.run();
    let (router, subnet) = (world.wish.router.clone().unwrap(), world.actor.subnet().unwrap().id.clone());
    let cut =
        SimRequest::put(&format!("/v2.0/routers/{router}/remove_router_interface"), json!({"subnet_id": &*subnet}));
    world.neutron.handle(&cut);
    world.actor.look_again();
    assert_eq!((world.run(), world.parts()), (NetworkStep::Done, [1, 1, 1]));
    let before = world.sent.len();
    world.actor.look_again();
    assert_eq!((world.run(), world.sent.len()), (NetworkStep::Done, before), "no difference, no change");
}
