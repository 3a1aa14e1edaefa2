//! What services complain about for long, and wishes that contradict what is there.

use std::time::Duration;

use gimbal_kuryr_model::ClientRanges;
use gimbal_model::Protocol;
use gimbal_octavia_plan::{BalancerStep, Block, ChangeOutcome, CloudChange, ServiceRefusal, Wait};
use serde_json::json;

use crate::executor::{Refuses, Way, World};
use crate::services::{change, made, world};
use crate::wish::forwarded;

/// Somebody else changes the load balancer again and again.
#[test]
fn a_minute_of_conflicts_is_no_failure() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    let before = forwarded(&world.cloud, &world.balancer());
    wish.members = vec![(9, 80, 1)];
    (wish.generation, wish.known) = (2, true);
    world.actor.want(wish.entry());
    world.sent.clear();
    let end = world.cloud.now() + Duration::from_secs(60);
    while world.cloud.now() < end {
        let step = world.step();
        world.take(&step, Way::Busy);
        assert_eq!(forwarded(&world.cloud, &world.balancer()), before, "nothing is lost meanwhile");
        assert_eq!(world.actor.blocks(world.cloud.now()).count(), 0, "nothing is left alone for it");
    }
    assert!((30..=61).contains(&world.sent.len()), "one try a second, and no pause that grows: {}", world.sent.len());
    // As soon as it is over.
    let over = world.cloud.now();
    made(&wish, &mut world);
    assert!(world.cloud.now() < over + Duration::from_secs(3));
}

/// Whatever a gateway asks for, endpoints must not be dead for a day.
#[test]
fn a_service_that_is_busy_is_left_alone_for_five_minutes_at_most() {
    for asked in [Duration::from_secs(86_400), Duration::MAX] {
        let (mut wish, mut world) = world(|_| {});
        made(&wish, &mut world);
        wish.members = vec![(9, 80, 1)];
        world.actor.want(wish.entry());
        let change = world.run_to_change();
        let (busy, now) = (ChangeOutcome::Refused(ServiceRefusal::Busy(Some(asked))), world.cloud.now());
        world.actor.answered(&change, busy, now);
        assert_eq!(world.step(), BalancerStep::Wait(Wait::Until(now + Duration::from_secs(300))));
        // That long it was asked for, whatever is wanted meanwhile.
        wish.members = vec![(8, 80, 1)];
        world.actor.want(wish.entry());
        assert_eq!(world.step(), BalancerStep::Wait(Wait::Until(now + Duration::from_secs(300))));
        made(&wish, &mut world);
    }
}

/// What Octavia calls invalid may be so for a while only: a certificate that its store cannot give just now, a flavor that is
/// not there yet.
#[test]
fn what_is_refused_as_invalid_is_asked_for_again_after_an_hour() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    wish.ports.push((Protocol::Tcp, 443));
    wish.members.push((1, 443, 1));
    world.actor.want(wish.entry());
    world.sent.clear();
    world.refuses = Some(|change| {
        let refusal = ServiceRefusal::Invalid("Could not retrieve certificate".to_owned());
        matches!(change, CloudChange::CreateListener { .. }).then_some(ChangeOutcome::Refused(refusal))
    });
    let start = world.cloud.now();
    world.run_for(Duration::from_secs(3 * 3600));
    let tries =
        |world: &World| world.sent.iter().filter(|one| matches!(one, CloudChange::CreateListener { .. })).count();
    // The second one after a look, and then one an hour.
    assert!((4..=5).contains(&tries(&world)), "{}", tries(&world));
    assert!(matches!(world.step(), BalancerStep::Blocked(Block::Invalid(_))));
    world.refuses = None;
    world.run_for(Duration::from_secs(3600 + 60));
    assert!(world.cloud.now() - start < Duration::from_secs(5 * 3600));
    made(&wish, &mut world);
}

fn no_floating_ip(change: &CloudChange, refusal: ServiceRefusal) -> Option<ChangeOutcome> {
    matches!(change, CloudChange::CreateFloatingIp { .. }).then_some(ChangeOutcome::Refused(refusal))
}

