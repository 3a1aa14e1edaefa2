//! Routers of which a part is refused, by a quota or because it is invalid: the rest is served.

use std::time::Duration;

use gimbal_kuryr_model::RouteState;
use gimbal_octavia_plan::{BalancerStep, Block, ChangeOutcome, CloudChange, ServiceRefusal};
use gimbal_octavia_sim::{Answered, Fate, ProjectQuota, SimRequest};
use serde_json::json;

use crate::executor::{Way, World};
use crate::router_wish::{NOBODY, RouterWish, WantedRoute, answered, blocked, router};

const FLAVOR: &str = "f0000000-0000-4000-8000-000000000000";

const FOUR: [WantedRoute; 4] =
    [("a.test", "/a", "one"), ("a.test", "", "two"), ("b.test", "", "three"), ("c.other", "", "four")];

fn pools(world: &mut World, pools: Option<u64>) {
    world.cloud.set_quota("p1", ProjectQuota { pools, ..ProjectQuota::default() });
}

/// Returns how many of the requests go where they are to go.
fn served(world: &mut World, wish: &RouterWish) -> usize {
    let wanted = wish.answers();
    answered(world).iter().filter(|(request, led)| wanted[*request] == **led && *led != "503").count()
}

#[test]
fn one_route_too_many_leaves_the_others() {
    let (wish, mut world) = router(&FOUR, |_| {});
    pools(&mut world, Some(3));
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Quota(_))));
    assert_eq!(blocked(&world).len(), 1, "{:#?}", world.sent);
    assert!(served(&mut world, &wish) >= 10, "{:?}", answered(&mut world));
    let tried = world.sent.iter().filter(|change| matches!(change, CloudChange::CreateBalancer { .. })).count();
    assert_eq!(tried, 2, "with everything, and alone");
    pools(&mut world, None);
    assert_eq!(world.run_on(), BalancerStep::Done);
    assert_eq!(answered(&mut world), wish.answers());
}

/// What has the longer path is refused, and its requests must not go to the Service with the shorter one.
#[test]
fn no_other_answers_where_there_is_no_room_for_one() {
    let routes = [("a.test", "/a", "two"), ("a.test", "", "one"), FOUR[2], FOUR[3]];
    let (wish, mut world) = router(&routes, |_| {});
    pools(&mut world, Some(3));
    let wanted = wish.answers();
    while !matches!(world.step(), BalancerStep::Blocked(_)) {
        let step = world.step();
        world.take(&step, Way::Arrives);
        let wrong = |(request, led): &(_, String)| wanted[request] == "two" && led == "one";
        assert_eq!(answered(&mut world).into_iter().find(wrong), None, "{step:?}");
    }
    assert!(matches!(world.step(), BalancerStep::Blocked(Block::Quota(_))), "{:?}", world.step());
    let others = answered(&mut world).into_iter().filter(|(_, led)| led == "three" || led == "four").count();
    assert_eq!(others, 10, "{:?}", answered(&mut world));
    pools(&mut world, None);
    assert_eq!(world.run_on(), BalancerStep::Done);
    assert_eq!(answered(&mut world), wish.answers());
}

/// An Ingress must not show an address for the requests of it that are answered with 503.
#[test]
fn what_is_closed_does_not_count_as_served() {
    let (_, mut world) = router(&[("a.test", "", NOBODY), ("b.test", "", "two")], |wish| wish.owner = Some("shop/web"));
    pools(&mut world, Some(1));
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Quota(_))), "{:?}", world.step());
    assert_eq!(world.actor.balancer().unwrap().listeners[0].policies.len(), 1);
    let gaps = world.actor.route_gaps(&world.facts, world.cloud.now()).unwrap();
    let states: Vec<(&str, RouteState)> = gaps.iter().map(|gap| (&*gap.name, gap.state)).collect();
    assert_eq!(states, [("shop/web", RouteState::Missing)]);
}

