//! Floating IPs: of the pool, kept, and of somebody else.

use gimbal_octavia_plan::{BalancerStep, Block, ChangeOutcome, CloudChange, CloudLook, SeenFloatingIp, ServiceRefusal};
use gimbal_octavia_sim::SimRequest;
use serde_json::{Value, json};

use crate::executor::{Way, World};
use crate::services::{change, made, world};
use crate::wish::Wish;

const ADDRESS: &str = "203.0.113.77";

fn floating(world: &mut World) -> Vec<Value> {
    world.rows("/v2.0/floatingips", "floatingips", &[])
}

/// A floating IP that somebody made, with a description of theirs, and perhaps a port.
fn theirs(world: &mut World, description: &str, port: Option<&str>) -> String {
    let network = world.facts.external.as_ref().unwrap().network.to_string();
    let body = json!({"floatingip": {
        "floating_network_id": network, "floating_ip_address": ADDRESS, "description": description, "project_id": "p1",
        "port_id": port,
    }});
    let made = world.by_hand(&SimRequest::post("/v2.0/floatingips", body));
    made["floatingip"]["id"].as_str().unwrap().to_owned()
}

/// A port of a virtual machine.
fn elsewhere(world: &mut World, subnet: &str) -> String {
    let body = json!({"port": {"fixed_ips": [{"subnet_id": subnet}], "project_id": "p1"}});
    world.by_hand(&SimRequest::post("/v2.0/ports", body))["port"]["id"].as_str().unwrap().to_owned()
}

fn asking() -> (Wish, World) {
    world(|wish| (wish.from_outside, wish.floating, wish.floating_address) = (true, true, Some(ADDRESS)))
}

fn leads_to(world: &mut World, id: &str) -> Value {
    floating(world).into_iter().find(|row| row["id"] == id).unwrap()["port_id"].clone()
}

#[test]
fn one_that_a_user_made_is_led_to_the_vip_and_never_released() {
    let (mut wish, mut world) = asking();
    let id = theirs(&mut world, "of the web team", None);
    made(&wish, &mut world);
    let vip_port = json!(world.actor.balancer().unwrap().vip_port);
    assert_eq!(leads_to(&mut world, &id), vip_port);
    assert_eq!(floating(&mut world).len(), 1);

    // A restart finds it by the port, and changes nothing.
    world.sent.clear();
    world.restart();
    made(&wish, &mut world);
    assert_eq!(world.sent, []);

    // Not wanted any more: it leads nowhere, and is as it was.
    world.advance(std::time::Duration::from_secs(60));
    world.actor.look_again();
    made(&wish, &mut world);
    change(&mut world, &mut wish, |wish| wish.floating = false);
    assert_eq!(
        (leads_to(&mut world, &id), &floating(&mut world)[0]["description"]),
        (Value::Null, &json!("of the web team"))
    );

    // The owner goes.
    change(&mut world, &mut wish, |wish| wish.floating = true);
    world.restart();
    world.actor.want(wish.deleting());
    assert_eq!(world.run(), BalancerStep::Gone);
    assert_eq!((floating(&mut world).len(), leads_to(&mut world, &id)), (1, Value::Null));
}

#[test]
fn one_that_leads_elsewhere_is_a_conflict_until_it_is_free() {
    let (wish, mut world) = asking();
    let port = elsewhere(&mut world, &wish.subnet);
    let id = theirs(&mut world, "", Some(&port));
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Conflict(words)) if words.contains(&port)));
    assert_eq!(leads_to(&mut world, &id), json!(port));
    // The load balancer works meanwhile.
    assert_eq!(crate::wish::forwarded(&world.cloud, &world.balancer()), wish.forwards());
    world.by_hand(&SimRequest::put(&format!("/v2.0/floatingips/{id}"), json!({"floatingip": {"port_id": null}})));
    world.actor.look_again();
    made(&wish, &mut world);
}

