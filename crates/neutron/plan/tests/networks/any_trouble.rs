//! Lost answers, late ones, kills and a second writer: in the end there is one network, or none.
//!
//! `cargo xtask prove simulation` runs many worlds.

use std::time::Duration;

use gimbal_neutron_plan::network::NetworkStep;
use gimbal_octavia_sim::Dice;
use gimbal_property::worlds;

use crate::world::{Way, World};

fn way(dice: &mut Dice) -> Way {
    match dice.below(6) {
        0 => Way::Lost,
        1 => Way::AnswerLost,
        2 => Way::Late,
        _ => Way::Arrives,
    }
}

fn trouble(world: &mut World, dice: &mut Dice, steps: u64) {
    let mut other = world.actor.clone();
    for _ in 0..steps {
        if dice.one_in(12) {
            world.restart();
        }
        if dice.one_in(10) {
            world.actor.look_again();
        }
        // Another writer works for the same owner.
        if dice.one_in(6) {
            other.want(world.actor.entry().clone());
            std::mem::swap(&mut world.actor, &mut other);
        }
        let step = world.actor.step(world.now);
        let way = way(dice);
        world.take(&step, way);
        world.advance_to(world.now + Duration::from_millis(dice.below(2_000)));
    }
}

/// Lets late requests arrive, and everything be looked at again.
fn settle(world: &mut World) -> NetworkStep {
    for _ in 0..3 {
        world.advance_to(world.now + Duration::from_secs(600));
        world.actor.look_again();
        world.run();
    }
    world.run()
}

#[test]
fn any_order_of_trouble_ends_in_one_network_or_in_none() {
    worlds("networks in any trouble", 300, |seed| {
        let mut dice = Dice::new(seed);
        let mut world = World::new();
        trouble(&mut world, &mut dice, 40);
        if dice.one_in(2) {
            assert_eq!(settle(&mut world), NetworkStep::Done);
            assert_eq!(world.parts(), [1, 1, 1], "twins");
            world.write_status();
            trouble(&mut world, &mut dice, 10);
            let named = world.wish.network.clone();
            assert_eq!(settle(&mut world), NetworkStep::Done);
            assert_eq!(world.actor.network().map(|network| network.id.clone()), named);
            world.sent.clear();
            settle(&mut world);
            assert_eq!(world.sent, [], "no difference, no change");
        }
        world.actor.want(world.leaving());
        trouble(&mut world, &mut dice, 20);
        assert_eq!(settle(&mut world), NetworkStep::Gone);
        assert_eq!(world.parts(), [0, 0, 0], "a leak");
        world.counts
    });
}
