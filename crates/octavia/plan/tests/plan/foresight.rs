//! The changes that would follow are those that follow.

use std::time::Duration;

use gimbal_kuryr_model::{ClientRanges, ProviderAbilities};
use gimbal_model::Protocol;
use gimbal_octavia_plan::{BalancerStep, ChangeOutcome, CloudChange, PlannedStep, ServiceRefusal};
use gimbal_octavia_sim::SimRequest;
use serde_json::{Value, json};

use crate::executor::{Way, World};
use crate::router_wish::router;
use crate::services::{made, world};
use crate::wish::Wish;

fn planned(world: &World) -> Vec<PlannedStep> {
    world.actor.planned(&world.facts, world.cloud.now(), 100).unwrap()
}

/// Returns a value without IDs: those of new objects are not known before.
fn without_ids(value: Value) -> Value {
    match value {
        Value::String(text) if text.starts_with("new-") || text.len() == 36 && text.matches('-').count() == 4 => {
            json!("ID")
        }
        Value::Array(all) => all.into_iter().map(without_ids).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, without_ids(value))).collect(),
        other => other,
    }
}

fn brief<'a>(changes: impl IntoIterator<Item = &'a CloudChange>) -> Vec<String> {
    let short = |change: &CloudChange| {
        let request = change.request();
        format!("{:?} {} {}", request.verb, request.resource, without_ids(request.body))
    };
    changes.into_iter().map(short).collect()
}

/// Looks, and checks that what is planned then is what is made. Returns the kinds of the changes.
#[track_caller]
fn as_planned(world: &mut World) -> Vec<&'static str> {
    world.actor.look_again();
    world.take(&world.step(), Way::Arrives);
    world.sent.clear();
    let planned = planned(world);
    assert!(matches!(world.run(), BalancerStep::Done | BalancerStep::Gone));
    let (expected, sent) = (brief(planned.iter().map(|step| &step.change)), brief(&world.sent));
    assert_eq!(expected, sent, "planned, and sent");
    world.sent.iter().map(|change| change.request().resource).collect()
}

/// Wants something else, and checks the same.
#[track_caller]
fn changed(world: &mut World, wish: &mut Wish, change: impl FnOnce(&mut Wish)) -> Vec<&'static str> {
    change(wish);
    wish.generation += 1;
    wish.known = true;
    world.actor.want(wish.entry());
    as_planned(world)
}

#[test]
fn nothing_is_planned_before_the_first_look_and_where_all_is_done() {
    let (wish, mut world) = world(|_| {});
    assert_eq!(world.actor.planned(&world.facts, Duration::ZERO, 100), None);
    made(&wish, &mut world);
    assert_eq!(planned(&world), []);
}

#[test]
fn from_the_creation_to_the_removal() {
    for stepwise in [false, true] {
        let (mut wish, mut world) = world(|wish| {
            (wish.from_outside, wish.floating, wish.monitor) = (true, true, true);
        });
        if stepwise {
            let lacks =
                ProviderAbilities { populated_create: false, batch_members: false, ..ProviderAbilities::default() };
            world.facts.providers.insert("lab".into(), lacks);
        }
        let kinds = as_planned(&mut world);
        assert_eq!(
            (kinds[0], kinds[1], kinds.len()),
            ("port", "loadbalancer", if stepwise { 9 } else { 3 }),
            "{kinds:?}"
        );
        changed(&mut world, &mut wish, |wish| wish.members = vec![(2, 80, 0), (4, 80, 1)]);
        changed(&mut world, &mut wish, |wish| {
            wish.ports.push((Protocol::Udp, 53));
            wish.members.push((1, 53, 1));
            (wish.monitor, wish.timeout) = (false, Some(40_000));
        });
        let only = || ClientRanges::Only(["192.0.2.0/24".parse().unwrap()].into());
        changed(&mut world, &mut wish, |wish| wish.clients = only());
        changed(&mut world, &mut wish, |wish| {
            wish.ports.remove(0);
            wish.clients = ClientRanges::Everyone;
        });
        let kinds = changed(&mut world, &mut wish, |wish| wish.floating = false);
        assert_eq!(kinds, ["floatingip"; 2]);
        world.actor.want(wish.deleting());
        assert_eq!(as_planned(&mut world), ["loadbalancer", "port"]);
    }
}

