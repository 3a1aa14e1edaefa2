//! Who may connect.

use gimbal_kuryr_model::ClientRanges;
use gimbal_model::Protocol;
use gimbal_octavia_plan::{ApiVerb, BalancerStep, Block, ChangeOutcome, CloudAbility, CloudChange, ServiceRefusal};
use serde_json::json;

use crate::executor::{Way, World};
use crate::services::{change, made, world};
use crate::wish::Wish;

fn only(ranges: &[&str]) -> ClientRanges {
    ClientRanges::Only(ranges.iter().map(|range| range.parse().unwrap()).collect())
}

/// The fields of listeners that are changed, but for their tags.
fn fields(changes: &[CloudChange]) -> Vec<serde_json::Value> {
    let fields = |change: &CloudChange| {
        let mut fields = change.request().body["listener"].clone();
        fields.as_object_mut().map(|fields| fields.remove("tags"));
        fields
    };
    changes.iter().map(fields).collect()
}

#[test]
fn ranges_travel_alone_and_first_where_fewer_may_connect() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    let changes = change(&mut world, &mut wish, |wish| {
        wish.clients = only(&["192.0.2.0/24"]);
        wish.members = vec![(9, 80, 1)];
        wish.timeout = Some(7_000);
    });
    assert_eq!(changes[0].request().body, json!({"listener": {"allowed_cidrs": ["192.0.2.0/24"]}}));
    assert!(matches!(changes[1], CloudChange::SetMembers { .. }));
    assert_eq!(fields(&changes[2..]), [json!({"timeout_client_data": 7_000})]);
    // More may connect after everything else.
    let changes = change(&mut world, &mut wish, |wish| {
        wish.clients = only(&["192.0.2.0/24", "198.51.100.0/24"]);
        wish.timeout = Some(8_000);
    });
    let ranges = json!({"allowed_cidrs": ["192.0.2.0/24", "198.51.100.0/24"]});
    assert_eq!(fields(&changes), [json!({"timeout_client_data": 8_000}), ranges]);
}

#[test]
fn nobody_to_some_opens_only_with_the_ranges() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    change(&mut world, &mut wish, |wish| wish.clients = ClientRanges::NoOne);
    let changes = change(&mut world, &mut wish, |wish| wish.clients = only(&["192.0.2.0/24"]));
    assert_eq!(fields(&changes), [json!({"allowed_cidrs": ["192.0.2.0/24"]}), json!({"admin_state_up": true})]);
}

/// Octavia refuses ranges of another family than the VIP's.
fn refused() -> (Wish, World) {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    wish.clients = only(&["2001:db8::/32"]);
    wish.members = vec![(9, 80, 1)];
    world.actor.want(wish.entry());
    (wish, world)
}

#[test]
fn ranges_that_are_refused_leave_nothing_open() {
    let (mut wish, mut world) = refused();
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Invalid(_))));
    assert_eq!(world.cloud.forwards(&world.balancer()), []);
    // A look does not open it either, at no step.
    world.actor.look_again();
    for _ in 0..40 {
        let step = world.step();
        world.take(&step, Way::Arrives);
        assert_eq!(world.cloud.forwards(&world.balancer()), [], "{step:?}");
    }
    // What can be restricted is open again.
    change(&mut world, &mut wish, |wish| wish.clients = only(&["192.0.2.0/24"]));
}

#[test]
fn an_octavia_without_ranges_does_not_serve_the_port() {
    let (mut wish, mut world) = world(|wish| wish.clients = only(&["192.0.2.0/24"]));
    (world.facts.api_version.major, world.facts.api_version.minor) = (2, 11);
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(world.unsupported().len(), 1);
    assert_eq!(world.cloud.forwards(&world.balancer()), []);
    // One that was open is closed.
    change(&mut world, &mut wish, |wish| wish.clients = ClientRanges::Everyone);
    wish.clients = only(&["192.0.2.0/24"]);
    world.actor.want(wish.entry());
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(world.cloud.forwards(&world.balancer()), []);
}

#[test]
fn what_a_provider_lacks_is_reported_for_the_others() {
    let (mut wish, mut world) = world(|_| {});
    world.cloud.provider_mut().allowed_cidrs = false;
    world.cloud.provider_mut().batch = false;
    world.cloud.provider_mut().populated = false;
    wish.address = Some("10.0.0.50");
    world.actor.want(wish.entry());
    made(&wish, &mut world);
    wish.clients = only(&["192.0.2.0/24"]);
    world.actor.want(wish.entry());
    assert_eq!(world.run(), BalancerStep::Done);
    let missing: Vec<_> = world.missing.iter().map(|one| (one.provider.as_str(), one.ability)).collect();
    let lacks = [CloudAbility::BatchMembers, CloudAbility::PopulatedCreate, CloudAbility::ClientRanges];
    assert_eq!(missing, lacks.map(|one| ("lab", one)));

    // Who knows tries none of it.
    let known = world.facts.providers.get_mut("lab").unwrap();
    (known.batch_members, known.populated_create, known.client_ranges) = (false, false, false);
    world.restart();
    world.sent.clear();
    wish.owner = "u2";
    wish.address = Some("10.0.0.51");
    wish.clients = only(&["192.0.2.0/24"]);
    let mut other = World::new(world.cloud, world.facts, wish.entry());
    assert_eq!(other.run(), BalancerStep::Done);
    assert_eq!((other.unsupported().len(), other.missing.len()), (1, 0));
    assert!(other.sent.iter().all(|change| change.request().verb == ApiVerb::Create), "{:#?}", other.sent);
}

