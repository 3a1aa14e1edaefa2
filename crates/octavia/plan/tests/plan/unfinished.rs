//! Providers that forget what was created with a load balancer.

use std::time::Duration;

use gimbal_model::Protocol;
use gimbal_octavia_plan::{
    BalancerStep, Block, CloudAbility, CloudChange, CloudLook, Provisioning, SeenBalancer, SeenListener,
};
use gimbal_octavia_sim::Fate;
use serde_json::json;

use crate::executor::{Way, World};
use crate::services::{made, world};
use crate::wish::{Wish, forwarded};

fn forgetful() -> (Wish, World) {
    let (wish, mut world) = world(|wish| {
        wish.ports = vec![(Protocol::Tcp, 80), (Protocol::Udp, 53)];
        wish.members = vec![(1, 80, 1), (2, 53, 1)];
        wish.monitor = true;
    });
    world.cloud.provider_mut().finishes_children = false;
    (wish, world)
}

fn pending(world: &mut World) -> usize {
    let lists = [("/v2/lbaas/listeners", "listeners"), ("/v2/lbaas/pools", "pools")];
    let rows = lists.into_iter().flat_map(|(path, key)| world.rows(path, key, &[])).collect::<Vec<_>>();
    rows.iter().filter(|row| row["provisioning_status"] != json!("ACTIVE")).count()
}

/// Takes steps until everything serves, with a look a minute, and returns how long that took.
fn until_served(world: &mut World, wish: &Wish) -> Duration {
    let began = world.cloud.now();
    for _ in 0..30 {
        world.actor.look_again();
        if world.run_on() == BalancerStep::Done
            && forwarded(&world.cloud, &world.balancer()) == wish.forwards()
            && pending(world) == 0
        {
            return world.cloud.now().saturating_sub(began);
        }
        world.advance(Duration::from_secs(60));
    }
    panic!("not served: {:#?}", world.actor);
}

#[test]
fn what_was_forgotten_is_made_again_part_by_part() {
    let (wish, mut world) = forgetful();
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!((pending(&mut world), forwarded(&world.cloud, &world.balancer())), (4, Vec::new()));
    let took = until_served(&mut world, &wish);
    assert!(took < Duration::from_secs(180), "{took:?}");
    let learned: Vec<_> = world.missing.iter().map(|one| (one.ability, &*one.provider)).collect();
    assert_eq!(learned, [(CloudAbility::PopulatedCreate, "lab")], "for a day, for all of the provider's");
    assert_eq!(world.rows("/v2/lbaas/pools", "pools", &[]).len(), 2);
    let deleted = |change: &&CloudChange| matches!(change, CloudChange::DeleteBalancer { .. });
    assert_eq!(world.sent.iter().filter(deleted).count(), 0, "the load balancer and its address stay");
}

#[test]
fn also_by_a_writer_that_was_started_since() {
    let (wish, mut world) = forgetful();
    assert_eq!(world.run(), BalancerStep::Done);
    world.restart();
    until_served(&mut world, &wish);
    world.sent.clear();
    world.advance(Duration::from_secs(7200));
    world.actor.look_again();
    assert_eq!((world.run(), world.sent.len()), (BalancerStep::Done, 0));
}

#[test]
fn parts_that_only_come_late_are_waited_for() {
    let (_, mut world) = forgetful();
    assert_eq!(world.run(), BalancerStep::Done);
    world.sent.clear();
    world.actor.look_again();
    let look = world.step();
    world.take(&look, Way::Arrives);
    assert!(matches!(world.step(), BalancerStep::Wait(_)), "{:?}", world.step());
    // They come after all.
    world.cloud.finish(&world.actor.balancer().unwrap().id);
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!((world.sent.len(), world.missing.len()), (0, 0));
}

#[test]
fn a_provider_that_is_known_for_it_gets_them_part_by_part() {
    let (wish, mut world) = forgetful();
    let abilities = world.facts.providers.get_mut("lab").unwrap();
    abilities.populated_create = false;
    made(&wish, &mut world);
    assert_eq!(pending(&mut world), 0);
}

/// Clients are not led to a load balancer whose parts are not made.
#[test]
fn the_floating_ip_waits_for_the_parts_of_a_successor() {
    let (mut wish, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
    made(&wish, &mut world);
    world.cloud.provider_mut().finishes_children = false;
    wish.flavor = Some("f0000000-0000-4000-8000-000000000001");
    world.actor.want(wish.entry());
    for _ in 0..400 {
        let step = world.step();
        if step == BalancerStep::Done {
            break;
        }
        world.take(&step, Way::Arrives);
        let floating = world.rows("/v2.0/floatingips", "floatingips", &[]).remove(0);
        let balancers = world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]);
        let serving = balancers.iter().find(|row| row["vip_port_id"] == floating["port_id"]).unwrap();
        assert!(!forwarded(&world.cloud, serving["id"].as_str().unwrap()).is_empty(), "after {step:?}");
    }
    assert_eq!(world.run_on(), BalancerStep::Done);
    assert_eq!(world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]).len(), 1);
}