/// Returns a router without its last route, whose default "one" is to be "three", where there is room for two pools.
fn with_another_default(routes: &[WantedRoute]) -> (RouterWish, World) {
    let (mut wish, mut world) = router(routes, |wish| wish.default = Some("one"));
    assert_eq!(world.run(), BalancerStep::Done);
    pools(&mut world, Some(2));
    wish.routes.pop();
    wish.default = Some("three");
    (wish.base.generation, wish.base.known) = (2, true);
    world.actor.want(wish.entry());
    (wish, world)
}

/// It has the place that the next one needs.
#[test]
fn the_pool_of_a_former_default_makes_room_for_the_next_one() {
    let (wish, mut world) = with_another_default(&[("a.test", "", "two"), ("b.test", "", "two")]);
    assert_eq!(world.run_on(), BalancerStep::Done);
    assert_eq!(answered(&mut world), wish.answers());
    assert_eq!(world.actor.route_gaps(&world.facts, world.cloud.now()), Some(Vec::new()));
}

/// A default backend is in the namespace of its Ingress.
#[test]
fn a_default_that_stays_for_want_of_room_is_named_by_its_namespace() {
    let (wish, mut world) =
        with_another_default(&[("a.test", "", "one"), ("b.test", "", "two"), ("c.other", "", "two")]);
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Quota(_))), "{:?}", world.step());
    let gaps = world.actor.route_gaps(&world.facts, world.cloud.now()).unwrap();
    let names: Vec<&str> = gaps.iter().map(|gap| &*gap.name).collect();
    assert_eq!((names, gaps[0].state), (vec!["shop/"], RouteState::Left));
    pools(&mut world, None);
    assert_eq!(world.run_on(), BalancerStep::Done);
    assert_eq!(answered(&mut world), wish.answers());
}

/// It goes before another one can have its pools.
#[test]
fn one_that_is_broken_is_replaced_where_there_is_no_room_for_two() {
    let (mut wish, mut world) = router(&FOUR[..3], |wish| (wish.base.from_outside, wish.base.floating) = (true, true));
    assert_eq!(world.run(), BalancerStep::Done);
    pools(&mut world, Some(3));
    wish.routes.push(FOUR[3]);
    (wish.base.generation, wish.base.known) = (2, true);
    world.actor.want(wish.entry());
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Quota(_))));
    break_it(&mut world);
    world.cloud.report_operating(&world.balancer(), "ERROR");
    let first = world.balancer();
    assert!(matches!(world.run_on(), BalancerStep::Blocked(Block::Quota(_))));
    assert_ne!(world.balancer(), first);
    assert_eq!(blocked(&world).len(), 1);
    assert!(served(&mut world, &wish) >= 10, "{:?}", answered(&mut world));
}

fn break_it(world: &mut World) {
    world.expect(Fate::Breaks);
    let path = format!("/v2/lbaas/loadbalancers/{}", world.balancer());
    world.by_hand(&SimRequest::put(&path, json!({"loadbalancer": {"name": "broken"}})));
    world.cloud.provider_mut().failover = false;
    world.actor.look_again();
}

/// A router behind a floating IP, one of whose policies is not valid.
fn with_an_invalid_policy() -> (RouterWish, World) {
    let routes = [FOUR[0], FOUR[1], ("c.other", "", "https://a.test")];
    let (wish, mut world) = router(&routes, |wish| (wish.base.from_outside, wish.base.floating) = (true, true));
    world.refuses = Some(|change| {
        let words = || ChangeOutcome::Refused(ServiceRefusal::Invalid("no such address".to_owned()));
        matches!(change, CloudChange::CreatePolicy { body } | CloudChange::CreateBalancer { body }
            if body.to_string().contains("https://a.test"))
        .then(words)
    });
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Invalid(_))));
    (wish, world)
}

