//! What is allowed and what is not, as tables.

mod following;
mod routers;

use gimbal_kuryr_model::{
    Algorithm, Balancing, ClientRanges, DesiredKey, DesiredKind, DesiredMember, DesiredMembers, ListenerId,
    ListenerKind, ListenerWish, LoadBalancerHeader, MemberId, SharedGroup, Timeouts,
};
use gimbal_model::{Family, Protocol};

use super::*;

fn set(ids: &[&str]) -> BTreeSet<Text> {
    ids.iter().map(|id| Text::from(*id)).collect()
}

fn policy() -> ClusterPolicy {
    let class = ClassDefaults {
        floating_network: Some("class-net".into()),
        subnet: Some("class-subnet".into()),
        member_subnet: Some("class-members".into()),
        provider: Some("class-provider".into()),
        flavor: Some("class-flavor".into()),
        ..ClassDefaults::default()
    };
    ClusterPolicy {
        project: "own".into(),
        projects: set(&["other"]),
        service_subnet: Some("services".into()),
        pod_subnet: Some("pods".into()),
        security_groups: vec!["group".into()],
        enforce_groups: true,
        external_network: Some("ext".into()),
        floating_networks: set(&["ext2"]),
        user_addresses: false,
        kept_addresses: false,
        certificates: set(&["https://keys/one", "https://keys/web/*"]),
        vip_ports: set(&["port"]),
        addresses: AddressRules { refused: Vec::new(), allowed: Some(vec!["10.0.0.0/8".parse().unwrap()]) },
        flavors: set(&["small"]),
        classes: [("fast".into(), class)].into(),
        ..ClusterPolicy::default()
    }
}

fn known() -> CloudKnowledge {
    let subnet = |network: &str, cidr: &str| SubnetFacts {
        network: network.into(),
        cidr: cidr.parse().unwrap(),
        name: "".into(),
        tags: BTreeSet::new(),
        mtu: 0,
    };
    CloudKnowledge {
        subnets: [
            ("services".into(), subnet("net", "10.96.0.0/16")),
            ("ext-subnet".into(), subnet("ext", "172.24.4.0/24")),
        ]
        .into(),
        ..CloudKnowledge::default()
    }
}

fn wanted(listeners: u16, members: &[&str]) -> DesiredLoadBalancer {
    let id = |port| ListenerId::new(Protocol::Tcp, port);
    let member = |address: &&str| DesiredMember {
        id: MemberId { pool: id(80).into(), address: address.parse().unwrap(), port: 8080 },
        weight: 1,
        name: None,
        subnet: None,
    };
    let listener = |port| ListenerWish { id: id(port), kind: ListenerKind::Plain, name: None };
    let header = LoadBalancerHeader {
        owner: "uid".into(),
        known: false,
        placement: LoadBalancerPlacement::default(),
        vip: VipWish { subnet: Some("services".into()), ..VipWish::default() },
        floating: None,
        listeners: (80..80 + listeners).map(listener).collect(),
        clients: ClientRanges::Everyone,
        balancing: Balancing {
            family: Family::V4,
            members: MemberMode::Pod,
            algorithm: Some(Algorithm::RoundRobin),
            affinity_seconds: None,
            proxy: None,
        },
        timeouts: Timeouts::default(),
        monitor: None,
        tls_containers: Box::default(),
        shared_group: None,
        adopt: None,
        routing: None,
    };
    DesiredLoadBalancer {
        generation: 1,
        header: Arc::new(header),
        members: DesiredMembers::new(members.iter().map(member).collect()),
    }
}

fn with(change: impl FnOnce(&mut LoadBalancerHeader)) -> DesiredLoadBalancer {
    let mut wanted = wanted(1, &["10.0.0.1"]);
    change(Arc::make_mut(&mut wanted.header));
    wanted
}

fn checked(wanted: &DesiredLoadBalancer) -> Result<(), (KuryrReason, String)> {
    policy().check(&known(), wanted).map_err(|breach| (breach.reason, breach.message))
}

/// The controller sends such entries for owners whose load balancer it cannot describe, so that it is no orphan's.
#[test]
fn an_entry_that_names_its_owner_alone_is_refused() {
    for project in ["", "own"] {
        let alone = with(|header| {
            header.vip = VipWish::default();
            header.placement.project = project.into();
        });
        assert_eq!(checked(&alone).unwrap_err().0, KuryrReason::NetworkNotAllowed);
    }
}

