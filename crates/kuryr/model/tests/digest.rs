//! Digests and differences of load balancers.
#![allow(clippy::unwrap_used)] // A panic is the report.

use std::sync::Arc;

use gimbal_kuryr_model::{
    Algorithm, Balancing, ClientRanges, DesiredChange, DesiredEntry, DesiredKey, DesiredKind, DesiredLoadBalancer,
    DesiredMember, DesiredMembers, FloatingWish, HealthMonitor, ListenerId, ListenerKind, ListenerWish,
    LoadBalancerHeader, LoadBalancerPlacement, MemberChange, MemberId, MemberMode, MonitorKind, PoolId, ProxyVersion,
    SharedGroup, Timeouts, VipWish,
};
use gimbal_model::{Family, Protocol};
use proptest::prelude::*;

fn key() -> DesiredKey {
    DesiredKey::new(DesiredKind::LoadBalancer, "team", "web")
}

fn tcp(port: u16) -> ListenerId {
    ListenerId::new(Protocol::Tcp, port)
}

fn member(listener: u16, address: &str, weight: u8) -> DesiredMember {
    let id = MemberId { pool: tcp(listener).into(), address: address.parse().unwrap(), port: 8080 };
    DesiredMember { id, weight, name: Some(format!("team/{address}:8080").into()), subnet: None }
}

fn in_pool(pool: &str, member: DesiredMember) -> DesiredMember {
    DesiredMember { id: MemberId { pool: PoolId::Service(pool.into()), ..member.id }, ..member }
}

fn header() -> LoadBalancerHeader {
    LoadBalancerHeader {
        owner: "6d0e7f4e-5a3b-4a8f-9c53-1f6c9f1d2c11".into(),
        known: true,
        placement: LoadBalancerPlacement {
            project: "802a1a93cb6f4d1e9bd6c1b8b1ee1b2a".into(),
            ..LoadBalancerPlacement::default()
        },
        vip: VipWish {
            subnet: Some("b64e4f8c-8a4f-4bd0-a1a2-1a1a3f5ab2f6".into()),
            address: Some("10.96.0.10".parse().unwrap()),
            ..VipWish::default()
        },
        floating: None,
        listeners: [ListenerWish { id: tcp(80), kind: ListenerKind::Plain, name: Some("http".into()) }].into(),
        clients: ClientRanges::Everyone,
        balancing: Balancing {
            family: Family::V4,
            members: MemberMode::Pod,
            algorithm: None,
            affinity_seconds: None,
            proxy: None,
        },
        timeouts: Timeouts::default(),
        monitor: None,
        tls_containers: Box::default(),
        shared_group: None,
        adopt: None,
        routing: None,
    }
}

fn load_balancer(header: LoadBalancerHeader, members: Vec<DesiredMember>) -> DesiredLoadBalancer {
    DesiredLoadBalancer { generation: 1, header: Arc::new(header), members: DesiredMembers::new(members) }
}

fn entry(header: LoadBalancerHeader, members: Vec<DesiredMember>) -> DesiredEntry {
    DesiredEntry::LoadBalancer(load_balancer(header, members))
}

/// Wire and stored digests depend on it.
#[test]
fn golden() {
    let members = vec![member(80, "10.1.0.4", 1), member(80, "fd00::4", 0)];
    let golden = [
        (entry(header(), members), "65ebdf8ad6f0a685f16436a47ef1315d"),
        (entry(header(), Vec::new()), "60d730d7800642fe97174c9c2dc1203d"),
        (DesiredEntry::Deleting { owner: "u".into() }, "96e19eb1e34094ccca1e2f02ac1273bd"),
    ];
    let digests = golden.clone().map(|(entry, _)| entry.digest(&key()).to_string());
    assert_eq!(digests, golden.map(|(_, digest)| digest.to_string()));
}