#[test]
fn one_that_another_owner_has_is_a_conflict_and_one_that_was_kept_is_not() {
    let others = [("k8s-cluster:c1 k8s-svc-uid:u2", false), ("k8s-cluster:c1 k8s-svc-uid:u2 gimbal:keep", false)];
    for (description, taken) in others.into_iter().chain([("gimbal:keep", true)]) {
        let (wish, mut world) = asking();
        let id = theirs(&mut world, description, None);
        let last = world.run();
        assert_eq!(leads_to(&mut world, &id).is_string(), taken, "{description}: {last:?}");
        assert_eq!(crate::wish::forwarded(&world.cloud, &world.balancer()), wish.forwards());
    }
}

#[test]
fn an_answer_about_another_address_is_no_answer() {
    let (mut wish, mut world) = asking();
    theirs(&mut world, "", None);
    loop {
        let step = world.step();
        if matches!(step, BalancerStep::Look(CloudLook::FloatingIp { .. })) {
            break;
        }
        world.take(&step, Way::Arrives);
    }
    // The address changes while its read is under way.
    let found = floating(&mut world).first().map(SeenFloatingIp::read);
    (wish.floating_address, wish.known) = (Some("203.0.113.78"), true);
    world.actor.want(wish.entry());
    world.actor.found_floating_ip(found);
    let step = world.step();
    assert!(
        matches!(&step, BalancerStep::Look(CloudLook::FloatingIp { address, .. }) if address == "203.0.113.78"),
        "{step:?}"
    );
}

#[test]
fn one_that_somebody_takes_between_look_and_change_is_not_stolen() {
    let (wish, mut world) = asking();
    let id = theirs(&mut world, "", None);
    let port = elsewhere(&mut world, &wish.subnet);
    let change = loop {
        let step = world.step();
        if let BalancerStep::Change(change @ CloudChange::UpdateFloatingIp { .. }) = step {
            break change;
        }
        world.take(&step, Way::Arrives);
    };
    world.by_hand(&SimRequest::put(&format!("/v2.0/floatingips/{id}"), json!({"floatingip": {"port_id": port}})));
    world.change(&change, Way::Arrives);
    assert!(matches!(world.run_on(), BalancerStep::Blocked(Block::Conflict(_))));
    assert_eq!(leads_to(&mut world, &id), json!(port));
}

#[test]
fn one_that_is_taken_away_is_not_taken_back() {
    let (wish, mut world) = asking();
    let id = theirs(&mut world, "", None);
    made(&wish, &mut world);
    let port = elsewhere(&mut world, &wish.subnet);
    world.by_hand(&SimRequest::put(&format!("/v2.0/floatingips/{id}"), json!({"floatingip": {"port_id": port}})));
    world.actor.look_again();
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Conflict(_))));
    world.actor.want(wish.deleting());
    assert_eq!(world.run(), BalancerStep::Gone);
    assert_eq!(leads_to(&mut world, &id), json!(port));
}