#[test]
fn what_is_missing_is_tried_again_after_a_day() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    world.cloud.provider_mut().batch = false;
    change(&mut world, &mut wish, |wish| wish.members = vec![(1, 80, 1)]);
    world.cloud.provider_mut().batch = true;
    let batches = |changes: &[CloudChange]| changes.iter().any(|one| matches!(one, CloudChange::SetMembers { .. }));
    let changes = change(&mut world, &mut wish, |wish| wish.members = vec![(2, 80, 1)]);
    assert!(!batches(&changes));
    world.advance(std::time::Duration::from_secs(24 * 3600));
    let changes = change(&mut world, &mut wish, |wish| wish.members = vec![(3, 80, 1)]);
    assert!(batches(&changes));
}

#[test]
fn a_floating_ip_leads_there_only_after_fewer_may_connect() {
    let (mut wish, mut world) = world(|wish| wish.from_outside = true);
    made(&wish, &mut world);
    let changes = change(&mut world, &mut wish, |wish| {
        wish.floating = true;
        wish.clients = only(&["192.0.2.0/24"]);
    });
    assert_eq!(changes[0].request().body, json!({"listener": {"allowed_cidrs": ["192.0.2.0/24"]}}), "{changes:#?}");
    assert!(matches!(changes[1..], [CloudChange::CreateFloatingIp { .. }]), "{changes:#?}");
}

/// Neutron may ask for a pause, and what is internal now would be open to everybody until then.
#[test]
fn more_may_connect_only_after_the_floating_ip_has_gone() {
    let (mut wish, mut world) = world(|wish| {
        (wish.from_outside, wish.floating) = (true, true);
        wish.clients = only(&["192.0.2.0/24"]);
    });
    made(&wish, &mut world);
    world.refuses = Some(|change| {
        let busy = || ChangeOutcome::Refused(ServiceRefusal::Busy(None));
        matches!(change, CloudChange::UpdateFloatingIp { .. }).then(busy)
    });
    (wish.floating, wish.clients, wish.known) = (false, ClientRanges::Everyone, true);
    wish.ports.push((Protocol::Tcp, 8080));
    wish.members.push((9, 80, 1));
    wish.generation += 1;
    world.sent.clear();
    world.actor.want(wish.entry());
    world.run();
    let sent = std::mem::take(&mut world.sent);
    assert!(sent.iter().any(|one| matches!(one, CloudChange::SetMembers { .. })), "members follow: {sent:#?}");
    let opens =
        |one: &CloudChange| matches!(one, CloudChange::CreateListener { .. } | CloudChange::UpdateListener { .. });
    assert!(!sent.iter().any(opens), "{sent:#?}");
    world.refuses = None;
    assert_eq!(world.run_on(), BalancerStep::Done);
    let (gone, opened) = (
        world.sent.iter().position(|one| matches!(one, CloudChange::DeleteFloatingIp { .. })),
        world.sent.iter().position(opens),
    );
    assert!(gone.is_some() && opened.is_some(), "{:#?}", world.sent);
    made(&wish, &mut world);
}

#[test]
fn one_floating_ip_gives_way_to_another_after_fewer_may_connect() {
    let (mut wish, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
    made(&wish, &mut world);
    let changes = change(&mut world, &mut wish, |wish| {
        wish.floating_address = Some("203.0.113.77");
        wish.clients = only(&["192.0.2.0/24"]);
    });
    assert_eq!(changes[0].request().body, json!({"listener": {"allowed_cidrs": ["192.0.2.0/24"]}}), "{changes:#?}");
}

#[test]
fn a_port_that_is_not_wanted_goes_before_a_floating_ip_leads_there() {
    let (mut wish, mut world) = world(|wish| {
        wish.from_outside = true;
        wish.ports.push((Protocol::Tcp, 9000));
    });
    made(&wish, &mut world);
    let changes = change(&mut world, &mut wish, |wish| {
        wish.floating = true;
        wish.ports.retain(|(_, port)| *port != 9000);
    });
    let [gone, comes] = [
        changes.iter().position(|one| matches!(one, CloudChange::DeleteListener { .. })),
        changes.iter().position(|one| matches!(one, CloudChange::CreateFloatingIp { .. })),
    ];
    assert!(gone.is_some() && gone < comes, "{changes:#?}");
}

/// It could not be made again before the floating IP has gone.
#[test]
fn a_listener_of_another_protocol_stays_while_a_floating_ip_is_to_go() {
    let (mut wish, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
    made(&wish, &mut world);
    world.refuses = Some(|change| {
        let busy = || ChangeOutcome::Refused(ServiceRefusal::Busy(None));
        matches!(change, CloudChange::UpdateFloatingIp { .. }).then(busy)
    });
    (wish.floating, wish.http, wish.known) = (false, true, true);
    wish.generation += 1;
    world.sent.clear();
    world.actor.want(wish.entry());
    world.run();
    let goes = |one: &CloudChange| matches!(one, CloudChange::DeleteListener { .. });
    assert!(!world.sent.iter().any(goes), "{:#?}", world.sent);
    world.refuses = None;
    assert_eq!(world.run_on(), BalancerStep::Done);
    assert!(world.sent.iter().any(goes), "{:#?}", world.sent);
    made(&wish, &mut world);
}
