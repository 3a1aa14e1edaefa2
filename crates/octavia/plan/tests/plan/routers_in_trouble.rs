//! Routers in random worlds: whatever is lost, refused or killed, each request goes where it went when the wish came or where it
//! is to go, and in the end to the latter.

use std::collections::BTreeMap;
use std::time::Duration;

use gimbal_octavia_plan::{BalancerStep, CloudChange};
use gimbal_octavia_sim::{Dice, Fate, ProjectQuota};
use gimbal_property::worlds;

use crate::certificates::{assert_sound, names, served, stored};
use crate::executor::{Way, World, actor};
use crate::router_wish::{Answers, RouterWish, WantedRoute, answered, answered_at, requests, router};

const TARGETS: [&str; 4] = ["one", "one", "two", "three"];
/// One Secret with one content and then another, and one more Secret.
const CERTIFICATES: [&[(&str, u8)]; 4] =
    [&[("shop/a", 1)], &[("shop/a", 2)], &[("shop/a", 1), ("shop/b", 3)], &[("shop/b", 3)]];

fn any_wish(dice: &mut Dice, wish: &mut RouterWish) {
    let hosts = ["", "a.test", "b.test", "*.a.test", "*.test"];
    let paths = ["", "/a", "=/a", "/a/b", "/ab", "=/"];
    let any = |dice: &mut Dice| -> WantedRoute {
        let to = if dice.one_in(12) { "https://c.test" } else { dice.pick(&TARGETS) };
        (dice.pick(&hosts), dice.pick(&paths), to)
    };
    match dice.below(7) {
        0 if !wish.certificates.is_empty() => wish.certificates = dice.pick(&CERTIFICATES).to_vec(),
        0 | 6 => wish.default = dice.pick(&[None, Some("one"), Some("rest")]),
        1 => {
            let hosts = (1..=4).filter(|_| dice.one_in(2)).chain([9]).collect();
            wish.members.insert(dice.pick(&TARGETS), hosts);
        }
        2 if wish.routes.len() > 1 => {
            let (from, to) = (dice.below(wish.routes.len() as u64), dice.below(wish.routes.len() as u64));
            wish.routes.swap(usize::try_from(from).unwrap(), usize::try_from(to).unwrap());
        }
        3 if !wish.routes.is_empty() => {
            let at = dice.below(wish.routes.len() as u64);
            wish.routes.remove(usize::try_from(at).unwrap());
        }
        4 => wish.routes = (0..dice.below(6)).map(|_| any(dice)).collect(),
        _ => {
            let at = dice.below(wish.routes.len() as u64 + 1);
            wish.routes.insert(usize::try_from(at).unwrap(), any(dice));
        }
    }
    // Of two equal routes the first one counts, whichever way they are compared.
    let mut seen = Vec::new();
    wish.routes.retain(|(host, path, _)| {
        !seen.contains(&(*host, *path)) && {
            seen.push((*host, *path));
            true
        }
    });
    wish.base.generation += 1;
    wish.base.known = dice.one_in(2);
}

fn way(dice: &mut Dice) -> Way {
    match dice.below(10) {
        0 => Way::Lost,
        1 => Way::AnswerLost,
        2 => Way::Late,
        _ => Way::Arrives,
    }
}

/// Half of the worlds have a floating IP, and routers that are rebuilt for little.
fn maybe_rebuilt(dice: &mut Dice, wish: &mut RouterWish, world: &mut World) {
    if dice.one_in(2) {
        wish.base.floating = true;
        world.rebuild_above(dice.pick(&[2, 5, 9]));
        world.actor.want(wish.entry());
    }
}

/// Sets a quota that may have no room for a part of the router, or takes it away.
fn any_quota(dice: &mut Dice, world: &mut World) {
    let quota = ProjectQuota {
        listeners: dice.pick(&[None, None, Some(1)]),
        pools: dice.pick(&[None, None, Some(1), Some(3)]),
        members: dice.pick(&[None, None, Some(2), Some(5)]),
        policies: dice.pick(&[None, None, Some(1), Some(3)]),
        ..ProjectQuota::default()
    };
    gimbal_property::note(|| format!("{:?} {quota:?}", world.cloud.now()));
    world.cloud.set_quota("p1", quota);
}

