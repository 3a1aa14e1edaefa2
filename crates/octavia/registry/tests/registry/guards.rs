//! The guards of members, and of load balancers that no one has deleted.

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

/// Others have the names of the first `count`, as they have after a restored store has them back.
fn replaced(world: &mut World, count: usize) {
    for nth in 0..count {
        let wish = Wish::new(&format!("other{nth}"), &world.subnet);
        world.want("prod1", key("shop", &format!("s{nth}")), wish);
    }
}

/// How many load balancers of former owners there are.
fn former(world: &mut World) -> usize {
    (0..10).filter(|nth| !world.balancers_of(&format!("u{nth}")).is_empty()).count()
}

/// That another owner has the name says that the former one is gone, and not that somebody has deleted it.
#[test]
fn load_balancers_whose_names_others_have_all_at_once_are_held() {
    let mut world = made();
    replaced(&mut world, 10);
    world.run(30 * SECOND);
    assert_eq!(former(&mut world), 10);
    let now = world.now();
    let held = world.writers[0].registry.cluster("prod1", now).unwrap().held_balancers.unwrap();
    assert_eq!(held.endpoints_removed, 10);
    assert!(world.writers[0].registry.approve("prod1", &held.id, now));
    world.converge(300 * SECOND);
    world.run_until(60 * SECOND, "the former ones are gone", |world| former(world) == 0);
}

#[test]
fn load_balancers_of_a_few_former_owners_and_of_deleted_ones_go() {
    let mut world = made();
    replaced(&mut world, 2);
    world.run_until(30 * SECOND, "two are gone", |world| former(world) == 8);
    // A person has deleted the others, and somebody has their names by now.
    let mut world = made();
    for nth in 0..10 {
        world.change("prod1", &key("shop", &format!("s{nth}")), |wish| wish.deleting = true);
    }
    replaced(&mut world, 10);
    world.run_until(60 * SECOND, "all are gone", |world| former(world) == 0);
}
