//! What somebody else made: kept listeners, load balancers to take over, wishes that are refused whole.

use std::time::Duration;

use gimbal_kuryr_model::ClientRanges;
use gimbal_octavia_plan::{BalancerStep, Block, CloudChange, CloudLook, SeenBalancer};
use gimbal_octavia_sim::{Fate, SimRequest};
use serde_json::{Value, json};

use crate::executor::{Way, World};
use crate::services::{change, made, world};
use crate::wish::{Wish, forwarded};

fn replace_listener(world: &mut World, tags: &Value) -> String {
    let balancer = world.balancer();
    let listener = world.actor.balancer().unwrap().listeners[0].id.clone();
    world.by_hand(&SimRequest::delete(&format!("/v2/lbaas/listeners/{listener}")));
    let body =
        json!({"listener": {"loadbalancer_id": balancer, "protocol": "HTTP", "protocol_port": 80, "tags": tags}});
    let made = world.by_hand(&SimRequest::post("/v2/lbaas/listeners", body));
    world.actor.look_again();
    made["listener"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_listener_that_somebody_keeps_stays_whatever_it_speaks() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    let kept = replace_listener(&mut world, &json!(["gimbal:keep"]));
    for _ in 0..3 {
        assert!(matches!(world.run(), BalancerStep::Blocked(Block::Conflict(words)) if words.contains(&kept)));
        world.advance(Duration::from_secs(60));
        world.actor.look_again();
    }
    let listeners = world.rows("/v2/lbaas/listeners", "listeners", &[]);
    assert_eq!((listeners.len(), &listeners[0]["id"]), (1, &json!(kept)));
    // Also when the port is no longer wanted.
    wish.ports = vec![(gimbal_model::Protocol::Tcp, 443)];
    wish.members.clear();
    world.actor.want(wish.entry());
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(world.rows("/v2/lbaas/listeners", "listeners", &[]).len(), 2);
}

#[test]
fn a_listener_that_somebody_made_in_place_of_ours_goes_after_a_while() {
    let (wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    replace_listener(&mut world, &json!([]));
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Conflict(_))));
    world.advance(Duration::from_secs(60));
    world.actor.look_again();
    made(&wish, &mut world);
}

#[test]
fn a_monitor_is_marked_however_it_was_made() {
    for populated in [true, false] {
        let (wish, mut world) = world(|wish| (wish.monitor, wish.address) = (true, Some("10.0.0.50")));
        world.cloud.provider_mut().populated = populated;
        made(&wish, &mut world);
        let row = &world.rows("/v2/lbaas/healthmonitors", "healthmonitors", &[])[0];
        assert_eq!(row["name"], "shop/web:TCP:80");
        let tags = json!(["gimbal-cluster:prod1", "gimbal-port:TCP:80", "k8s-cluster:c1", "k8s-svc-uid:u1"]);
        assert_eq!(row["tags"], tags);
    }
}

#[test]
fn the_address_that_a_member_is_checked_at_is_set_back() {
    let (wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    let pool = world.actor.balancer().unwrap().pools[0].clone();
    let path = format!("/v2/lbaas/pools/{}/members/{}", pool.id, pool.members[0].id);
    world.by_hand(&SimRequest::put(&path, json!({"member": {"monitor_address": "10.9.9.9"}})));
    world.actor.look_again();
    made(&wish, &mut world);
    let row = world.rows(&format!("/v2/lbaas/pools/{}/members", pool.id), "members", &[]).remove(0);
    assert_eq!(row["monitor_address"], Value::Null);
}

#[test]
fn a_member_that_moves_to_another_subnet_without_batches_is_made_anew() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    world.cloud.provider_mut().batch = false;
    let subnet = wish.subnet.clone();
    let changes = change(&mut world, &mut wish, |wish| wish.member_subnet = Some(subnet));
    let gone = changes.iter().filter(|one| matches!(one, CloudChange::DeleteMember { .. })).count();
    let new = changes.iter().filter(|one| matches!(one, CloudChange::CreateMember { .. })).count();
    // The batch that is refused comes first.
    assert_eq!((gone, new, changes.len()), (3, 3, 7), "{changes:#?}");
}

#[test]
fn an_old_octavia_gets_whole_batches() {
    let (mut wish, mut world) = world(|_| {});
    (world.facts.api_version.major, world.facts.api_version.minor) = (2, 10);
    made(&wish, &mut world);
    let changes = change(&mut world, &mut wish, |wish| wish.members.push((4, 80, 1)));
    let [CloudChange::SetMembers { members, additive: false, .. }] = &changes[..] else { panic!("{changes:#?}") };
    assert_eq!(members.len(), 4);
}

