//! Random wishes, lost and late answers, kills, failing providers, streams that are lost, two writers: in the end what is wanted
//! is there once, nothing else is, and nothing of others was touched.
//!
//! `cargo xtask prove simulation` runs many worlds.

use gimbal_kuryr_model::DesiredKey;
use gimbal_octavia_sim::{Dice, Fate, ProjectQuota};
use gimbal_property::worlds;

use crate::wish::{Wish, forwarded, key, router_key};
use crate::world::{MS, SECOND, World};

const CLUSTERS: [&str; 2] = ["prod1", "prod2"];
/// What routers have some of.
const ROUTES: [(&str, &str, &str); 6] = [
    ("a.test", "/api", "api"),
    ("a.test", "", "web"),
    ("b.test", "", "web"),
    ("c.test", "/x", "api"),
    ("c.test", "", "other"),
    ("d.test", "", "api"),
];

fn wish(dice: &mut Dice, wish: &mut Wish) {
    match dice.below(6) {
        0 | 2 if !wish.routes.is_empty() => {
            let rest = ROUTES[1..].iter().copied().filter(|_| dice.one_in(2));
            wish.routes = ROUTES[..1].iter().copied().chain(rest).collect();
        }
        1 if !wish.routes.is_empty() && dice.one_in(2) => wish.project = dice.pick(&["p1", "p2"]).to_owned(),
        0 => {
            wish.ports = [80, 443].into_iter().filter(|_| dice.one_in(2)).collect();
            if wish.ports.is_empty() {
                wish.ports.push(80);
            }
        }
        1 => wish.floating = dice.one_in(2),
        _ => {
            let all = [80, 443].into_iter().flat_map(|port| (1..=5).map(move |host| (host, port)));
            wish.members = all.filter(|_| dice.one_in(2)).collect();
        }
    }
    wish.known = dice.one_in(2);
}

fn fate(dice: &mut Dice) -> Option<Fate> {
    match dice.below(20) {
        0 => Some(Fate::Raises),
        1 => Some(Fate::DoneAfter(30 * SECOND)),
        2 => Some(Fate::Fails),
        3 => Some(Fate::Breaks),
        4 | 5 => Some(Fate::Stalls),
        _ => None,
    }
}

/// Something happens.
fn event(world: &mut World, dice: &mut Dice, owners: &mut u64) {
    let cluster = dice.pick(&CLUSTERS);
    let name = if dice.one_in(4) { router_key() } else { key("shop", &format!("s{}", dice.below(4))) };
    let exists = world.wishes.get(&(cluster.to_owned(), name.clone())).cloned();
    match (dice.below(13), exists) {
        (0, Some(wish)) if wish.deleting => world.forget(cluster, &name),
        (0 | 1, Some(_)) => world.change(cluster, &name, |wish| wish.deleting = true),
        (2, _) | (3..=8, None) => {
            *owners += 1;
            let mut wish = Wish::new(&format!("{cluster}-u{owners}"), &world.subnet);
            wish.from_outside = dice.one_in(2);
            wish.floating = wish.from_outside && dice.one_in(2);
            if name == router_key() {
                wish.routes = ROUTES[..2].to_vec();
            }
            world.want(cluster, name, wish);
        }
        (3..=8, Some(_)) => world.change(cluster, &name, |one| {
            if !one.deleting {
                wish(dice, one);
            }
        }),
        (9, _) if dice.one_in(2) => {
            let nth = usize::try_from(dice.below(world.writers.len() as u64)).unwrap();
            if dice.one_in(2) { world.restart_before_entries(nth) } else { world.restart(nth) }
        }
        (10, _) => {
            // The cluster's controller moves to the other writer, or comes back to this one.
            for nth in 0..world.writers.len() {
                world.silence(nth, cluster);
            }
            if dice.one_in(3) {
                world.run(20 * SECOND);
            }
            let nth = usize::try_from(dice.below(world.writers.len() as u64)).unwrap();
            if dice.one_in(3) {
                let back = usize::try_from(dice.below(6)).unwrap();
                world.connect_with_older_state(nth, cluster, back);
                let time = dice.pick(&[300 * MS, 2 * SECOND, 8 * SECOND]);
                world.run(time);
            }
            world.connect(nth, cluster);
        }
        (11, _) if dice.one_in(3) => {
            let quota = ProjectQuota {
                listeners: dice.pick(&[None, Some(3)]),
                pools: dice.pick(&[None, Some(4)]),
                members: dice.pick(&[None, Some(8)]),
                policies: dice.pick(&[None, Some(2)]),
                ..ProjectQuota::default()
            };
            gimbal_property::note(|| format!("{:?} {quota:?}", world.cloud.now()));
            world.cloud.set_quota("p1", quota);
        }
        _ => match fate(dice) {
            Some(fate) => {
                gimbal_property::note(|| format!("{:?} {fate:?}", world.cloud.now()));
                world.cloud.expect(fate);
            }
            None if dice.one_in(3) => end_stalled(world, dice),
            None => {}
        },
    }
}

