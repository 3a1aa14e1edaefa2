//! Octavia is upgraded while load balancers exist, and an upgrade is taken back.

use gimbal_kuryr_model::{ApiVersion, ClientRanges};
use gimbal_octavia_plan::{BalancerStep, Block, CloudChange};
use gimbal_octavia_sim::Provider;
use serde_json::{Value, json};

use crate::executor::{Way, World};
use crate::services::{change, made, world};
use crate::wish::{Wish, forwarded};

/// Asks for something that not every Octavia can do; there is a security group with this ID.
type Asks = fn(&mut Wish, &String);

/// Sets whether a provider can do something.
type SetsAbility = fn(&mut Provider, bool);

/// Octavia's API has this version from now on, and it is known.
fn has_version(world: &mut World, version: ApiVersion) {
    world.cloud.set_version(version.minor);
    world.facts.api_version = version;
    world.actor.octavia_changed();
    // Drift is looked for once a minute.
    world.actor.look_again();
    world.sent.clear();
}

fn before(version: ApiVersion) -> ApiVersion {
    ApiVersion { minor: version.minor - 1, ..version }
}

fn at_version(version: ApiVersion, change: impl FnOnce(&mut Wish)) -> (Wish, World) {
    let (wish, mut world) = world(change);
    has_version(&mut world, version);
    (wish, world)
}

fn only(range: &str) -> ClientRanges {
    ClientRanges::Only([range.parse().unwrap()].into())
}

/// Returns who can connect to the only port; `None`: it is closed.
fn let_in(world: &World) -> Option<Vec<String>> {
    let forwards = world.cloud.forwards(&world.balancer());
    forwards.first().map(|one| one.allowed.clone().unwrap_or_else(|| vec!["everyone".to_owned()]))
}

/// Takes every step, and checks after each that others than those who are wanted cannot connect.
fn runs_without_opening(world: &mut World, range: &str) {
    for _ in 0..200 {
        let step = world.step();
        if matches!(step, BalancerStep::Done | BalancerStep::Blocked(_)) {
            return;
        }
        world.take(&step, Way::Arrives);
        if world.actor.balancer().is_some() {
            let clients = let_in(world).unwrap_or_default();
            assert!(clients.is_empty() || clients == [range], "{clients:?} after {step:?}");
        }
    }
    panic!("no end: {:?}", world.step());
}

fn bodies(changes: &[CloudChange]) -> Vec<Value> {
    changes.iter().map(|change| change.request().body).collect()
}

/// Everything is as it is wanted already, also after a restart if there is one.
fn assert_at_rest(world: &mut World, restarts: bool) {
    world.sent.clear();
    if restarts {
        world.restart();
    }
    world.actor.look_again();
    assert_eq!((world.run(), &world.sent[..]), (BalancerStep::Done, &[][..]));
}

#[test]
fn ranges_are_set_once_octavia_knows_them() {
    let range = "192.0.2.0/24";
    let older = before(ApiVersion::CLIENT_RANGES);
    for (was_open, restarts) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut wish, mut world) = at_version(older, |_| {});
        if was_open {
            made(&wish, &mut world);
            wish.known = true;
        }
        wish.clients = only(range);
        world.actor.want(wish.entry());
        assert_eq!(world.run(), BalancerStep::Done);
        assert_eq!((let_in(&world), world.unsupported().len()), (None, 1), "was open: {was_open}");
        assert_at_rest(&mut world, restarts);

        has_version(&mut world, ApiVersion::CLIENT_RANGES);
        runs_without_opening(&mut world, range);
        assert_eq!((let_in(&world), world.unsupported()), (Some(vec![range.to_owned()]), vec![]));
        assert_eq!(forwarded(&world.cloud, &world.balancer()), wish.forwards());
        assert_at_rest(&mut world, restarts);

        // The upgrade is taken back. What the older one does not show it does not promise.
        has_version(&mut world, older);
        runs_without_opening(&mut world, range);
        assert_eq!((let_in(&world), world.unsupported().len()), (None, 1));
        assert_at_rest(&mut world, restarts);
        has_version(&mut world, ApiVersion::CLIENT_RANGES);
        runs_without_opening(&mut world, range);
        assert_eq!(let_in(&world), Some(vec![range.to_owned()]));
    }
}

#[test]
fn a_port_of_ours_keeps_its_groups() {
    let older = before(ApiVersion::VIP_GROUPS);
    for (ours, provider_sets, restarts) in
        [(true, true, false), (true, true, true), (true, false, true), (false, false, false), (false, false, true)]
    {
        let (mut wish, mut world) = at_version(older, |wish| wish.from_outside = ours);
        world.cloud.provider_mut().sets_port_groups = provider_sets;
        let groups = [world.cloud.add_security_group(), world.cloud.add_security_group()];
        wish.groups = groups[..1].to_vec();
        world.actor.want(wish.entry());
        made(&wish, &mut world);
        let has = |world: &mut World, group: &String| {
            let ports = world.rows("/v2.0/ports", "ports", &[]);
            ports[0]["security_groups"].as_array().unwrap().iter().any(|one| one == group)
        };
        world.actor.look_again();
        made(&wish, &mut world);
        assert_eq!(has(&mut world, &groups[0]), ours);
        assert!(world.actor.missing_groups(&world.facts).is_some_and(|words| words.contains("2.29")));
        assert_at_rest(&mut world, restarts);

        has_version(&mut world, ApiVersion::VIP_GROUPS);
        made(&wish, &mut world);
        assert_eq!(bodies(&world.sent), [json!({"loadbalancer": {"vip_sg_ids": [groups[0]]}})]);
        assert_eq!(world.actor.missing_groups(&world.facts), None);
        assert_at_rest(&mut world, restarts);
        assert_eq!(has(&mut world, &groups[0]), ours || provider_sets);

        // The upgrade is taken back.
        has_version(&mut world, older);
        made(&wish, &mut world);
        assert_eq!(has(&mut world, &groups[0]), ours || provider_sets);
        assert!(world.actor.missing_groups(&world.facts).is_some());
        assert_at_rest(&mut world, restarts);
        let changes = change(&mut world, &mut wish, |wish| wish.groups = groups[1..].to_vec());
        assert_eq!(changes.len(), usize::from(ours), "{changes:#?}");
    }
}