fn by_kuryr(world: &mut World, subnet: &str, tags: &Value) -> SeenBalancer {
    let pool = json!({"name": "shop/web:TCP:80", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN",
        "members": [{"address": "10.1.0.1", "protocol_port": 8080}]});
    let listener = json!({"name": "kube_service_x_shop_web:80", "protocol": "TCP", "protocol_port": 80,
        "default_pool": {"name": "shop/web:TCP:80"}});
    let body = json!({"loadbalancer": {
        "project_id": "p1", "vip_subnet_id": subnet, "name": "kube_service_x_shop_web", "tags": tags,
        "listeners": [listener], "pools": [pool],
    }});
    SeenBalancer::read_tree(&world.by_hand(&SimRequest::post("/v2/lbaas/loadbalancers", body))["loadbalancer"])
}

#[test]
fn what_another_program_made_is_taken_over_without_a_new_address() {
    let (wish, mut world) = world(|_| {});
    let theirs = by_kuryr(&mut world, &wish.subnet, &json!(["kube_service_x_shop_web"]));
    let adoption = world.actor.adoption(&theirs).unwrap();
    assert_eq!(adoption.differences, [""; 0]);
    let kinds: Vec<_> = adoption.changes.iter().map(|one| one.request().resource).collect();
    assert_eq!(kinds, ["loadbalancer", "listener", "pool"]);
    for change in &adoption.changes {
        world.change(change, Way::Arrives);
        world.advance(Duration::from_secs(5));
    }
    world.restart();
    made(&wish, &mut world);
    let row = world.actor.balancer().unwrap().clone();
    assert_eq!((&row.id, &row.vip_address, row.name.as_str()), (&theirs.id, &theirs.vip_address, "shop/web"));
    assert!(row.tags.contains(&"kube_service_x_shop_web".to_owned()), "others' tags stay");
    // There is nothing more to take over.
    assert_eq!(world.actor.adoption(&row).unwrap().changes, []);
}

#[test]
fn the_first_change_of_an_adoption_is_enough() {
    let (wish, mut world) = world(|_| {});
    let theirs = by_kuryr(&mut world, &wish.subnet, &json!([]));
    let first = world.actor.adoption(&theirs).unwrap().changes.remove(0);
    world.change(&first, Way::Arrives);
    world.advance(Duration::from_secs(5));
    world.restart();
    made(&wish, &mut world);
    assert_eq!(world.balancer(), theirs.id);
    assert_eq!(world.rows("/v2/lbaas/pools", "pools", &[]).len(), 1);
}

#[test]
fn an_adoption_says_what_would_be_replaced_and_takes_nothing_that_is_owned() {
    let (wish, mut world) = world(|wish| wish.address = Some("10.0.0.50"));
    let theirs = by_kuryr(&mut world, &wish.subnet, &json!([]));
    let adoption = world.actor.adoption(&theirs).unwrap();
    assert_eq!(adoption.differences.len(), 1, "{adoption:#?}");
    let owned = by_kuryr(&mut world, &wish.subnet, &json!(["k8s-cluster:c1", "k8s-svc-uid:u2"]));
    assert!(world.actor.adoption(&owned).unwrap_err().contains("u2"));
    // Somebody has emptied its tags.
    for description in ["gimbal-cluster:other k8s-cluster:9 k8s-svc-uid:u9", "k8s-svc-uid:u2"] {
        let described = SeenBalancer { description: description.to_owned(), ..theirs.clone() };
        assert!(world.actor.adoption(&described).unwrap_err().contains("is marked for another owner"), "{description}");
    }
}

/// A load balancer of somebody else that was asked for by its ID and taken over.
fn adopted(change: impl FnOnce(&mut Wish)) -> (Wish, World) {
    let (mut wish, mut world) = world(change);
    let theirs = by_kuryr(&mut world, &wish.subnet, &json!([]));
    wish.adopt = Some(theirs.id.clone());
    world.actor.want(wish.entry());
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Conflict(_))));
    assert_eq!(world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]).len(), 1);
    let first = world.actor.adoption(&theirs).unwrap().changes.remove(0);
    world.change(&first, Way::Arrives);
    world.advance(Duration::from_secs(5));
    world.actor.look_again();
    made(&wish, &mut world);
    assert_eq!(forwarded(&world.cloud, &theirs.id), wish.forwards());
    (wish, world)
}

#[test]
fn a_load_balancer_that_is_asked_for_by_id_is_not_made() {
    adopted(|_| {});
}

