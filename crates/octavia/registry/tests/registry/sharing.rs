//! Load balancers that several owners share.

use gimbal_kuryr_model::{DesiredKey, Phase};
use gimbal_octavia_plan::CloudChange;
use gimbal_octavia_sim::Dice;
use gimbal_property::worlds;

use crate::wish::{Wish, forwarded, going, key};
use crate::world::{MS, SECOND, Way, World};

pub fn shares(world: &World, owner: &str, created: u32, ports: &[u16], hosts: std::ops::Range<u8>) -> Wish {
    let members = ports.iter().flat_map(|port| hosts.clone().map(|host| (host, *port))).collect();
    let group = Some(("shop/web".to_owned(), created));
    Wish { from_outside: true, ports: ports.to_vec(), members, group, ..Wish::new(owner, &world.subnet) }
}

pub fn at(name: &str) -> DesiredKey {
    key("shop", name)
}

/// A world in which `a` has port 80, and `b`, which is younger, ports 81 and 82.
pub fn two() -> World {
    let mut world = World::usual();
    for (name, owner, created, ports, hosts) in [("a", "ua", 1, &[80][..], 1..4), ("b", "ub", 2, &[81, 82], 4..7)] {
        let mut wish = shares(&world, owner, created, ports, hosts);
        wish.floating = true;
        world.want("prod1", at(name), wish);
    }
    world.converge(120 * SECOND);
    ["a", "b"].iter().for_each(|name| world.status_written("prod1", &at(name)));
    world.run(130 * SECOND);
    world.sent.clear();
    world
}

fn report<'a>(world: &'a World, name: &str) -> &'a gimbal_kuryr_model::LoadBalancerReport {
    &world.reports[&("prod1".to_owned(), at(name))]
}

/// Returns what the load balancer of an owner forwards.
fn served(world: &mut World, owner: &str) -> Vec<(u16, Vec<String>)> {
    let id = world.balancers_of(owner).remove(0);
    forwarded(&world.cloud, &id)
}

fn tags(world: &mut World, path: &str, rows: &str) -> String {
    world.rows(path, rows).iter().map(|row| row["tags"].to_string()).collect()
}

#[test]
fn owners_have_one_load_balancer_and_one_that_leaves_takes_only_its_own() {
    let mut world = two();
    assert_eq!(
        (world.balancers().len(), world.balancers_of("ua"), world.rows("/v2.0/floatingips", "floatingips").len()),
        (1, world.balancers_of("ub"), 1)
    );
    let ports = |world: &World, name: &str| -> Vec<u16> {
        report(world, name).objects.listeners.iter().map(|one| one.port).collect()
    };
    assert_eq!((ports(&world, "a"), ports(&world, "b")), (vec![80], vec![81, 82]));
    assert_eq!((report(&world, "a").objects.members.len(), report(&world, "b").objects.member_count), (3, 6));
    let id = world.balancers_of("ua").remove(0);
    world.check = Some(|world| {
        let served = forwarded(&world.cloud, &world.watched[0]);
        assert!(served.iter().any(|(port, members)| *port == 80 && members.len() == 3), "{served:?}");
    });
    world.watched = vec![id];
    world.change("prod1", &at("b"), |wish| wish.deleting = true);
    world.converge(120 * SECOND);
    assert!(!tags(&mut world, "/v2/lbaas/listeners", "listeners").contains("k8s-svc-uid:ub"));
    let is_its = |change: &CloudChange| {
        matches!(
            change,
            CloudChange::DeleteListener { .. } | CloudChange::DeletePool { .. } | CloudChange::UpdateBalancer { .. }
        )
    };
    assert!(world.sent.iter().all(|sent| is_its(&sent.change)) && world.sent.len() == 5, "{:#?}", world.sent);
    world.check = None;
    world.change("prod1", &at("a"), |wish| wish.deleting = true);
    world.run_until(120 * SECOND, "the last one is gone", |world| world.phase("prod1", &at("a")) == Some(Phase::Gone));
    let left = ["/v2.0/floatingips", "/v2.0/ports"].map(|path| world.rows(path, &path[6..]).len());
    assert_eq!(left, [0, 0], "the floating IP and the port go before the last owner");
    world.converge(120 * SECOND);
    assert_eq!(world.left_of("prod1"), [""; 0]);
}

