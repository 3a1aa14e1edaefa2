//! What is refused for good, or fails each time: it is asked for at a slow pace, and the rest goes on.

use std::time::Duration;

use gimbal_kuryr_model::ClientRanges;
use gimbal_model::Protocol;
use gimbal_octavia_plan::{ApiVerb, BalancerStep, Block, ChangeOutcome, CloudChange, ServiceRefusal};
use gimbal_octavia_sim::SimRequest;
use serde_json::json;

use crate::executor::{Refuses, Way, World, mark};
use crate::services::{made, world};
use crate::wish::{Wish, forwarded};

const MINUTE: Duration = Duration::from_secs(60);

/// The role may not delete anything.
const NO_DELETION: Refuses = |change| (change.request().verb == ApiVerb::Delete).then(forbidden);

fn forbidden() -> ChangeOutcome {
    ChangeOutcome::Refused(ServiceRefusal::Forbidden("Policy does not allow this request to be performed.".into()))
}

/// Lets other members be wanted, and checks that they come soon.
fn members_follow(wish: &mut Wish, world: &mut World, host: u8) {
    wish.members = wish.ports.iter().map(|(_, port)| (host, *port, 1)).collect();
    (wish.generation, wish.known) = (wish.generation + 1, true);
    world.actor.want(wish.entry());
    world.run_for(Duration::from_secs(6));
    let served = forwarded(&world.cloud, &world.balancer());
    assert!(
        served.iter().any(|(port, members)| *port == 80 && *members == [(format!("10.1.0.{host}"), 1)]),
        "{served:?}: {:#?}",
        world.step()
    );
}

fn count(world: &World, is: impl Fn(&CloudChange) -> bool) -> usize {
    world.sent.iter().filter(|change| is(change)).count()
}

fn is_forbidden(step: &BalancerStep) -> bool {
    matches!(step, BalancerStep::Blocked(Block::Forbidden(_)))
}

#[test]
fn a_removal_that_is_refused_is_tried_again_every_five_minutes() {
    let cases: [Refuses; 4] = [
        |change| matches!(change, CloudChange::UpdateFloatingIp { .. }).then(forbidden),
        |change| matches!(change, CloudChange::DeleteBalancer { .. }).then(forbidden),
        |change| matches!(change, CloudChange::DeleteFloatingIp { .. }).then(forbidden),
        |change| matches!(change, CloudChange::DeletePort { .. }).then(forbidden),
    ];
    for (nth, refuses) in cases.into_iter().enumerate() {
        let (wish, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
        made(&wish, &mut world);
        world.actor.want(wish.deleting());
        world.refuses = Some(refuses);
        world.sent.clear();
        world.run_for(4 * MINUTE);
        let tries = count(&world, |change| refuses(change).is_some());
        assert_eq!(tries, 1, "case {nth}: {:?}", world.sent.len());
        assert!(is_forbidden(&world.step()), "case {nth}: {:?}", world.step());
        world.run_for(6 * MINUTE);
        assert_eq!(count(&world, |change| refuses(change).is_some()), 2, "case {nth}");
        world.refuses = None;
        world.run_for(6 * MINUTE);
        assert_eq!(world.step(), BalancerStep::Gone, "case {nth}");
    }
}

/// Somebody changes the floating IP all the time, or Neutron says so.
#[test]
fn a_removal_that_comes_too_late_pauses() {
    let (wish, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
    made(&wish, &mut world);
    world.actor.want(wish.deleting());
    world.refuses = Some(|change| {
        let changed = ChangeOutcome::Refused(ServiceRefusal::Changed(String::new()));
        matches!(change, CloudChange::UpdateFloatingIp { .. }).then_some(changed)
    });
    world.sent.clear();
    world.run_for(MINUTE);
    assert!((4..10).contains(&world.sent.len()), "{}", world.sent.len());
    world.refuses = None;
    world.run_for(6 * MINUTE);
    assert_eq!(world.step(), BalancerStep::Gone);
}

#[test]
fn a_twin_that_may_not_be_deleted_holds_up_nothing() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    let twin = json!({"loadbalancer": {
        "project_id": "p1", "vip_subnet_id": wish.subnet, "name": "shop/web",
        "tags": ["gimbal-cluster:prod1", "k8s-cluster:c1", "k8s-svc-uid:u1"],
    }});
    world.by_hand(&SimRequest::post("/v2/lbaas/loadbalancers", twin));
    world.refuses = Some(NO_DELETION);
    world.sent.clear();
    world.actor.look_again();
    for host in 4..7 {
        members_follow(&mut wish, &mut world, host);
    }
    let deletions = |change: &CloudChange| matches!(change, CloudChange::DeleteBalancer { .. });
    assert!(count(&world, deletions) <= 3, "once for each wish: {:#?}", world.sent);
    world.sent.clear();
    world.run_for(14 * MINUTE);
    assert!((1..=3).contains(&count(&world, deletions)), "{:#?}", world.sent);
    assert!(is_forbidden(&world.step()), "{:?}", world.step());
    world.refuses = None;
    world.run_for(6 * MINUTE);
    assert_eq!(world.step(), BalancerStep::Done);
    assert_eq!(world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]).len(), 1);
}

