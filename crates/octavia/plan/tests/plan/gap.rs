//! No gap: whoever is ready and wanted is behind its port, at every instant.
//!
//! What is behind a port is what the model's data plane has been configured with. Late requests are left out, for one that
//! comes after a newer one undoes it until the next look; `late_requests_are_made_good` is about those.

use std::collections::BTreeSet;
use std::time::Duration;

use gimbal_kuryr_model::ApiVersion;
use gimbal_model::Protocol;
use gimbal_octavia_plan::{BalancerStep, CloudChange};
use gimbal_octavia_sim::{Dice, Fate, Provider};
use gimbal_property::worlds;

use crate::executor::{Way, World};
use crate::services::{made, world};
use crate::wish::{Wish, cloud, forwarded};

const FLAVORS: [&str; 2] = ["f0000000-0000-4000-8000-000000000001", "f0000000-0000-4000-8000-000000000002"];
const PORTS: [(Protocol, u16); 3] = [(Protocol::Tcp, 80), (Protocol::Tcp, 443), (Protocol::Udp, 53)];
/// For this long a member must have been wanted.
const SINCE: Duration = Duration::from_secs(5);

/// A member that is ready: its address, and the port that it is behind.
type Ready = (u16, String);

fn ready(wish: &Wish) -> BTreeSet<Ready> {
    let all = wish.members.iter().filter(|(_, _, weight)| *weight > 0);
    all.map(|(host, port, _)| (*port, format!("10.1.0.{host}"))).collect()
}

/// Who is behind the floating IP, or the only load balancer.
fn served(world: &mut World, wish: &Wish) -> BTreeSet<Ready> {
    let balancers = world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]);
    let row = if wish.floating {
        let floating = world.rows("/v2.0/floatingips", "floatingips", &[]).remove(0);
        balancers.into_iter().find(|row| row["vip_port_id"] == floating["port_id"])
    } else {
        balancers.into_iter().next()
    };
    let forwards = row.map(|row| forwarded(&world.cloud, row["id"].as_str().unwrap())).unwrap_or_default();
    let up = |members: Vec<(String, u16)>| members.into_iter().filter(|(_, weight)| *weight > 0);
    forwards.into_iter().flat_map(|(port, all)| up(all).map(move |(address, _)| (port, address))).collect()
}

fn some_members(dice: &mut Dice) -> Vec<(u8, u16, u8)> {
    let mut members = Vec::new();
    for (_, port) in PORTS {
        let weight = |dice: &mut Dice| u8::from(!dice.one_in(5));
        members.extend((1..=5).filter(|_| dice.one_in(2)).map(|host| (host, port, 0)).collect::<Vec<_>>());
        for member in members.iter_mut().filter(|member| member.1 == port) {
            member.2 = weight(dice);
        }
    }
    members
}

/// A world with three ports, and a provider that can do more or less.
fn new_world(dice: &mut Dice, floating: bool) -> (Wish, World) {
    let (cloud, facts, subnet) = cloud(Provider::default());
    let mut wish = Wish::new(&subnet);
    (wish.from_outside, wish.floating) = (floating || dice.one_in(2), floating);
    wish.at_its_address();
    wish.ports = PORTS.to_vec();
    wish.members = some_members(dice);
    let mut world = World::new(cloud, facts, wish.entry());
    // Before this version a batch names every member that stays.
    world.facts.api_version = dice.pick(&[ApiVersion { major: 2, minor: 10 }, ApiVersion::ADDITIVE_MEMBERS]);
    let provider = world.cloud.provider_mut();
    (provider.populated, provider.batch) = (!dice.one_in(3), !dice.one_in(3));
    made(&wish, &mut world);
    (wish, world)
}

fn change(dice: &mut Dice, wish: &mut Wish, world: &mut World) {
    match dice.below(6) {
        0 => wish.monitor = dice.one_in(2),
        1 => wish.timeout = Some(dice.pick(&[7_000, 8_000])),
        2 => wish.proxy = dice.one_in(2),
        3 if wish.floating => wish.flavor = Some(dice.pick(&FLAVORS)),
        _ => wish.members = some_members(dice),
    }
    wish.generation += 1;
    wish.known = true;
    world.wants(wish);
}

/// Whoever has been behind its port, and has been wanted ever since, stays there: through lost answers, kills, changes that
/// take long, and replacements of what cannot be changed in place.
#[test]
fn a_member_that_serves_and_is_wanted_stays() {
    worlds("members that stay", 100, |seed| {
        let mut dice = Dice::new(seed + 5_000_000);
        let floating = dice.one_in(2);
        let (mut wish, mut world) = new_world(&mut dice, floating);
        let mut stays = served(&mut world, &wish);
        for nth in 0..150 {
            if dice.one_in(8) {
                change(&mut dice, &mut wish, &mut world);
            }
            if dice.one_in(20) {
                world.restart();
            }
            if dice.one_in(30) {
                world.expect(dice.pick(&[Fate::Raises, Fate::DoneAfter(Duration::from_secs(20))]));
            }
            let step = world.step();
            let way = dice.pick(&[Way::Arrives, Way::Arrives, Way::Arrives, Way::Lost, Way::AnswerLost, Way::Busy]);
            world.take(&step, way);
            let wanted = ready(&wish);
            let now = served(&mut world, &wish);
            stays.retain(|one| wanted.contains(one));
            let missing: Vec<_> = stays.difference(&now).collect();
            assert!(missing.is_empty(), "world {seed}, step {nth}: {missing:?} left by {step:?}, {way:?}");
            // What is under way may still take away what is wanted again by now.
            let balancers = world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]);
            if balancers.iter().all(|row| row["provisioning_status"] == "ACTIVE") {
                stays.extend(now.intersection(&wanted).cloned());
            }
        }
        world.counts()
    });
}

