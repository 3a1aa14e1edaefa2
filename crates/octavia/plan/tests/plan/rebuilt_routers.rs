//! Routers of which much is to change: another one is made in one request, and takes the place of the former.

use std::time::Duration;

use gimbal_octavia_plan::{BalancerStep, CloudChange};
use gimbal_octavia_sim::{Answered, Fate, ProjectQuota};

use crate::executor::{Way, World};
use crate::router_wish::{RouterWish, WantedRoute, answered, router};

const FIRST: [WantedRoute; 2] = [("a.test", "/a", "one"), ("a.test", "", "two")];
const REBUILT: [&str; 3] = ["Create loadbalancer", "Update floatingip", "Delete loadbalancer"];

/// Returns as many routes to as many hosts.
fn many(count: usize) -> Vec<WantedRoute> {
    let host = |number: usize| -> &'static str { format!("h{number}.test").leak() };
    (0..count).map(|number| (host(number), "", ["one", "two", "three"][number % 3])).collect()
}

/// Returns a router with a floating IP that has few routes.
fn with_few(change: impl FnOnce(&mut RouterWish)) -> (RouterWish, World) {
    let (wish, mut world) = router(&FIRST, |wish| {
        wish.base.floating = true;
        change(wish);
    });
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(answered(&mut world), wish.answers());
    world.sent.clear();
    (wish, world)
}

fn wants(world: &mut World, wish: &mut RouterWish, routes: Vec<WantedRoute>) {
    wish.routes = routes;
    wish.base.generation += 1;
    wish.base.known = true;
    world.sent.clear();
    world.actor.want(wish.entry());
}

/// Takes steps until the end, and checks that each request goes where it went or where it is to go.
#[track_caller]
fn follow(world: &mut World, wish: &RouterWish, mut meanwhile: impl FnMut(&mut World, &BalancerStep)) -> BalancerStep {
    let (before, after) = (answered(world), wish.answers());
    for _ in 0..2_000 {
        let step = world.step();
        if matches!(step, BalancerStep::Done | BalancerStep::Blocked(_)) {
            return step;
        }
        world.take(&step, Way::Arrives);
        for (request, led) in answered(world) {
            let is_right = led == before[&request] || led == after[&request];
            assert!(is_right, "{request:?} goes to {led} after {step:?}");
        }
        meanwhile(world, &step);
    }
    panic!("no end: {:?}", world.step());
}

fn kinds(world: &World) -> Vec<String> {
    world.sent.iter().map(|change| format!("{:?} {}", change.request().verb, change.request().resource)).collect()
}

#[track_caller]
fn assert_one(world: &mut World, wish: &RouterWish) {
    assert_eq!(answered(world), wish.answers());
    for (path, key) in [("/v2/lbaas/loadbalancers", "loadbalancers"), ("/v2.0/floatingips", "floatingips")] {
        assert_eq!(world.rows(path, key, &[]).len(), 1, "{key}");
    }
    assert_eq!(world.rows("/v2/lbaas/l7policies", "l7policies", &[]).len(), wish.routes.len());
}

#[test]
fn many_new_routes_are_one_request() {
    let (mut wish, mut world) = with_few(|_| {});
    let routes = [&FIRST[..], &many(30)].concat();
    wants(&mut world, &mut wish, routes.clone());
    assert_eq!(follow(&mut world, &wish, |_, _| {}), BalancerStep::Done);
    assert_eq!(kinds(&world), REBUILT);
    assert_one(&mut world, &wish);
    // As many that go are one request as well.
    world.advance(Duration::from_secs(60));
    let fewer = [&FIRST[..], &routes[2..4]].concat();
    wants(&mut world, &mut wish, [&fewer[..], &many(80)[60..]].concat());
    assert_eq!(follow(&mut world, &wish, |_, _| {}), BalancerStep::Done);
    assert_eq!(kinds(&world), REBUILT);
    assert_one(&mut world, &wish);
}

#[test]
fn few_changes_are_made_one_by_one() {
    let (mut wish, mut world) = with_few(|_| {});
    wants(&mut world, &mut wish, [&FIRST[..], &many(12)].concat());
    assert_eq!(follow(&mut world, &wish, |_, _| {}), BalancerStep::Done);
    assert!(!kinds(&world).contains(&"Create loadbalancer".to_owned()), "{:?}", kinds(&world));
    assert_one(&mut world, &wish);
}

#[test]
fn it_can_be_switched_off() {
    let (mut wish, mut world) = with_few(|_| {});
    world.rebuild_above(0);
    wants(&mut world, &mut wish, [&FIRST[..], &many(30)].concat());
    assert_eq!(follow(&mut world, &wish, |_, _| {}), BalancerStep::Done);
    assert!(!kinds(&world).contains(&"Create loadbalancer".to_owned()));
    assert_one(&mut world, &wish);
}

#[test]
fn without_a_floating_ip_clients_could_not_follow() {
    let (mut wish, mut world) = with_few(|wish| wish.base.floating = false);
    wants(&mut world, &mut wish, [&FIRST[..], &many(30)].concat());
    assert_eq!(follow(&mut world, &wish, |_, _| {}), BalancerStep::Done);
    assert!(!kinds(&world).contains(&"Create loadbalancer".to_owned()));
    assert_eq!(answered(&mut world), wish.answers());
}