#[test]
fn one_whose_place_was_taken_or_is_to_be_taken_serves_while_it_may_not_be_deleted() {
    for moves in [true, false] {
        let (mut wish, mut world) = world(|wish| {
            (wish.from_outside, wish.floating) = (moves, moves);
            wish.at_its_address();
        });
        made(&wish, &mut world);
        wish.flavor = Some("f0000000-0000-4000-8000-000000000001");
        world.actor.want(wish.entry());
        world.refuses = Some(NO_DELETION);
        world.run_for(2 * MINUTE);
        for host in 4..8 {
            members_follow(&mut wish, &mut world, host);
        }
        world.sent.clear();
        world.run_for(14 * MINUTE);
        let tries = count(&world, |change| NO_DELETION(change).is_some());
        assert!((1..=3).contains(&tries), "{moves}: {:#?}", world.sent);
        assert!(is_forbidden(&world.step()), "{moves}: {:?}", world.step());
        world.refuses = None;
        world.run_for(6 * MINUTE);
        made(&wish, &mut world);
    }
}

#[test]
fn one_that_is_to_be_replaced_serves_while_its_deletion_fails() {
    let failures: [Refuses; 2] = [
        |change| {
            let failed = ChangeOutcome::Refused(ServiceRefusal::ProviderFailed);
            matches!(change, CloudChange::DeleteBalancer { .. }).then_some(failed)
        },
        |change| matches!(change, CloudChange::DeleteBalancer { .. }).then_some(ChangeOutcome::Unknown(String::new())),
    ];
    for (nth, refuses) in failures.into_iter().enumerate() {
        let (mut wish, mut world) = world(Wish::at_its_address);
        made(&wish, &mut world);
        wish.flavor = Some("f0000000-0000-4000-8000-000000000001");
        world.actor.want(wish.entry());
        world.refuses = Some(refuses);
        world.run_for(2 * MINUTE);
        for host in 4..8 {
            members_follow(&mut wish, &mut world, host);
            world.run_for(MINUTE);
        }
        let tries = count(&world, |change| refuses(change).is_some());
        assert!((2..=40).contains(&tries), "{nth}: {tries}");
        world.refuses = None;
        world.run_for(6 * MINUTE);
        made(&wish, &mut world);
    }
}

#[test]
fn a_listener_that_stays_keeps_no_other_from_going() {
    let (mut wish, mut world) =
        world(|wish| wish.ports = vec![(Protocol::Tcp, 80), (Protocol::Tcp, 81), (Protocol::Tcp, 82)]);
    made(&wish, &mut world);
    let first = world.actor.balancer().unwrap().listeners.iter().find(|one| one.port == 81).unwrap().id.clone();
    wish.ports.truncate(1);
    world.actor.want(wish.entry());
    world.in_use = Some(first.clone());
    world.run_for(MINUTE);
    let left: Vec<String> = world.actor.balancer().unwrap().listeners.iter().map(|one| one.id.clone()).collect();
    assert!(left.len() == 2 && left.contains(&first), "{left:?}");
    assert!(!matches!(world.step(), BalancerStep::Done), "the listener serves clients");
    world.in_use = None;
    world.run_for(6 * MINUTE);
    made(&wish, &mut world);
}

