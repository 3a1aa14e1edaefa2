//! A router that is made and changed.

use std::time::Duration;

use gimbal_octavia_plan::{
    BalancerStep, Block, ChangeOutcome, CloudAbility, CloudChange, Provisioning, SeenPolicy, ServiceRefusal,
};
use gimbal_octavia_sim::{Answered, Fate, ProjectQuota, SimRequest};
use serde_json::json;

use crate::executor::World;
use crate::router_wish::{RouterWish, WantedRoute, answered, blocked, inexpressible, router};

const ROUTES: [WantedRoute; 5] = [
    ("a.test", "=/a", "one"),
    ("a.test", "", "two"),
    ("b.test", "/a", "one"),
    ("*.a.test", "", "three"),
    ("c.other", "", "https://a.test"),
];

#[track_caller]
fn made(wish: &RouterWish, world: &mut World) {
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(answered(world), wish.answers());
}

/// Wants something else. Returns the changes that come of it, in short, and checks that no request was led astray meanwhile.
#[track_caller]
fn change(world: &mut World, wish: &mut RouterWish, change: impl FnOnce(&mut RouterWish)) -> Vec<String> {
    change(wish);
    wish.base.generation += 1;
    wish.base.known = true;
    world.sent.clear();
    world.actor.want(wish.entry());
    let (before, after) = (answered(world), wish.answers());
    for _ in 0..500 {
        let step = world.step();
        if step == BalancerStep::Done {
            break;
        }
        world.take(&step, crate::executor::Way::Arrives);
        let now = answered(world);
        for (request, led) in now {
            let is_as_before = before.get(&request).map_or(led == "503" || led == "nothing", |before| led == *before);
            assert!(is_as_before || led == after[&request], "{request:?} goes to {led} after {step:?}");
        }
    }
    made(wish, world);
    std::mem::take(&mut world.sent).iter().map(short).collect()
}

fn short(change: &CloudChange) -> String {
    let call = change.request();
    format!("{:?} {}", call.verb, call.resource)
}

fn kinds(world: &World) -> Vec<String> {
    world.sent.iter().map(short).collect()
}

#[test]
fn a_router_is_one_populated_request() {
    let (wish, mut world) = router(&ROUTES, |wish| wish.default = Some("rest"));
    made(&wish, &mut world);
    assert_eq!(kinds(&world), ["Create loadbalancer"]);
    let seen = world.actor.balancer().unwrap();
    assert_eq!((seen.pools.len(), seen.listeners[0].policies.len()), (4, 5));
    assert!(seen.pools.iter().all(|pool| pool.name.starts_with("shop_") && pool.members.len() == 2));
    world.sent.clear();
    // A restart, and nothing changed: nothing is written.
    world.restart();
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(world.sent, []);
    world.actor.rests();
    assert!(world.actor.has_policies());
    assert_eq!(world.run(), BalancerStep::Done);
    world.actor.want(wish.base.deleting());
    assert_eq!(world.run(), BalancerStep::Gone);
    assert_eq!(kinds(&world), ["Delete loadbalancer"]);
}

/// octavia-ingress-controller's sixth: a number that held another one counted as the same.
#[test]
fn each_generation_is_applied_whatever_its_number_holds() {
    let (mut wish, mut world) = router(&ROUTES[..1], |wish| wish.base.generation = 123);
    made(&wish, &mut world);
    for (generation, routes) in [(12, 2), (123, 3), (1234, 1), (3, 4)] {
        (wish.base.generation, wish.routes) = (generation, ROUTES[..routes].to_vec());
        world.actor.want(wish.entry());
        made(&wish, &mut world);
    }
}

#[test]
fn part_by_part_each_thing_comes_before_what_leads_to_it() {
    let (mut wish, mut world) = router(&ROUTES[..1], |wish| wish.default = Some("rest"));
    world.cloud.provider_mut().populated = false;
    let all = change(&mut world, &mut wish, |_| {});
    assert_eq!(
        all[1..],
        [
            "Create loadbalancer",
            "Create pool",
            "Update members",
            "Create pool",
            "Update members",
            "Create listener",
            "Create l7policy",
            "Create l7rule",
            "Create l7rule",
            "Update l7policy",
            "Update listener"
        ]
    );
    assert_eq!(world.missing, [], "it is not known which part the provider has refused");
}