#[test]
fn what_a_group_has_together_is_counted_once() {
    let quota = ClusterQuota { load_balancers: 1, listeners: 3, floating_ips: 1, ..ClusterQuota::default() };
    let mut used = ClusterUse::default();
    let key = |name: &str| DesiredKey::new(DesiredKind::LoadBalancer, "shop", name);
    let size = EntrySize::of(&with(|header| header.floating = Some(Box::default())));
    let group = Text::from("shop/web");
    for name in ["a", "b", "c"] {
        used.take(&key(name), size, Some(&group), &quota).unwrap();
    }
    assert!(used.take(&key("d"), size, Some(&group), &quota).unwrap_err().message.contains("listeners"));
    assert!(used.take(&key("a"), size, None, &quota).unwrap_err().message.contains("load balancers"));
    // Whoever came first may go first.
    used.release(&key("a"));
    assert!(used.take(&key("d"), size, None, &quota).unwrap_err().message.contains("load balancers"));
    used.release(&key("b"));
    used.release(&key("c"));
    assert_eq!(used.sum(), EntrySize::default());
    used.take(&key("d"), size, None, &quota).unwrap();
}

#[test]
fn a_load_balancer_is_shared_within_a_namespace_and_where_the_policy_joins_two() {
    let policy = ClusterPolicy {
        shared_groups: [("team1/web".into(), vec!["team2".into(), "shop-*".into()])].into(),
        ..policy()
    };
    for (namespace, group, expected) in [
        ("team1", "team1/web", None),
        ("team1", "team1/other", None),
        ("team2", "team1/web", None),
        ("shop-a", "team1/web", None),
        ("team3", "team1/web", Some(KuryrReason::SharingNotAllowed)),
        ("team2", "team1/other", Some(KuryrReason::SharingNotAllowed)),
        ("team1", "web", Some(KuryrReason::Invalid)),
        ("team1", "team1/a,b", Some(KuryrReason::Invalid)),
        ("team1", "team1/a b", Some(KuryrReason::Invalid)),
        ("team1", "team1/a/b", Some(KuryrReason::Invalid)),
        ("team1", "team1/", Some(KuryrReason::Invalid)),
    ] {
        let wanted = with(|header| {
            header.shared_group = Some(Box::new(SharedGroup { name: group.into(), created: None }));
        });
        let key = DesiredKey::new(DesiredKind::LoadBalancer, namespace, "web");
        assert_eq!(policy.may_share(&key, &wanted).err().map(|breach| breach.reason), expected, "{namespace} {group}");
    }
}

#[test]
fn what_the_policy_names_is_allowed() {
    for wanted in [
        with(|_| {}),
        with(|header| header.placement.project = "own".into()),
        with(|header| header.placement.project = "other".into()),
        with(|header| header.placement.provider = Some("ovn".into())),
        with(|header| header.placement.provider = Some("class-provider".into())),
        with(|header| header.placement.flavor = Some("small".into())),
        with(|header| header.placement.flavor = Some("class-flavor".into())),
        with(|header| header.vip.subnet = Some("class-subnet".into())),
        with(|header| header.vip.network = Some("net".into())),
        with(|header| header.vip.port = Some("port".into())),
        with(|header| header.vip.security_groups = ["group".into()].into()),
        with(|header| header.vip.address = Some("10.96.1.2".parse().unwrap())),
        with(|header| header.tls_containers = ["https://keys/one".into(), "https://keys/web/two".into()].into()),
        with(|header| header.floating = Some(Box::default())),
        with(|header| {
            header.floating = Some(Box::new(FloatingWish { network: Some("ext2".into()), ..FloatingWish::default() }));
        }),
        with(|header| {
            header.floating =
                Some(Box::new(FloatingWish { network: Some("class-net".into()), ..FloatingWish::default() }));
        }),
    ] {
        assert_eq!(checked(&wanted), Ok(()), "{:?}", wanted.header);
    }
}