/// Somebody ends what would never end: it is done after all, or left in ERROR.
fn end_stalled(world: &mut World, dice: &mut Dice) {
    let fate = dice.pick(&[Fate::Done, Fate::Breaks]);
    gimbal_property::note(|| format!("{:?} what is stuck ends: {fate:?}", world.cloud.now()));
    world.cloud.end_stalled(fate);
}

/// Lets everything go well from here on.
fn calm(world: &mut World, dice: &mut Dice) {
    world.trouble = 0;
    world.cloud.forget_expectations();
    end_stalled(world, dice);
    world.cloud.set_quota("p1", ProjectQuota::default());
    for cluster in CLUSTERS {
        for nth in 0..world.writers.len() {
            world.silence(nth, cluster);
        }
        world.connect(0, cluster);
    }
    while world.has_late_requests() {
        world.run(5 * SECOND);
    }
}

#[test]
fn any_order_of_trouble_ends_in_what_is_wanted() {
    worlds("writers and clusters in any trouble", 12, |seed| {
        let mut world = World::new(seed);
        let theirs =
            [world.made_by_hand(&[], None), world.made_by_hand(&["k8s-cluster:other", "k8s-svc-uid:u1"], None)];
        let before = theirs.clone().map(|id| world.row(&id));
        for cluster in CLUSTERS {
            let settings = world.add_cluster(cluster);
            settings.projects.push("p2".into());
            settings.rebuild_above = 4;
        }
        world.add_writer();
        world.add_writer();
        world.connect(0, CLUSTERS[0]);
        world.connect(1, CLUSTERS[1]);
        world.trouble = 8;
        let (mut dice, mut owners) = (Dice::new(seed + 77), 0);
        let provider = world.cloud.provider_mut();
        (provider.batch, provider.populated) = (!dice.one_in(4), !dice.one_in(4));
        for _ in 0..60 {
            event(&mut world, &mut dice, &mut owners);
            let time = dice.pick(&[10 * MS, 300 * MS, 2 * SECOND, 8 * SECOND]);
            world.run(time);
        }
        calm(&mut world, &mut dice);
        // The longest pauses pass, and what has no owner is proven to have none.
        world.run(4_500 * SECOND);
        world.converge(900 * SECOND);
        world.sent.clear();
        world.run(300 * SECOND);
        assert_eq!(world.sent.len(), 0, "world {seed}: {:#?}", world.last_sent());
        assert_eq!(theirs.clone().map(|id| world.row(&id)), before, "world {seed}: of others");
        let routes = world.wishes.values().filter(|wish| !wish.deleting).map(|wish| wish.routes.len()).sum::<usize>();
        assert_eq!(world.rows("/v2/lbaas/l7policies", "l7policies").len(), routes, "world {seed}: policies");

        let all: Vec<_> = world.wishes.keys().cloned().collect();
        for (cluster, key) in &all {
            world.change(cluster, key, |wish| wish.deleting = true);
        }
        world.converge(900 * SECOND);
        world.run(1_500 * SECOND);
        for cluster in CLUSTERS {
            assert_eq!(world.left_of(cluster), [""; 0], "world {seed}");
        }
        assert_eq!(world.balancers().len(), theirs.len(), "world {seed}");
        world.counts()
    });
}

/// Kills the writer after each change of a life.
#[test]
fn a_kill_after_each_change_leaves_nothing_behind_and_makes_nothing_twice() {
    for from_outside in [false, true] {
        for nth in 1.. {
            let mut world = World::usual();
            let web = key("shop", "web");
            let mut wish = Wish::new("u1", &world.subnet);
            (wish.from_outside, wish.floating) = (from_outside, from_outside);
            world.want("prod1", web.clone(), wish);
            let mut is_killed = false;
            let mut kill = |world: &mut World| {
                if !is_killed && world.sent.len() >= nth {
                    is_killed = true;
                    world.restart(0);
                }
                world.is_converged()
            };
            world.run_until(300 * SECOND, "made", &mut kill);
            world.change("prod1", &web, |wish| {
                wish.ports = vec![80, 443];
                wish.members = vec![(2, 80), (7, 80), (1, 443)];
            });
            world.run_until(300 * SECOND, "changed", &mut kill);
            world.change("prod1", &web, |wish| wish.deleting = true);
            world.run_until(300 * SECOND, "gone", &mut kill);
            assert_eq!(world.left_of("prod1"), [""; 0], "after {nth}");
            if !is_killed {
                assert!(nth > 5, "{nth}");
                break;
            }
        }
    }
}