#[test]
fn nothing_is_reported_gone_while_a_part_of_it_is_there() {
    let mut world = two();
    world.check = Some(|world| {
        let Some(report) = world.reports.get(&("prod1".to_owned(), at("b"))) else { return };
        if report.phase == Phase::Gone {
            let served = forwarded(&world.cloud, &world.watched[0]);
            assert!(served.iter().all(|(port, _)| *port == 80), "{served:?}");
        }
    });
    world.watched = world.balancers_of("ua");
    world.trouble = 2;
    world.change("prod1", &at("b"), |wish| wish.deleting = true);
    world.converge(600 * SECOND);
}

#[test]
fn the_older_one_has_a_port_and_the_younger_one_gets_it_when_that_leaves() {
    let mut world = two();
    let wish = shares(&world, "uc", 3, &[80, 90], 7..9);
    world.want("prod1", at("c"), wish);
    world.converge(120 * SECOND);
    let told = report(&world, "c");
    assert_eq!(told.phase, Phase::Ready);
    assert_eq!(
        told.refused_ports.iter().map(|one| (one.listener.port, &*one.reason)).collect::<Vec<_>>(),
        [(80, "PortTaken")]
    );
    assert!(
        told.conditions.iter().any(|one| &*one.kind == "Conflict" && one.message.contains("shop/a has port 80/TCP"))
    );
    assert_eq!(told.objects.listeners.iter().map(|one| one.port).collect::<Vec<_>>(), [90]);
    assert!(report(&world, "a").conditions.is_empty() && report(&world, "a").refused_ports.is_empty());
    // Whoever has no port is not served.
    let wish = shares(&world, "ud", 4, &[81], 9..10);
    world.want("prod1", at("d"), wish);
    world.converge(120 * SECOND);
    assert_eq!(report(&world, "d").phase, Phase::Blocked);
    world.change("prod1", &at("a"), |wish| wish.deleting = true);
    world.converge(120 * SECOND);
    assert_eq!(report(&world, "c").refused_ports, []);
    assert!(tags(&mut world, "/v2/lbaas/listeners", "listeners").matches("k8s-svc-uid:uc").count() == 2);
    // Somebody older comes, and has the port.
    let wish = shares(&world, "u0", 0, &[80], 1..2);
    world.want("prod1", at("z"), wish);
    world.converge(120 * SECOND);
}

#[test]
fn what_the_oldest_one_decides_is_told_to_the_others() {
    let mut world = two();
    let mut wish = shares(&world, "uc", 3, &[90], 7..9);
    wish.project = "p2".to_owned();
    world.want("prod1", at("c"), wish);
    world.converge(120 * SECOND);
    let told = report(&world, "c");
    let one = told.conditions.iter().find(|one| &*one.kind == "Conflict").unwrap();
    assert_eq!((&*one.reason, told.phase), ("SharedSettings", Phase::Ready));
    assert!(one.message.contains("shop/a decides about project, floating IP"), "{}", one.message);
}

/// Lets a writer that knows nothing hear only of some of what is wanted.
/// Octavia says ERROR of the whole when the members of one pool are down; the others are served. What one owner cannot have says
/// nothing about the other one.
#[test]
fn a_shared_load_balancer_does_not_serve_when_no_owner_is_served() {
    let mut world = two();
    world.way_of = Some(|change| matches!(change, CloudChange::CreateListener { .. }).then_some(Way::Refused));
    world.change("prod1", &at("b"), |wish| wish.ports.push(83));
    world.run(60 * SECOND);
    let balancer = world.balancers_of("ua").remove(0);
    let pools = world.rows("/v2/lbaas/pools", "pools");
    let (of_a, of_b): (Vec<_>, Vec<_>) = pools.iter().partition(|row| row["tags"].to_string().contains(":ua"));
    for (down, status, phase) in
        [(Vec::new(), "ONLINE", Phase::Ready), (of_a, "ERROR", Phase::Ready), (of_b, "ERROR", Phase::Degraded)]
    {
        for pool in down {
            world.cloud.report_operating(pool["id"].as_str().unwrap(), status);
        }
        world.cloud.report_operating(&balancer, status);
        world.run(130 * SECOND);
        assert_eq!(["a", "b"].map(|name| report(&world, name).phase), [phase, Phase::Blocked]);
    }
}

