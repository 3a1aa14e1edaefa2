//! What goes on of an entry that is refused.

use gimbal_kuryr_model::{DesiredMember, MemberId};

use super::*;

/// A load balancer with these ports and members such as `80:1 80:2-`: a port, the last byte of an address, and a sign for one that
/// only drains.
fn wish(generation: i64, ports: &[u16], members: &str) -> DesiredLoadBalancer {
    let DesiredEntry::LoadBalancer(mut wanted) = present("u1", "services") else { panic!("present") };
    let id = |port| ListenerId::new(Protocol::Tcp, port);
    let listener = |port: &u16| ListenerWish { id: id(*port), kind: ListenerKind::Plain, name: None };
    Arc::make_mut(&mut wanted.header).listeners = ports.iter().map(listener).collect();
    let member = |text: &str| {
        let (port, byte) = text.trim_end_matches('-').split_once(':').unwrap();
        let (pool, address) = (id(port.parse().unwrap()).into(), [10, 1, 0, byte.parse::<u8>().unwrap()].into());
        let weight = u8::from(!text.ends_with('-'));
        DesiredMember { id: MemberId { pool, address, port: 8080 }, weight, name: None, subnet: None }
    };
    wanted.members = DesiredMembers::new(members.split_whitespace().map(member).collect());
    DesiredLoadBalancer { generation, ..wanted }
}

fn with(mut wanted: DesiredLoadBalancer, change: impl FnOnce(&mut LoadBalancerHeader)) -> DesiredEntry {
    change(Arc::make_mut(&mut wanted.header));
    DesiredEntry::LoadBalancer(wanted)
}

fn plain(generation: i64, ports: &[u16], members: &str) -> DesiredEntry {
    DesiredEntry::LoadBalancer(wish(generation, ports, members))
}

fn refused_flavor(generation: i64, members: &str) -> DesiredEntry {
    with(wish(generation, &[80], members), |header| header.placement.flavor = Some("big".into()))
}

impl Ends {
    /// Generation, ports and members of what is wanted from the registry.
    fn goes_on(&self, key: &DesiredKey) -> (i64, Vec<u16>, String) {
        let wanted = self.all.registry.wanted("prod1", key).unwrap();
        let members = wanted.members.as_slice().iter().map(|member| {
            let (port, address) = (member.id.pool.listener().unwrap().port, member.id.address.to_string());
            let drains = if member.weight == 0 { "-" } else { "" };
            format!("{port}:{}{drains}", address.rsplit('.').next().unwrap())
        });
        let ports = wanted.header.listeners.iter().map(|listener| listener.id.port).collect();
        (wanted.generation, ports, members.collect::<Vec<_>>().join(" "))
    }
}

#[test]
fn what_was_allowed_goes_on_with_the_members_of_what_is_refused() {
    let web = key("team-a", "web");
    let quota = ClusterQuota { listeners: 1, ..ClusterQuota::default() };
    let breach = |change: fn(&mut LoadBalancerHeader)| with(wish(2, &[80], "80:2 80:3-"), change);
    for (refused, reason) in [
        (plain(2, &[80, 81], "80:2 80:3- 81:2"), KuryrReason::Quota),
        (breach(|header| header.placement.flavor = Some("big".into())), KuryrReason::ProviderNotAllowed),
        (breach(|header| header.vip.subnet = Some("elsewhere".into())), KuryrReason::NetworkNotAllowed),
        (breach(|header| header.floating = Some(Box::default())), KuryrReason::FloatingNotAllowed),
        (breach(|header| header.tls_containers = ["https://keys/1".into()].into()), KuryrReason::CertificateNotAllowed),
    ] {
        let mut ends = Ends::with(&[(web.clone(), plain(1, &[80], "80:1"))], &[], quota);
        ends.set(&web, Some(refused));
        assert_eq!(ends.rejects(), [(web.to_string(), reason)]);
        assert_eq!(ends.goes_on(&web), (1, vec![80], "80:2 80:3-".to_owned()));
        // What is reported of it does not say that the newer generation is there.
        ends.run(10);
        assert_eq!(ends.all.get("prod1").unwrap().end.latest_report(&web).unwrap().generation(), 1);
        ends.set(&web, Some(plain(3, &[80], "80:4")));
        assert_eq!(ends.rejects(), []);
        assert_eq!(ends.goes_on(&web), (3, vec![80], "80:4".to_owned()));
    }
}

