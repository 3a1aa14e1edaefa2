//! The guard of members.

use gimbal_kuryr_model::Phase;

use crate::wish::{Wish, key};
use crate::world::{SECOND, World};

fn made() -> World {
    let mut world = World::usual();
    for nth in 0..10 {
        let mut wish = Wish::new(&format!("u{nth}"), &world.subnet);
        wish.members = (1..=10).map(|host| (host, 80)).collect();
        world.want("prod1", key("shop", &format!("s{nth}")), wish);
    }
    world.converge(300 * SECOND);
    world.run(70 * SECOND);
    world
}

fn members(world: &mut World) -> usize {
    world
        .wishes
        .values()
        .cloned()
        .collect::<Vec<_>>()
        .iter()
        .map(|wish| {
            let id = world.balancers_of(&wish.owner).remove(0);
            world.cloud.forwards(&id).iter().map(|port| port.targets.len()).sum::<usize>()
        })
        .sum()
}

#[test]
fn members_that_vanish_everywhere_are_held_and_new_ones_come_all_the_same() {
    let mut world = made();
    for nth in 0..10 {
        world.change("prod1", &key("shop", &format!("s{nth}")), |wish| wish.members = vec![(1, 80), (99, 80)]);
    }
    world.run(30 * SECOND);
    assert_eq!(members(&mut world), 110, "none has gone, and each has a new one");
    assert_eq!(world.phase("prod1", &key("shop", "s0")), Some(Phase::Held));
    assert_eq!(world.conditions("prod1", &key("shop", "s0")), ["Held/Guard"]);
    // A restart forgets nothing that matters.
    world.restart(0);
    world.run(90 * SECOND);
    assert_eq!(members(&mut world), 110);
    let now = world.now();
    let held = world.writers[0].registry.cluster("prod1", now).unwrap().held_members.unwrap();
    assert!(world.writers[0].registry.approve("prod1", &held.id, now));
    world.converge(60 * SECOND);
    assert_eq!(members(&mut world), 20);
}

#[test]
fn what_is_within_the_limits_goes() {
    let mut world = made();
    for nth in 0..4 {
        world.change("prod1", &key("shop", &format!("s{nth}")), |wish| wish.members = vec![(1, 80)]);
    }
    world.converge(30 * SECOND);
    assert_eq!(members(&mut world), 64);
}

#[test]
fn a_later_snapshot_confirms_a_part_that_vanished() {
    let mut world = made();
    for nth in 0..10 {
        world.change("prod1", &key("shop", &format!("s{nth}")), |wish| wish.members = vec![(1, 80)]);
    }
    world.run(90 * SECOND);
    assert_eq!(members(&mut world), 100);
    let now = world.now();
    world.writers[0].registry.snapshot_complete("prod1", now, now);
    world.converge(60 * SECOND);
}
