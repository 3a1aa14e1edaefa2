//! What a creation that failed leaves behind.

use std::time::Duration;

use gimbal_octavia_plan::{BalancerStep, Block, CloudChange, CloudLook};
use gimbal_octavia_sim::{Fate, SimRequest};
use serde_json::json;

use crate::executor::Way;
use crate::services::{made, world};

const ADDRESS: &str = "10.0.0.50";

#[test]
fn the_port_of_a_refused_creation_goes_before_the_next_one() {
    let (wish, mut world) = world(|wish| wish.address = Some(ADDRESS));
    world.cloud.provider_mut().populated = false;
    let start = world.cloud.now();
    made(&wish, &mut world);
    assert!(world.sent.iter().any(|change| matches!(change, CloudChange::DeletePort { .. })), "{:#?}", world.sent);
    // Not before it was there for a drift interval: another creation might still go on.
    assert!(world.cloud.now() - start >= Duration::from_secs(60));
    assert_eq!(world.rows("/v2.0/ports", "ports", &[]).len(), 1);
}

#[test]
fn an_address_that_somebody_has_is_a_conflict_and_stays_theirs() {
    for outside in [false, true] {
        let (wish, mut world) = world(|wish| (wish.address, wish.from_outside) = (Some(ADDRESS), outside));
        let fixed = json!([{"subnet_id": wish.subnet, "ip_address": ADDRESS}]);
        let theirs = json!({"port": {"fixed_ips": fixed, "project_id": "p1", "device_owner": "compute:nova"}});
        let port = world.by_hand(&SimRequest::post("/v2.0/ports", theirs))["port"]["id"].as_str().unwrap().to_owned();
        let last = world.run();
        assert!(matches!(&last, BalancerStep::Blocked(Block::Conflict(words)) if words.contains(&port)), "{last:?}");
        assert_eq!(world.rows("/v2.0/ports", "ports", &[]).len(), 1);
        world.by_hand(&SimRequest::delete(&format!("/v2.0/ports/{port}")));
        assert_eq!(world.run_on(), BalancerStep::Done);
        made(&wish, &mut world);
    }
}

#[test]
fn the_address_of_another_load_balancer_is_a_conflict() {
    let (wish, mut world) = world(|wish| wish.address = Some(ADDRESS));
    let theirs = json!({"loadbalancer": {"project_id": "p1", "vip_subnet_id": wish.subnet, "vip_address": ADDRESS}});
    world.by_hand(&SimRequest::post("/v2/lbaas/loadbalancers", theirs));
    let last = world.run();
    assert!(matches!(&last, BalancerStep::Blocked(Block::Conflict(_))), "{last:?}");
    world.advance(Duration::from_secs(3600));
    world.actor.look_again();
    world.run();
    assert_eq!(world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]).len(), 1);
    assert_eq!(world.rows("/v2.0/ports", "ports", &[]).len(), 1);
}

/// One read that finds nothing does not prove that a load balancer has gone which was not deleted, and another one would be its
/// twin.
#[test]
fn one_that_is_lost_while_it_is_pending_is_looked_for() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    wish.members = vec![(9, 80, 1)];
    world.actor.want(wish.entry());
    while !matches!(world.step(), BalancerStep::Wait(_)) {
        let step = world.step();
        world.take(&step, Way::Arrives);
    }
    world.sent.clear();
    world.actor.tracked(&world.balancer(), None);
    assert_eq!(world.step(), BalancerStep::Look(CloudLook::Owner));
    made(&wish, &mut world);
    assert!(!world.sent.iter().any(|change| matches!(change, CloudChange::CreateBalancer { .. })), "{:#?}", world.sent);
    // One that was deleted is gone.
    world.actor.want(wish.deleting());
    while !matches!(world.step(), BalancerStep::Wait(_)) {
        let step = world.step();
        world.take(&step, Way::Arrives);
    }
    world.actor.tracked(&world.balancer(), None);
    assert_eq!(world.step(), BalancerStep::Gone);
}

#[test]
fn removal_takes_the_port_of_a_refused_creation_along() {
    let (wish, mut world) = world(|wish| wish.address = Some(ADDRESS));
    world.cloud.expect(Fate::Raises);
    while !world.sent.iter().any(|change| matches!(change, CloudChange::CreateBalancer { .. })) {
        let step = world.step();
        world.take(&step, Way::Arrives);
    }
    assert_eq!(world.rows("/v2.0/ports", "ports", &[]).len(), 1);
    world.actor.want(wish.deleting());
    assert_eq!(world.run(), BalancerStep::Gone);
    assert_eq!(world.rows("/v2.0/ports", "ports", &[]).len(), 0);
}

#[test]
fn a_port_of_ours_that_something_else_uses_is_replaced() {
    let (wish, mut world) = world(|wish| (wish.address, wish.from_outside) = (Some(ADDRESS), true));
    while world.actor.seen().ports.is_empty() {
        let step = world.step();
        world.take(&step, Way::Arrives);
    }
    let port = world.actor.seen().ports[0].id.clone();
    world.by_hand(&SimRequest::put(&format!("/v2.0/ports/{port}"), json!({"port": {"device_id": "lb-gone"}})));
    world.sent.clear();
    assert_eq!(world.run_on(), BalancerStep::Done);
    let creations = world.sent.iter().filter(|sent| matches!(sent, CloudChange::CreateBalancer { .. })).count();
    assert!(creations <= 9, "{creations} creations while it was not clear whether another writer of ours uses it");
    made(&wish, &mut world);
    assert_ne!(world.actor.balancer().unwrap().vip_port, port);
    assert_eq!(world.actor.balancer().unwrap().vip_address, ADDRESS);
}
