//! New members that are refused for long: by a quota, or because something about them is invalid.

use std::time::Duration;

use gimbal_kuryr_model::ClientRanges;
use gimbal_octavia_plan::{BalancerStep, Block};
use gimbal_octavia_sim::{ProjectQuota, SimRequest};

use crate::executor::World;
use crate::services::{made, world};
use crate::wish::{Wish, forwarded};

fn quota(world: &mut World, members: Option<u64>) {
    world.cloud.set_quota("p1", ProjectQuota { members, ..ProjectQuota::default() });
}

/// Returns a load balancer with three members, which are as many as the project may have.
fn full(batch: bool) -> (Wish, World) {
    let (wish, mut world) = world(|_| {});
    world.cloud.provider_mut().batch = batch;
    made(&wish, &mut world);
    quota(&mut world, Some(3));
    (wish, world)
}

fn change(world: &mut World, wish: &mut Wish, members: &[(u8, u16, u8)]) -> BalancerStep {
    wish.members = members.to_vec();
    (wish.generation, wish.known) = (wish.generation + 1, true);
    world.actor.want(wish.entry());
    world.run()
}

#[test]
fn the_others_change_and_go_all_the_same() {
    for batch in [true, false] {
        let (mut wish, mut world) = full(batch);
        // Two are new, and one goes: there is room for one only.
        let step = change(&mut world, &mut wish, &[(1, 80, 0), (2, 80, 1), (4, 80, 1), (5, 80, 1)]);
        assert!(matches!(step, BalancerStep::Blocked(Block::Quota(_))), "{step:?}");
        let served = forwarded(&world.cloud, &world.balancer()).remove(0).1;
        let weight =
            |host: u8| served.iter().find(|(at, _)| *at == format!("10.1.0.{host}")).map(|(_, weight)| *weight);
        assert_eq!((weight(1), weight(2), weight(3)), (Some(0), Some(1), None), "{served:?}, batch: {batch}");
        quota(&mut world, None);
        world.advance(Duration::from_secs(301));
        made(&wish, &mut world);
    }
}

/// All of them are replaced where there is no room for one more: room comes with each that goes.
#[test]
fn there_is_always_one_that_takes_connections() {
    let (mut wish, mut world) = full(false);
    wish.members = vec![(4, 80, 1), (5, 80, 1), (6, 80, 1)];
    (wish.generation, wish.known) = (2, true);
    world.actor.want(wish.entry());
    for _ in 0..200 {
        let step = world.step();
        if step == BalancerStep::Done {
            break;
        }
        world.take(&step, crate::executor::Way::Arrives);
        assert!(!forwarded(&world.cloud, &world.balancer())[0].1.is_empty(), "none after {step:?}");
    }
    made(&wish, &mut world);
}

/// One that nothing can be made of leaves its port as it is otherwise, but the last old one stays in its place.
#[test]
fn the_last_one_stays_until_another_can_come() {
    for batch in [true, false] {
        let (mut wish, mut world) = full(batch);
        // Another load balancer of the project has what goes here at once.
        quota(&mut world, Some(0));
        let members = [(4, 80, 1), (5, 80, 1), (6, 80, 1), (7, 80, 1)];
        let step = change(&mut world, &mut wish, &members);
        assert!(matches!(step, BalancerStep::Blocked(Block::Quota(_))), "{step:?}");
        let served = forwarded(&world.cloud, &world.balancer()).remove(0).1;
        assert_eq!(served.len(), 1, "{served:?}, batch: {batch}");
        quota(&mut world, None);
        world.advance(Duration::from_secs(301));
        made(&wish, &mut world);
    }
}

/// What serves goes on, and its members go when they have to; the pool of the other protocol comes when there is room.
#[test]
fn a_pool_without_its_members_takes_the_place_of_none_that_has_them() {
    for ask in [|wish: &mut Wish| wish.proxy = true, |wish: &mut Wish| wish.http = true] {
        let (mut wish, mut world) = full(true);
        ask(&mut wish);
        let step = change(&mut world, &mut wish, &[(1, 80, 1), (2, 80, 1), (3, 80, 1)]);
        assert!(matches!(step, BalancerStep::Blocked(Block::Quota(_))), "{step:?}");
        assert_eq!(forwarded(&world.cloud, &world.balancer()), wish.forwards());
        change(&mut world, &mut wish, &[(1, 80, 1), (2, 80, 0)]);
        assert_eq!(forwarded(&world.cloud, &world.balancer()), wish.forwards());
        quota(&mut world, None);
        world.advance(Duration::from_secs(301));
        made(&wish, &mut world);
    }
}

/// Whoever may not connect any more cannot, although the port waits for room.
#[test]
fn a_port_that_waits_for_room_is_closed_to_those_who_may_not_connect() {
    let (mut wish, mut world) = full(true);
    (wish.http, wish.clients) = (true, ClientRanges::Only(["10.0.0.0/8".parse().unwrap()].into()));
    let step = change(&mut world, &mut wish, &[(1, 80, 1), (2, 80, 1), (3, 80, 1)]);
    assert!(matches!(step, BalancerStep::Blocked(Block::Quota(_))), "{step:?}");
    let seen = world.actor.balancer().unwrap();
    assert!(seen.listeners.iter().all(|one| one.allowed_cidrs == ["10.0.0.0/8"]), "{:?}", seen.listeners);
}

/// Some members are better than a closed port.
#[test]
fn a_listener_comes_back_while_a_member_has_no_room() {
    let (mut wish, mut world) = full(true);
    let step = change(&mut world, &mut wish, &[(1, 80, 1), (2, 80, 1), (3, 80, 1), (4, 80, 1)]);
    assert!(matches!(step, BalancerStep::Blocked(Block::Quota(_))), "{step:?}");
    let listener = world.actor.balancer().unwrap().listeners[0].id.clone();
    world.by_hand(&SimRequest::delete(&format!("/v2/lbaas/listeners/{listener}")));
    world.actor.look_again();
    world.run();
    assert_eq!(forwarded(&world.cloud, &world.balancer())[0].1.len(), 3);
}