#[test]
fn a_port_that_may_not_be_deleted_does_not_keep_a_load_balancer_from_being_ready() {
    for refusal in [ServiceRefusal::Forbidden("role".into()), ServiceRefusal::Changed(String::new())] {
        let (mut wish, mut world) = world(|wish| wish.from_outside = true);
        made(&wish, &mut world);
        let network = world.cloud.network_of(&wish.subnet).unwrap().to_owned();
        let description = mark(wish.owner).description();
        let stray = json!({"port": {
            "network_id": network, "fixed_ips": [{"subnet_id": wish.subnet}], "project_id": "p1",
            "description": description,
        }});
        world.by_hand(&SimRequest::post("/v2.0/ports", stray));
        // A conflict for good: somebody has attached the port to a router.
        world.refuses = Some(match refusal {
            ServiceRefusal::Changed(_) => |change| {
                let changed = ChangeOutcome::Refused(ServiceRefusal::Changed(String::new()));
                matches!(change, CloudChange::DeletePort { .. }).then_some(changed)
            },
            _ => NO_DELETION,
        });
        world.sent.clear();
        world.actor.look_again();
        world.run_for(Duration::from_secs(10));
        assert_eq!(world.step(), BalancerStep::Done, "{refusal}");
        assert_eq!(world.actor.blocks(world.cloud.now()).count(), 1, "it is reported");
        members_follow(&mut wish, &mut world, 8);
        world.run_for(14 * MINUTE);
        let tries = count(&world, |change| matches!(change, CloudChange::DeletePort { .. }));
        assert!((3..=15).contains(&tries), "{refusal}: {tries}");
    }
}

#[test]
fn a_port_that_may_not_be_closed_holds_up_nothing_and_is_tried_again() {
    // One that no client may reach, and one whose ranges are refused.
    for clients in [ClientRanges::NoOne, ClientRanges::Only(["2001:db8::/32".parse().unwrap()].into())] {
        let (mut wish, mut world) = world(|_| {});
        made(&wish, &mut world);
        wish.clients = clients;
        world.refuses = Some(|change| match change {
            CloudChange::UpdateListener { fields, .. } if fields["admin_state_up"] == json!(false) => Some(forbidden()),
            _ => None,
        });
        members_follow(&mut wish, &mut world, 9);
        world.sent.clear();
        world.run_for(14 * MINUTE);
        let tries = count(&world, |change| matches!(change, CloudChange::UpdateListener { .. }));
        assert!((2..=3).contains(&tries), "{:#?}", world.sent);
        assert!(matches!(world.step(), BalancerStep::Blocked(_)));
        world.refuses = None;
        world.run_for(6 * MINUTE);
        assert_eq!(world.cloud.forwards(&world.balancer()), []);
    }
}

/// The driver fails, or answers are lost, for everything that is about port 443.
fn fails_for_443(change: &CloudChange, outcome: ChangeOutcome) -> Option<ChangeOutcome> {
    let is_new = |body: &serde_json::Value| body["protocol_port"] == 443;
    matches!(change, CloudChange::CreateListener { body } if is_new(body)).then_some(outcome)
}

#[test]
fn a_port_whose_changes_fail_does_not_hold_up_the_others() {
    let cases: [Refuses; 2] = [
        |change| fails_for_443(change, ChangeOutcome::Refused(ServiceRefusal::ProviderFailed)),
        |change| fails_for_443(change, ChangeOutcome::Unknown(String::new())),
    ];
    for refuses in cases {
        let (mut wish, mut world) = world(|_| {});
        made(&wish, &mut world);
        world.refuses = Some(refuses);
        // The one that fails comes first.
        wish.ports = vec![(Protocol::Tcp, 443), (Protocol::Tcp, 80), (Protocol::Tcp, 8080)];
        wish.members = vec![(1, 443, 1), (1, 80, 1), (1, 8080, 1)];
        world.actor.want(wish.entry());
        world.sent.clear();
        world.run_for(10 * MINUTE);
        let ports: Vec<u16> = forwarded(&world.cloud, &world.balancer()).iter().map(|(port, _)| *port).collect();
        assert_eq!(ports, [80, 8080]);
        let tries = count(&world, |change| refuses(change).is_some());
        assert!((5..=12).contains(&tries), "the pause grows: {tries}");
        members_follow(&mut wish, &mut world, 7);
        // Once the cause is gone.
        world.refuses = None;
        world.run_for(6 * MINUTE);
        assert_eq!(world.step(), BalancerStep::Done);
        assert_eq!(forwarded(&world.cloud, &world.balancer()).len(), 3);
    }
}

#[test]
fn many_wishes_are_no_storm_for_a_driver_that_fails() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    world.refuses = Some(|change| fails_for_443(change, ChangeOutcome::Refused(ServiceRefusal::ProviderFailed)));
    wish.ports.push((Protocol::Tcp, 443));
    for nth in 0..60 {
        members_follow(&mut wish, &mut world, 1 + nth % 9);
    }
    let tries = count(&world, |change| matches!(change, CloudChange::CreateListener { .. }));
    assert!(tries <= 6 * 60 / 5 + 1, "{tries}");
}