#[test]
fn members_come_alone_in_a_request_once_octavia_can_leave_the_others() {
    let older = before(ApiVersion::ADDITIVE_MEMBERS);
    let (mut wish, mut world) = at_version(older, |_| {});
    made(&wish, &mut world);
    for (version, number, additive) in [(older, 4, false), (ApiVersion::ADDITIVE_MEMBERS, 1, true), (older, 6, false)] {
        has_version(&mut world, version);
        let host = u8::try_from(wish.members.len()).unwrap() + 1;
        let changes = change(&mut world, &mut wish, |wish| wish.members.push((host, 80, 1)));
        let [CloudChange::SetMembers { members, additive: is, .. }] = &changes[..] else { panic!("{changes:#?}") };
        assert_eq!((members.len(), *is), (number, additive), "{version:?}");
        assert_at_rest(&mut world, additive);
    }
}

/// What is wanted of an Octavia that can do it and does not any more: nothing says so before its version is read again.
#[test]
fn what_an_older_octavia_refuses_waits_only_until_its_version_is_known() {
    let ways: [(ApiVersion, bool, Asks); 4] = [
        (ApiVersion::ADDITIVE_MEMBERS, true, |wish, _| wish.members.push((9, 80, 1))),
        (ApiVersion::CLIENT_RANGES, true, |wish, _| wish.clients = only("192.0.2.0/24")),
        (ApiVersion::CLIENT_RANGES, false, |wish, _| wish.clients = only("192.0.2.0/24")),
        (ApiVersion::VIP_GROUPS, false, |wish, group| wish.groups = vec![group.clone()]),
    ];
    for (nth, (version, exists, ask)) in ways.into_iter().enumerate() {
        let (mut wish, mut world) = at_version(version, |_| {});
        let group = world.cloud.add_security_group();
        if exists {
            made(&wish, &mut world);
            wish.known = true;
        }
        world.cloud.set_version(before(version).minor);
        ask(&mut wish, &group);
        world.actor.want(wish.entry());
        let step = world.run();
        assert!(matches!(step, BalancerStep::Blocked(Block::Invalid(_))), "{nth}: {step:?}");
        if wish.clients != ClientRanges::Everyone && world.actor.balancer().is_some() {
            assert_eq!(let_in(&world), None, "{nth}");
        }
        has_version(&mut world, before(version));
        assert_eq!(world.run(), BalancerStep::Done, "{nth}");
        let closed = wish.clients != ClientRanges::Everyone;
        let expected = if closed { vec![] } else { wish.forwards() };
        assert_eq!(forwarded(&world.cloud, &world.balancer()), expected, "{nth}");
    }
}

/// Drivers come with Octavia, so that what one of them could not do, another one of the next version may.
#[test]
fn what_a_provider_lacked_is_tried_again_with_another_version() {
    let ways: [(SetsAbility, Asks); 3] = [
        (|provider, can| provider.allowed_cidrs = can, |wish, _| wish.clients = only("192.0.2.0/24")),
        (|provider, can| provider.security_groups = can, |wish, group| wish.groups = vec![group.clone()]),
        (|provider, can| provider.protocols.retain(|one| can || one == "TCP"), |wish, _| wish.http = true),
    ];
    let newer = |version: ApiVersion| ApiVersion { minor: version.minor + 1, ..version };
    for (nth, (ability, ask)) in ways.into_iter().enumerate() {
        let (mut wish, mut world) = at_version(ApiVersion::VIP_GROUPS, |_| {});
        let group = world.cloud.add_security_group();
        ability(world.cloud.provider_mut(), false);
        ask(&mut wish, &group);
        world.actor.want(wish.entry());
        assert_eq!(world.run(), BalancerStep::Done, "{nth}");
        let lacks =
            |world: &World| !world.unsupported().is_empty() || world.actor.missing_groups(&world.facts).is_some();
        assert!(lacks(&world), "{nth}");
        *world.cloud.provider_mut() = Provider::default();
        world.sent.clear();
        world.actor.look_again();
        assert_eq!((world.run(), world.sent.len()), (BalancerStep::Done, 0), "{nth}: it is not asked all the time");
        has_version(&mut world, newer(ApiVersion::VIP_GROUPS));
        made(&wish, &mut world);
        assert!(!lacks(&world), "{nth}");
    }
}
