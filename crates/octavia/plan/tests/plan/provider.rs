//! Providers that cannot do everything, and quotas.

use std::time::Duration;

use gimbal_kuryr_model::ClientRanges;
use gimbal_model::Protocol;
use gimbal_octavia_plan::{BalancerStep, Block, ChangeOutcome, CloudChange, ServiceRefusal};
use gimbal_octavia_sim::{Fate, ProjectQuota, SimRequest};
use serde_json::json;

use crate::executor::{Refuses, World};
use crate::services::{change, made, world};
use crate::wish::{Wish, forwarded};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn without_populated_creation_it_is_made_step_by_step() {
    let (wish, mut world) = world(|wish| wish.ports = vec![(Protocol::Tcp, 80), (Protocol::Tcp, 443)]);
    world.cloud.provider_mut().populated = false;
    made(&wish, &mut world);
    let last: Vec<_> = world.sent.iter().rev().take(2).map(|change| change.request().resource).collect();
    assert!(last.contains(&"listener"), "{:#?}", world.sent);
}

#[test]
fn without_batches_members_are_added_before_others_go() {
    let (mut wish, mut world) = world(|_| {});
    world.cloud.provider_mut().batch = false;
    made(&wish, &mut world);
    let changes = change(&mut world, &mut wish, |wish| wish.members = vec![(1, 80, 0), (4, 80, 1)]);
    let kinds: Vec<_> = changes
        .iter()
        .map(|change| match change {
            CloudChange::SetMembers { .. } => "batch",
            CloudChange::CreateMember { .. } => "add",
            CloudChange::UpdateMember { .. } => "change",
            CloudChange::DeleteMember { .. } => "remove",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["batch", "add", "change", "remove", "remove"]);
}

#[test]
fn a_port_that_the_provider_cannot_restrict_is_not_made() {
    let ranges = ClientRanges::Only(["192.0.2.0/24".parse().unwrap()].into());
    let (_, mut world) = world(|wish| wish.clients = ranges);
    world.cloud.provider_mut().allowed_cidrs = false;
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(world.unsupported().len(), 1);
    assert_eq!(world.cloud.forwards(&world.balancer()), []);
}

#[test]
fn a_port_that_can_no_longer_be_restricted_is_closed() {
    let (mut wish, mut world) = world(|_| {});
    world.cloud.provider_mut().allowed_cidrs = false;
    made(&wish, &mut world);
    wish.clients = ClientRanges::Only(["192.0.2.0/24".parse().unwrap()].into());
    world.actor.want(wish.entry());
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(world.cloud.forwards(&world.balancer()), [], "everybody may connect");
}

/// One node of Octavia may say so of what the others can do.
fn not_found() -> ChangeOutcome {
    ChangeOutcome::Refused(ServiceRefusal::Unsupported("Provider 'lab' was not found.".to_owned()))
}

#[test]
fn ranges_that_are_refused_for_another_reason_are_nothing_that_the_provider_lacks() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    let listener = |world: &mut World| world.rows("/v2/lbaas/listeners", "listeners", &[])[0]["id"].clone();
    let before = listener(&mut world);
    wish.clients = ClientRanges::Only(["192.0.2.0/24".parse().unwrap()].into());
    world.actor.want(wish.entry());
    world.refuses = Some(|change| {
        let CloudChange::UpdateListener { fields, .. } = change else { return None };
        fields.get("allowed_cidrs").is_some().then(not_found)
    });
    world.run_for(MINUTE);
    assert_eq!(world.cloud.forwards(&world.balancer()), [], "it is closed meanwhile");
    world.refuses = None;
    world.run_for(HOUR);
    made(&wish, &mut world);
    assert_eq!(listener(&mut world), before);
    assert_eq!(world.missing, []);
}

#[test]
fn a_creation_that_is_refused_for_a_minute_is_tried_again_without_another_wish() {
    let (wish, mut world) = world(|_| {});
    world.refuses = Some(|change| matches!(change, CloudChange::CreateBalancer { .. }).then(not_found));
    world.run_for(MINUTE);
    assert_eq!(world.sent.len(), 2, "with its ports, and without: {:#?}", world.sent);
    world.refuses = None;
    world.run_for(HOUR);
    made(&wish, &mut world);
}

#[test]
fn one_port_that_the_provider_lacks_does_not_stop_the_others() {
    let (mut wish, mut world) = world(|wish| {
        wish.ports = vec![(Protocol::Tcp, 80), (Protocol::Sctp, 90)];
        wish.members = vec![(1, 80, 1), (1, 90, 1)];
    });
    world.cloud.provider_mut().protocols.retain(|protocol| protocol != "SCTP");
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(world.unsupported().iter().map(|(id, _)| id.port).collect::<Vec<_>>(), [90]);
    assert_eq!(forwarded(&world.cloud, &world.balancer()), [(80, vec![("10.1.0.1".to_owned(), 1)])]);
    // Endpoints change all the time, and none of that makes a protocol of it.
    world.sent.clear();
    wish.members = vec![(2, 80, 1), (2, 90, 1)];
    world.actor.want(wish.entry());
    assert_eq!(world.run(), BalancerStep::Done);
    assert!(matches!(&world.sent[..], [CloudChange::SetMembers { .. }]), "{:#?}", world.sent);
    // It is asked once an hour, and may be upgraded.
    world.sent.clear();
    world.run_for(HOUR + MINUTE);
    assert_eq!((world.sent.len(), world.unsupported().len()), (1, 1), "{:#?}", world.sent);
    world.cloud.provider_mut().protocols.push("SCTP".to_owned());
    world.run_for(HOUR);
    made(&wish, &mut world);
}