#[test]
fn what_it_does_not_name_is_refused_by_its_kind_and_name() {
    let floating = |wish: FloatingWish| with(|header| header.floating = Some(Box::new(wish)));
    for (wanted, kind, words) in [
        (with(|header| header.placement.project = "foreign".into()), KuryrReason::ProjectNotAllowed, "foreign"),
        (with(|header| header.placement.provider = Some("vendor".into())), KuryrReason::ProviderNotAllowed, "vendor"),
        (with(|header| header.placement.flavor = Some("huge".into())), KuryrReason::ProviderNotAllowed, "huge"),
        (with(|header| header.placement.availability_zone = Some("az".into())), KuryrReason::ProviderNotAllowed, "az"),
        (with(|header| header.vip.subnet = Some("foreign".into())), KuryrReason::NetworkNotAllowed, "foreign"),
        (
            with(|header| header.vip.additional_subnets = ["foreign".into()].into()),
            KuryrReason::NetworkNotAllowed,
            "foreign",
        ),
        (with(|header| header.vip.subnet = None), KuryrReason::NetworkNotAllowed, "service_subnet"),
        (
            with(|header| header.tls_containers = ["https://keys/one".into(), "https://keys/two".into()].into()),
            KuryrReason::CertificateNotAllowed,
            "https://keys/two",
        ),
        (with(|header| header.vip.network = Some("foreign".into())), KuryrReason::NetworkNotAllowed, "foreign"),
        (with(|header| header.vip.port = Some("foreign".into())), KuryrReason::NetworkNotAllowed, "foreign"),
        (with(|header| header.vip.security_groups = ["open".into()].into()), KuryrReason::NetworkNotAllowed, "open"),
        (
            with(|header| header.vip.address = Some("10.97.0.1".parse().unwrap())),
            KuryrReason::NetworkNotAllowed,
            "10.97.0.1 of the VIP is not in 10.96.0.0/16",
        ),
        (
            floating(FloatingWish { network: Some("foreign".into()), ..FloatingWish::default() }),
            KuryrReason::FloatingNotAllowed,
            "foreign",
        ),
        (
            floating(FloatingWish {
                network: Some("ext2".into()),
                subnet: Some("ext-subnet".into()),
                ..FloatingWish::default()
            }),
            KuryrReason::FloatingNotAllowed,
            "ext-subnet",
        ),
        (
            floating(FloatingWish { address: Some("172.24.4.9".parse().unwrap()), ..FloatingWish::default() }),
            KuryrReason::FloatingNotAllowed,
            "172.24.4.9",
        ),
    ] {
        let (found, message) = checked(&wanted).unwrap_err();
        assert_eq!(found, kind, "{message}");
        assert!(message.contains(words), "{message} does not name {words}");
    }
}

#[test]
fn members_that_are_not_allowed_are_left_out_and_the_others_served() {
    let served = |members: &[&str]| {
        let (served, words) = policy().with_allowed_members(wanted(1, members)).unwrap();
        let addresses: Vec<String> = served.members.as_slice().iter().map(|one| one.id.address.to_string()).collect();
        (addresses.join(" "), words.unwrap_or_default())
    };
    assert_eq!(served(&[]), (String::new(), String::new()));
    assert_eq!(served(&["10.0.0.1", "10.0.0.2"]), ("10.0.0.1 10.0.0.2".to_owned(), String::new()));
    let (addresses, words) = served(&["10.0.0.1", "192.168.0.1", "169.254.169.254"]);
    assert_eq!(addresses, "10.0.0.1");
    for part in
        ["2 of 3 members are left out", "192.168.0.1 is outside of members.allow", "169.254.169.254 is link-local"]
    {
        assert!(words.contains(part), "{words} does not say {part}");
    }
    let (_, words) = served(&["10.0.0.1", "192.168.0.1", "192.168.0.2", "192.168.0.3", "192.168.0.4"]);
    assert!(words.ends_with("192.168.0.3 is outside of members.allow of the writer, and 1 more"), "{words}");
}

#[test]
fn a_load_balancer_of_which_no_member_is_allowed_is_refused() {
    for (address, words) in [
        ("192.168.0.1", "192.168.0.1 is outside of members.allow"),
        ("169.254.169.254", "169.254.169.254 is link-local"),
        ("127.0.0.1", "127.0.0.1 is a loopback address"),
    ] {
        let breach = policy().with_allowed_members(wanted(1, &[address])).unwrap_err();
        assert_eq!(breach.reason, KuryrReason::MemberNotAllowed);
        assert!(breach.message.contains(words), "{breach} does not say {words}");
    }
}

