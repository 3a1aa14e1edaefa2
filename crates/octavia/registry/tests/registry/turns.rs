//! Thousands of owners that want something at once, and others that are served in between.

use gimbal_octavia_registry::{CallAnswer, CallToMake, RegistryCounts};

use crate::wish::{Wish, key};
use crate::world::{MS, SECOND, World};

/// Owners of one cluster that are ready at a time.
const MANY: usize = 3_000;

/// Two clusters that have been listed, and in one of them thousands of owners that have just come.
fn crowded() -> World {
    let mut world = World::usual();
    world.add_cluster("big");
    world.connect(0, "big");
    world.run(SECOND);
    world.want_many("big", "shop", MANY);
    world
}

fn counts(world: &World) -> RegistryCounts {
    world.writers[0].registry.counts(world.now())
}

/// Makes all calls of one turn, whose answers never come.
fn turn(world: &mut World) -> Vec<CallToMake> {
    let now = world.now();
    let registry = &mut world.writers[0].registry;
    let calls: Vec<CallToMake> = std::iter::from_fn(|| registry.next_call(now)).collect();
    for call in &calls {
        registry.answered(call.id, CallAnswer::ReadFailed { words: String::new(), retry_after: None }, now);
    }
    registry.take_reports(now);
    calls
}

/// Whether something was left to the next turn.
fn has_more(world: &mut World) -> bool {
    let now = world.now();
    world.writers[0].registry.next_wake(now) == Some(now)
}

#[test]
fn a_turn_ends_though_thousands_are_ready_and_goes_on_at_once() {
    let mut world = crowded();
    let mut turns = 0;
    while turns == 0 || has_more(&mut world) {
        let before = counts(&world).decisions;
        turn(&mut world);
        let done = counts(&world).decisions - before;
        assert!(done <= 300, "{done} decisions in turn {turns}");
        world.cloud.advance(MS);
        turns += 1;
        assert!(turns < 100, "it never ends");
    }
    assert!(turns > 5 && counts(&world).decisions >= MANY as u64, "{turns}");
}

#[test]
fn whoever_comes_later_is_not_behind_the_thousands_of_another_cluster() {
    let mut world = crowded();
    turn(&mut world);
    world.cloud.advance(MS);
    world.want("prod1", key("few", "web"), Wish::new("few", &world.subnet.clone()));
    let calls = turn(&mut world);
    assert!(calls.iter().any(|call| &*call.cluster == "prod1"), "{calls:#?}");
    assert!(has_more(&mut world), "others wait");
}