fn hears(world: &mut World, names: &[&str]) {
    for nth in 0..world.writers.len() {
        world.silence(nth, "prod1");
    }
    world.writers.clear();
    world.add_writer();
    let all = world.wishes.clone();
    world.wishes.retain(|(_, key), _| names.contains(&&*key.name));
    world.connect(0, "prod1");
    let now = world.now();
    world.writers[0].registry.set_current("prod1", true, false);
    let wishes = std::mem::replace(&mut world.wishes, all);
    world.run(100 * SECOND);
    assert!(wishes.len() == names.len() && world.now() > now);
}

#[test]
fn after_a_restart_whoever_has_not_been_heard_keeps_what_is_there() {
    let mut world = two();
    let before = served(&mut world, "ua");
    for names in [&["a"][..], &["b"], &[]] {
        hears(&mut world, names);
        world.run(3_600 * SECOND);
        assert_eq!(world.sent.len(), 0, "{names:?}: {:#?}", world.last_sent());
    }
    // One that goes is no different.
    world.change("prod1", &at("a"), |wish| wish.deleting = true);
    world.status_written("prod1", &at("a"));
    hears(&mut world, &["a"]);
    assert_eq!(served(&mut world, "ub"), before);
    assert_ne!(world.reports.get(&("prod1".to_owned(), at("a"))).map(|one| one.phase), Some(Phase::Gone));
    world.connect(0, "prod1");
    world.converge(120 * SECOND);
    assert_eq!(world.balancers_of("ua").len(), 0);
}

#[test]
fn after_a_restart_a_port_stays_with_the_one_who_has_not_been_heard() {
    let mut world = two();
    let wish = shares(&world, "uc", 3, &[80, 90], 7..9);
    world.want("prod1", at("c"), wish);
    world.converge(120 * SECOND);
    world.status_written("prod1", &at("c"));
    world.run(120 * SECOND);
    world.sent.clear();
    hears(&mut world, &["b", "c"]);
    world.change("prod1", &at("c"), |wish| wish.members = vec![(7, 80), (7, 90)]);
    world.run(60 * SECOND);
    let before = served(&mut world, "ua");
    assert_eq!(
        before.iter().map(|(port, to)| (*port, to.len())).collect::<Vec<_>>(),
        [(80, 3), (81, 3), (82, 3), (90, 1)]
    );
    world.connect(0, "prod1");
    world.converge(120 * SECOND);
}

#[test]
fn what_is_refused_after_a_restart_stays_as_it_is() {
    let mut world = two();
    let before = served(&mut world, "ua");
    let now = world.now();
    let all = world.wishes.clone();
    world.restart(0);
    world.silence(0, "prod1");
    world.wishes.retain(|(_, key), _| &*key.name == "b");
    world.connect(0, "prod1");
    let refused = all[&("prod1".to_owned(), at("a"))].entry();
    world.writers[0].registry.refuse("prod1", &at("a"), &refused, now);
    world.run(3_600 * SECOND);
    assert_eq!(served(&mut world, "ua"), before);
    assert_eq!(world.sent.len(), 0);
}

#[test]
fn the_last_owner_is_gone_after_everything_even_after_a_restart() {
    let mut world = two();
    world.restart(0);
    world.connect(0, "prod1");
    world.converge(120 * SECOND);
    for name in ["a", "b"] {
        assert_eq!(world.rows("/v2.0/floatingips", "floatingips").len(), 1, "{name} is there");
        world.change("prod1", &at(name), |wish| wish.deleting = true);
        world.run_until(120 * SECOND, "it is gone", |world| world.phase("prod1", &at(name)) == Some(Phase::Gone));
    }
    let left = ["/v2.0/floatingips", "/v2.0/ports"].map(|path| world.rows(path, &path[6..]).len());
    assert_eq!(left, [0, 0], "the floating IP and the port go before the last owner");
}