/// What the former one did not have either is not missing behind the floating IP.
#[test]
fn a_policy_that_is_refused_does_not_stop_a_replacement() {
    let (mut wish, mut world) = with_an_invalid_policy();
    let first = world.balancer();
    wish.base.flavor = Some(FLAVOR);
    (wish.base.generation, wish.base.known) = (2, true);
    world.actor.want(wish.entry());
    assert!(matches!(world.run_on(), BalancerStep::Blocked(Block::Invalid(_))));
    assert_ne!(world.balancer(), first);
    assert_eq!(world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]).len(), 1);
    wish.routes.pop();
    assert_eq!(answered(&mut world), wish.answers());
}

#[test]
fn what_the_former_one_serves_is_not_lost_by_a_replacement() {
    let (mut wish, mut world) = router(&FOUR, |wish| (wish.base.from_outside, wish.base.floating) = (true, true));
    assert_eq!(world.run(), BalancerStep::Done);
    let (first, before) = (world.balancer(), answered(&mut world));
    // There is room for the load balancer, and not for all of its pools.
    pools(&mut world, Some(6));
    wish.base.flavor = Some(FLAVOR);
    (wish.base.generation, wish.base.known) = (2, true);
    world.actor.want(wish.entry());
    assert!(matches!(world.run_on(), BalancerStep::Blocked(Block::Quota(_))));
    assert_eq!((world.balancer(), answered(&mut world)), (first, before));
}

#[test]
fn a_policy_that_is_refused_does_not_stop_the_replacement_of_a_broken_router() {
    let (mut wish, mut world) = with_an_invalid_policy();
    break_it(&mut world);
    let first = world.balancer();
    assert!(matches!(world.run_on(), BalancerStep::Blocked(Block::Invalid(_))));
    assert_ne!(world.balancer(), first);
    wish.routes.pop();
    assert_eq!(answered(&mut world), wish.answers());
}

/// Endpoints change all the time.
#[test]
fn what_is_left_alone_is_so_whatever_becomes_of_members() {
    let fails: [(ServiceRefusal, usize); 3] = [
        (ServiceRefusal::ProviderFailed, 6),
        (ServiceRefusal::Invalid("no such address".to_owned()), 6),
        (ServiceRefusal::Quota("L7Policy".to_owned()), 2),
    ];
    for (refusal, most) in fails {
        let (mut wish, mut world) = router(&[FOUR[0], FOUR[2]], |_| {});
        assert_eq!(world.run(), BalancerStep::Done);
        world.refuses = Some(match refusal {
            ServiceRefusal::ProviderFailed => |change| refused(change, ServiceRefusal::ProviderFailed),
            ServiceRefusal::Quota(_) => |change| refused(change, ServiceRefusal::Quota("L7Policy".to_owned())),
            _ => |change| refused(change, ServiceRefusal::Invalid("no such address".to_owned())),
        });
        // It concerns every host, so what goes waits for it, until it goes on failing.
        wish.routes = vec![("", "/c", "two"), FOUR[2]];
        world.sent.clear();
        let reads = world.reads;
        for nth in 0..30 {
            wish.members.insert("three", vec![1, 2, 3 + nth % 2]);
            (wish.base.generation, wish.base.known) = (wish.base.generation + 1, true);
            world.actor.want(wish.entry());
            world.run_for(Duration::from_secs(2));
        }
        let policies = &world.actor.balancer().unwrap().listeners[0].policies;
        assert_eq!(policies.len(), 1, "{refusal:?}: what is not wanted has gone");
        let tries = world.sent.iter().filter(|change| refused(change, refusal.clone()).is_some()).count();
        assert!((1..=most).contains(&tries), "{refusal:?}: {tries} tries");
        let looks = (world.reads - reads) / 12;
        assert!(looks < 25, "{refusal:?}: {looks} looks");
    }
}

/// A provider that cannot do it today may be upgraded, which no change of members tells.
#[test]
fn what_a_provider_could_not_do_is_tried_again_within_an_hour() {
    let (mut wish, mut world) = router(&[FOUR[0], FOUR[2]], |_| {});
    assert_eq!(world.run(), BalancerStep::Done);
    world.refuses = Some(|change| refused(change, ServiceRefusal::Unsupported("no such rule".to_owned())));
    wish.routes.push(FOUR[3]);
    (wish.base.generation, wish.base.known) = (2, true);
    world.actor.want(wish.entry());
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Unsupported(_))));
    world.refuses = None;
    wish.members.insert("three", vec![1, 2, 3]);
    wish.base.generation = 3;
    world.actor.want(wish.entry());
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Unsupported(_))));
    world.run_for(Duration::from_secs(3660));
    assert_eq!(world.step(), BalancerStep::Done);
    assert_eq!(answered(&mut world), wish.answers());
}