#[test]
fn a_new_route_brings_its_pool_and_the_last_one_takes_it_along() {
    let (mut wish, mut world) = router(&ROUTES, |_| {});
    made(&wish, &mut world);
    let all = change(&mut world, &mut wish, |wish| wish.routes.insert(1, ("a.test", "/a", "four")));
    assert_eq!(
        all,
        ["Create pool", "Update members", "Create l7policy", "Create l7rule", "Create l7rule", "Update l7policy"]
    );
    let all = change(&mut world, &mut wish, |wish| wish.routes.retain(|(_, _, to)| *to != "four"));
    assert_eq!(all, ["Delete l7policy", "Delete pool"]);
    let all = change(&mut world, &mut wish, |wish| wish.routes[1].2 = "five");
    assert_eq!(all, ["Create pool", "Update members", "Update l7policy", "Delete pool"]);
    let all = change(&mut world, &mut wish, |wish| wish.routes.swap(0, 3));
    assert_eq!(all, ["Update l7policy", "Update l7policy"]);
}

#[test]
fn the_default_pool_is_led_to_after_the_policies_and_goes_after_it() {
    let (mut wish, mut world) = router(&ROUTES[..1], |_| {});
    made(&wish, &mut world);
    let all = change(&mut world, &mut wish, |wish| wish.default = Some("rest"));
    assert_eq!(all, ["Create pool", "Update members", "Update listener"]);
    let all = change(&mut world, &mut wish, |wish| wish.default = None);
    assert_eq!(all, ["Update listener", "Delete pool"]);
}

#[test]
fn members_are_one_request_and_names_change_in_place() {
    let (mut wish, mut world) = router(&ROUTES, |_| {});
    made(&wish, &mut world);
    let all = change(&mut world, &mut wish, |wish| drop(wish.members.insert("one", vec![1, 2, 3])));
    assert_eq!(all, ["Update members"]);
    let all = change(&mut world, &mut wish, |wish| wish.suffix = "_80");
    assert_eq!(all, ["Update pool"; 3]);
}

#[test]
fn a_monitor_is_on_every_pool() {
    let (wish, mut world) = router(&ROUTES, |wish| wish.base.monitor = true);
    made(&wish, &mut world);
    assert_eq!(kinds(&world), ["Create loadbalancer"]);
    assert!(world.actor.balancer().unwrap().pools.iter().all(|pool| pool.monitor.is_some()));
}

#[test]
fn a_provider_without_policies_serves_nothing_and_says_so() {
    for populated in [true, false] {
        let (wish, mut world) = router(&ROUTES, |wish| wish.default = Some("rest"));
        (world.cloud.provider_mut().l7, world.cloud.provider_mut().populated) = (false, populated);
        assert_eq!(world.run(), BalancerStep::Done);
        let missing: Vec<_> = world.missing.iter().map(|one| one.ability).collect();
        assert_eq!(missing, [CloudAbility::L7], "{:#?}", world.sent);
        assert!(answered(&mut world).values().all(|answer| answer == "503"), "what others get is not for everybody");
        let refused = inexpressible(&world);
        assert_eq!(refused.len(), 5);
        let words = "the provider cannot lead requests by host and path";
        assert!(refused.contains(&("shopa.test=/a".to_owned(), words.to_owned())), "{refused:?}");
        // Without routes there is nothing that it cannot do.
        let mut plain = wish.clone();
        plain.routes.clear();
        world.actor.want(plain.entry());
        assert_eq!(world.run(), BalancerStep::Done);
        assert_eq!(answered(&mut world), plain.answers());
    }
}

#[test]
fn a_route_that_cannot_be_a_policy_stops_no_other() {
    let (wish, mut world) = router(&[ROUTES[0], ("b.test", "/\"", "one"), ROUTES[2]], |_| {});
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(answered(&mut world), wish.answers());
    assert_eq!(inexpressible(&world)[0].0, "shopb.test/\"");
}

#[test]
fn a_policy_that_octavia_refuses_stops_no_other() {
    let (mut wish, mut world) = router(&ROUTES, |_| {});
    let is_bad = |body: &serde_json::Value| body.to_string().contains("https://a.test");
    world.refuses = Some(|change| {
        let words = || ChangeOutcome::Refused(ServiceRefusal::Invalid("no such address".to_owned()));
        matches!(change, CloudChange::CreatePolicy { body } | CloudChange::CreateBalancer { body }
            if body.to_string().contains("https://a.test"))
        .then(words)
    });
    assert!(matches!(world.run(), BalancerStep::Blocked(_)));
    wish.routes.pop();
    assert_eq!(answered(&mut world), wish.answers());
    assert_eq!(blocked(&world), ["shopc.other"]);
    let tried = world.sent.iter().filter(|change| is_bad(&change.request().body)).count();
    assert!(tried <= 4, "with all others, and a few times alone: {tried}");
}