#[track_caller]
fn assert_converged(world: &mut World, wish: &RouterWish, what: &str) {
    world.cloud.forget_expectations();
    world.end_stalled(Fate::Breaks);
    world.cloud.set_quota("p1", ProjectQuota::default());
    while world.has_late_requests() {
        world.advance(Duration::from_secs(5));
    }
    world.actor.look_again();
    world.run_on();
    for _ in 0..3 {
        world.advance(Duration::from_secs(3700));
        world.actor.look_again();
        assert_eq!(world.run_on(), BalancerStep::Done, "{what}: {:#?}", world.actor);
    }
    world.sent.clear();
    world.actor.look_again();
    assert_eq!((world.run(), world.sent.len()), (BalancerStep::Done, 0), "{what}: {:?}", world.sent);
    assert_eq!(answered(world), wish.answers(), "{what}");
    if !wish.certificates.is_empty() {
        assert_eq!(answered_at(world, 443), wish.answers(), "{what}: HTTPS");
    }
    let mut wanted = names(&wish.certificates);
    wanted.sort();
    let mut shown = served(world).unwrap_or_default();
    shown.sort();
    assert_eq!((shown, stored(world)), (wanted.clone(), wanted), "{what}: certificates");
    let pools = world.rows("/v2/lbaas/pools", "pools", &[]).len();
    let DesiredPools(wanted) = DesiredPools::of(wish);
    assert_eq!(pools, wanted, "{what}: pools leak");
    let balancers = world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]);
    assert_eq!(balancers.len(), 1, "{what}: a twin");
}

struct DesiredPools(usize);

impl DesiredPools {
    fn of(wish: &RouterWish) -> Self {
        let gimbal_kuryr_model::DesiredEntry::LoadBalancer(wanted) = wish.entry() else { panic!() };
        Self(wanted.header.routing.as_ref().unwrap().pools.len())
    }
}

/// A router for HTTP, and in half of the worlds for HTTPS as well.
fn http_or_both(dice: &mut Dice, routes: &[WantedRoute]) -> (RouterWish, World) {
    let certificates = if dice.one_in(2) { CERTIFICATES[0] } else { &[] };
    router(routes, |wish| wish.certificates = certificates.to_vec())
}

/// Counts what is lost of each policy and pool. Of one that fails four times in a row no other waits for the end of that, and what
/// it is to take may go elsewhere meanwhile: that is not what is tested.
fn is_lost_too_often(losses: &mut BTreeMap<String, u8>, step: &BalancerStep) -> bool {
    use CloudChange::{CreateMember, CreatePolicy, CreatePool, CreateRule, SetMembers, UpdatePolicy};
    let BalancerStep::Change(change) = step else { return false };
    let (part, most) = match change {
        CreatePolicy { body } | CreatePool { body } => (body.to_string(), 1),
        CreateRule { policy: id, .. } | UpdatePolicy { id, .. } => (id.clone(), 2),
        SetMembers { pool, .. } | CreateMember { pool, .. } => (pool.clone(), 2),
        _ => return false,
    };
    let lost = losses.entry(part).or_default();
    *lost += 1;
    *lost > most
}

/// Over HTTP and, where there are certificates, over HTTPS. Only what fails inside the provider may lead requests astray; late
/// requests of a process that was killed are not undone in an instant.
#[test]
fn no_request_is_led_astray_whatever_is_lost_or_killed() {
    worlds("requests to a router at every instant", 60, |seed| {
        let mut dice = Dice::new(seed);
        let (mut wish, mut world) = http_or_both(&mut dice, &[("a.test", "/a", "one"), ("a.test", "", "two")]);
        let ports: &[u16] = if wish.certificates.is_empty() { &[80] } else { &[80, 443] };
        world.cloud.provider_mut().batch = !dice.one_in(4);
        maybe_rebuilt(&mut dice, &mut wish, &mut world);
        assert_eq!(world.run(), BalancerStep::Done);
        let mut allowed: Vec<Vec<Answers>> = vec![vec![wish.answers()]; ports.len()];
        let mut losses = BTreeMap::new();
        for nth in 0..250 {
            if dice.one_in(15) {
                for (port, allowed) in ports.iter().zip(&mut allowed) {
                    allowed.push(answered_at(&mut world, *port));
                }
                any_wish(&mut dice, &mut wish);
                allowed.iter_mut().for_each(|of_port| of_port.push(wish.answers()));
                gimbal_property::note(|| {
                    let RouterWish { routes, default, certificates, .. } = &wish;
                    format!("{:?} wants {routes:?}, {default:?}, {certificates:?}", world.cloud.now())
                });
                world.actor.want(wish.entry());
            }
            if dice.one_in(8) {
                world.restart();
            }
            let step = world.step();
            let way = match way(&mut dice) {
                Way::Arrives => Way::Arrives,
                _ if is_lost_too_often(&mut losses, &step) => Way::Arrives,
                Way::Late => Way::Lost,
                way => way,
            };
            world.take(&step, way);
            let what = format!("world {seed}, step {nth}, after {step:?}");
            for (port, allowed) in ports.iter().zip(&allowed) {
                let now = answered_at(&mut world, *port);
                for request in requests() {
                    let is_allowed = allowed.iter().any(|answers| answers[&request] == now[&request]);
                    assert!(is_allowed, "{what}: {request:?} goes at {port} to {}", now[&request]);
                }
            }
            assert_sound(&mut world, &what);
            if step == BalancerStep::Done {
                allowed = vec![vec![wish.answers()]; ports.len()];
            }
        }
        assert_converged(&mut world, &wish, &format!("world {seed}"));
        world.counts()
    });
}

