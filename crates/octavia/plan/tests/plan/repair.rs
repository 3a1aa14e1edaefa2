//! Load balancers in ERROR.

use std::time::Duration;

use gimbal_model::Protocol;
use gimbal_octavia_plan::{ApiVerb, BalancerStep, Block, ChangeOutcome, CloudAbility, CloudChange, ServiceRefusal};
use gimbal_octavia_sim::{Fate, SimRequest};
use serde_json::json;

use crate::executor::{Refuses, Way, World};
use crate::services::{change, made, world};
use crate::wish::{Wish, forwarded};

#[test]
fn one_that_failed_is_made_again_on_its_own_port() {
    let (wish, mut world) = world(|wish| wish.from_outside = true);
    world.cloud.expect(Fate::Fails);
    made(&wish, &mut world);
    let kinds: Vec<_> = world.sent.iter().map(|change| change.request().resource).collect();
    assert_eq!(kinds, ["port", "loadbalancer", "loadbalancer", "loadbalancer"]);
    assert_eq!(world.rows("/v2.0/ports", "ports", &[]).len(), 1);
}

#[test]
fn the_budget_ends_it_and_time_renews_it() {
    let (wish, mut world) = world(|_| {});
    for _ in 0..4 {
        // The creation fails; the deletion that follows does not.
        world.cloud.expect(Fate::Fails);
        world.cloud.expect(Fate::Done);
    }
    assert_eq!(world.run(), BalancerStep::Blocked(Block::RepairBudget));
    world.advance(Duration::from_secs(3600));
    made(&wish, &mut world);
}

#[test]
fn a_part_that_failed_is_made_again() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    world.cloud.expect(Fate::Fails);
    wish.members.push((9, 80, 1));
    world.actor.want(wish.entry());
    assert_eq!(world.run(), BalancerStep::Done);
    // The failure is seen at the next look.
    world.actor.look_again();
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(forwarded(&world.cloud, &world.balancer()), wish.forwards());
    change(&mut world, &mut wish, |wish| wish.members = vec![(7, 80, 1)]);
}

/// Makes the listener or the pool of a port end in `ERROR`.
fn break_part(world: &mut World, path: &str, body: serde_json::Value) {
    world.cloud.expect(Fate::Fails);
    world.by_hand(&SimRequest::put(path, body));
    world.actor.look_again();
}