#[test]
fn one_of_the_pool_is_kept_where_that_is_wanted_and_is_nobodys_then() {
    let (mut wish, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
    made(&wish, &mut world);
    change(&mut world, &mut wish, |wish| wish.keep = true);
    // Also a writer that was just started knows it.
    world.restart();
    world.actor.want(wish.deleting());
    assert_eq!(world.run(), BalancerStep::Gone);
    let rows = floating(&mut world);
    assert_eq!(rows.len(), 1);
    assert_eq!((&rows[0]["port_id"], &rows[0]["description"]), (&Value::Null, &json!("gimbal:keep")));
    // Whoever asks for its address gets it.
    let address: &'static str = rows[0]["floating_ip_address"].as_str().unwrap().to_owned().leak();
    wish.floating_address = Some(address);
    wish.owner = "u2";
    let mut next = World::new(world.cloud, world.facts, wish.entry());
    made(&wish, &mut next);
    assert_eq!(floating(&mut next).len(), 1);
}

/// A floating IP does not leave its project.
#[test]
fn one_of_ours_in_a_former_project_gives_its_address_back_unless_it_is_kept() {
    for (keep, moves) in [(false, true), (true, false)] {
        let (mut wish, mut world) = asking();
        wish.keep = keep;
        world.actor.want(wish.entry());
        made(&wish, &mut world);
        let first = floating(&mut world).remove(0);
        (wish.project, wish.generation, wish.known) = ("p2", 2, true);
        world.actor.want(wish.entry());
        world.restart();
        let step = world.run();
        let rows = floating(&mut world);
        let row = rows.iter().find(|row| row["floating_ip_address"] == ADDRESS).unwrap();
        assert_eq!((rows.len(), row["id"] != first["id"]), (1, moves), "{step:?}");
        assert_eq!(row["project_id"], if moves { "p2" } else { "p1" });
        let port = world.actor.balancer().unwrap().vip_port.clone();
        assert_eq!((row["port_id"] == port, step == BalancerStep::Done), (moves, moves), "{step:?}");
        if keep {
            assert!(
                matches!(&step, BalancerStep::Blocked(Block::Conflict(words)) if words.contains("another project"))
            );
        }
        assert_eq!(crate::wish::forwarded(&world.cloud, &world.balancer()), wish.forwards());
    }
}

#[test]
fn another_address_moves_the_vip_to_another_floating_ip() {
    let (mut wish, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
    made(&wish, &mut world);
    let id = theirs(&mut world, "", None);
    change(&mut world, &mut wish, |wish| wish.floating_address = Some(ADDRESS));
    let vip_port = json!(world.actor.balancer().unwrap().vip_port);
    assert_eq!((floating(&mut world).len(), leads_to(&mut world, &id)), (1, vip_port));
}

/// What is wanted may be refused, and would be missing for as long as that lasts.
#[test]
fn one_that_serves_leads_there_until_there_is_another_one() {
    let (mut wish, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
    made(&wish, &mut world);
    let id = floating(&mut world)[0]["id"].as_str().unwrap().to_owned();
    let port = json!(world.actor.balancer().unwrap().vip_port);
    world.refuses = Some(|change| {
        let refused = || ChangeOutcome::Refused(ServiceRefusal::Quota("floatingip".to_owned()));
        matches!(change, CloudChange::CreateFloatingIp { .. }).then(refused)
    });
    (wish.floating_address, wish.known, wish.generation) = (Some(ADDRESS), true, wish.generation + 1);
    world.actor.want(wish.entry());
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Quota(_))), "{:?}", world.step());
    assert_eq!(leads_to(&mut world, &id), port);
    world.refuses = None;
    assert_eq!(world.run_on(), BalancerStep::Done);
    let there = floating(&mut world);
    assert_eq!((there.len(), &there[0]["floating_ip_address"], &there[0]["port_id"]), (1, &json!(ADDRESS), &port));
}

/// Somebody writes another description, with or without a look before the owner goes.
#[test]
fn one_of_ours_that_lost_its_mark_gets_it_again_and_goes_with_its_owner() {
    for (keep, looks) in [(false, true), (false, false), (true, true), (true, false)] {
        let (wish, mut world) = world(|wish| (wish.from_outside, wish.floating, wish.keep) = (true, true, keep));
        made(&wish, &mut world);
        let before = floating(&mut world).remove(0);
        let path = format!("/v2.0/floatingips/{}", before["id"].as_str().unwrap());
        world.by_hand(&SimRequest::put(&path, json!({"floatingip": {"description": "mine"}})));
        world.sent.clear();
        if looks {
            world.actor.look_again();
            made(&wish, &mut world);
            world.actor.look_again();
            made(&wish, &mut world);
            assert_eq!((world.sent.len(), &floating(&mut world)[0]["description"]), (1, &before["description"]));
        }
        world.actor.want(wish.deleting());
        assert_eq!(world.run(), BalancerStep::Gone);
        let left: Vec<Value> = floating(&mut world).iter().map(|row| row["description"].clone()).collect();
        assert_eq!(left, [json!("gimbal:keep")][..usize::from(keep)], "looks: {looks}");
    }
}