/// In some worlds with another writer, which has an older wish now and then, and in some with quotas.
#[test]
fn any_order_of_trouble_ends_in_what_is_wanted() {
    worlds("any order of trouble of a router", 60, |seed| {
        let mut dice = Dice::new(seed + 1_000_000);
        let (mut wish, mut world) = http_or_both(&mut dice, &[("a.test", "/a", "one")]);
        wish.base.monitor = true;
        world.actor.want(wish.entry());
        (world.cloud.provider_mut().batch, world.cloud.provider_mut().populated) = (!dice.one_in(4), !dice.one_in(3));
        world.cloud.provider_mut().finishes_children = !dice.one_in(5);
        maybe_rebuilt(&mut dice, &mut wish, &mut world);
        let mut other = dice.one_in(2).then(|| actor(wish.entry()));
        let has_quotas = dice.one_in(3);
        for _ in 0..200 {
            if dice.one_in(12) {
                any_wish(&mut dice, &mut wish);
                world.actor.want(wish.entry());
            }
            if has_quotas && dice.one_in(15) {
                any_quota(&mut dice, &mut world);
            }
            // A port is deleted right after a look, and Neutron has nothing that would close the milliseconds between.
            let deletes_port = matches!(world.step(), BalancerStep::Change(CloudChange::DeletePort { .. }));
            if let Some(other) = other.as_mut().filter(|_| !deletes_port && dice.one_in(2)) {
                gimbal_property::note(|| format!("{:?} the other writer:", world.cloud.now()));
                std::mem::swap(&mut world.actor, other);
            }
            if dice.one_in(12) {
                world.restart();
            }
            if dice.one_in(25) {
                const LATER: Fate = Fate::DoneAfter(Duration::from_secs(30));
                world.expect(dice.pick(&[Fate::Fails, Fate::Breaks, Fate::Raises, Fate::Stalls, LATER]));
            }
            if dice.one_in(20) {
                world.end_stalled(dice.pick(&[Fate::Done, Fate::Breaks]));
            }
            let (step, way) = (world.step(), way(&mut dice));
            world.take(&step, way);
        }
        world.actor.want(wish.entry());
        assert_converged(&mut world, &wish, &format!("world {seed}"));
        world.counts()
    });
}

/// A kill after each change of a life: it is made, changed, rebuilt or not, and removed.
#[test]
fn a_kill_after_any_change_changes_nothing() {
    for rebuild_above in [0, 3] {
        let lives = (0..80).take_while(|killed| is_killed_after(*killed, rebuild_above)).count();
        assert!((20..80).contains(&lives), "{lives}");
    }
}

/// Returns whether there were that many changes.
fn is_killed_after(killed: usize, rebuild_above: usize) -> bool {
    let script: [&[WantedRoute]; 4] = [
        &[("a.test", "/a", "one"), ("a.test", "", "two"), ("b.test", "", "one")],
        &[("b.test", "", "two"), ("a.test", "/a", "one"), ("a.test", "/b", "three"), ("a.test", "", "two")],
        &[("a.test", "", "two"), ("*.test", "", "one")],
        &[("*.test", "", "one"), ("a.test", "", "two"), ("", "", "three")],
    ];
    let (mut wish, mut world) = router(script[0], |wish| {
        wish.default = Some("rest");
        (wish.base.from_outside, wish.base.floating) = (rebuild_above > 0, rebuild_above > 0);
    });
    world.rebuild_above(rebuild_above);
    let mut changes = 0;
    let mut follow = |world: &mut World| {
        for _ in 0..500 {
            let step = world.step();
            if matches!(step, BalancerStep::Done | BalancerStep::Gone) {
                break;
            }
            world.take(&step, Way::Arrives);
            if matches!(step, BalancerStep::Change(_)) {
                if changes == killed {
                    world.restart();
                }
                changes += 1;
            }
        }
        changes
    };
    for routes in script {
        wish.routes = routes.to_vec();
        world.actor.want(wish.entry());
        follow(&mut world);
        assert_eq!(answered(&mut world), wish.answers(), "killed after change {killed}");
    }
    world.sent.clear();
    world.actor.look_again();
    assert_eq!((world.run(), world.sent.len()), (BalancerStep::Done, 0));
    world.actor.want(wish.base.deleting());
    let changes = follow(&mut world);
    for (path, key) in [
        ("/v2/lbaas/loadbalancers", "loadbalancers"),
        ("/v2/lbaas/pools", "pools"),
        ("/v2/lbaas/l7policies", "l7policies"),
        ("/v2.0/ports", "ports"),
        ("/v2.0/floatingips", "floatingips"),
    ] {
        let left = world.rows(path, key, &[]);
        assert!(left.is_empty(), "killed after change {killed}: {left:#?}");
    }
    changes > killed
}