/// As on OVN: somebody asks for headers or for the PROXY protocol on a port that serves.
#[test]
fn a_setting_that_the_provider_lacks_leaves_what_serves_as_it_is() {
    let settings: [fn(&mut Wish); 2] = [|wish| wish.http = true, |wish| wish.proxy = true];
    for ask in settings {
        let (mut wish, mut world) = world(|_| {});
        world.cloud.provider_mut().protocols.retain(|one| one == "TCP");
        made(&wish, &mut world);
        ask(&mut wish);
        wish.members = vec![(9, 80, 1)];
        world.actor.want(wish.entry());
        assert_eq!(world.run(), BalancerStep::Done);
        assert_eq!(world.unsupported().len(), 1);
        assert_eq!(forwarded(&world.cloud, &world.balancer()), wish.forwards(), "its members follow");
        // Nothing is tried again and again.
        world.sent.clear();
        world.run_for(30 * MINUTE);
        assert_eq!(world.sent, []);
        change(&mut world, &mut wish, |wish| (wish.http, wish.proxy) = (false, false));
    }
}

/// What stays as it is must not let in who may not connect any more.
#[test]
fn what_stays_without_a_setting_that_the_provider_lacks_is_no_more_open_than_is_wanted() {
    let (mut wish, mut world) = world(|_| {});
    world.cloud.provider_mut().protocols.retain(|one| one == "TCP");
    made(&wish, &mut world);
    wish.http = true;
    wish.clients = ClientRanges::Only(["192.0.2.0/24".parse().unwrap()].into());
    world.actor.want(wish.entry());
    assert_eq!(world.run(), BalancerStep::Done);
    let open = world.cloud.forwards(&world.balancer());
    let allowed: Vec<_> = open.iter().map(|one| one.allowed.as_deref().unwrap_or_default()).collect();
    assert_eq!(allowed, [["192.0.2.0/24"]]);
}

#[test]
fn where_own_ports_are_not_allowed_octavia_makes_one() {
    let (wish, mut world) = world(|wish| wish.from_outside = true);
    world.cloud.provider_mut().own_port = false;
    made(&wish, &mut world);
    // The port that was made in vain is gone again.
    assert_eq!(world.rows("/v2.0/ports", "ports", &[]).len(), 1);
    // A restart forgets that own ports are not allowed, and leaves what works alone.
    world.sent.clear();
    world.restart();
    made(&wish, &mut world);
    assert_eq!(world.sent, []);
}

/// Somebody has asked for this port, so that there is no other way as with a port of ours.
#[test]
fn a_port_that_is_asked_for_where_octavia_takes_none_is_refused_in_its_words() {
    let (mut wish, mut world) = world(|wish| wish.ports.push((Protocol::Tcp, 443)));
    world.cloud.provider_mut().own_port = false;
    let body = json!({"port": {"fixed_ips": [{"subnet_id": wish.subnet}], "project_id": "p1"}});
    let port = world.by_hand(&SimRequest::post("/v2.0/ports", body))["port"]["id"].as_str().unwrap().to_owned();
    wish.vip_port = Some(port);
    world.actor.want(wish.entry());
    world.run_for(30 * MINUTE);
    assert!((1..=2).contains(&world.sent.len()), "{}: {:#?}", world.sent.len(), world.sent.last());
    let step = world.step();
    assert!(
        matches!(&step, BalancerStep::Blocked(Block::Unsupported(words)) if words.contains("disallowed")),
        "{step:?}"
    );
    assert_eq!(world.missing, [], "the provider may take ports of ours");
    // Not asked for any more.
    wish.vip_port = None;
    world.actor.want(wish.entry());
    made(&wish, &mut world);
}

#[test]
fn a_floating_ip_that_is_refused_does_not_hold_up_the_members() {
    let (mut wish, mut world) = world(|wish| wish.floating = true);
    // No such network, so Neutron refuses the floating IP.
    world.facts.external.as_mut().unwrap().network = "elsewhere".into();
    assert_eq!(world.run(), BalancerStep::Blocked(Block::Failing));
    assert!(world.actor.retry_at(world.cloud.now()).is_some());
    wish.members = vec![(7, 80, 1)];
    wish.generation += 1;
    wish.known = true;
    world.actor.want(wish.entry());
    world.run();
    assert_eq!(forwarded(&world.cloud, &world.balancer()), wish.forwards());
}

