//! Security groups of the VIP's port, ours or Octavia's.

use gimbal_kuryr_model::{ApiVersion, ClientRanges};
use gimbal_octavia_plan::{BalancerStep, Block, CloudAbility, CloudChange};
use gimbal_octavia_sim::SimRequest;
use serde_json::{Value, json};

use crate::executor::World;
use crate::services::{change, made, world};
use crate::wish::{Wish, forwarded};

/// Two groups that exist, for a port that is ours or Octavia's.
fn with_groups(from_outside: bool, version: ApiVersion) -> (Wish, World, [String; 2]) {
    let (mut wish, mut world) = world(|wish| wish.from_outside = from_outside);
    world.facts.api_version = version;
    let groups = [world.cloud.add_security_group(), world.cloud.add_security_group()];
    wish.groups = groups[..1].to_vec();
    world.actor.want(wish.entry());
    (wish, world, groups)
}

fn port(world: &mut World) -> Value {
    world.rows("/v2.0/ports", "ports", &[]).remove(0)
}

fn bodies(changes: &[CloudChange]) -> Vec<Value> {
    changes.iter().map(|change| change.request().body).collect()
}

/// The groups of the only port. With `sets_port_groups` the first is the provider's own.
fn groups_of_port(world: &mut World) -> Vec<Value> {
    port(world)["security_groups"].as_array().unwrap().clone()
}

/// A restart, and everything is as it is wanted already.
fn assert_at_rest(world: &mut World) {
    world.sent.clear();
    world.restart();
    assert_eq!((world.run(), &world.sent[..]), (BalancerStep::Done, &[][..]));
}

fn by_hand_groups(world: &mut World, groups: &Value) {
    let path = format!("/v2.0/ports/{}", port(world)["id"].as_str().unwrap());
    world.by_hand(&SimRequest::put(&path, json!({"port": {"security_groups": groups}})));
}

/// Octavia puts its own group and those of `vip_sg_ids` in the place of all others.
#[test]
fn a_port_of_ours_keeps_its_groups_whatever_octavia_does() {
    let (mut wish, mut world, groups) = with_groups(true, ApiVersion::VIP_GROUPS);
    world.cloud.provider_mut().sets_port_groups = true;
    made(&wish, &mut world);
    let made_with = world.sent.iter().map(|change| change.request().resource).collect::<Vec<_>>();
    assert_eq!(made_with, ["port", "loadbalancer"], "with its groups at once");
    assert_eq!(world.sent[1].request().body["loadbalancer"]["vip_sg_ids"], json!([groups[0]]));
    assert_at_rest(&mut world);
    let own = groups_of_port(&mut world)[0].clone();
    assert_eq!(groups_of_port(&mut world), [own.clone(), json!(groups[0])]);
    assert_eq!(world.actor.security_groups(), [groups[0].clone()]);
    assert_eq!(world.actor.missing_groups(&world.facts), None);

    for wanted in [&groups[..], &groups[1..]] {
        let changes = change(&mut world, &mut wish, |wish| wish.groups = wanted.to_vec());
        assert_eq!(bodies(&changes), [json!({"loadbalancer": {"vip_sg_ids": wanted}})]);
        assert_at_rest(&mut world);
        assert_eq!(groups_of_port(&mut world)[1..], wanted.iter().map(|one| json!(one)).collect::<Vec<_>>());
    }
    // By hand: what is missing comes back, and Octavia's own stays.
    by_hand_groups(&mut world, &json!([own]));
    world.actor.look_again();
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(groups_of_port(&mut world), [own, json!(groups[1])]);
    // Octavia sets them again.
    let path = format!("/v2/lbaas/loadbalancers/{}", world.balancer());
    world.by_hand(&SimRequest::put(&format!("{path}/failover"), Value::Null));
    assert_at_rest(&mut world);
    world.by_hand(&SimRequest::put(&path, json!({"loadbalancer": {"name": "by hand"}})));
    world.actor.look_again();
    assert_eq!((world.run(), world.sent.len()), (BalancerStep::Done, 1), "{:?}", world.sent);
    assert_at_rest(&mut world);
    assert_eq!(groups_of_port(&mut world).len(), 2);
}