#[test]
fn what_says_nothing_of_the_members_takes_none_away() {
    let web = key("team-a", "web");
    let alone = with(wish(2, &[], ""), |header| header.vip = VipWish::default());
    let of_another = with(wish(2, &[80], "80:2"), |header| {
        (header.owner, header.placement.flavor) = ("u2".into(), Some("big".into()));
    });
    for refused in [alone, of_another] {
        let mut ends = Ends::new(&[(web.clone(), plain(1, &[80], "80:1"))]);
        ends.set(&web, Some(refused));
        assert_eq!(ends.rejects().len(), 1);
        assert_eq!(ends.goes_on(&web), (1, vec![80], "80:1".to_owned()));
    }
}

#[test]
fn members_that_the_quota_has_no_room_for_wait_and_the_others_come_and_go() {
    let (web, other) = (key("team-a", "web"), key("team-b", "web"));
    let others = |members: &str| with(wish(1, &[80], members), |header| header.owner = "u2".into());
    let quota = ClusterQuota { members: 3, ..ClusterQuota::default() };
    let mut ends =
        Ends::with(&[(web.clone(), plain(1, &[80], "80:1 80:2")), (other.clone(), others("80:9"))], &[], quota);
    // What takes new connections comes before what drains, and what is there before what is new.
    ends.set(&web, Some(plain(2, &[80], "80:2 80:3- 80:4 80:5")));
    assert_eq!(ends.rejects(), [(web.to_string(), KuryrReason::Quota)]);
    assert_eq!(ends.goes_on(&web), (1, vec![80], "80:2 80:4".to_owned()));
    let message = &ends.agent.rejects()[&web].message;
    assert!(message.ends_with("quota.members; 2 of its 4 members are served"), "{message}");
    // The room that gets free is taken, be it too little for all.
    ends.set(&other, None);
    assert_eq!(ends.goes_on(&web), (1, vec![80], "80:2 80:4 80:5".to_owned()));
    assert_eq!(ends.rejects().len(), 1);
    ends.set(&web, Some(plain(3, &[80], "80:4 80:5 80:6-")));
    assert_eq!(ends.rejects(), []);
    assert_eq!(ends.goes_on(&web), (3, vec![80], "80:4 80:5 80:6-".to_owned()));
    // What leaves an entry that is refused leaves room for others.
    ends.set(&other, Some(others("80:8 80:9")));
    assert_eq!(ends.rejects(), [(other.to_string(), KuryrReason::Quota)]);
    ends.set(&web, Some(refused_flavor(4, "80:4")));
    assert_eq!(ends.rejects(), [(web.to_string(), KuryrReason::ProviderNotAllowed)]);
    assert_eq!(ends.goes_on(&other), (1, vec![80], "80:8 80:9".to_owned()));
}

#[test]
fn fewer_clients_are_let_in_and_more_only_as_far_as_that_was_allowed() {
    let web = key("team-a", "web");
    let only = |ranges: &[&str]| ClientRanges::Only(ranges.iter().map(|range| range.parse().unwrap()).collect());
    let (wide, narrow) = (only(&["10.0.0.0/8", "192.168.0.0/16"]), only(&["10.1.0.0/16"]));
    let mut ends = Ends::new(&[(web.clone(), with(wish(1, &[80], "80:1"), |header| header.clients = wide.clone()))]);
    for (asked, expected) in [
        (narrow.clone(), &narrow),
        (ClientRanges::Everyone, &wide),
        (ClientRanges::NoOne, &ClientRanges::NoOne),
        (wide.clone(), &wide),
    ] {
        let mut refused = wish(2, &[80], "80:1");
        let header = Arc::make_mut(&mut refused.header);
        (header.clients, header.placement.flavor) = (asked, Some("big".into()));
        ends.set(&web, Some(DesiredEntry::LoadBalancer(refused)));
        assert_eq!(ends.all.registry.wanted("prod1", &web).unwrap().header.clients, *expected);
    }
}