#[test]
fn without_a_quota_for_another_policy_the_old_one_serves_on() {
    let (mut wish, mut world) = router(&ROUTES, |wish| wish.owner = Some("shop/web"));
    made(&wish, &mut world);
    let served = answered(&mut world);
    world.cloud.set_quota("p1", ProjectQuota { policies: Some(5), ..ProjectQuota::default() });
    wish.routes[2].1 = "/b";
    world.actor.want(wish.entry());
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Quota(_))));
    assert_eq!(answered(&mut world), served);
    assert_eq!(blocked(&world).len(), 1);
    // What goes of another host makes room.
    wish.routes.remove(3);
    world.actor.want(wish.entry());
    world.run_on();
    assert_eq!(answered(&mut world), wish.answers());
}

/// Whoever removes an Ingress does not wait for another one.
#[test]
fn where_there_is_no_room_for_both_an_owner_that_goes_makes_room_for_one_that_comes() {
    let (mut wish, mut world) = router(&ROUTES, |_| {});
    made(&wish, &mut world);
    world.cloud.set_quota("p1", ProjectQuota { policies: Some(5), ..ProjectQuota::default() });
    // Its name has its owner.
    wish.routes[2].1 = "/z";
    world.actor.want(wish.entry());
    assert_eq!(world.run_on(), BalancerStep::Done);
    assert_eq!(answered(&mut world), wish.answers());
}

#[test]
fn a_provider_without_http_makes_nothing_of_a_router() {
    let (_, mut world) = router(&ROUTES, |_| {});
    world.cloud.provider_mut().protocols.retain(|one| one != "HTTP");
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Unsupported(_))));
    assert_eq!(blocked(&world).len(), 4, "and one leads to no pool");
    assert_eq!(world.unsupported().len(), 1, "the listener");
}

#[test]
fn what_somebody_adds_goes_after_a_while_unless_it_is_kept() {
    let (wish, mut world) = router(&ROUTES, |wish| wish.default = Some("rest"));
    made(&wish, &mut world);
    let listener = world.actor.balancer().unwrap().listeners[0].id.clone();
    for (name, tags) in [("stray", json!([])), ("kept", json!(["gimbal:keep"]))] {
        let policy = json!({"l7policy": {"listener_id": listener, "name": name, "action": "REJECT", "position": 1, "tags": tags}});
        let made = world.by_hand(&SimRequest::post("/v2/lbaas/l7policies", policy));
        let rules = format!("/v2/lbaas/l7policies/{}/rules", made["l7policy"]["id"].as_str().unwrap());
        let rule = json!({"rule": {"type": "PATH", "compare_type": "EQUAL_TO", "value": format!("/{name}")}});
        world.by_hand(&SimRequest::post(&rules, rule));
    }
    world.sent.clear();
    world.actor.look_again();
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(world.sent, []);
    world.advance(Duration::from_secs(60));
    world.actor.look_again();
    made(&wish, &mut world);
    assert_eq!(kinds(&world), ["Delete l7policy"]);
    let ask = |path| world.cloud.ask(&world.balancer(), 80, Some("b.test"), path);
    assert_eq!(ask("/kept"), Some(gimbal_octavia_sim::Answered::Status(403)));
}

#[test]
fn drift_is_set_back() {
    let (wish, mut world) = router(&ROUTES, |wish| wish.default = Some("rest"));
    made(&wish, &mut world);
    let policies = world.actor.balancer().unwrap().listeners[0].policies.clone();
    let path = |at: usize| format!("/v2/lbaas/l7policies/{}", policies[at].id);
    let rule = format!("{}/rules/{}", path(1), policies[1].rules[0].id);
    let requests = [
        (SimRequest::put(&path(1), json!({"l7policy": {"position": 4}})), vec!["Update l7policy"]),
        (SimRequest::put(&path(2), json!({"l7policy": {"admin_state_up": false}})), vec!["Update l7policy"]),
        (
            SimRequest::put(&rule, json!({"rule": {"value": "^x$"}})),
            vec!["Create l7policy", "Create l7rule", "Create l7rule", "Update l7policy", "Delete l7policy"],
        ),
        (SimRequest::delete(&path(4)), vec!["Create l7policy", "Create l7rule", "Update l7policy"]),
    ];
    for (request, changes) in requests {
        world.by_hand(&request);
        world.sent.clear();
        world.actor.look_again();
        made(&wish, &mut world);
        assert_eq!(kinds(&world), changes, "{request:?}");
    }
}

#[test]
fn a_policy_in_error_is_sent_once_more_and_then_made_anew() {
    let (mut wish, mut world) = router(&ROUTES, |_| {});
    made(&wish, &mut world);
    for (to, changes) in [
        ("two", vec!["Update l7policy"; 2]),
        (
            "three",
            vec![
                "Update l7policy",
                "Create l7policy",
                "Create l7rule",
                "Create l7rule",
                "Update l7policy",
                "Delete l7policy",
            ],
        ),
    ] {
        world.advance(Duration::from_secs(60));
        world.expect(Fate::Fails);
        wish.routes[2].2 = to;
        world.sent.clear();
        world.actor.want(wish.entry());
        // That it ends in ERROR is seen at the next look.
        assert_eq!(world.run(), BalancerStep::Done);
        world.actor.look_again();
        made(&wish, &mut world);
        assert_eq!(kinds(&world), changes);
    }
}