#[test]
fn another_load_balancer_takes_its_place() {
    let (mut wish, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
    made(&wish, &mut world);
    // Right after its start a writer waits for what another one may have sent.
    world.advance(Duration::from_secs(20));
    let kinds = changed(&mut world, &mut wish, |wish| wish.flavor = Some("f0000000-0000-4000-8000-000000000000"));
    assert_eq!(kinds, ["port", "loadbalancer", "floatingip", "loadbalancer", "port"]);
}

#[test]
fn what_people_have_changed_is_set_back() {
    let (wish, mut world) = world(|wish| wish.monitor = true);
    made(&wish, &mut world);
    let balancer = world.actor.balancer().unwrap().clone();
    let (listener, pool) = (&balancer.listeners[0].id, &balancer.pools[0]);
    for (kind, id, fields) in [
        ("loadbalancer", &balancer.id, json!({"name": "theirs", "admin_state_up": false})),
        ("listener", listener, json!({"name": "theirs", "allowed_cidrs": ["192.0.2.0/24"]})),
        ("pool", &pool.id, json!({"name": "theirs"})),
        ("healthmonitor", &pool.monitor.as_ref().unwrap().id, json!({"delay": 99})),
    ] {
        world.by_hand(&SimRequest::put(&format!("/v2/lbaas/{kind}s/{id}"), json!({kind: fields})));
    }
    let kinds = as_planned(&mut world);
    assert_eq!(kinds, ["healthmonitor", "listener", "listener", "pool", "loadbalancer"]);
}

#[test]
fn a_router_with_its_policies() {
    let (mut wish, mut world) = router(&[("a.test", "", "one"), ("b.test", "/a", "two")], |_| {});
    assert_eq!(as_planned(&mut world), ["loadbalancer"]);
    wish.routes = vec![("a.test", "", "two"), ("c.other", "", "three")];
    (wish.base.generation, wish.base.known) = (2, true);
    world.actor.want(wish.entry());
    assert!(as_planned(&mut world).contains(&"l7policy"));
    world.actor.want(wish.base.deleting());
    assert_eq!(as_planned(&mut world), ["loadbalancer"]);
}

/// People see what is in the way in the reasons.
#[test]
fn what_is_in_the_way_is_left_out() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    wish.members = vec![(1, 80, 0), (2, 80, 1), (3, 80, 1)];
    world.actor.want(wish.entry());
    let change = world.run_to_change();
    world.refuses = Some(|_| Some(ChangeOutcome::Refused(ServiceRefusal::Quota("members".into()))));
    world.take(&BalancerStep::Change(change.clone()), Way::Arrives);
    assert!(!matches!(world.step(), BalancerStep::Change(_)));
    let [step] = &planned(&world)[..] else { panic!() };
    assert_eq!(brief([&step.change]), brief([&change]));
}

#[test]
fn members_are_shown_one_by_one() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    wish.members = vec![(1, 80, 1), (2, 80, 0), (4, 80, 1)];
    world.actor.want(wish.entry());
    let [step] = &planned(&world)[..] else { panic!() };
    assert_eq!(step.name, "shop/web:TCP:80", "the pool");
    assert_eq!(step.members, ["~ 10.1.0.2:8080, weight 0", "+ 10.1.0.4:8080, weight 1", "- 10.1.0.3:8080, weight 1"]);
    world.actor.want(wish.deleting());
    let [step] = &planned(&world)[..] else { panic!() };
    assert_eq!((&*step.name, step.members.len()), ("shop/web", 0));
}

#[test]
fn as_many_as_are_asked_for() {
    let (_, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
    world.take(&world.step(), Way::Arrives);
    for most in 0..4 {
        let planned = world.actor.planned(&world.facts, world.cloud.now(), most).unwrap();
        assert_eq!(planned.len(), most.min(3));
    }
}