fn refused(change: &CloudChange, refusal: ServiceRefusal) -> Option<ChangeOutcome> {
    matches!(change, CloudChange::CreatePolicy { .. }).then_some(ChangeOutcome::Refused(refusal))
}

fn fails(change: &CloudChange, what: &str) -> Option<ChangeOutcome> {
    let is_it = matches!(change, CloudChange::CreatePool { body } if body.to_string().contains(what));
    is_it.then_some(ChangeOutcome::Refused(ServiceRefusal::ProviderFailed))
}

/// Trouble is no want of room, and what serves makes none.
#[test]
fn a_default_serves_while_the_next_one_fails() {
    let (mut wish, mut world) = router(&[("a.test", "", "two")], |wish| wish.default = Some("one"));
    assert_eq!(world.run(), BalancerStep::Done);
    let before = answered(&mut world);
    world.refuses = Some(|change| fails(change, "three"));
    wish.default = Some("three");
    (wish.base.generation, wish.base.known) = (2, true);
    world.actor.want(wish.entry());
    world.run_for(Duration::from_secs(300));
    assert_eq!(answered(&mut world), before);
    world.refuses = None;
    world.run_for(Duration::from_secs(900));
    assert_eq!(answered(&mut world), wish.answers());
}

/// A Service whose pool cannot be made is no reason for others of its host to wait.
#[test]
fn a_route_that_fails_keeps_no_new_one_from_being_made() {
    let (mut wish, mut world) = router(&[("a.test", "", "one")], |_| {});
    assert_eq!(world.run(), BalancerStep::Done);
    world.refuses = Some(|change| fails(change, "three"));
    wish.routes = vec![("a.test", "", "one"), ("b.test", "/pay", "three"), ("b.test", "", "two")];
    (wish.base.generation, wish.base.known) = (2, true);
    world.actor.want(wish.entry());
    world.run_for(Duration::from_secs(300));
    let balancer = world.balancer();
    let answer = world.cloud.ask(&balancer, 80, Some("b.test"), "/");
    assert!(matches!(&answer, Some(Answered::Pool { targets, .. }) if !targets.is_empty()), "{answer:?}");
}

/// What is made again after a pause is awaited no more than what goes on failing.
#[test]
fn a_pool_in_error_keeps_no_other_host_from_going() {
    let (mut wish, mut world) =
        router(&[("x.a.test", "", "one"), ("*.a.test", "", "two"), ("b.test", "", "one")], |_| {});
    assert_eq!(world.run(), BalancerStep::Done);
    let pools = world.rows("/v2/lbaas/pools", "pools", &[]);
    let id = pools.iter().find(|row| row["name"] == "shop_two").and_then(|row| row["id"].as_str()).unwrap();
    world.expect(Fate::Fails);
    world.by_hand(&SimRequest::put(&format!("/v2/lbaas/pools/{id}"), json!({"pool": {"name": "broken"}})));
    world.actor.look_again();
    // And the pool that is made in its place.
    world.expect(Fate::Fails);
    wish.routes.remove(0);
    (wish.base.generation, wish.base.known) = (2, true);
    world.actor.want(wish.entry());
    let begin = world.cloud.now();
    while world.actor.balancer().unwrap().listeners[0].policies.len() > 2 {
        let step = world.step();
        world.take(&step, Way::Arrives);
        assert!(world.cloud.now() < begin + Duration::from_secs(20), "{step:?}");
    }
    world.run_for(Duration::from_secs(300));
    assert_eq!((world.step(), answered(&mut world)), (BalancerStep::Done, wish.answers()));
}