#[test]
fn a_listener_that_would_lose_all_members_that_serve_keeps_everything_as_it_is() {
    let member = |port, address: &str, weight| DesiredMember {
        id: MemberId {
            pool: ListenerId::new(Protocol::Tcp, port).into(),
            address: address.parse().unwrap(),
            port: 8080,
        },
        weight,
        name: None,
        subnet: None,
    };
    let checked = |members: &[DesiredMember]| {
        let wanted = DesiredLoadBalancer { members: DesiredMembers::new(members.to_vec()), ..wanted(2, &[]) };
        policy().with_allowed_members(wanted).map(|(served, _)| served.members.as_slice().len())
    };
    let (good, bad) = ("10.0.0.1", "192.168.0.1");
    assert_eq!(checked(&[member(80, good, 1), member(81, good, 1), member(81, bad, 1)]).unwrap(), 2);
    let breach = checked(&[member(80, good, 1), member(81, bad, 1)]).unwrap_err();
    assert_eq!(breach.reason, KuryrReason::MemberNotAllowed);
    checked(&[member(80, good, 0), member(80, bad, 1)]).unwrap_err();
    let breach = checked(&[member(80, good, 1), member(80, "fd00::1", 1)]).unwrap_err();
    assert!(breach.message.contains("no IPv6 member of port TCP:80"), "{breach}");
}

/// The rest of what such a load balancer wants is served.
#[test]
fn a_floating_ip_is_kept_only_where_the_policy_lets_it_be() {
    let keeps = with(|header| header.floating = Some(Box::new(FloatingWish { keep: true, ..FloatingWish::default() })));
    assert_eq!(checked(&keeps), Ok(()));
    let (placed, words) = policy().without_kept(keeps.clone());
    assert_eq!(placed, with(|header| header.floating = Some(Box::default())));
    assert!(words.unwrap().contains("floating.keep"));
    let lenient = ClusterPolicy { kept_addresses: true, ..policy() };
    assert_eq!(lenient.without_kept(keeps.clone()), (keeps, None));
}

#[test]
fn a_load_balancer_without_a_project_is_in_the_clusters_own() {
    assert_eq!(&*policy().placed(&with(|_| {})).header.placement.project, "own");
    let other = with(|header| header.placement.project = "other".into());
    assert_eq!(policy().placed(&other), other);
}

#[test]
fn facts_say_what_the_policy_allows() {
    let facts = policy().facts(&known());
    assert_eq!((&*facts.project, facts.service_subnets.as_slice()), ("own", &["services".into()][..]));
    let external = facts.external.unwrap();
    assert_eq!((&*external.network, external.user_addresses), ("ext", false));
    assert_eq!(facts.subnets.len(), 2);
}

fn key(name: &str) -> DesiredKey {
    DesiredKey::new(DesiredKind::LoadBalancer, "shop", name)
}

#[test]
fn who_came_first_keeps_what_it_has() {
    let quota = ClusterQuota { load_balancers: 2, listeners: 4, ..ClusterQuota::default() };
    let mut used = ClusterUse::default();
    let size = |listeners| EntrySize::of(&wanted(listeners, &[]));
    used.take(&key("a"), size(2), None, &quota).unwrap();
    used.take(&key("b"), size(1), None, &quota).unwrap();
    let full = used.take(&key("c"), size(1), None, &quota).unwrap_err();
    assert_eq!(full.reason, KuryrReason::Quota);
    assert!(full.message.contains("quota.loadBalancers"), "{full}");
    let full = used.take(&key("b"), size(3), None, &quota).unwrap_err();
    assert!(full.message.contains("2 more listeners beside 3 are more than the 4 of quota.listeners"), "{full}");
    used.take(&key("b"), size(2), None, &quota).unwrap();
    // A quota that was lowered takes nothing away, and lets nothing grow.
    let less = ClusterQuota { load_balancers: 1, listeners: 1, ..quota };
    used.take(&key("a"), size(1), None, &less).unwrap();
    used.take(&key("a"), size(2), None, &less).unwrap_err();
    used.release(&key("b"));
    used.take(&key("c"), size(1), None, &quota).unwrap();
}
