//! Random wishes, lost and late answers, kills, failing providers, streams that are lost, two writers: in the end what is wanted
//! is there once, nothing else is, and nothing of others was touched.
//!
//! `cargo xtask prove simulation` runs many worlds.

use gimbal_octavia_sim::{Dice, Fate};
use gimbal_property::worlds;

use crate::wish::{Wish, forwarded, key};
use crate::world::{MS, SECOND, World};

const CLUSTERS: [&str; 2] = ["prod1", "prod2"];

fn wish(dice: &mut Dice, wish: &mut Wish) {
    match dice.below(6) {
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
        _ => None,
    }
}

/// Something happens.
fn event(world: &mut World, dice: &mut Dice, owners: &mut u64) {
    let cluster = dice.pick(&CLUSTERS);
    let name = key("shop", &format!("s{}", dice.below(4)));
    let exists = world.wishes.get(&(cluster.to_owned(), name.clone())).cloned();
    match (dice.below(12), exists) {
        (0, Some(wish)) if wish.deleting => world.forget(cluster, &name),
        (0 | 1, Some(_)) => world.change(cluster, &name, |wish| wish.deleting = true),
        (2, _) | (3..=8, None) => {
            *owners += 1;
            let mut wish = Wish::new(&format!("{cluster}-u{owners}"), &world.subnet);
            wish.from_outside = dice.one_in(2);
            wish.floating = wish.from_outside && dice.one_in(2);
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
        _ => {
            if let Some(fate) = fate(dice) {
                world.cloud.expect(fate);
            }
        }
    }
}

/// Lets everything go well from here on.
fn calm(world: &mut World) {
    world.trouble = 0;
    world.cloud.forget_expectations();
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
            world.add_cluster(cluster);
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
        calm(&mut world);
        // The longest pauses pass, and what has no owner is proven to have none.
        world.run(4_500 * SECOND);
        world.converge(900 * SECOND);
        world.sent.clear();
        world.run(300 * SECOND);
        assert_eq!(world.sent.len(), 0, "world {seed}: {:#?}", world.last_sent());
        assert_eq!(theirs.clone().map(|id| world.row(&id)), before, "world {seed}: of others");

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
        world.run(900 * SECOND);
        world.converge(300 * SECOND);
        world.counts()
    });
}