#[test]
fn an_owner_that_left_the_stream_keeps_its_part_until_its_absence_is_proven() {
    let mut world = two();
    world.forget("prod1", &at("b"));
    world.run(500 * SECOND);
    assert_eq!(world.sent.len(), 0, "{:#?}", world.last_sent());
    world.run(400 * SECOND);
    world.converge(120 * SECOND);
    assert_eq!((world.balancers_of("ub").len(), world.balancers_of("ua").len()), (0, 1));
    world.forget("prod1", &at("a"));
    world.run(500 * SECOND);
    assert_eq!(world.balancers_of("ua").len(), 1);
    world.run(900 * SECOND);
    assert_eq!(world.left_of("prod1"), [""; 0]);
}

#[test]
fn a_removal_that_began_before_a_restart_is_finished() {
    for names in [&["b"][..], &["a"], &["a", "b"]] {
        let mut world = two();
        world.silence(0, "prod1");
        names.iter().for_each(|name| {
            let wish = world.wishes.get_mut(&("prod1".to_owned(), at(name))).unwrap();
            wish.deleting = true;
        });
        world.restart(0);
        world.connect(0, "prod1");
        world.converge(200 * SECOND);
        let left = if names.len() == 2 { 0 } else { 1 };
        assert_eq!(world.balancers().len(), left, "{names:?}");
        assert!(left == 1 || world.left_of("prod1").is_empty());
    }
}

#[test]
fn one_joins_with_a_load_balancer_of_its_own_and_leaves_for_one() {
    let mut world = two();
    let mut wish = Wish::new("uc", &world.subnet);
    (wish.ports, wish.members) = (vec![90], vec![(7, 90)]);
    world.want("prod1", at("c"), wish);
    world.converge(120 * SECOND);
    assert_eq!(world.balancers().len(), 2);
    world.change("prod1", &at("c"), |wish| wish.group = Some(("shop/web".to_owned(), 3)));
    world.converge(200 * SECOND);
    world.run(60 * SECOND);
    assert_eq!((world.balancers().len(), world.balancers_of("uc")), (1, world.balancers_of("ua")));
    world.change("prod1", &at("c"), |wish| wish.group = Some(("shop/other".to_owned(), 3)));
    world.converge(200 * SECOND);
    assert_ne!(world.balancers_of("uc"), world.balancers_of("ua"));
    world.change("prod1", &at("c"), |wish| wish.group = None);
    world.converge(200 * SECOND);
    world.run(60 * SECOND);
    assert_eq!(world.balancers().len(), 2);
    // Somebody else takes the key.
    world.want("prod1", at("b"), shares(&world, "ub2", 4, &[81], 4..5));
    world.converge(200 * SECOND);
    assert_eq!(world.balancers_of("ub").len(), 0);
}

#[test]
fn an_owner_is_nobody_elses() {
    let mut world = two();
    let copy = world.wishes[&("prod1".to_owned(), at("b"))].clone();
    let now = world.now();
    for entry in [copy.entry(), Wish { group: None, ..copy }.entry(), going("ub")] {
        assert!(!world.writers[0].registry.want("prod1", key("copies", "b"), entry, now));
    }
    world.run(120 * SECOND);
    assert_eq!(world.sent.len(), 0, "{:#?}", world.last_sent());
}

