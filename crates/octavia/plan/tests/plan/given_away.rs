//! A port of ours whose load balancer somebody has taken over by taking the mark off.

use std::time::Duration;

use gimbal_kuryr_model::DesiredEntry;
use gimbal_octavia_plan::{BalancerStep, Block, CloudChange};
use gimbal_octavia_sim::SimRequest;
use serde_json::{Value, json};

use crate::executor::{Way, World};
use crate::services::{made, world};
use crate::wish::Wish;

/// A load balancer with a port of ours, its ID and the port's, and what the mark was.
fn taken_over(how: impl FnOnce(&mut Wish)) -> (Wish, World, String, String, Value) {
    let (wish, mut world) = world(|wish| {
        wish.from_outside = true;
        how(wish);
    });
    made(&wish, &mut world);
    let id = world.balancer();
    let port = world.actor.balancer().unwrap().vip_port.clone();
    let row = world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]).remove(0);
    let mark = json!({"tags": row["tags"], "description": row["description"]});
    remark(&mut world, &id, &json!({"tags": ["theirs"], "description": "mine", "name": "mine"}));
    world.sent.clear();
    (wish, world, id, port, mark)
}

fn remark(world: &mut World, id: &str, fields: &Value) {
    world.by_hand(&SimRequest::put(&format!("/v2/lbaas/loadbalancers/{id}"), json!({"loadbalancer": fields})));
    world.actor.look_again();
}

fn ports(world: &mut World) -> Vec<Value> {
    world.rows("/v2.0/ports", "ports", &[])
}

#[test]
fn nothing_is_made_on_the_port_until_the_mark_is_back_or_the_load_balancer_is_gone() {
    for address in [None, Some("10.0.0.50")] {
        let (wish, mut world, id, port, mark) = taken_over(|wish| wish.address = address);
        let look_later = |world: &mut World| {
            world.advance(Duration::from_secs(301));
            world.actor.look_again();
        };
        for _ in 0..3 {
            let last = world.run();
            assert!(
                matches!(&last, BalancerStep::Blocked(Block::Conflict(words)) if words.contains(&id) && words.contains(&port)),
                "{last:?}"
            );
            assert_eq!(world.sent, Vec::<CloudChange>::new());
            look_later(&mut world);
        }
        // At once, although the conflict was to be logged for minutes.
        world.run();
        remark(&mut world, &id, &mark);
        made(&wish, &mut world);
        assert_eq!((world.balancer(), &world.actor.balancer().unwrap().vip_port), (id.clone(), &port));

        remark(&mut world, &id, &json!({"tags": [], "description": ""}));
        world.run();
        world.by_hand(&SimRequest::delete(&format!("/v2/lbaas/loadbalancers/{id}")).with_query("cascade", "true"));
        world.advance(Duration::from_secs(301));
        assert_eq!(world.run_on(), BalancerStep::Done);
        made(&wish, &mut world);
        assert_eq!(world.actor.balancer().unwrap().vip_port, port);
    }
}

#[test]
fn the_owner_goes_and_leaves_the_port_without_a_mark() {
    let (_, mut world, id, port, _) = taken_over(|_| {});
    let owner = world.actor.desired().owner().clone();
    world.actor.want(DesiredEntry::Deleting { owner });
    assert_eq!(world.run_on(), BalancerStep::Gone);
    let left = ports(&mut world);
    assert_eq!((left.len(), &left[0]["id"], &left[0]["description"]), (1, &json!(port), &json!("")));
    let balancers = world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]);
    assert_eq!((balancers.len(), &balancers[0]["id"], &balancers[0]["name"]), (1, &json!(id), &json!("mine")));
}

/// The load balancer that is adopted instead has another port.
#[test]
fn beside_another_load_balancer_the_port_stays() {
    let (wish, mut world, id, port, mark) = taken_over(|_| {});
    let fields = json!({"project_id": "p1", "vip_subnet_id": wish.subnet, "tags": mark["tags"], "description": mark["description"]});
    world.by_hand(&SimRequest::post("/v2/lbaas/loadbalancers", json!({"loadbalancer": fields})));
    world.actor.look_again();
    assert_eq!(world.run_on(), BalancerStep::Done);
    let left = |world: &mut World| ports(world).iter().any(|row| row["id"] == port.as_str());
    assert!(left(&mut world), "{:?}", world.sent);
    assert_ne!(world.balancer(), id);
    world.advance(Duration::from_secs(301));
    world.actor.look_again();
    world.run_on();
    assert!(left(&mut world), "{:?}", world.sent);
}

/// Its load balancer went since the last look, so that nothing else would remove it.
#[test]
fn a_port_that_is_free_again_goes_with_its_owner() {
    let (_, mut world, id, _, _) = taken_over(|_| {});
    world.run();
    world.by_hand(&SimRequest::delete(&format!("/v2/lbaas/loadbalancers/{id}")).with_query("cascade", "true"));
    world.advance(Duration::from_secs(20));
    let owner = world.actor.desired().owner().clone();
    world.actor.want(DesiredEntry::Deleting { owner });
    assert_eq!(world.run_on(), BalancerStep::Gone);
    assert_eq!(ports(&mut world), Vec::<Value>::new());
}

/// It is being deleted, and the port would stay without anybody.
#[test]
fn a_port_whose_load_balancer_goes_goes_with_its_owner() {
    let (_, mut world, id, _, _) = taken_over(|_| {});
    world.run();
    let delete = SimRequest::delete(&format!("/v2/lbaas/loadbalancers/{id}")).with_query("cascade", "true");
    assert_eq!(world.cloud.handle(&delete).status, 204);
    let owner = world.actor.desired().owner().clone();
    world.actor.want(DesiredEntry::Deleting { owner });
    assert_eq!(world.run_on(), BalancerStep::Gone);
    assert_eq!(ports(&mut world), Vec::<Value>::new());
}

#[test]
fn what_a_person_wrote_beside_the_mark_of_the_port_stays() {
    let (_, mut world, _, port, _) = taken_over(|_| {});
    let marked = ports(&mut world).remove(0)["description"].as_str().unwrap().to_owned();
    let fields = json!({"port": {"description": format!("ask {marked} Ann")}});
    world.by_hand(&SimRequest::put(&format!("/v2.0/ports/{port}"), fields));
    world.actor.look_again();
    world.run();
    let owner = world.actor.desired().owner().clone();
    world.actor.want(DesiredEntry::Deleting { owner });
    assert_eq!(world.run_on(), BalancerStep::Gone);
    assert_eq!(ports(&mut world).remove(0)["description"], "ask Ann");
}

/// The owner goes after its port was made and before its load balancer was, and a person has made one on the port meanwhile.
#[test]
fn a_port_on_which_somebody_has_built_since_the_last_look_stays_when_its_owner_goes() {
    let (_, mut world) = world(|wish| wish.from_outside = true);
    let change = world.run_to_change();
    assert!(matches!(change, CloudChange::CreatePort { .. }), "{change:?}");
    world.take(&BalancerStep::Change(change), Way::Arrives);
    let port = ports(&mut world).remove(0)["id"].clone();
    let theirs = json!({"loadbalancer": {"name": "mine", "project_id": "p1", "vip_port_id": port}});
    world.by_hand(&SimRequest::post("/v2/lbaas/loadbalancers", theirs));
    let owner = world.actor.desired().owner().clone();
    world.actor.want(DesiredEntry::Deleting { owner });
    assert_eq!(world.run_on(), BalancerStep::Gone);
    let left = ports(&mut world);
    assert_eq!((left.len(), &left[0]["id"], &left[0]["description"]), (1, &port, &json!("")));
}