/// Each of these changes one field.
#[test]
fn every_field_counts() {
    type Edit = fn(&mut LoadBalancerHeader);
    let edits: Vec<Edit> = vec![
        |h| h.owner = "v".into(),
        |h| h.known = false,
        |h| h.placement.project = "v".into(),
        |h| h.placement.provider = Some("v".into()),
        |h| h.placement.flavor = Some("v".into()),
        |h| h.placement.availability_zone = Some("v".into()),
        |h| h.vip.subnet = None,
        |h| h.vip.network = Some("v".into()),
        |h| h.vip.port = Some("v".into()),
        |h| h.vip.address = None,
        |h| h.vip.additional_subnets = ["v".into()].into(),
        |h| h.vip.additional_addresses = ["192.0.2.1".parse().unwrap()].into(),
        |h| h.vip.security_groups = ["v".into()].into(),
        |h| h.vip.from_outside = true,
        |h| h.floating = Some(Box::default()),
        |h| h.floating = Some(Box::new(FloatingWish { network: Some("v".into()), ..FloatingWish::default() })),
        |h| h.floating = Some(Box::new(FloatingWish { subnet: Some("v".into()), ..FloatingWish::default() })),
        |h| h.floating = Some(Box::new(FloatingWish { address: "192.0.2.1".parse().ok(), ..FloatingWish::default() })),
        |h| h.floating = Some(Box::new(FloatingWish { keep: true, ..FloatingWish::default() })),
        |h| h.listeners = Box::default(),
        |h| h.listeners[0].id.port = 81,
        |h| h.listeners[0].id.protocol = Protocol::Udp,
        |h| h.listeners[0].kind = ListenerKind::Http,
        |h| h.listeners[0].kind = ListenerKind::TerminatedHttps,
        |h| h.listeners[0].name = None,
        |h| h.clients = ClientRanges::NoOne,
        |h| h.clients = ClientRanges::Only(["10.0.0.0/8".parse().unwrap()].into()),
        |h| h.clients = ClientRanges::Only(["10.0.0.0/9".parse().unwrap()].into()),
        |h| h.balancing.family = Family::V6,
        |h| h.balancing.members = MemberMode::Node,
        |h| h.balancing.algorithm = Some(Algorithm::RoundRobin),
        |h| h.balancing.algorithm = Some(Algorithm::LeastConnections),
        |h| h.balancing.algorithm = Some(Algorithm::SourceIp),
        |h| h.balancing.algorithm = Some(Algorithm::SourceIpPort),
        |h| h.balancing.affinity_seconds = Some(1),
        |h| h.balancing.proxy = Some(ProxyVersion::V1),
        |h| h.balancing.proxy = Some(ProxyVersion::V2),
        |h| h.timeouts.client_data = Some(1),
        |h| h.timeouts.member_data = Some(1),
        |h| h.timeouts.member_connect = Some(1),
        |h| h.timeouts.tcp_inspect = Some(1),
        |h| h.timeouts.connection_limit = Some(1),
        |h| h.monitor = Some(Box::new(monitor(|_| ()))),
        |h| h.monitor = Some(Box::new(monitor(|m| m.kind = MonitorKind::Http))),
        |h| h.monitor = Some(Box::new(monitor(|m| m.port = Some(1)))),
        |h| h.monitor = Some(Box::new(monitor(|m| m.delay = 1))),
        |h| h.monitor = Some(Box::new(monitor(|m| m.timeout = 1))),
        |h| h.monitor = Some(Box::new(monitor(|m| m.rise = 9))),
        |h| h.monitor = Some(Box::new(monitor(|m| m.fall = 9))),
        |h| h.monitor = Some(Box::new(monitor(|m| m.path = Some("/".into())))),
        |h| h.monitor = Some(Box::new(monitor(|m| m.codes = Some("200".into())))),
        |h| h.tls_containers = ["v".into()].into(),
        |h| h.shared_group = Some(Box::new(SharedGroup { name: "v".into(), created: None })),
        |h| h.shared_group = Some(Box::new(SharedGroup { name: "v".into(), created: Some("w".into()) })),
        |h| h.adopt = Some("v".into()),
        |h| h.routing = Some(Box::default()),
    ];
    let mut digests = vec![entry(header(), Vec::new()).digest(&key())];
    for edit in &edits {
        let mut changed = header();
        edit(&mut changed);
        assert_ne!(changed, header());
        digests.push(entry(changed, Vec::new()).digest(&key()));
    }
    let other_keys = [
        DesiredKey::new(DesiredKind::L7Router, "team", "web"),
        DesiredKey::new(DesiredKind::LoadBalancer, "teamw", "eb"),
    ];
    digests.extend(other_keys.iter().map(|key| entry(header(), Vec::new()).digest(key)));
    let members = [
        vec![member(80, "10.1.0.4", 1)],
        vec![member(80, "10.1.0.4", 0)],
        vec![member(80, "10.1.0.5", 1)],
        vec![member(81, "10.1.0.4", 1)],
        vec![in_pool("team/web/80", member(80, "10.1.0.4", 1))],
        vec![in_pool("team/web/81", member(80, "10.1.0.4", 1))],
        vec![DesiredMember { name: None, ..member(80, "10.1.0.4", 1) }],
        vec![DesiredMember { subnet: Some("s".into()), ..member(80, "10.1.0.4", 1) }],
        vec![DesiredMember { id: MemberId { port: 1, ..member(80, "10.1.0.4", 1).id }, ..member(80, "10.1.0.4", 1) }],
    ];
    digests.extend(members.into_iter().map(|members| entry(header(), members).digest(&key())));
    let count = digests.len();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), count, "two different values have one digest");
}