const FLAVOR: &str = "f0000000-0000-4000-8000-000000000001";

/// A load balancer whose place another one is to take.
fn replaced() -> (Wish, World) {
    let (mut wish, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
    made(&wish, &mut world);
    wish.flavor = Some(FLAVOR);
    world.actor.want(wish.entry());
    (wish, world)
}

/// The old one serves on, and nothing is read until there is something to repair again.
#[test]
fn a_successor_whose_part_is_broken_for_now_is_not_looked_at_all_the_time() {
    let (wish, mut world) = replaced();
    world.cloud.provider_mut().populated = false;
    let old = world.balancer();
    let last = (0..200).find_map(|_| {
        let step = world.step();
        if matches!(&step, BalancerStep::Change(CloudChange::SetMembers { .. })) {
            world.cloud.expect(Fate::Fails);
        }
        world.take(&step, Way::Arrives);
        matches!(step, BalancerStep::Blocked(_)).then_some(step)
    });
    assert_eq!(last, Some(BalancerStep::Blocked(Block::RepairBudget)));
    assert_eq!(forwarded(&world.cloud, &old), wish.forwards());
    let (now, again) = (world.cloud.now(), world.actor.retry_at(world.cloud.now()).unwrap());
    assert!(again > now + Duration::from_secs(600), "{again:?}");
    world.advance(again.saturating_sub(now));
    made(&wish, &mut world);
    assert_ne!(world.balancer(), old);
}

/// Takes steps for two minutes; each look sees the successor changed. Returns the last step and the number of looks.
fn with_successor(world: &mut World, change: fn(&mut SeenBalancer)) -> (BalancerStep, usize) {
    let (mut looks, until) = (0, world.cloud.now() + Duration::from_secs(120));
    for _ in 0..200 {
        let step = world.step();
        if step == BalancerStep::Done || world.cloud.now() >= until {
            return (step, looks);
        }
        if step == BalancerStep::Look(CloudLook::Owner) {
            looks += 1;
            let mut seen = world.look();
            let old = world.balancer();
            let is_new = |one: &&mut SeenBalancer| one.id != old && one.provisioning == Provisioning::Active;
            seen.balancers.iter_mut().find(is_new).into_iter().for_each(change);
            world.actor.looked(seen, world.cloud.now());
        } else {
            world.take(&step, Way::Arrives);
        }
    }
    panic!("{looks} looks, and no time passes: {:?}", world.step());
}

#[test]
fn a_successor_whose_part_stays_pending_is_looked_at_now_and_then() {
    let (_, mut world) = replaced();
    let (step, looks) = with_successor(&mut world, |one| one.listeners[0].provisioning = Provisioning::PendingUpdate);
    assert!(matches!(step, BalancerStep::Wait(_) | BalancerStep::Look(_)), "{step:?}");
    assert!((2..15).contains(&looks), "{looks} looks in two minutes");
}

#[test]
fn the_floating_ip_does_not_wait_for_what_somebody_added() {
    let (_, mut world) = replaced();
    let (step, _) = with_successor(&mut world, |one| {
        let (provisioning, tags) = (Provisioning::Error, vec!["gimbal:keep".to_owned()]);
        let id = "f0000000-0000-4000-8000-0000000000ab".to_owned();
        one.listeners.push(SeenListener { id, provisioning, tags, port: 99, ..SeenListener::default() });
    });
    assert_eq!(step, BalancerStep::Done);
}

/// A successor that was seen while nothing was in it was not seen whole.
#[test]
fn what_is_made_in_a_successor_is_looked_at_before_clients_come() {
    let (_, mut world) = replaced();
    world.cloud.provider_mut().populated = false;
    let (mut was_empty, mut has_looked) = (false, false);
    for _ in 0..400 {
        let step = world.step();
        match &step {
            BalancerStep::Look(_) => has_looked = true,
            BalancerStep::Change(CloudChange::UpdateFloatingIp { .. }) => {
                assert!(was_empty && has_looked);
                return;
            }
            BalancerStep::Change(_) => has_looked = false,
            _ => {}
        }
        world.take(&step, Way::Arrives);
        let is_empty = |one: &SeenBalancer| one.provisioning == Provisioning::Active && one.listeners.is_empty();
        if !was_empty && world.actor.seen().balancers.get(1).is_some_and(is_empty) {
            was_empty = true;
            world.actor.look_again();
        }
    }
    panic!("it was not moved: {:#?}", world.actor);
}
