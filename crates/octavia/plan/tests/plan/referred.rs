//! Certificates that a Service refers to, which somebody else has stored.

use gimbal_model::Protocol;
use gimbal_octavia_plan::{BalancerStep, CloudChange};
use gimbal_octavia_sim::SimRequest;
use serde_json::json;

use crate::executor::World;
use crate::services::{change, made, world};

/// The names of the secrets that the listener serves TLS with, the default first.
fn served(world: &World) -> Vec<String> {
    world.cloud.certificates(&world.balancer(), 443).map(<[String]>::to_vec).unwrap_or_default()
}

#[test]
fn a_service_is_served_with_those_that_it_refers_to() {
    let (mut wish, mut world) = world(|wish| {
        (wish.ports, wish.members) = (vec![(Protocol::Tcp, 443)], vec![(1, 443, 1)]);
    });
    let [first, second, third] = ["first", "second", "third"].map(|name| {
        let stored = world.by_hand(&SimRequest::post("/v1/secrets", json!({"name": name})));
        stored["secret_ref"].as_str().unwrap().to_owned()
    });
    wish.tls = vec![second, first.clone()];
    world.actor.want(wish.entry());
    made(&wish, &mut world);
    assert_eq!((world.sent.len(), served(&world)), (1, vec!["second".to_owned(), "first".to_owned()]));
    world.sent.clear();
    world.restart();
    made(&wish, &mut world);
    assert_eq!(world.sent, []);

    let changes = change(&mut world, &mut wish, |wish| wish.tls = vec![third.clone()]);
    let [CloudChange::UpdateListener { id, fields }] = &changes[..] else { panic!("{changes:#?}") };
    assert_eq!(*fields, json!({"default_tls_container_ref": third, "sni_container_refs": []}));
    assert_eq!(served(&world), ["third"]);

    let theirs = json!({"listener": {"default_tls_container_ref": first}});
    world.by_hand(&SimRequest::put(&format!("/v2/lbaas/listeners/{id}"), theirs));
    assert_eq!(served(&world), ["first"]);
    world.actor.look_again();
    made(&wish, &mut world);
    assert_eq!(served(&world), ["third"], "what somebody changed is set back");

    world.actor.want(wish.deleting());
    assert_eq!(world.run(), BalancerStep::Gone);
    assert_eq!(world.cloud.secrets().len(), 3, "they stay with whoever has stored them");
}