#[test]
fn a_listener_is_told_everything_again_before_it_is_made_anew() {
    let (wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    let listener = world.actor.balancer().unwrap().listeners[0].id.clone();
    let path = format!("/v2/lbaas/listeners/{listener}");
    world.sent.clear();
    break_part(&mut world, &path, json!({"listener": {"name": "broken"}}));
    made(&wish, &mut world);
    assert!(matches!(&world.sent[..], [CloudChange::UpdateListener { .. }]), "{:#?}", world.sent);
    // Soon after it is not tried again, and then in another way.
    world.sent.clear();
    break_part(&mut world, &path, json!({"listener": {"name": "broken"}}));
    world.run_on();
    let kinds: Vec<_> = world.sent.iter().map(|change| change.request().verb).collect();
    assert_eq!(kinds.last(), Some(&ApiVerb::Create), "{:#?}", world.sent);
    assert!(matches!(world.sent[world.sent.len() - 2], CloudChange::DeleteListener { .. }), "{:#?}", world.sent);
}

#[test]
fn a_port_has_a_budget_of_its_own_and_the_others_go_on() {
    let (mut wish, mut world) = world(|wish| {
        wish.ports = vec![(Protocol::Tcp, 80), (Protocol::Tcp, 443)];
        wish.members = vec![(1, 80, 1), (1, 443, 1)];
    });
    made(&wish, &mut world);
    let pools = |world: &World| world.actor.balancer().unwrap().pools.clone();
    for _ in 0..4 {
        let pool = pools(&world).into_iter().find(|pool| pool.name.ends_with(":80")).unwrap();
        break_part(&mut world, &format!("/v2/lbaas/pools/{}", pool.id), json!({"pool": {"name": "broken"}}));
        world.run();
        world.advance(Duration::from_secs(300));
        world.actor.look_again();
        world.run();
    }
    assert_eq!(world.run(), BalancerStep::Blocked(Block::RepairBudget));
    assert!(world.actor.retry_at(world.cloud.now()).is_some());
    // The other port still follows the wish.
    wish.members = vec![(1, 80, 1), (2, 443, 1)];
    world.actor.want(wish.entry());
    world.run();
    let other = forwarded(&world.cloud, &world.balancer()).into_iter().find(|(port, _)| *port == 443);
    assert_eq!(other.unwrap().1, [("10.1.0.2".to_owned(), 1)]);
    // Time renews the budget.
    world.advance(Duration::from_secs(3600));
    world.actor.look_again();
    assert_eq!(world.run_on(), BalancerStep::Done);
    assert_eq!(forwarded(&world.cloud, &world.balancer()), wish.forwards());
}

/// A load balancer that serves ends in `ERROR`.
fn broken(change: impl FnOnce(&mut Wish)) -> (Wish, World) {
    broken_in(world(change))
}

fn broken_in((wish, mut world): (Wish, World)) -> (Wish, World) {
    made(&wish, &mut world);
    world.cloud.expect(Fate::Breaks);
    let path = format!("/v2/lbaas/loadbalancers/{}", world.balancer());
    world.by_hand(&SimRequest::put(&path, json!({"loadbalancer": {"name": "broken"}})));
    world.sent.clear();
    world.actor.look_again();
    (wish, world)
}

#[test]
fn one_that_has_served_is_failed_over_where_that_is_allowed() {
    let (wish, mut world) = broken(|_| {});
    let first = world.balancer();
    assert_eq!(world.run_on(), BalancerStep::Done);
    made(&wish, &mut world);
    assert!(matches!(world.sent[0], CloudChange::FailoverBalancer { .. }), "{:#?}", world.sent);
    assert_eq!(world.balancer(), first);
}

/// Where Octavia has no health manager every load balancer is `OFFLINE`, also one that serves.
#[test]
fn one_that_serves_and_is_never_heard_of_is_not_taken_for_one_that_never_served() {
    let unheard = |change: fn(&mut Wish)| {
        let (wish, mut world) = world(change);
        world.cloud.provider_mut().reports_health = false;
        broken_in((wish, world))
    };
    let (wish, mut world) = unheard(|_| {});
    made(&wish, &mut world);
    assert!(matches!(world.sent[0], CloudChange::FailoverBalancer { .. }), "{:#?}", world.sent);
    assert_eq!(world.actor.balancer().unwrap().operating, "OFFLINE");
    let (wish, mut world) = unheard(|wish| (wish.from_outside, wish.floating) = (true, true));
    world.cloud.provider_mut().failover = false;
    made(&wish, &mut world);
    let deleted = world.sent.iter().position(|change| matches!(change, CloudChange::DeleteBalancer { .. })).unwrap();
    let moved = world.sent.iter().position(|change| matches!(change, CloudChange::UpdateFloatingIp { .. })).unwrap();
    assert!(moved < deleted, "{:#?}", world.sent);
}

/// The same where its creation fails: no client misses it.
#[test]
fn one_that_never_served_and_is_never_heard_of_is_made_anew_at_once() {
    let (wish, mut world) = world(|wish| wish.known = true);
    world.cloud.provider_mut().reports_health = false;
    world.cloud.expect(Fate::Fails);
    made(&wish, &mut world);
    let failed_over = world.sent.iter().any(|change| matches!(change, CloudChange::FailoverBalancer { .. }));
    assert!(!failed_over, "{:#?}", world.sent);
}

#[test]
fn without_failover_another_one_takes_its_place_behind_the_floating_ip() {
    let (wish, mut world) = broken(|wish| (wish.from_outside, wish.floating) = (true, true));
    world.cloud.provider_mut().failover = false;
    made(&wish, &mut world);
    let kinds: Vec<_> = world.sent.iter().map(|change| change.request().path).collect();
    assert!(kinds[0].ends_with("/failover") && kinds[1] == "ports" && kinds[2] == "loadbalancers", "{kinds:?}");
    assert!(matches!(world.sent[3], CloudChange::UpdateFloatingIp { .. }), "{:#?}", world.sent);
    // The next one is not asked for what the role may not do.
    assert_eq!(world.missing.iter().map(|one| one.ability).collect::<Vec<_>>(), [CloudAbility::Failover]);
}

fn refused(change: &CloudChange, refusal: ServiceRefusal) -> Option<ChangeOutcome> {
    matches!(change, CloudChange::CreateBalancer { .. }).then_some(ChangeOutcome::Refused(refusal))
}

/// The reason why another one cannot be made may last, and then there would be none.
#[test]
fn one_that_serves_stays_where_another_one_is_refused() {
    let refusals: [(Refuses, Block); 3] = [
        (|change| refused(change, ServiceRefusal::Invalid("flavor".into())), Block::Invalid("flavor".into())),
        (|change| refused(change, ServiceRefusal::Forbidden("role".into())), Block::Forbidden("role".into())),
        (|change| refused(change, ServiceRefusal::Quota("none".into())), Block::Quota("none".into())),
    ];
    for (refuses, block) in refusals {
        let (wish, mut world) = broken(|wish| (wish.from_outside, wish.floating) = (true, true));
        let first = world.balancer();
        world.cloud.provider_mut().failover = false;
        world.refuses = Some(refuses);
        assert_eq!(world.run(), BalancerStep::Blocked(block));
        world.run_for(Duration::from_secs(2 * 3600));
        let deletes = |change: &CloudChange| matches!(change, CloudChange::DeleteBalancer { .. });
        assert!(!world.sent.iter().any(deletes), "{:#?}", world.sent);
        assert_eq!(forwarded(&world.cloud, &first), wish.forwards());
        // As soon as it is accepted, the old one goes.
        world.refuses = None;
        world.run_for(Duration::from_secs(2 * 3600));
        made(&wish, &mut world);
        assert_ne!(world.balancer(), first);
    }
}

#[test]
fn without_both_it_is_made_anew_at_its_address() {
    let (wish, mut world) = broken(|wish| wish.address = Some("10.0.0.50"));
    world.cloud.provider_mut().failover = false;
    made(&wish, &mut world);
    assert_eq!(world.actor.balancer().unwrap().vip_address, "10.0.0.50");
    assert!(matches!(world.sent[1], CloudChange::DeleteBalancer { .. }), "{:#?}", world.sent);
}

#[test]
fn a_failover_that_does_not_help_is_not_repeated() {
    let (wish, mut world) = broken(|_| {});
    world.cloud.expect(Fate::Breaks);
    made(&wish, &mut world);
    let kinds: Vec<_> = world.sent.iter().map(|change| (change.request().verb, change.request().path.len())).collect();
    assert_eq!(
        kinds.iter().map(|(verb, _)| *verb).collect::<Vec<_>>(),
        [ApiVerb::Update, ApiVerb::Delete, ApiVerb::Create]
    );
}

#[test]
fn repairs_pause_longer_and_longer() {
    let (_, mut world) = world(|_| {});
    for _ in 0..3 {
        world.cloud.expect(Fate::Fails);
        world.cloud.expect(Fate::Done);
    }
    let mut at = Vec::new();
    while world.step() != BalancerStep::Done {
        let step = world.step();
        if matches!(step, BalancerStep::Change(CloudChange::DeleteBalancer { .. })) {
            at.push(world.cloud.now());
        }
        world.take(&step, Way::Arrives);
    }
    let pauses: Vec<_> = at.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(pauses[0] >= Duration::from_secs(30) && pauses[1] >= Duration::from_secs(60), "{pauses:?}");
}