#[test]
fn a_port_that_a_quota_refuses_does_not_hold_up_the_others() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    world.cloud.set_quota("p1", ProjectQuota { pools: Some(1), ..ProjectQuota::default() });
    wish.ports = vec![(Protocol::Tcp, 70), (Protocol::Tcp, 80)];
    wish.members = vec![(7, 80, 1)];
    world.actor.want(wish.entry());
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Quota(_))));
    assert_eq!(forwarded(&world.cloud, &world.balancer()), [(80, vec![("10.1.0.7".to_owned(), 1)])]);
}

#[test]
fn a_new_service_with_room_for_one_of_its_ports_serves_that_one() {
    let quotas: [fn(&mut ProjectQuota); 3] =
        [|quota| quota.listeners = Some(1), |quota| quota.pools = Some(1), |quota| quota.members = Some(1)];
    for (nth, limit) in quotas.into_iter().enumerate() {
        let (wish, mut world) = world(|wish| {
            wish.ports = vec![(Protocol::Tcp, 80), (Protocol::Tcp, 443)];
            wish.members = vec![(1, 80, 1), (1, 443, 1)];
        });
        let mut quota = ProjectQuota::default();
        limit(&mut quota);
        world.cloud.set_quota("p1", quota);
        let step = world.run();
        assert!(matches!(step, BalancerStep::Blocked(Block::Quota(_))), "case {nth}: {step:?}");
        let served = forwarded(&world.cloud, &world.balancer());
        assert_eq!(served, [(80, vec![("10.1.0.1".to_owned(), 1)])], "case {nth}");
        world.cloud.set_quota("p1", ProjectQuota::default());
        world.advance(Duration::from_secs(301));
        made(&wish, &mut world);
    }
}

#[test]
fn a_service_without_room_for_its_load_balancer_or_its_only_port_makes_nothing() {
    let one = ProjectQuota { load_balancers: Some(0), ..ProjectQuota::default() };
    let cases = [(one, 2), (ProjectQuota { listeners: Some(0), ..ProjectQuota::default() }, 1)];
    for (quota, ports) in cases {
        let (_, mut world) = world(|wish| wish.ports = (80..80 + ports).map(|port| (Protocol::Tcp, port)).collect());
        world.cloud.set_quota("p1", quota);
        assert!(matches!(world.run(), BalancerStep::Blocked(Block::Quota(_))));
        assert_eq!((world.sent.len(), world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]).len()), (1, 0));
    }
}

/// In one request and step by step, for a quota and for what the provider cannot do.
#[test]
fn a_monitor_that_is_refused_does_not_keep_its_port_from_serving() {
    let lacks: Refuses = |change| matches!(change, CloudChange::CreateMonitor { .. }).then(not_found);
    for (populated, refuses) in [(true, None), (false, None), (false, Some(lacks))] {
        let (wish, mut world) = world(|wish| wish.monitor = true);
        world.cloud.provider_mut().populated = populated;
        world.refuses = refuses;
        let monitors = if refuses.is_some() { None } else { Some(0) };
        world.cloud.set_quota("p1", ProjectQuota { monitors, ..ProjectQuota::default() });
        let step = world.run();
        let is_said = matches!(step, BalancerStep::Blocked(Block::Quota(_) | Block::Unsupported(_)));
        assert!(is_said, "populated: {populated}, {step:?}");
        assert_eq!(forwarded(&world.cloud, &world.balancer()), wish.forwards(), "populated: {populated}");
        world.refuses = None;
        world.cloud.set_quota("p1", ProjectQuota::default());
        world.run_for(HOUR);
        made(&wish, &mut world);
        assert!(world.actor.balancer().unwrap().pools[0].monitor.is_some());
    }
}

#[test]
fn an_own_port_that_may_not_be_used_gives_its_address_back() {
    let (wish, mut world) = world(|wish| (wish.from_outside, wish.address) = (true, Some("10.0.0.50")));
    world.cloud.provider_mut().own_port = false;
    made(&wish, &mut world);
    assert_eq!(world.actor.balancer().unwrap().vip_address, "10.0.0.50");
}

#[test]
fn a_quota_is_tried_again_after_a_while_and_removal_is_not_held_by_it() {
    let (wish, mut world) = world(|wish| wish.from_outside = true);
    world.cloud.set_quota("p1", ProjectQuota { load_balancers: Some(0), ..ProjectQuota::default() });
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Quota(_))));
    let kept = world.actor.clone();
    world.actor.want(wish.deleting());
    assert!(matches!(world.run_to_change(), CloudChange::DeletePort { .. }));
    world.actor = kept;
    world.cloud.set_quota("p1", ProjectQuota::default());
    world.advance(Duration::from_secs(301));
    made(&wish, &mut world);
}

#[test]
fn a_failing_driver_is_left_alone_for_a_while() {
    let (wish, mut world) = world(|_| {});
    for _ in 0..3 {
        world.cloud.expect(Fate::Raises);
    }
    let start = world.cloud.now();
    made(&wish, &mut world);
    assert_eq!(world.sent.len(), 4);
    assert!(world.cloud.now() - start >= Duration::from_secs(35), "{:?}", world.cloud.now());
}
