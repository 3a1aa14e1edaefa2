//! The port of a VIP that is ours, and that somebody has deleted. Octavia hears nothing of it.

use std::time::Duration;

use gimbal_octavia_plan::{BalancerStep, ChangeOutcome, CloudChange, ServiceRefusal};
use gimbal_octavia_sim::SimRequest;
use serde_json::{Value, json};

use crate::executor::World;
use crate::services::{change, made, world};
use crate::wish::{Wish, forwarded};

/// A load balancer from outside whose port is gone. Returns its ID too.
fn without_port(wants: impl FnOnce(&mut Wish)) -> (Wish, World, String) {
    let (wish, mut world) = world(|wish| {
        wish.from_outside = true;
        wants(wish);
    });
    made(&wish, &mut world);
    let (balancer, port) = (world.balancer(), world.actor.balancer().unwrap().vip_port.clone());
    world.by_hand(&SimRequest::delete(&format!("/v2.0/ports/{port}")));
    world.sent.clear();
    world.actor.look_again();
    (wish, world, balancer)
}

/// Where the only floating IP leads.
fn leads_to(world: &mut World) -> Value {
    world.rows("/v2.0/floatingips", "floatingips", &[]).remove(0)["port_id"].clone()
}

fn ids(world: &mut World, path: &str, key: &str) -> Vec<String> {
    world.rows(path, key, &[]).iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

/// Whoever owns the load balancer goes, and nothing of it stays.
fn goes(mut world: World, wish: &Wish) {
    world.actor.want(wish.deleting());
    assert_eq!(world.run_on(), BalancerStep::Gone);
    for (path, key) in
        [("/v2/lbaas/loadbalancers", "loadbalancers"), ("/v2.0/ports", "ports"), ("/v2.0/floatingips", "floatingips")]
    {
        assert_eq!(ids(&mut world, path, key), Vec::<String>::new());
    }
}

/// Clients that reach the VIP still do, and another load balancer would have another address.
#[test]
fn without_a_floating_ip_it_serves_on() {
    let (mut wish, mut world, balancer) = without_port(|_| {});
    world.run_for(Duration::from_secs(600));
    assert_eq!(world.sent, []);
    change(&mut world, &mut wish, |wish| wish.members.push((9, 80, 1)));
    assert_eq!(ids(&mut world, "/v2/lbaas/loadbalancers", "loadbalancers"), [balancer]);
    goes(world, &wish);
}

/// No floating IP can lead to it any more.
#[test]
fn behind_a_floating_ip_another_one_takes_its_place() {
    let (mut wish, mut world, before) = without_port(|wish| wish.floating = true);
    let floating = ids(&mut world, "/v2.0/floatingips", "floatingips");
    assert_eq!(leads_to(&mut world), Value::Null);
    // Its members change meanwhile.
    wish.members.push((9, 80, 1));
    world.actor.want(wish.entry());
    world.run_for(Duration::from_secs(30));
    assert_eq!(ids(&mut world, "/v2/lbaas/loadbalancers", "loadbalancers"), std::slice::from_ref(&before));
    assert_eq!(forwarded(&world.cloud, &before), wish.forwards());
    world.run_for(Duration::from_secs(180));
    let after = ids(&mut world, "/v2/lbaas/loadbalancers", "loadbalancers");
    assert!(after.len() == 1 && after[0] != before, "{after:?}, it was {before}");
    assert_eq!(leads_to(&mut world), world.actor.balancer().unwrap().vip_port.as_str());
    assert_eq!(ids(&mut world, "/v2.0/floatingips", "floatingips"), floating, "the address is the same");
    made(&wish, &mut world);
    // The other one was there before it went.
    let creates = world.sent.iter().position(|change| matches!(change, CloudChange::CreateBalancer { .. })).unwrap();
    let deletes = world.sent.iter().position(|change| matches!(change, CloudChange::DeleteBalancer { .. })).unwrap();
    assert!(creates < deletes, "{:#?}", world.sent);
    world.sent.clear();
    world.run_for(Duration::from_secs(600));
    assert_eq!(world.sent, [], "it is at rest");
    goes(world, &wish);
}

/// One that was just started finds it out too.
#[test]
fn after_a_restart_another_one_takes_its_place() {
    let (wish, mut world, before) = without_port(|wish| wish.floating = true);
    world.restart();
    world.run_for(Duration::from_secs(210));
    assert_ne!(world.balancer(), before);
    assert_eq!(leads_to(&mut world), world.actor.balancer().unwrap().vip_port.as_str());
    made(&wish, &mut world);
}

/// With an address that is asked for, the former one goes first.
#[test]
fn at_an_address_that_is_asked_for_it_is_made_again() {
    let (wish, mut world, before) = without_port(|wish| (wish.floating, wish.address) = (true, Some("10.0.0.50")));
    world.run_for(Duration::from_secs(210));
    assert_ne!(world.balancer(), before);
    let balancer = world.actor.balancer().unwrap().clone();
    assert_eq!(balancer.vip_address, "10.0.0.50");
    assert_eq!(leads_to(&mut world), balancer.vip_port.as_str());
    made(&wish, &mut world);
    goes(world, &wish);
}

/// Somebody may have taken our mark off the port: it is there nevertheless.
#[test]
fn a_port_that_is_there_without_our_mark_is_the_vips() {
    let (wish, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
    made(&wish, &mut world);
    let (balancer, port) = (world.balancer(), world.actor.balancer().unwrap().vip_port.clone());
    let body = json!({"port": {"description": ""}});
    world.by_hand(&SimRequest::put(&format!("/v2.0/ports/{port}"), body));
    let floating = ids(&mut world, "/v2.0/floatingips", "floatingips").remove(0);
    let away = json!({"floatingip": {"port_id": null}});
    world.by_hand(&SimRequest::put(&format!("/v2.0/floatingips/{floating}"), away));
    world.actor.look_again();
    world.run_for(Duration::from_secs(300));
    assert_eq!((world.balancer(), leads_to(&mut world)), (balancer, Value::from(port)));
}

/// Whatever Neutron says of a port that is seen: another one would be no better.
#[test]
fn a_load_balancer_whose_port_is_seen_stays() {
    let (wish, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
    made(&wish, &mut world);
    let before = world.balancer();
    let floating = ids(&mut world, "/v2.0/floatingips", "floatingips").remove(0);
    let away = json!({"floatingip": {"port_id": null}});
    world.by_hand(&SimRequest::put(&format!("/v2.0/floatingips/{floating}"), away));
    world.actor.look_again();
    world.refuses = Some(|change| {
        let leads = matches!(change, CloudChange::UpdateFloatingIp { fields, .. } if fields["port_id"].is_string());
        leads.then_some(ChangeOutcome::Refused(ServiceRefusal::NotFound))
    });
    world.run_for(Duration::from_secs(3600));
    assert_eq!(ids(&mut world, "/v2/lbaas/loadbalancers", "loadbalancers"), [before]);
    assert!((5..30).contains(&world.sent.len()), "it is tried again, less and less often: {}", world.sent.len());
}