#[test]
fn one_that_was_led_to_the_vip_by_hand_goes_after_a_while_unless_it_is_kept() {
    for (description, tags, goes) in
        [("", json!([]), true), ("gimbal:keep", json!([]), false), ("", json!(["gimbal:keep"]), false)]
    {
        let (wish, mut world) = world(|wish| wish.from_outside = true);
        made(&wish, &mut world);
        let port = world.actor.balancer().unwrap().vip_port.clone();
        let id = theirs(&mut world, description, Some(&port));
        world.by_hand(&SimRequest::put(&format!("/v2.0/floatingips/{id}/tags"), json!({"tags": tags})));
        world.actor.look_again();
        made(&wish, &mut world);
        assert_eq!(leads_to(&mut world, &id), json!(port));
        world.advance(std::time::Duration::from_secs(60));
        world.actor.look_again();
        made(&wish, &mut world);
        assert_eq!(leads_to(&mut world, &id).is_null(), goes, "{description} {tags}");
        assert_eq!(floating(&mut world).len(), 1);
    }
}

/// Whether Neutron can lead one of another network to the VIP shows only when it is asked to.
#[test]
fn one_that_serves_leads_there_until_one_of_another_network_does() {
    let (mut wish, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
    made(&wish, &mut world);
    let id = floating(&mut world)[0]["id"].as_str().unwrap().to_owned();
    let port = json!(world.actor.balancer().unwrap().vip_port);
    let subnet = world.cloud.add_subnet("198.51.100.0/24");
    let network: gimbal_kuryr_model::Text = world.cloud.network_of(&subnet).unwrap().into();
    world.refuses = Some(|change| {
        let refused = || ChangeOutcome::Refused(ServiceRefusal::Unreachable("not reachable from subnet".to_owned()));
        let leads = matches!(change, CloudChange::UpdateFloatingIp { fields, .. } if fields["port_id"].is_string());
        leads.then(refused)
    });
    wish.floating_network = Some(network);
    (wish.known, wish.generation) = (true, wish.generation + 1);
    world.actor.want(wish.entry());
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Unsupported(_))), "{:?}", world.step());
    assert_eq!(leads_to(&mut world, &id), port);
    world.refuses = None;
    assert_eq!(world.run_on(), BalancerStep::Done);
    let there = floating(&mut world);
    assert_eq!((there.len(), &there[0]["port_id"]), (1, &port));
    assert_ne!(there[0]["id"], json!(id));
}

/// One that a user made serves as well.
#[test]
fn one_of_a_user_leads_there_until_there_is_another_one() {
    let (mut wish, mut world) = asking();
    let id = theirs(&mut world, "of the web team", None);
    made(&wish, &mut world);
    let port = json!(world.actor.balancer().unwrap().vip_port);
    world.refuses = Some(|change| {
        let refused = || ChangeOutcome::Refused(ServiceRefusal::Quota("floatingip".to_owned()));
        matches!(change, CloudChange::CreateFloatingIp { .. }).then(refused)
    });
    (wish.floating_address, wish.known, wish.generation) = (Some("203.0.113.78"), true, wish.generation + 1);
    world.actor.want(wish.entry());
    // Whoever leads one to the VIP by hand has a while.
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Conflict(_))), "{:?}", world.step());
    for _ in 0..2 {
        world.advance(std::time::Duration::from_secs(120));
        world.actor.look_again();
        world.run();
    }
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Quota(_))), "{:?}", world.step());
    assert_eq!(leads_to(&mut world, &id), port);
    world.refuses = None;
    assert_eq!(world.run_on(), BalancerStep::Done);
    assert_eq!(leads_to(&mut world, &id), json!(null));
}
