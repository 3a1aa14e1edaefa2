//! A load balancer that is made and changed, without any trouble.

use gimbal_kuryr_model::ClientRanges;
use gimbal_model::Protocol;
use gimbal_octavia_plan::{BalancerStep, CloudChange, CloudLook};
use gimbal_octavia_sim::{Provider, SimRequest};
use serde_json::json;

use crate::executor::{Way, World};
use crate::wish::{Wish, cloud, forwarded};

pub fn made(wish: &Wish, world: &mut World) {
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(forwarded(&world.cloud, &world.balancer()), wish.forwards());
}

pub fn world(change: impl FnOnce(&mut Wish)) -> (Wish, World) {
    let (cloud, facts, subnet) = cloud(Provider::default());
    let mut wish = Wish::new(&subnet);
    change(&mut wish);
    let world = World::new(cloud, facts, wish.entry());
    (wish, world)
}

/// Wants something else, and returns the changes that come of it.
pub fn change(world: &mut World, wish: &mut Wish, change: impl FnOnce(&mut Wish)) -> Vec<CloudChange> {
    change(wish);
    wish.generation += 1;
    wish.known = true;
    world.sent.clear();
    world.actor.want(wish.entry());
    made(wish, world);
    std::mem::take(&mut world.sent)
}

#[test]
fn a_service_is_one_populated_request() {
    let (wish, mut world) = world(|wish| wish.monitor = true);
    made(&wish, &mut world);
    assert_eq!(world.sent.len(), 1, "{:#?}", world.sent);
    world.sent.clear();
    // A restart, and nothing changed: nothing is written.
    world.restart();
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(world.sent, []);
}

/// Octavia answers 500 to one that comes with its pool.
#[test]
fn a_port_that_another_transport_has_gets_its_pool_in_a_second_change() {
    let (mut wish, mut world) = world(|wish| {
        wish.ports = vec![(Protocol::Udp, 53)];
        wish.members = vec![(1, 53, 1)];
    });
    made(&wish, &mut world);
    let changes = change(&mut world, &mut wish, |wish| wish.ports.push((Protocol::Sctp, 53)));
    let of_listeners: Vec<_> = changes
        .iter()
        .filter_map(|one| match one {
            CloudChange::CreateListener { body } => Some(("made", body["default_pool_id"].is_string())),
            CloudChange::UpdateListener { fields, .. } => Some(("changed", fields["default_pool_id"].is_string())),
            _ => None,
        })
        .collect();
    assert_eq!(of_listeners, [("made", false), ("changed", true)]);
    let mut all: Vec<_> = world.cloud.forwards(&world.balancer()).iter().map(|one| one.protocol.clone()).collect();
    all.sort();
    assert_eq!(all, ["SCTP", "UDP"]);
    // One with a number of its own comes with its pool.
    let changes = change(&mut world, &mut wish, |wish| wish.ports.push((Protocol::Tcp, 80)));
    let with_pool =
        |one: &CloudChange| matches!(one, CloudChange::CreateListener { body } if body["default_pool_id"].is_string());
    assert!(changes.iter().any(with_pool), "{changes:#?}");
}

#[test]
fn from_outside_it_has_a_port_and_a_floating_ip_of_its_own() {
    let (wish, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
    made(&wish, &mut world);
    let kinds: Vec<_> = world.sent.iter().map(|change| change.request().resource).collect();
    assert_eq!(kinds, ["port", "loadbalancer", "floatingip"]);
    let port = world.actor.seen().ports[0].id.clone();
    assert_eq!(world.actor.balancer().unwrap().vip_port, port);
    assert_eq!(world.actor.seen().floating[0].port, Some(port.clone()));

    // The address survives the load balancer.
    let path = format!("/v2/lbaas/loadbalancers/{}", world.balancer());
    world.by_hand(&SimRequest::delete(&path).with_query("cascade", "true"));
    world.actor.look_again();
    made(&wish, &mut world);
    assert_eq!(world.actor.balancer().unwrap().vip_port, port);
}

#[test]
fn new_and_changed_members_are_one_additive_request() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    let changes =
        change(&mut world, &mut wish, |wish| wish.members = vec![(1, 80, 1), (2, 80, 0), (3, 80, 1), (4, 80, 1)]);
    let [CloudChange::SetMembers { members, additive: true, .. }] = &changes[..] else { panic!("{changes:#?}") };
    assert_eq!(members.len(), 2);
    assert!(world.actor.balancer().unwrap().pools[0].members.iter().all(|member| !member.id.is_empty()));
}