fn monitor(edit: fn(&mut HealthMonitor)) -> HealthMonitor {
    let kind = MonitorKind::Connect;
    let mut monitor =
        HealthMonitor { kind, port: None, delay: 5, timeout: 3, rise: 1, fall: 3, path: None, codes: None };
    edit(&mut monitor);
    monitor
}

/// The goal of the writer, which holds one of these for each load balancer.
#[test]
fn an_idle_load_balancer_is_small() {
    let build = || {
        let members = (4..7).map(|last| member(80, &format!("10.1.0.{last}"), 1)).collect();
        Box::new(entry(header(), members))
    };
    let mut built = None;
    let measured = allocation_counter::measure(|| built = Some(build())).bytes_current;
    let memory = built.unwrap().memory() as i64;
    assert!(memory < 1024, "{memory} bytes");
    // What is said is what the allocator was asked for, but for the padding of texts.
    assert!((measured - memory).abs() <= measured / 20, "{memory} bytes are said, and {measured} were allocated");
}

#[test]
fn a_header_is_sorted_and_no_range_is_not_every_range() {
    let mut twice = header();
    let wish = |port, name: &str| ListenerWish { id: tcp(port), kind: ListenerKind::Plain, name: Some(name.into()) };
    twice.listeners = [wish(90, "b"), wish(80, "first"), wish(80, "second")].into();
    twice.vip.security_groups = ["b".into(), "a".into(), "b".into()].into();
    twice.clients = ClientRanges::Only(Box::default());
    twice.sort();
    assert_eq!(twice.listeners.iter().map(|one| one.name.as_deref().unwrap()).collect::<Vec<_>>(), ["first", "b"]);
    assert_eq!(twice.listener(tcp(90)), Some(&wish(90, "b")));
    assert_eq!((twice.vip.security_groups.len(), twice.clients), (2, ClientRanges::NoOne));
}

#[test]
fn names_are_cut_between_characters() {
    assert_eq!(LoadBalancerHeader::listener_name("team", "web", tcp(80)), "team/web:TCP:80");
    let long = LoadBalancerHeader::display_name("team", &"ö".repeat(200));
    assert!(long.len() <= 255 && long.starts_with("team/ö"), "{}", long.len());
}