/// At every instant at which some member of a port has been wanted for the last five seconds, one of those is behind it: also
/// where the process is killed, and where a request for it or its answer is lost.
#[test]
fn a_member_that_was_wanted_for_five_seconds_serves() {
    worlds("members within five seconds", 100, |seed| {
        let mut dice = Dice::new(seed + 6_000_000);
        let (mut wish, mut world) = new_world(&mut dice, false);
        let provider = world.cloud.provider_mut();
        (provider.batch, provider.update_time) = (true, Duration::from_millis(400));
        // One by one the members of three ports take longer. What was learned while it was made is forgotten.
        world.restart();
        let mut since: Vec<(Ready, Duration)> = ready(&wish).into_iter().map(|one| (one, Duration::ZERO)).collect();
        let mut changed = world.cloud.now();
        // What is lost is sent again after a second; one loss for each wish is as much as the time has room for.
        let mut loses = false;
        for nth in 0..150 {
            let now = world.cloud.now();
            // Each of three ports takes a change or two.
            if now >= changed + Duration::from_secs(4) && dice.one_in(3) {
                change(&mut dice, &mut wish, &mut world);
                let wanted = ready(&wish);
                since.retain(|(one, _)| wanted.contains(one));
                let new = |one: &Ready| since.iter().all(|(known, _)| known != one);
                let new: Vec<_> = wanted.into_iter().filter(new).map(|one| (one, now)).collect();
                since.extend(new);
                (changed, loses) = (now, true);
            }
            if dice.one_in(20) {
                world.restart();
            }
            let step = world.step();
            let way = match matches!(step, BalancerStep::Change(_)) && loses && dice.one_in(3) {
                true => dice.pick(&[Way::Lost, Way::AnswerLost]),
                false => Way::Arrives,
            };
            loses &= way == Way::Arrives;
            world.take(&step, way);
            let at = world.cloud.now();
            let serving = served(&mut world, &wish);
            for (_, port) in PORTS {
                let long = |(one, since): &&(Ready, Duration)| one.0 == port && *since + SINCE <= at;
                let wanted: Vec<&Ready> = since.iter().filter(long).map(|(one, _)| one).collect();
                assert!(
                    wanted.is_empty() || wanted.iter().any(|one| serving.contains(*one)),
                    "world {seed}, step {nth} at {at:?}: port {port} has {serving:?}, wanted is {wanted:?}; {step:?}"
                );
            }
        }
        world.counts()
    });
}

/// The members of every port come before anything else of any port.
#[test]
fn members_of_all_ports_come_first() {
    let (mut wish, mut world) = world(|wish| {
        wish.ports = PORTS.to_vec();
        wish.members = PORTS.iter().map(|(_, port)| (1, *port, 1)).collect();
    });
    made(&wish, &mut world);
    let changes = crate::services::change(&mut world, &mut wish, |wish| {
        (wish.monitor, wish.timeout) = (true, Some(7_000));
        wish.members = PORTS.iter().map(|(_, port)| (2, *port, 1)).collect();
    });
    let is_members = |change: &CloudChange| matches!(change, CloudChange::SetMembers { .. });
    assert_eq!(changes.iter().position(|change| !is_members(change)), Some(3), "{changes:#?}");
}

/// Where members are changed one by one, no port waits for its new ones until another one's old ones are gone.
#[test]
fn new_members_of_all_ports_come_before_old_ones_go() {
    let (mut wish, mut world) = world(|wish| {
        wish.ports = PORTS.to_vec();
        wish.members = PORTS.iter().map(|(_, port)| (1, *port, 1)).collect();
    });
    world.cloud.provider_mut().batch = false;
    made(&wish, &mut world);
    let changes = crate::services::change(&mut world, &mut wish, |wish| {
        wish.members = PORTS.iter().map(|(_, port)| (2, *port, 1)).collect();
    });
    let tried = |change: &&CloudChange| !matches!(change, CloudChange::SetMembers { .. });
    let creates = changes.iter().filter(tried).map(|change| matches!(change, CloudChange::CreateMember { .. }));
    assert_eq!(creates.collect::<Vec<_>>(), [true, true, true, false, false, false], "{changes:#?}");
}

/// A batch that was given up comes after a newer one, and takes away what that has brought. It is seen and set right within
/// seconds, not at the next comparison of everything.
#[test]
fn late_requests_are_made_good() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    let began = world.cloud.now();
    for (host, way) in [(8, Way::Late), (9, Way::Arrives)] {
        wish.members = vec![(host, 80, 1)];
        (wish.generation, wish.known) = (wish.generation + 1, true);
        world.actor.want(wish.entry());
        loop {
            let step = world.step();
            let sends = matches!(step, BalancerStep::Change(_));
            world.take(&step, way);
            if sends {
                break;
            }
        }
    }
    assert_eq!(world.run(), BalancerStep::Done);
    let took = world.cloud.now().saturating_sub(began);
    assert!(took > Duration::from_secs(4) && took < Duration::from_secs(30), "{took:?}");
    assert_eq!(forwarded(&world.cloud, &world.balancer()), wish.forwards());
}