/// Octavia refuses a request above 112 KiB.
#[test]
fn members_that_a_request_has_no_room_for_come_in_the_next() {
    let (mut wish, mut world) = world(|wish| {
        wish.member_name = "n".repeat(250);
        wish.members = (1..=240).map(|host| (host, 80, 1)).collect();
    });
    wish.members.extend((1..=240).map(|host| (host, 81, 1)));
    wish.ports.push((Protocol::Tcp, 81));
    world.actor.want(wish.entry());
    made(&wish, &mut world);
    let kinds: Vec<_> = world.sent.iter().map(|change| change.request().resource).collect();
    assert_eq!(kinds, ["loadbalancer", "members", "members"]);
    // One more is one request with this one alone.
    let changes = change(&mut world, &mut wish, |wish| wish.members.push((250, 80, 1)));
    assert!(matches!(&changes[..], [CloudChange::SetMembers { members, additive: true, .. }] if members.len() == 1));
}

/// The whole list has no room, so that new members come first and each old one goes alone.
#[test]
fn members_go_one_by_one_from_a_list_that_is_too_long() {
    let (mut wish, mut world) = world(|wish| {
        wish.member_name = "n".repeat(255);
        wish.member_subnet = Some(wish.subnet.clone());
        wish.members = (1..=250).map(|host| (host, 80, 1)).collect();
    });
    made(&wish, &mut world);
    let changes = change(&mut world, &mut wish, |wish| {
        wish.members.drain(..2);
        wish.members.push((254, 80, 1));
    });
    let is_expected = matches!(
        &changes[..],
        [
            CloudChange::SetMembers { additive: true, .. },
            CloudChange::DeleteMember { .. },
            CloudChange::DeleteMember { .. }
        ]
    );
    let kinds: Vec<_> = changes.iter().map(|change| (change.request().resource, change.request().verb)).collect();
    assert!(is_expected, "{kinds:?}");
    // As soon as there is room, it is one request again.
    let changes = change(&mut world, &mut wish, |wish| wish.members.truncate(3));
    assert!(matches!(&changes[..], [CloudChange::SetMembers { additive: false, .. }]), "{changes:#?}");
}

/// The IDs of new members are read when there is nothing else to do.
#[test]
fn members_of_a_pool_that_has_gone_are_not_read() {
    let (mut wish, mut world) = world(|wish| wish.ports.push((Protocol::Tcp, 443)));
    made(&wish, &mut world);
    wish.known = true;
    wish.members.push((1, 443, 1));
    world.actor.want(wish.entry());
    let change = world.run_to_change();
    let CloudChange::SetMembers { pool, .. } = &change else { panic!("{change:?}") };
    world.take(&BalancerStep::Change(change.clone()), Way::Arrives);
    wish.ports.pop();
    wish.members.pop();
    world.actor.want(wish.entry());
    let read = BalancerStep::Look(CloudLook::Members { pool: pool.clone() });
    for _ in 0..50 {
        let step = world.step();
        assert_ne!(step, read);
        world.take(&step, Way::Arrives);
    }
    made(&wish, &mut world);
}

#[test]
fn members_that_go_leave_in_the_request_that_brings_the_new_ones() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    let changes = change(&mut world, &mut wish, |wish| wish.members = vec![(4, 80, 1)]);
    assert!(matches!(&changes[..], [CloudChange::SetMembers { additive: false, .. }]), "{changes:#?}");
}

#[test]
fn a_port_comes_with_its_members_first_and_goes_from_the_listener_down() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    let changes = change(&mut world, &mut wish, |wish| {
        wish.ports.push((Protocol::Tcp, 443));
        wish.members.push((1, 443, 1));
    });
    let kinds: Vec<_> = changes.iter().map(|change| change.request().resource).collect();
    assert_eq!(kinds, ["pool", "members", "listener"]);
    let changes = change(&mut world, &mut wish, |wish| {
        wish.ports.pop();
        wish.members.pop();
    });
    assert!(
        matches!(&changes[..], [CloudChange::DeleteListener { .. }, CloudChange::DeletePool { .. }]),
        "{changes:#?}"
    );
}

#[test]
fn nobody_is_not_everybody() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    change(&mut world, &mut wish, |wish| wish.clients = ClientRanges::Only(["192.0.2.0/24".parse().unwrap()].into()));
    let allowed = world.cloud.forwards(&world.balancer())[0].allowed.clone();
    assert_eq!(allowed.as_deref(), Some(&["192.0.2.0/24".to_owned()][..]));
    change(&mut world, &mut wish, |wish| wish.clients = ClientRanges::NoOne);
    assert_eq!(world.cloud.forwards(&world.balancer()), []);
    change(&mut world, &mut wish, |wish| wish.clients = ClientRanges::Everyone);
    assert_eq!(world.cloud.forwards(&world.balancer())[0].allowed, None);
}

#[test]
fn a_listener_that_speaks_something_else_gets_its_new_pool_before_the_old_one_goes() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    let changes = change(&mut world, &mut wish, |wish| wish.http = true);
    let kinds: Vec<_> =
        changes.iter().map(|change| format!("{:?} {}", change.request().verb, change.request().resource)).collect();
    assert_eq!(kinds, ["Create pool", "Update members", "Delete listener", "Create listener", "Delete pool"]);
}