fn any_load_balancer() -> impl Strategy<Value = DesiredLoadBalancer> {
    let member = (80u16..83, 0u8..6, 0u8..2).prop_map(|(port, last, weight)| {
        let member = member(port, &format!("10.1.0.{last}"), weight);
        if port == 82 { in_pool("team/web/80", member) } else { member }
    });
    (0i64..3, any::<bool>(), proptest::collection::vec(member, 0..8)).prop_map(|(generation, known, members)| {
        let header = LoadBalancerHeader { known, ..header() };
        DesiredLoadBalancer { generation, ..load_balancer(header, members) }
    })
}

proptest! {
    #[test]
    fn a_change_leads_from_one_to_the_other(old in any_load_balancer(), new in any_load_balancer()) {
        let (before, after) = (DesiredEntry::LoadBalancer(old.clone()), DesiredEntry::LoadBalancer(new.clone()));
        match DesiredChange::between(Some(&before), Some(&after)) {
            None => prop_assert_eq!(&old, &new),
            Some(DesiredChange::Update(update)) => {
                prop_assert_ne!(&old, &new);
                let (mut changed, mut digest) = (old, before.digest(&key()));
                changed.update(&key(), &mut digest, update);
                prop_assert_eq!(&changed, &new);
                prop_assert_eq!(digest, after.digest(&key()));
            }
            Some(other) => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn the_order_of_members_does_not_matter((wanted, shuffled) in shuffled()) {
        let shuffled = DesiredLoadBalancer { members: DesiredMembers::new(shuffled), ..wanted.clone() };
        prop_assert_eq!(&shuffled, &wanted);
        let digest = |wanted: DesiredLoadBalancer| DesiredEntry::LoadBalancer(wanted).digest(&key());
        prop_assert_eq!(digest(shuffled), digest(wanted.clone()));
        let count: usize = (80..82).map(|port| wanted.members.of(&tcp(port).into()).len()).sum();
        let count = count + wanted.members.of(&PoolId::Service("team/web/80".into())).len();
        prop_assert_eq!(count, wanted.members.as_slice().len());
    }
}

/// A load balancer, and its members in any order.
fn shuffled() -> impl Strategy<Value = (DesiredLoadBalancer, Vec<DesiredMember>)> {
    any_load_balancer().prop_flat_map(|wanted| {
        let members = Just(wanted.members.as_slice().to_vec()).prop_shuffle();
        (Just(wanted), members)
    })
}

#[test]
fn a_new_owner_replaces_everything() {
    let old = entry(header(), Vec::new());
    let new = entry(LoadBalancerHeader { owner: "other".into(), ..header() }, Vec::new());
    assert_eq!(DesiredChange::between(Some(&old), Some(&new)), Some(DesiredChange::Replace(new.clone())));
    let deleting = DesiredEntry::Deleting { owner: "other".into() };
    assert_eq!(DesiredChange::between(Some(&new), Some(&deleting)), Some(DesiredChange::Replace(deleting.clone())));
    assert_eq!(DesiredChange::between(Some(&deleting), Some(&deleting)), None);
    assert_eq!(DesiredChange::between(Some(&deleting), None), Some(DesiredChange::Remove));
}

/// As a peer might send it.
#[test]
fn the_last_of_two_changes_of_a_member_counts() {
    let mut wanted = load_balancer(header(), vec![member(80, "10.1.0.4", 1)]);
    let mut digest = DesiredEntry::LoadBalancer(wanted.clone()).digest(&key());
    let change = |weight| MemberChange::Set(member(80, "10.1.0.4", weight));
    let members = vec![MemberChange::Gone(member(80, "10.1.0.4", 1).id), change(1), change(0)];
    let update = gimbal_kuryr_model::LoadBalancerUpdate { members, ..Default::default() };
    wanted.update(&key(), &mut digest, update);
    assert_eq!(wanted, load_balancer(header(), vec![member(80, "10.1.0.4", 0)]));
    assert_eq!(digest, DesiredEntry::LoadBalancer(wanted).digest(&key()));
}
