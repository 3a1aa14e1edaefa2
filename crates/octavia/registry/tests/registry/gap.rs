//! No gap: who serves and is wanted stays behind its port, and so does who goes while the guard holds it. With two writers that
//! overlap, a controller that has an older state for some seconds, and providers that can do less.

use gimbal_octavia_sim::{Dice, Fate};
use gimbal_property::worlds;

use crate::wish::{Wish, key};
use crate::world::{MS, SECOND, World};

const CLUSTER: &str = "prod1";
const SERVICES: u64 = 5;

fn some(dice: &mut Dice, one_in: u64) -> Vec<(u8, u16)> {
    let mut members: Vec<_> = (1..=10).map(|host| (host, 80)).filter(|_| dice.one_in(one_in)).collect();
    if members.is_empty() {
        members.push((u8::try_from(dice.below(10)).unwrap() + 1, 80));
    }
    members
}

fn name(nth: u64) -> gimbal_kuryr_model::DesiredKey {
    key("shop", &format!("s{nth}"))
}

fn event(world: &mut World, dice: &mut Dice) {
    let set = |world: &mut World, nth: u64, members: Vec<(u8, u16)>| {
        world.change(CLUSTER, &name(nth), |wish| (wish.members, wish.known) = (members, true));
    };
    match dice.below(16) {
        0 if dice.below(2) == 0 => world.restart_before_entries(0),
        0 => world.restart(0),
        1 => {
            // Both writers for a moment.
            world.connect(1, CLUSTER);
            world.run(2 * SECOND);
            world.silence(0, CLUSTER);
            world.writers.swap(0, 1);
        }
        2 | 3 => {
            // More than the guard lets go at a time.
            for nth in 0..SERVICES {
                let members = some(dice, 5);
                set(world, nth, members);
            }
        }
        4 => _ = world.approve_members(CLUSTER),
        // A snapshot that still says the same.
        5 => world.connect(0, CLUSTER),
        6 => {
            let back = usize::try_from(dice.below(8)).unwrap();
            world.connect_with_older_state(0, CLUSTER, back);
            let time = dice.pick(&[300 * MS, 2 * SECOND, 8 * SECOND]);
            world.run(time);
            world.connect(0, CLUSTER);
        }
        7 => world.cloud.expect(dice.pick(&[Fate::Raises, Fate::DoneAfter(20 * SECOND)])),
        _ => {
            let (nth, members) = (dice.below(SERVICES), some(dice, 2));
            set(world, nth, members);
        }
    }
}

#[test]
fn members_that_are_wanted_or_held_stay() {
    worlds("members that are wanted or held", 4, |seed| {
        let mut world = World::new(seed);
        world.add_cluster(CLUSTER);
        world.add_writer();
        world.add_writer();
        world.connect(0, CLUSTER);
        let mut dice = Dice::new(seed + 7_000_000);
        let provider = world.cloud.provider_mut();
        (provider.batch, provider.populated) = (!dice.one_in(3), !dice.one_in(3));
        for nth in 0..SERVICES {
            let mut wish = Wish::new(&format!("u{nth}"), &world.subnet);
            wish.members = (1..=10).map(|host| (host, 80)).collect();
            world.want(CLUSTER, name(nth), wish);
        }
        world.converge(600 * SECOND);
        world.check = Some(World::members_stay);
        world.trouble = 8;
        for _ in 0..60 {
            event(&mut world, &mut dice);
            let time = dice.pick(&[10 * MS, 300 * MS, 2 * SECOND, 8 * SECOND, 40 * SECOND]);
            world.run(time);
        }
        world.trouble = 0;
        world.cloud.forget_expectations();
        world.run(900 * SECOND);
        world.converge_with_approval(CLUSTER);
        world.counts()
    });
}