#[test]
fn where_the_quota_has_no_room_for_both_the_changes_are_made_one_by_one() {
    let (mut wish, mut world) = with_few(|_| {});
    world.cloud.set_quota("p1", ProjectQuota { load_balancers: Some(1), ..ProjectQuota::default() });
    wants(&mut world, &mut wish, [&FIRST[..], &many(30)].concat());
    assert_eq!(follow(&mut world, &wish, |_, _| {}), BalancerStep::Done, "nothing is missing");
    let tried = kinds(&world).iter().filter(|kind| *kind == "Create loadbalancer").count();
    assert_eq!(tried, 1);
    assert_one(&mut world, &wish);
    // Where that is known before, it is not tried.
    let (mut wish, mut world) = with_few(|_| {});
    world.facts.quota.load_balancers = Some(0);
    wants(&mut world, &mut wish, [&FIRST[..], &many(30)].concat());
    assert_eq!(follow(&mut world, &wish, |_, _| {}), BalancerStep::Done);
    assert!(!kinds(&world).contains(&"Create loadbalancer".to_owned()));
}

#[test]
fn a_kill_after_any_change_changes_nothing() {
    for killed in 0..4 {
        let (mut wish, mut world) = with_few(|wish| wish.base.from_outside = true);
        wants(&mut world, &mut wish, [&FIRST[..], &many(30)].concat());
        let mut changes = 0;
        let step = follow(&mut world, &wish, |world, step| {
            if matches!(step, BalancerStep::Change(_)) {
                if changes == killed {
                    world.restart();
                }
                changes += 1;
            }
        });
        assert_eq!(step, BalancerStep::Done, "killed after change {killed}");
        assert!(kinds(&world).len() < 8, "{:?}", kinds(&world));
        assert_one(&mut world, &wish);
    }
}

#[test]
fn one_that_does_not_come_is_given_up() {
    let (mut wish, mut world) = with_few(|_| {});
    wants(&mut world, &mut wish, [&FIRST[..], &many(30)].concat());
    world.expect(Fate::DoneAfter(Duration::from_secs(3600)));
    let begin = world.cloud.now();
    while answered(&mut world) != wish.answers() {
        let step = world.step();
        world.take(&step, Way::Arrives);
        assert!(world.cloud.now() < begin + Duration::from_secs(1200), "{step:?}");
    }
    world.run_for(Duration::from_secs(3600));
    world.actor.look_again();
    assert_eq!(world.run(), BalancerStep::Done);
    assert_one(&mut world, &wish);
}

#[test]
fn one_that_fails_is_removed_and_the_changes_are_made_one_by_one() {
    let (mut wish, mut world) = with_few(|_| {});
    wants(&mut world, &mut wish, [&FIRST[..], &many(30)].concat());
    world.expect(Fate::Fails);
    assert_eq!(follow(&mut world, &wish, |_, _| {}), BalancerStep::Done);
    assert_one(&mut world, &wish);
    let made = world.sent.iter().filter(|change| matches!(change, CloudChange::CreateBalancer { .. })).count();
    assert!(made <= 2, "{made}");
}

#[test]
fn a_wish_that_is_taken_back_leaves_the_former() {
    let (mut wish, mut world) = with_few(|_| {});
    let former = world.balancer();
    wants(&mut world, &mut wish, [&FIRST[..], &many(30)].concat());
    while world.actor.seen().balancers.len() < 2 {
        let step = world.step();
        world.take(&step, Way::Arrives);
    }
    wants(&mut world, &mut wish, FIRST.to_vec());
    assert_eq!(follow(&mut world, &wish, |_, _| {}), BalancerStep::Done);
    assert_eq!(world.balancer(), former);
    assert_one(&mut world, &wish);
}

/// Connections end with the load balancer that they lead through.
#[test]
fn it_is_not_done_again_and_again() {
    let (mut wish, mut world) = with_few(|_| {});
    world.rebuild_above(10);
    let mut rebuilt = 0;
    for round in 0..6 {
        let routes = many(6 * (round + 1))[6 * round..].to_vec();
        wants(&mut world, &mut wish, [&FIRST[..], &routes].concat());
        assert_eq!(follow(&mut world, &wish, |_, _| {}), BalancerStep::Done);
        rebuilt += world.sent.iter().filter(|change| matches!(change, CloudChange::CreateBalancer { .. })).count();
        world.advance(Duration::from_secs(120));
    }
    assert_eq!(rebuilt, 3);
    assert_one(&mut world, &wish);
}

/// Whoever is sent to HTTPS finds it there until no client is sent there any more.
#[test]
fn https_stays_for_as_long_as_clients_are_sent_there() {
    let (mut wish, mut world) = router(&many(20), |wish| {
        wish.base.floating = true;
        (wish.certificates, wish.redirects) = (vec![("shop/a", 1)], true);
    });
    assert_eq!(world.run(), BalancerStep::Done);
    (wish.certificates, wish.redirects) = (Vec::new(), false);
    let routes = wish.routes.clone();
    wants(&mut world, &mut wish, routes);
    let balancer_at = |world: &mut World, leads_to: &serde_json::Value| {
        let balancers = world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]);
        balancers.into_iter().find(|row| row["vip_port_id"] == *leads_to).unwrap()["id"].as_str().unwrap().to_owned()
    };
    let mut is_over = false;
    for _ in 0..500 {
        let step = world.step();
        if step == BalancerStep::Done {
            is_over = true;
            break;
        }
        world.take(&step, Way::Arrives);
        let leads_to = world.rows("/v2.0/floatingips", "floatingips", &[]).remove(0)["port_id"].clone();
        let balancer = balancer_at(&mut world, &leads_to);
        let is_sent = matches!(world.cloud.ask(&balancer, 80, Some("h1.test"), "/"), Some(Answered::Redirect { .. }));
        let answers = world.cloud.ask(&balancer, 443, Some("h1.test"), "/").is_some();
        assert!(answers || !is_sent, "{step:?}");
    }
    assert!(is_over);
    assert_eq!(kinds(&world).iter().filter(|kind| *kind == "Create loadbalancer").count(), 1, "it was rebuilt");
    assert_eq!(answered(&mut world), wish.answers());
}