#[test]
fn ports_that_fail_together_are_tried_one_after_another() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    world.refuses = Some(|_| Some(ChangeOutcome::Unknown(String::new())));
    wish.ports = (80..120).map(|port| (Protocol::Tcp, port)).collect();
    wish.members = (80..120).map(|port| (1, port, 1)).collect();
    world.actor.want(wish.entry());
    world.sent.clear();
    world.run_for(5 * MINUTE);
    assert!(world.sent.len() < 80, "{}", world.sent.len());
    world.refuses = None;
    world.run_for(15 * MINUTE);
    made(&wish, &mut world);
}

#[test]
fn a_removal_does_not_wait_for_a_creation_that_has_failed_often() {
    let (wish, mut world) = world(|wish| wish.from_outside = true);
    world.refuses = Some(|change| {
        let failed = ChangeOutcome::Refused(ServiceRefusal::ProviderFailed);
        matches!(change, CloudChange::CreateBalancer { .. }).then_some(failed)
    });
    world.run_for(20 * MINUTE);
    let tries = world.sent.len();
    // Right after a failure the next try is as far away as it gets.
    while world.sent.len() == tries {
        let step = world.step();
        world.take(&step, Way::Arrives);
    }
    world.actor.want(wish.deleting());
    world.run_for(Duration::from_secs(6));
    assert_eq!(world.step(), BalancerStep::Gone);
}

/// The members of the one that serves follow while another one cannot be made in its place.
#[test]
fn a_successor_that_fails_does_not_hold_up_the_members() {
    let (mut wish, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
    made(&wish, &mut world);
    world.refuses = Some(|change| {
        let failed = ChangeOutcome::Refused(ServiceRefusal::ProviderFailed);
        matches!(change, CloudChange::CreateBalancer { .. }).then_some(failed)
    });
    wish.flavor = Some("f0000000-0000-4000-8000-000000000001");
    world.actor.want(wish.entry());
    world.run_for(20 * MINUTE);
    for host in 4..9 {
        members_follow(&mut wish, &mut world, host);
    }
    world.refuses = None;
    world.run_for(6 * MINUTE);
    made(&wish, &mut world);
}

/// Its certificate cannot be had, for instance. The second time, one that served both ports has gone for a change of its flavor.
#[test]
fn a_port_that_is_invalid_does_not_stop_the_load_balancer_of_the_others() {
    for is_replaced in [false, true] {
        let (mut wish, mut world) = world(|wish| {
            wish.at_its_address();
            wish.ports = vec![(Protocol::Tcp, 80), (Protocol::Tcp, 443)];
            wish.members = vec![(1, 80, 1), (1, 443, 1)];
        });
        if is_replaced {
            made(&wish, &mut world);
            wish.flavor = Some("f0000000-0000-4000-8000-000000000001");
            world.actor.want(wish.entry());
        }
        world.refuses = Some(|change| {
            let request = change.request();
            let is_it = request.verb == ApiVerb::Create && request.body.to_string().contains("\"protocol_port\":443");
            is_it.then(|| ChangeOutcome::Refused(ServiceRefusal::Invalid("Could not retrieve certificate".into())))
        });
        world.sent.clear();
        world.run_for(30 * MINUTE);
        assert_eq!(forwarded(&world.cloud, &world.balancer()), [(80, vec![("10.1.0.1".to_owned(), 1)])]);
        let blocks: Vec<_> = world.actor.blocks(world.cloud.now()).collect();
        assert!(
            matches!(&blocks[..], [(Some(port), Block::Invalid(_))] if port.port == 443),
            "{is_replaced}: {blocks:?}"
        );
        assert!(world.sent.len() < 15, "{:#?}", world.sent);
        world.refuses = None;
        world.run_for(61 * MINUTE);
        made(&wish, &mut world);
        // The provider can make all of it in one request.
        assert_eq!(world.missing, []);
    }
}

/// What is wrong with the load balancer itself is wrong without its ports, too.
#[test]
fn a_load_balancer_that_is_invalid_by_itself_is_left_alone() {
    let (wish, mut world) = world(|wish| wish.ports = vec![(Protocol::Tcp, 80), (Protocol::Tcp, 443)]);
    world.refuses = Some(|change| {
        let invalid = ChangeOutcome::Refused(ServiceRefusal::Invalid("no such flavor".into()));
        matches!(change, CloudChange::CreateBalancer { .. }).then_some(invalid)
    });
    world.run_for(50 * MINUTE);
    assert_eq!(world.sent.len(), 4, "{:#?}", world.sent);
    assert!(matches!(world.step(), BalancerStep::Blocked(Block::Invalid(_))), "{:?}", world.step());
    world.refuses = None;
    world.run_for(61 * MINUTE);
    made(&wish, &mut world);
}