/// The same in the life of a router: made, changed, rebuilt, moved to another project, and given up for another one that gets its
/// address.
#[test]
fn a_kill_after_each_change_of_a_router_leaves_nothing_behind_and_makes_nothing_twice() {
    for nth in 1.. {
        let mut world = World::new(0);
        let settings = world.add_cluster("prod1");
        settings.projects.push("p2".into());
        settings.rebuild_above = 6;
        world.add_writer();
        world.connect(0, "prod1");
        let is_killed = std::cell::Cell::new(false);
        let kill = |world: &mut World| {
            if !is_killed.get() && world.sent.len() >= nth {
                is_killed.set(true);
                world.restart(0);
            }
            let routes = world.wishes.values().filter(|wish| !wish.deleting).map(|wish| wish.routes.len());
            let routes = routes.sum::<usize>();
            world.is_converged() && world.rows("/v2/lbaas/l7policies", "l7policies").len() == routes
        };
        let (first, second) = (router_key(), DesiredKey { name: "other".into(), ..router_key() });
        let routes = ROUTES[..2].to_vec();
        let wish = Wish { routes, from_outside: true, floating: true, ..Wish::new("r1", &world.subnet) };
        world.want("prod1", first.clone(), wish.clone());
        world.run_until(300 * SECOND, "made", kill);
        world.change("prod1", &first, |wish| {
            wish.routes = vec![ROUTES[1], ROUTES[2]];
            wish.members = vec![(2, 80), (7, 80)];
        });
        world.run_until(300 * SECOND, "changed", kill);
        let before = world.balancers_of("r1");
        world.change("prod1", &first, |wish| wish.routes = ROUTES.to_vec());
        world.run_until(300 * SECOND, "rebuilt", kill);
        assert_ne!(world.balancers_of("r1"), before);
        world.change("prod1", &first, |wish| wish.project = "p2".to_owned());
        world.run_until(300 * SECOND, "moved", kill);
        let address = world.rows("/v2.0/floatingips", "floatingips")[0]["floating_ip_address"].clone();
        let floating_address = address.as_str().map(str::to_owned);
        world.want("prod1", second.clone(), Wish { owner: "r2".to_owned(), floating_address, ..wish });
        world.change("prod1", &first, |wish| wish.deleting = true);
        world.run_until(900 * SECOND, "given up for another one", kill);
        world.change("prod1", &second, |wish| wish.deleting = true);
        world.run_until(300 * SECOND, "gone", kill);
        world.run(130 * SECOND);
        assert_eq!(world.left_of("prod1"), [""; 0], "after {nth}");
        if !is_killed.get() {
            assert!(nth > 20, "{nth}");
            break;
        }
    }
}

fn is_served(world: &mut World) {
    for id in &world.watched {
        let served = forwarded(&world.cloud, id);
        let is_served = served.iter().any(|(port, members)| *port == 80 && !members.is_empty());
        assert!(is_served, "no member behind {id} at {:?}; {:#?}", world.cloud.now(), world.last_sent());
    }
}

/// A port that has had members all the time is never without one, whatever is lost, refused or killed, with two writers.
#[test]
fn a_port_that_has_members_is_never_without() {
    worlds("writers and members at every instant", 12, |seed| {
        let mut world = World::new(seed);
        world.add_cluster("prod1");
        world.add_writer();
        world.add_writer();
        world.connect(0, "prod1");
        for nth in 0..3 {
            world.want("prod1", key("shop", &format!("s{nth}")), Wish::new(&format!("u{nth}"), &world.subnet));
        }
        world.converge(120 * SECOND);
        world.watched = (0..3).map(|nth| world.balancers_of(&format!("u{nth}")).remove(0)).collect();
        world.check = Some(is_served);
        world.trouble = 6;
        let mut dice = Dice::new(seed + 99);
        for _ in 0..80 {
            let name = key("shop", &format!("s{}", dice.below(3)));
            match dice.below(8) {
                0 if dice.one_in(2) => world.restart_before_entries(0),
                0 => world.restart(0),
                1 => {
                    // Both for a moment.
                    world.connect(1, "prod1");
                    world.run(2 * SECOND);
                    world.silence(0, "prod1");
                    world.writers.swap(0, 1);
                }
                // What is stuck for a while interrupts nothing either.
                2 if dice.one_in(2) => world.cloud.expect(Fate::Stalls),
                2 => world.cloud.end_stalled(Fate::Done),
                _ => {
                    let members: Vec<_> = (1..=5).map(|host| (host, 80)).filter(|_| dice.one_in(3)).collect();
                    if !members.is_empty() {
                        world.change("prod1", &name, |wish| {
                            wish.members = members;
                            wish.known = true;
                        });
                    }
                }
            }
            let time = dice.pick(&[10 * MS, 300 * MS, 2 * SECOND, 8 * SECOND]);
            world.run(time);
        }
        world.trouble = 0;
        world.cloud.forget_expectations();
        world.cloud.end_stalled(Fate::Done);
        world.run(900 * SECOND);
        world.converge(300 * SECOND);
        world.counts()
    });
}