#[test]
fn drift_is_set_back_and_strangers_go_at_the_second_look() {
    let (wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    let balancer = world.balancer();
    let pool = world.actor.balancer().unwrap().pools[0].id.clone();
    let member = world.actor.balancer().unwrap().pools[0].members[0].id.clone();
    let members = format!("/v2/lbaas/pools/{pool}/members");
    world.by_hand(&SimRequest::put(&format!("{members}/{member}"), json!({"member": {"weight": 9}})));
    for (address, tags) in [("10.9.9.1", json!([])), ("10.9.9.2", json!(["gimbal:keep"]))] {
        let stranger = json!({"member": {"address": address, "protocol_port": 80, "weight": 5, "tags": tags}});
        world.by_hand(&SimRequest::post(&members, stranger));
    }
    let listener = json!({"listener": {"loadbalancer_id": balancer, "protocol": "TCP", "protocol_port": 99}});
    world.by_hand(&SimRequest::post("/v2/lbaas/listeners", listener));

    let addresses = |world: &World| {
        let targets = &world.cloud.forwards(&balancer)[0].targets;
        targets.iter().map(|one| (one.address.clone(), one.weight)).collect::<Vec<_>>()
    };
    world.actor.look_again();
    assert_eq!(world.run(), BalancerStep::Done);
    assert!(addresses(&world).contains(&("10.1.0.1".into(), 1)), "{:?}", addresses(&world));
    assert_eq!((addresses(&world).len(), world.cloud.forwards(&balancer).len()), (5, 2));
    // Looks that follow fast do not count as two.
    world.actor.look_again();
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(world.cloud.forwards(&balancer).len(), 2);
    world.advance(std::time::Duration::from_secs(60));
    world.actor.look_again();
    assert_eq!(world.run(), BalancerStep::Done);
    // What is kept is as somebody made it.
    assert!(addresses(&world).contains(&("10.9.9.2".into(), 5)), "{:?}", addresses(&world));
    assert_eq!((addresses(&world).len(), world.cloud.forwards(&balancer).len()), (4, 1));
}

#[test]
fn what_cannot_be_changed_is_made_anew() {
    let (mut wish, mut world) = world(|wish| wish.address = Some("10.0.0.50"));
    made(&wish, &mut world);
    let first = world.balancer();
    change(&mut world, &mut wish, |wish| wish.address = Some("10.0.0.51"));
    assert_ne!(world.balancer(), first);
    assert_eq!(world.actor.balancer().unwrap().vip_address, "10.0.0.51");
}

#[test]
fn wishes_that_come_fast_do_not_repeat_a_lost_creation_early() {
    let (mut wish, mut world) = world(|_| {});
    let step = world.step();
    world.take(&step, Way::Arrives);
    let create = world.step();
    world.take(&create, Way::Late);
    for host in 4..8 {
        // Without a status yet, each makes the actor look again.
        wish.members.push((host, 80, 1));
        world.actor.want(wish.entry());
        let look = world.step();
        world.take(&look, Way::Arrives);
    }
    made(&wish, &mut world);
    let creations = world.sent.iter().filter(|change| matches!(change, CloudChange::CreateBalancer { .. }));
    assert_eq!(creations.count(), 1);
}

/// Whoever rolls many Pods keeps no other port from its members, and no new one from being served.
#[test]
fn members_that_change_all_the_time_stop_no_other_port() {
    let (mut wish, mut world) = world(|wish| {
        wish.ports = vec![(Protocol::Tcp, 80), (Protocol::Tcp, 443)];
        wish.members = vec![(1, 80, 1), (1, 443, 1)];
    });
    made(&wish, &mut world);
    for turn in 0..60 {
        let host = 10 + turn;
        wish.members = vec![(host, 80, 1), (host, 443, 1)];
        if turn == 30 {
            wish.ports.push((Protocol::Tcp, 8080));
        }
        (wish.generation, wish.known) = (wish.generation + 1, true);
        world.actor.want(wish.entry());
        let mut steps = std::iter::from_fn(|| {
            let step = world.step();
            world.take(&step, Way::Arrives);
            Some(step)
        });
        steps.by_ref().take(20).find(|step| matches!(step, BalancerStep::Change(_)));
        for (port, members) in forwarded(&world.cloud, &world.balancer()) {
            let newest = members.iter().filter_map(|(address, _)| address.rsplit('.').next()?.parse::<u8>().ok()).max();
            assert!(
                port == 8080 || turn < 10 || newest.is_some_and(|one| one + 8 > host),
                "{turn}: {port} has {members:?}"
            );
        }
    }
    assert!(forwarded(&world.cloud, &world.balancer()).iter().any(|(port, _)| *port == 8080));
}