#[test]
fn a_policy_whose_making_fails_is_removed_and_made_again() {
    let (mut wish, mut world) = router(&ROUTES, |_| {});
    made(&wish, &mut world);
    wish.routes.insert(0, ("d.test", "/c", "one"));
    world.sent.clear();
    world.actor.want(wish.entry());
    world.expect(Fate::Fails);
    world.run();
    world.actor.look_again();
    world.run_on();
    made(&wish, &mut world);
    let again = ["Create l7policy", "Create l7rule", "Create l7rule", "Update l7policy"];
    assert_eq!(kinds(&world)[..3], ["Create l7policy", "Create l7rule", "Delete l7policy"]);
    assert_eq!(kinds(&world)[3..], again);
}

#[test]
fn what_a_provider_leaves_unfinished_is_made_again() {
    let (wish, mut world) = router(&ROUTES, |_| {});
    world.cloud.provider_mut().finishes_children = false;
    world.run();
    world.advance(Duration::from_secs(30));
    for _ in 0..20 {
        world.actor.look_again();
        world.run_on();
        world.advance(Duration::from_secs(3700));
    }
    world.actor.look_again();
    made(&wish, &mut world);
}

#[test]
fn a_policy_or_rule_that_a_provider_forgets_counts_as_broken() {
    type Forgets = fn(&mut SeenPolicy);
    let cases: [(Forgets, &str); 2] = [
        (|policy| policy.provisioning = Provisioning::PendingCreate, "Update l7policy"),
        (|policy| policy.rules[0].provisioning = Provisioning::PendingCreate, "Create l7policy"),
    ];
    for (forgets, first) in cases {
        let (wish, mut world) = router(&ROUTES, |_| {});
        made(&wish, &mut world);
        for _ in 0..2 {
            world.advance(Duration::from_secs(10));
            let mut seen = world.look();
            forgets(&mut seen.balancers[0].listeners[0].policies[1]);
            world.actor.looked(seen, world.cloud.now());
        }
        assert_eq!(short(&world.run_to_change()), first);
    }
}

#[test]
fn routes_that_a_request_has_no_room_for_come_afterwards() {
    let paths: Vec<String> = (0..60).map(|n| format!("/path-{n:03}")).collect();
    let paths: &'static [String] = Box::leak(paths.into_boxed_slice());
    // Each leads elsewhere than the one before, so that none is folded.
    let routes: Vec<WantedRoute> =
        paths.iter().zip(["one", "two"].into_iter().cycle()).map(|(path, to)| ("a.test", path.as_str(), to)).collect();
    let (wish, mut world) = router(&routes, |wish| wish.default = Some("rest"));
    // With these each of them takes more than 2 KB.
    let tags: Vec<gimbal_kuryr_model::Text> = (0..3).map(|n| format!("{n}{}", "x".repeat(250)).into()).collect();
    world.actor.set_resource_tags(tags.into());
    let create = world.run_to_change();
    let CloudChange::CreateBalancer { body } = &create else { panic!() };
    let first = body["listeners"][0]["l7policies"].as_array().unwrap().len();
    assert!((20..60).contains(&first), "{first}");
    assert!(body["listeners"][0].get("default_pool").is_none());
    made(&wish, &mut world);
    let policies = &world.actor.balancer().unwrap().listeners[0].policies;
    assert_eq!(policies.len(), 60);
}

/// Whoever rolls many Pods must not keep others from theirs, or from their routes.
#[test]
fn one_service_whose_members_change_all_the_time_stops_no_other() {
    let (mut wish, mut world) = router(&[("a.test", "", "aaa"), ("b.test", "", "zzz")], |_| {});
    made(&wish, &mut world);
    wish.members.insert("zzz", vec![7]);
    wish.routes = vec![("b.test", "", "zzz"), ("c.other", "", "zzz"), ("*.a.test", "", "aaa")];
    wish.base.known = true;
    for turn in 0..60 {
        wish.members.insert("aaa", vec![10 + turn]);
        wish.base.generation += 1;
        world.actor.want(wish.entry());
        for _ in 0..20 {
            let step = world.step();
            world.take(&step, crate::executor::Way::Arrives);
            if matches!(step, BalancerStep::Change(_)) {
                break;
            }
        }
    }
    assert_eq!(answered(&mut world), wish.answers());
    let balancer = world.balancer();
    let Some(Answered::Pool { targets, .. }) = world.cloud.ask(&balancer, 80, Some("b.test"), "/") else { panic!() };
    assert_eq!(targets.len(), 1, "{targets:?}");
}