#[test]
fn a_provider_that_leaves_the_port_alone_finds_its_groups_there() {
    let (wish, mut world, groups) = with_groups(true, ApiVersion::VIP_GROUPS);
    made(&wish, &mut world);
    by_hand_groups(&mut world, &json!([groups[1]]));
    world.actor.look_again();
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(groups_of_port(&mut world), [json!(groups[1]), json!(groups[0])]);
    assert_at_rest(&mut world);
}

#[test]
fn before_version_2_29_groups_of_our_port_restrict_nobody_and_that_is_said() {
    let (wish, mut world, groups) = with_groups(true, ApiVersion { major: 2, minor: 28 });
    world.cloud.provider_mut().sets_port_groups = true;
    made(&wish, &mut world);
    assert_eq!(world.sent[1].request().body["loadbalancer"]["vip_sg_ids"], Value::Null);
    assert!(world.actor.missing_groups(&world.facts).is_some_and(|words| words.contains("2.29")));
    let own = groups_of_port(&mut world)[0].clone();
    world.restart();
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(groups_of_port(&mut world), [own, json!(groups[0])], "beside Octavia's");
    assert_at_rest(&mut world);
}

#[test]
fn beside_ranges_a_port_of_ours_keeps_what_octavia_gave_it() {
    let (mut wish, mut world, _) = with_groups(true, ApiVersion::VIP_GROUPS);
    world.cloud.provider_mut().sets_port_groups = true;
    wish.clients = ClientRanges::Only(["192.0.2.0/24".parse().unwrap()].into());
    world.actor.want(wish.entry());
    made(&wish, &mut world);
    assert_eq!(groups_of_port(&mut world).len(), 1, "Octavia's alone, which has the ranges");
    assert_at_rest(&mut world);
    assert!(world.actor.missing_groups(&world.facts).is_some_and(|words| words.contains("ranges")));
}

#[test]
fn a_port_that_was_made_before_gets_its_groups_before_a_load_balancer_has_it() {
    let (wish, mut world, groups) = with_groups(true, ApiVersion::VIP_GROUPS);
    let BalancerStep::Look(_) = world.step() else { panic!("no look first") };
    // Its load balancer was deleted by hand, and its groups were changed.
    made(&wish, &mut world);
    let (id, balancer) = (port(&mut world)["id"].clone(), world.balancer());
    world.by_hand(&SimRequest::delete(&format!("/v2/lbaas/loadbalancers/{balancer}")).with_query("cascade", "true"));
    let path = format!("/v2.0/ports/{}", id.as_str().unwrap());
    world.by_hand(&SimRequest::put(&path, json!({"port": {"security_groups": [groups[1]]}})));
    world.sent.clear();
    world.actor.look_again();
    made(&wish, &mut world);
    let verbs: Vec<_> = world.sent.iter().map(|change| change.request().resource).collect();
    assert_eq!(verbs, ["port", "loadbalancer"]);
    assert_eq!(bodies(&world.sent[..1]), [json!({"port": {"security_groups": [groups[0]]}})]);
    assert_eq!(port(&mut world)["id"], id);
}

#[test]
fn somebody_else_who_changes_the_port_at_the_same_time_is_not_overwritten_unseen() {
    let (mut wish, mut world, groups) = with_groups(true, ApiVersion { major: 2, minor: 28 });
    made(&wish, &mut world);
    let path = format!("/v2.0/ports/{}", port(&mut world)["id"].as_str().unwrap());
    let same = json!({"port": {"description": port(&mut world)["description"]}});
    world.by_hand(&SimRequest::put(&path, same));
    (wish.groups, wish.known) = (groups.to_vec(), true);
    world.actor.want(wish.entry());
    assert_eq!(world.run_on(), BalancerStep::Done);
    let tries = world.sent.iter().filter(|change| matches!(change, CloudChange::UpdatePort { .. })).count();
    assert_eq!((tries, &port(&mut world)["security_groups"]), (2, &json!(groups)), "refused once, for it had changed");
}

