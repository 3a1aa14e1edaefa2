//! A port of ours that somebody has taken the mark off.

use gimbal_octavia_plan::{ApiVerb, BalancerStep};
use gimbal_octavia_sim::SimRequest;
use serde_json::{Value, json};

use crate::executor::World;
use crate::services::{made, world};
use crate::wish::Wish;

/// A load balancer with a port of ours.
fn outside() -> (Wish, World, String) {
    let (wish, mut world) = world(|wish| wish.from_outside = true);
    made(&wish, &mut world);
    let port = world.actor.balancer().unwrap().vip_port.clone();
    world.sent.clear();
    (wish, world, port)
}

fn describe(world: &mut World, port: &str, words: &str) {
    world.by_hand(&SimRequest::put(&format!("/v2.0/ports/{port}"), json!({"port": {"description": words}})));
}

fn ports(world: &mut World) -> Vec<Value> {
    world.rows("/v2.0/ports", "ports", &[])
}

fn kinds(world: &World) -> Vec<(ApiVerb, &'static str)> {
    world.sent.iter().map(|change| (change.request().verb, change.request().resource)).collect()
}

#[test]
fn the_mark_of_a_port_is_set_back() {
    let (wish, mut world, port) = outside();
    let before = ports(&mut world)[0]["description"].clone();
    describe(&mut world, &port, "mine");
    world.actor.look_again();
    made(&wish, &mut world);
    assert_eq!(kinds(&world), [(ApiVerb::Update, "port")]);
    assert_eq!(ports(&mut world)[0]["description"], before);
    world.sent.clear();
    world.actor.look_again();
    made(&wish, &mut world);
    assert_eq!(world.sent, [], "once");
    world.actor.want(wish.deleting());
    assert_eq!(world.run(), BalancerStep::Gone);
    assert_eq!(ports(&mut world), Vec::<Value>::new());
}

/// It is not looked at in between.
#[test]
fn it_goes_with_an_owner_that_goes_right_then() {
    let (wish, mut world, port) = outside();
    describe(&mut world, &port, "mine");
    world.actor.want(wish.deleting());
    assert_eq!(world.run(), BalancerStep::Gone);
    assert_eq!(ports(&mut world), Vec::<Value>::new());
}

#[test]
fn one_that_is_gone_is_not_asked_for_again() {
    let (wish, mut world, port) = outside();
    world.actor.want(wish.deleting());
    let change = world.run_to_change();
    assert_eq!(change.request().resource, "loadbalancer");
    world.take(&BalancerStep::Change(change), crate::executor::Way::Arrives);
    world.advance(std::time::Duration::from_secs(10));
    world.by_hand(&SimRequest::delete(&format!("/v2.0/ports/{port}")));
    assert_eq!(world.run(), BalancerStep::Gone);
    let tries = kinds(&world).into_iter().filter(|(verb, kind)| (*verb, *kind) == (ApiVerb::Update, "port"));
    assert!(tries.count() <= 1, "{:?}", kinds(&world));
}