/// One that was adopted is made again like any other, though its ID is still asked for.
#[test]
fn an_adopted_load_balancer_that_is_gone_is_made_again() {
    for (restarts, breaks) in [(false, false), (true, false), (false, true), (true, true)] {
        let (mut wish, mut world) = adopted(|wish| (wish.from_outside, wish.floating) = (breaks, breaks));
        let theirs = world.balancer();
        if breaks {
            world.cloud.provider_mut().failover = false;
            world.expect(Fate::Breaks);
            let fields = json!({"loadbalancer": {"name": "broken"}});
            world.by_hand(&SimRequest::put(&format!("/v2/lbaas/loadbalancers/{theirs}"), fields));
        } else {
            let path = format!("/v2/lbaas/loadbalancers/{theirs}");
            world.by_hand(&SimRequest::delete(&path).with_query("cascade", "true"));
        }
        world.actor.look_again();
        if restarts {
            world.restart();
        }
        assert_eq!(world.run_on(), BalancerStep::Done, "{restarts} {breaks}");
        assert_ne!(world.balancer(), theirs, "{restarts} {breaks}");
        assert_eq!(forwarded(&world.cloud, &world.balancer()), wish.forwards());
        change(&mut world, &mut wish, |wish| wish.members = vec![(7, 80, 1)]);
        if restarts {
            world.restart();
        }
        change(&mut world, &mut wish, |wish| wish.clients = ClientRanges::NoOne);
    }
}

#[test]
fn an_id_that_is_asked_for_later_does_not_stop_what_serves() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    let ours = world.balancer();
    let theirs = by_kuryr(&mut world, &wish.subnet, &json!([]));
    wish.adopt = Some(theirs.id.clone());
    for host in [7, 8] {
        (wish.members, wish.generation, wish.known) = (vec![(host, 80, 1)], wish.generation + 1, true);
        world.actor.want(wish.entry());
        let step = world.run();
        assert!(
            matches!(&step, BalancerStep::Blocked(Block::Conflict(words)) if words.contains(&theirs.id)),
            "{step:?}"
        );
        assert_eq!(forwarded(&world.cloud, &ours), wish.forwards());
        assert_eq!(world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]).len(), 2);
        world.restart();
    }
    let theirs = format!("/v2/lbaas/loadbalancers/{}", theirs.id);
    world.by_hand(&SimRequest::delete(&theirs).with_query("cascade", "true"));
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.step(), BalancerStep::Done);
}

#[test]
fn an_id_of_nothing_asks_for_nothing() {
    let (mut wish, mut world) = world(|_| {});
    wish.adopt = Some("00000000-0000-4000-8000-00000000dead".to_owned());
    world.actor.want(wish.entry());
    made(&wish, &mut world);
    // It is asked for once.
    (wish.members, wish.generation, wish.known) = (vec![(7, 80, 1)], 2, true);
    world.actor.want(wish.entry());
    let mut looks = 0;
    while world.step() != BalancerStep::Done {
        let step = world.step();
        looks += usize::from(matches!(step, BalancerStep::Look(CloudLook::Balancer { .. })));
        world.take(&step, Way::Arrives);
    }
    assert_eq!((looks, forwarded(&world.cloud, &world.balancer())), (0, wish.forwards()));
}

#[test]
fn a_load_balancer_that_is_awaited_and_goes_is_awaited_no_longer() {
    let (mut wish, mut world) = world(|_| {});
    let theirs = by_kuryr(&mut world, &wish.subnet, &json!([]));
    wish.adopt = Some(theirs.id.clone());
    world.actor.want(wish.entry());
    world.run_for(Duration::from_secs(600));
    assert!(matches!(world.step(), BalancerStep::Blocked(Block::Conflict(_))), "{:?}", world.step());
    assert_eq!(world.sent, []);
    let path = format!("/v2/lbaas/loadbalancers/{}", theirs.id);
    world.by_hand(&SimRequest::delete(&path).with_query("cascade", "true"));
    world.run_for(Duration::from_secs(120));
    made(&wish, &mut world);
}

#[test]
fn a_listener_that_was_led_to_the_pool_of_another_port_is_led_back() {
    let (mut wish, mut world) = world(|wish| wish.ports.push((gimbal_model::Protocol::Tcp, 81)));
    wish.members.push((7, 81, 1));
    world.actor.want(wish.entry());
    made(&wish, &mut world);
    let balancer = world.actor.balancer().unwrap();
    let at = |port: u16| balancer.listeners.iter().find(|one| one.port == port).unwrap();
    let (first, own, other) = (at(80).id.clone(), at(80).default_pool.clone(), at(81).default_pool.clone());
    let fields = json!({"listener": {"default_pool_id": other}});
    world.by_hand(&SimRequest::put(&format!("/v2/lbaas/listeners/{first}"), fields));
    world.actor.look_again();
    made(&wish, &mut world);
    let balancer = world.actor.balancer().unwrap();
    assert_eq!(balancer.listeners.iter().find(|one| one.id == first).unwrap().default_pool, own);
}