/// Kills the writer after each change of a life.
#[test]
fn a_kill_after_each_change_of_a_group_leaves_nothing_behind() {
    for nth in 1.. {
        let mut world = World::usual();
        let mut is_killed = false;
        let mut kill = |world: &mut World| {
            if !is_killed && world.sent.len() >= nth {
                is_killed = true;
                world.restart(0);
            }
            world.is_converged()
        };
        let mut wish = shares(&world, "ua", 1, &[80], 1..4);
        wish.floating = true;
        world.want("prod1", at("a"), wish);
        world.run_until(300 * SECOND, "made", &mut kill);
        let wish = shares(&world, "ub", 2, &[80, 81], 4..6);
        world.want("prod1", at("b"), wish);
        world.run_until(300 * SECOND, "joined", &mut kill);
        world.change("prod1", &at("a"), |wish| wish.deleting = true);
        world.run_until(300 * SECOND, "left", &mut kill);
        world.change("prod1", &at("b"), |wish| wish.deleting = true);
        world.run_until(300 * SECOND, "gone", &mut kill);
        assert_eq!(world.left_of("prod1"), [""; 0], "after {nth}");
        if !is_killed {
            assert!(nth > 10, "{nth}");
            break;
        }
    }
}

fn is_served(world: &mut World) {
    for id in &world.watched {
        let served = forwarded(&world.cloud, id);
        assert!(served.iter().any(|(port, to)| *port == 80 && !to.is_empty()), "{served:?} {:#?}", world.last_sent());
    }
}

/// Owners come and go, whatever is lost and killed: the port of the oldest one is never without a member, and in the end
/// everybody has what is his.
#[test]
fn any_coming_and_going_ends_in_what_is_wanted() {
    worlds("owners that share come and go", 12, |seed| {
        let mut world = World::new(seed);
        world.add_cluster("prod1");
        world.add_writer();
        world.connect(0, "prod1");
        let wish = shares(&world, "u0", 0, &[80], 1..4);
        world.want("prod1", at("s0"), wish);
        world.converge(200 * SECOND);
        world.watched = world.balancers_of("u0");
        world.check = Some(is_served);
        world.trouble = 8;
        let (mut dice, mut owners) = (Dice::new(seed + 31), 0);
        for _ in 0..50 {
            let name = at(&format!("s{}", 1 + dice.below(3)));
            let exists = world.wishes.get(&("prod1".to_owned(), name.clone())).cloned();
            match (dice.below(10), exists) {
                (0, Some(wish)) if wish.deleting => world.forget("prod1", &name),
                (0..=2, Some(_)) => world.change("prod1", &name, |wish| wish.deleting = true),
                (3, Some(wish)) if !wish.deleting => world.change("prod1", &name, |wish| {
                    let group = dice.pick(&[None, Some("shop/web"), Some("shop/other")]);
                    wish.group = group.map(|group| (group.to_owned(), 5));
                    wish.floating = false;
                }),
                (4, _) => world.restart(0),
                (5, _) => {
                    world.change("prod1", &at("s0"), |wish| wish.members = vec![(dice.below(5) as u8, 80), (9, 80)])
                }
                (_, Some(wish)) if !wish.deleting => world.change("prod1", &name, |wish| wish.known = dice.one_in(2)),
                _ => {
                    owners += 1;
                    let ports = [80, 81, 82].into_iter().filter(|_| dice.one_in(2)).collect::<Vec<_>>();
                    let wish = shares(&world, &format!("u{owners}"), 1 + owners, &ports, 4..6);
                    world.want("prod1", name, wish);
                }
            }
            world.run(dice.pick(&[10 * MS, 300 * MS, 2 * SECOND, 8 * SECOND]));
        }
        world.trouble = 0;
        while world.has_late_requests() {
            world.run(5 * SECOND);
        }
        // Snapshots confirm what the guard holds.
        for _ in 0..4 {
            world.connect(0, "prod1");
            world.run(1_500 * SECOND);
        }
        world.converge(900 * SECOND);
        world.sent.clear();
        world.run(300 * SECOND);
        assert_eq!(world.sent.len(), 0, "world {seed}: {:#?}", world.last_sent());
        world.check = None;
        let all: Vec<_> = world.wishes.keys().cloned().collect();
        all.iter().for_each(|(_, key)| world.change("prod1", key, |wish| wish.deleting = true));
        world.converge(900 * SECOND);
        world.run(1_500 * SECOND);
        assert_eq!(world.left_of("prod1"), [""; 0], "world {seed}");
        world.counts()
    });
}