/// What Neutron says when a floating IP has no address to get, or no router leads to it.
#[test]
fn a_floating_ip_that_cannot_be_had_now_is_asked_for_again_in_five_minutes_and_holds_up_nothing() {
    let [exhausted, unreachable]: [Refuses; 2] = [
        |change| no_floating_ip(change, ServiceRefusal::Exhausted("No more IP addresses".to_owned())),
        |change| no_floating_ip(change, ServiceRefusal::Unreachable("not reachable from subnet".to_owned())),
    ];
    for (refuses, block) in [
        (exhausted, Block::Quota("No more IP addresses".to_owned())),
        (unreachable, Block::Unsupported("not reachable from subnet".to_owned())),
    ] {
        let (mut wish, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
        world.refuses = Some(refuses);
        world.run_for(Duration::from_secs(14 * 60));
        let tries = world.sent.iter().filter(|change| refuses(change).is_some()).count();
        assert!((3..=4).contains(&tries), "{block}: {tries}");
        let blocks: Vec<_> = world.actor.blocks(world.cloud.now()).map(|(_, block)| block.clone()).collect();
        assert_eq!(blocks, [block]);
        (wish.generation, wish.known, wish.members) = (2, true, vec![(9, 80, 1)]);
        world.actor.want(wish.entry());
        world.run_for(Duration::from_secs(10));
        assert_eq!(forwarded(&world.cloud, &world.balancer()), wish.forwards(), "the members follow");
        world.refuses = None;
        world.run_for(Duration::from_secs(6 * 60));
        made(&wish, &mut world);
    }
}

#[test]
fn a_pause_that_neutron_asks_for_holds_up_no_member() {
    let (mut wish, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
    world.refuses = Some(|change| no_floating_ip(change, ServiceRefusal::Busy(Some(Duration::from_secs(300)))));
    world.run_for(Duration::from_secs(60));
    (wish.generation, wish.known, wish.members) = (2, true, vec![(9, 80, 1)]);
    world.actor.want(wish.entry());
    world.run_for(Duration::from_secs(10));
    assert_eq!(forwarded(&world.cloud, &world.balancer()), wish.forwards());
    let tries = world.sent.iter().filter(|change| matches!(change, CloudChange::CreateFloatingIp { .. })).count();
    assert_eq!(tries, 1, "it is left alone for as long as it asks");
    world.refuses = None;
    world.run_for(Duration::from_secs(6 * 60));
    made(&wish, &mut world);
}

#[test]
fn another_provider_is_another_load_balancer() {
    let (mut wish, mut world) = world(|wish| {
        (wish.from_outside, wish.floating) = (true, true);
        wish.provider = Some("lab");
    });
    made(&wish, &mut world);
    let old = world.balancer();
    world.cloud.provider_mut().name = "other".into();
    let changes = change(&mut world, &mut wish, |wish| wish.provider = Some("other"));
    assert_ne!(world.balancer(), old);
    let at = |is: fn(&CloudChange) -> bool| changes.iter().position(is).unwrap();
    let created = at(|one| matches!(one, CloudChange::CreateBalancer { .. }));
    let moved = at(|one| matches!(one, CloudChange::UpdateFloatingIp { .. }));
    let deleted = at(|one| matches!(one, CloudChange::DeleteBalancer { .. }));
    assert!(created < moved && moved < deleted, "{changes:#?}");
}

#[test]
fn udp_and_tcp_share_a_number() {
    let (mut wish, mut world) = world(|wish| {
        wish.ports = vec![(Protocol::Tcp, 53), (Protocol::Udp, 53)];
        wish.members = Vec::new();
    });
    assert_eq!(world.run(), BalancerStep::Done);
    let listeners = world.rows("/v2/lbaas/listeners", "listeners", &[]);
    let mut protocols: Vec<_> = listeners.iter().map(|row| row["protocol"].as_str().unwrap()).collect();
    protocols.sort_unstable();
    assert_eq!((protocols, world.sent.len()), (vec!["TCP", "UDP"], 1));
    // One of them goes, and the other one is not touched.
    wish.ports = vec![(Protocol::Udp, 53)];
    world.actor.want(wish.entry());
    world.sent.clear();
    assert_eq!(world.run(), BalancerStep::Done);
    let listeners = world.rows("/v2/lbaas/listeners", "listeners", &[]);
    assert_eq!((listeners.len(), &listeners[0]["protocol"]), (1, &json!("UDP")));
    assert_eq!(world.sent.len(), 2, "its listener and its pool: {:#?}", world.sent);
}

#[test]
fn ranges_of_which_nothing_remains_close_the_port_and_no_ranges_open_it() {
    let ranges = ClientRanges::Only(["192.0.2.0/24".parse().unwrap()].into());
    let (mut wish, mut world) = world(|wish| wish.clients = ranges);
    made(&wish, &mut world);
    let changes = change(&mut world, &mut wish, |wish| wish.clients = ClientRanges::NoOne);
    let bodies: Vec<_> = changes.iter().map(|change| change.request().body).collect();
    assert_eq!(bodies, [json!({"listener": {"admin_state_up": false}})], "an empty list would mean everybody");
    let changes = change(&mut world, &mut wish, |wish| wish.clients = ClientRanges::Everyone);
    let bodies: Vec<_> = changes.iter().map(|change| change.request().body["listener"].clone()).collect();
    assert_eq!(bodies, [json!({"allowed_cidrs": []}), json!({"admin_state_up": true})]);
}
