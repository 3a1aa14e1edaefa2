//! Removal: everything of the owner goes, and nothing of anybody else's.

use gimbal_octavia_plan::BalancerStep;
use gimbal_octavia_sim::SimRequest;
use serde_json::json;

use crate::executor::World;
use crate::services::{made, world};

fn left(world: &mut World) -> Vec<usize> {
    [("/v2/lbaas/loadbalancers", "loadbalancers"), ("/v2.0/ports", "ports"), ("/v2.0/floatingips", "floatingips")]
        .iter()
        .map(|(path, key)| world.rows(path, key, &[]).len())
        .collect()
}

#[test]
fn nothing_is_left() {
    let (wish, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
    made(&wish, &mut world);
    world.sent.clear();
    world.actor.want(wish.deleting());
    assert_eq!(world.run(), BalancerStep::Gone);
    assert_eq!(left(&mut world), [0, 0, 0]);
    let kinds: Vec<_> = world.sent.iter().map(|change| change.request().resource).collect();
    assert_eq!(kinds, ["floatingip", "loadbalancer", "floatingip", "port"]);
}

#[test]
fn a_restart_in_the_middle_goes_on() {
    let (wish, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
    made(&wish, &mut world);
    world.actor.want(wish.deleting());
    while world.step() != BalancerStep::Gone {
        let step = world.step();
        world.take(&step, crate::executor::Way::Arrives);
        if matches!(step, BalancerStep::Change(_)) {
            world.restart();
        }
    }
    assert_eq!(left(&mut world), [0, 0, 0]);
}

#[test]
fn another_clusters_load_balancer_of_the_same_name_stays() {
    let (wish, mut world) = world(|_| {});
    let theirs = json!({"loadbalancer": {
        "project_id": "p1", "vip_subnet_id": wish.subnet, "name": "shop/web",
        "tags": ["gimbal-cluster:prod1", "k8s-cluster:c2", "k8s-svc-uid:u1"],
    }});
    world.by_hand(&SimRequest::post("/v2/lbaas/loadbalancers", theirs));
    made(&wish, &mut world);
    assert_eq!(left(&mut world)[0], 2);
    world.actor.want(wish.deleting());
    assert_eq!(world.run(), BalancerStep::Gone);
    assert_eq!(left(&mut world)[0], 1);
}