#[test]
fn a_group_that_does_not_exist_stops_nothing_else() {
    for version in [ApiVersion { major: 2, minor: 28 }, ApiVersion::VIP_GROUPS] {
        let (mut wish, mut world, _) = with_groups(true, version);
        made(&wish, &mut world);
        wish.groups = vec!["f0000000-0000-4000-8000-00000000dead".into()];
        wish.members = vec![(9, 80, 1)];
        world.actor.want(wish.entry());
        let step = world.run();
        assert!(matches!(step, BalancerStep::Blocked(Block::Failing | Block::Invalid(_))), "{step:?}");
        assert_eq!(forwarded(&world.cloud, &world.balancer()), wish.forwards());
    }
}

#[test]
fn octavias_port_gets_them_from_octavia() {
    let (mut wish, mut world, groups) = with_groups(false, ApiVersion::VIP_GROUPS);
    made(&wish, &mut world);
    assert_eq!(world.sent[0].request().body["loadbalancer"]["vip_sg_ids"], json!([groups[0]]));
    assert_eq!((world.sent.len(), world.actor.missing_groups(&world.facts)), (1, None));
    assert_eq!(world.actor.security_groups(), [groups[0].clone()]);
    let changes = change(&mut world, &mut wish, |wish| wish.groups = groups.to_vec());
    assert_eq!(bodies(&changes), [json!({"loadbalancer": {"vip_sg_ids": groups}})]);
    // By hand.
    let path = format!("/v2/lbaas/loadbalancers/{}", world.balancer());
    world.by_hand(&SimRequest::put(&path, json!({"loadbalancer": {"vip_sg_ids": [groups[1]]}})));
    world.actor.look_again();
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(world.actor.security_groups(), groups);
    let changes = change(&mut world, &mut wish, |wish| wish.groups = Vec::new());
    assert_eq!(bodies(&changes), [json!({"loadbalancer": {"vip_sg_ids": []}})]);
}

#[test]
fn before_version_2_29_octavias_port_has_none_and_that_is_said() {
    let (wish, mut world, _) = with_groups(false, ApiVersion { major: 2, minor: 28 });
    made(&wish, &mut world);
    assert_eq!(world.sent[0].request().body["loadbalancer"]["vip_sg_ids"], Value::Null);
    assert!(world.actor.missing_groups(&world.facts).is_some_and(|words| words.contains("2.29")));
}

#[test]
fn a_provider_without_groups_serves_without_them() {
    let (wish, mut world, _) = with_groups(false, ApiVersion::VIP_GROUPS);
    world.cloud.provider_mut().security_groups = false;
    made(&wish, &mut world);
    assert_eq!(world.missing.iter().map(|one| one.ability).collect::<Vec<_>>(), [CloudAbility::SecurityGroups]);
    let tries: Vec<_> = world.sent.iter().map(|change| change.request().body["loadbalancer"].clone()).collect();
    assert_eq!((tries.len(), &tries[1]["vip_sg_ids"]), (2, &Value::Null), "and all in one request");
    assert!(!tries[1]["listeners"].is_null() && world.actor.missing_groups(&world.facts).is_some());
}

/// Octavia refuses ranges of clients beside groups. Between the two the listener is closed, for without either it would be open
/// to everybody.
#[test]
fn ranges_take_the_place_of_groups_without_opening_the_port() {
    let (mut wish, mut world, groups) = with_groups(false, ApiVersion::VIP_GROUPS);
    made(&wish, &mut world);
    let ranges = ClientRanges::Only(["192.0.2.0/24".parse().unwrap()].into());
    let changes = change(&mut world, &mut wish, |wish| wish.clients = ranges);
    assert_eq!(
        bodies(&changes),
        [
            json!({"listener": {"admin_state_up": false}}),
            json!({"loadbalancer": {"vip_sg_ids": []}}),
            json!({"listener": {"allowed_cidrs": ["192.0.2.0/24"]}}),
            json!({"listener": {"admin_state_up": true}}),
        ]
    );
    assert!(world.actor.missing_groups(&world.facts).is_some_and(|words| words.contains("ranges")));
    // And back: the groups come before the ranges go.
    let changes = change(&mut world, &mut wish, |wish| wish.clients = ClientRanges::Everyone);
    let groups = json!({"loadbalancer": {"vip_sg_ids": groups[..1]}});
    assert_eq!(bodies(&changes), [groups, json!({"listener": {"allowed_cidrs": []}})]);
}
