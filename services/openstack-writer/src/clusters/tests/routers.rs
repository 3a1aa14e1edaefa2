//! Routers.

use gimbal_kuryr_model::{DesiredMember, MemberId, PoolId, RoutedPool, Routing};

use super::*;

fn router_key() -> DesiredKey {
    DesiredKey::new(DesiredKind::L7Router, "gimbal", "router")
}

/// A router with a pool, and one with members of a pool that it has or has not.
fn router(owner: &str, members_of: Option<&str>) -> DesiredEntry {
    let DesiredEntry::LoadBalancer(mut wanted) = present(owner, "services") else { panic!() };
    let pools = [RoutedPool { id: "shop/web/80".into(), name: "shop_web".into() }].into();
    Arc::make_mut(&mut wanted.header).routing = Some(Box::new(Routing { pools, ..Routing::default() }));
    let member = |pool: &str| DesiredMember {
        id: MemberId { pool: PoolId::Service(pool.into()), address: [10, 1, 0, 1].into(), port: 8080 },
        weight: 1,
        name: None,
        subnet: None,
    };
    wanted.members = DesiredMembers::new(members_of.map(member).into_iter().collect());
    DesiredEntry::LoadBalancer(wanted)
}

/// A router with these pools, and members by the last byte of their address.
fn router_with(pools: &[&str], members: &[(&str, u8)]) -> DesiredEntry {
    let DesiredEntry::LoadBalancer(mut wanted) = router("r1", None) else { panic!() };
    let pool = |name: &&str| RoutedPool { id: format!("shop/{name}/80").into(), name: format!("shop_{name}").into() };
    let pools = pools.iter().map(pool).collect();
    Arc::make_mut(&mut wanted.header).routing = Some(Box::new(Routing { pools, ..Routing::default() }));
    let member = |(pool, last): &(&str, u8)| DesiredMember {
        id: MemberId {
            pool: PoolId::Service(format!("shop/{pool}/80").into()),
            address: [10, 1, 0, *last].into(),
            port: 8080,
        },
        weight: 1,
        name: None,
        subnet: None,
    };
    wanted.members = DesiredMembers::new(members.iter().map(member).collect());
    DesiredEntry::LoadBalancer(wanted)
}

fn with_members(members: u64) -> ClusterPolicy {
    let quota = ClusterQuota { members, ..ClusterQuota::default() };
    ClusterPolicy { enable_ingress: true, quota, ..ClusterPolicy::default() }
}

impl Ends {
    /// The last bytes of the addresses of the members that are wanted from the registry.
    fn members_of(&self, key: &DesiredKey) -> Vec<u8> {
        let wanted = self.all.registry.wanted("prod1", key).unwrap();
        let last = |member: &DesiredMember| match member.id.address {
            std::net::IpAddr::V4(address) => address.octets()[3],
            std::net::IpAddr::V6(_) => panic!("{member:?}"),
        };
        wanted.members.as_slice().iter().map(last).collect()
    }

    fn enable_ingress(&mut self, enable_ingress: bool) {
        let state = self.all.get("prod1").unwrap();
        let policy = ClusterPolicy { enable_ingress, ..state.config.policy.clone() };
        let config = ClusterConfig { policy, ..state.config.clone() };
        let config = ClustersConfig { clusters: vec![config], ..ClustersConfig::default() };
        self.all.configure(&config, self.now);
        let reading = CloudReading { known: CloudKnowledge::default(), missing: Vec::new() };
        self.all.learned(&"prod1".into(), reading, self.now);
        self.exchange();
    }
}

#[test]
fn a_router_is_let_in_by_the_configuration_and_kept_when_it_changes() {
    let router_key = router_key();
    let mut ends = Ends::new(&[(router_key.clone(), router("r1", None))]);
    assert_eq!(ends.rejects(), [(router_key.to_string(), KuryrReason::Unsupported)]);
    assert!(!ends.agent.facts().unwrap().enable_ingress);
    ends.enable_ingress(true);
    assert_eq!(ends.rejects(), []);
    assert!(ends.agent.facts().unwrap().enable_ingress && ends.is_served(&router_key));
    let listed = crate::listing::status("prod1", ends.all.get("prod1").unwrap(), &router_key).unwrap();
    assert_eq!(listed.key.unwrap().kind(), gimbal_kuryr_wire::pb::EntryKind::L7Router);
    ends.enable_ingress(false);
    assert_eq!(ends.rejects(), [(router_key.to_string(), KuryrReason::Unsupported)]);
    // Its removal is never refused.
    ends.set(&router_key, Some(deleting("r1")));
    assert_eq!(ends.rejects(), []);
}

/// An update of members alone says nothing about the pools.
#[test]
fn members_of_a_pool_that_a_router_lacks_are_refused_with_it() {
    let router_key = router_key();
    let mut ends = Ends::new(&[(router_key.clone(), router("r1", Some("shop/web/80")))]);
    ends.enable_ingress(true);
    assert_eq!(ends.rejects(), []);
    ends.set(&router_key, Some(router("r1", Some("shop/lost/80"))));
    assert_eq!(ends.rejects(), [(router_key.to_string(), KuryrReason::Invalid)]);
    let reject = ends.all.get("prod1").unwrap().reject(&router_key).unwrap();
    assert!(reject.message.contains("shop/lost/80"), "{}", reject.message);
    ends.set(&router_key, Some(router("r1", None)));
    assert_eq!(ends.rejects(), []);
}

/// One Service that grows must not stop the routes to the others.
#[test]
fn a_router_whose_members_have_no_room_goes_on_with_its_routes() {
    let router_key = router_key();
    let mut ends = Ends::new(&[(router_key.clone(), router_with(&["old", "web"], &[("web", 1), ("web", 2)]))]);
    let state = ends.all.get("prod1").unwrap();
    let quota = ClusterQuota { members: 2, ..state.config.policy.quota };
    let policy = ClusterPolicy { enable_ingress: true, quota, ..state.config.policy.clone() };
    let config = ClusterConfig { policy, ..state.config.clone() };
    let config = ClustersConfig { clusters: vec![config], ..ClustersConfig::default() };
    ends.all.configure(&config, ends.now);
    ends.all.learned(&"prod1".into(), CloudReading { known: CloudKnowledge::default(), missing: Vec::new() }, ends.now);
    ends.exchange();
    assert_eq!(ends.rejects(), []);
    // A route goes, and a Service comes that there is no room for.
    ends.set(&router_key, Some(router_with(&["new", "web"], &[("new", 3), ("web", 1), ("web", 2)])));
    assert_eq!(ends.rejects(), []);
    let wanted = ends.all.registry.wanted("prod1", &router_key).unwrap();
    let pools: Vec<&str> = wanted.header.routing.as_ref().unwrap().pools.iter().map(|pool| &*pool.id).collect();
    assert_eq!(pools, ["shop/new/80", "shop/web/80"]);
    let members: Vec<String> = wanted.members.as_slice().iter().map(|one| one.id.pool.to_string()).collect();
    assert_eq!(members.len(), 2);
    assert!(members.iter().any(|pool| pool.contains("new")), "each pool has its part: {members:?}");
}

/// Else a new one with a lower address would take away one that serves.
#[test]
fn members_that_serve_do_not_give_way_to_new_ones() {
    let router_key = router_key();
    let entries = [(router_key.clone(), router_with(&["web"], &[("web", 5), ("web", 6)]))];
    let mut ends = Ends::with_policy(&entries, &[], with_members(2));
    assert_eq!(ends.members_of(&router_key), [5, 6]);
    ends.set(&router_key, Some(router_with(&["web"], &[("web", 1), ("web", 5), ("web", 6)])));
    assert_eq!(ends.members_of(&router_key), [5, 6]);
    ends.set(&router_key, Some(router_with(&["web"], &[("web", 1), ("web", 6)])));
    assert_eq!(ends.members_of(&router_key), [1, 6]);
}

/// The load balancer of a Service with members by the last byte of their address.
fn service_with(members: &[u8]) -> DesiredEntry {
    let DesiredEntry::LoadBalancer(mut service) = present("u1", "services") else { panic!() };
    let member = |last: &u8| DesiredMember {
        id: MemberId { pool: ListenerId::new(Protocol::Tcp, 80).into(), address: [10, 1, 0, *last].into(), port: 8080 },
        weight: 1,
        name: None,
        subnet: None,
    };
    service.members = DesiredMembers::new(members.iter().map(member).collect());
    DesiredEntry::LoadBalancer(service)
}

/// It takes what there is room for, and a Service for whose members there is none is refused.
#[test]
fn a_router_does_not_take_the_room_of_services_after_a_restart() {
    let (web, router_key) = (key("team", "web"), router_key());
    let entries = [
        (web.clone(), service_with(&[1, 2])),
        (router_key.clone(), router_with(&["web"], &[("web", 5), ("web", 6), ("web", 7)])),
    ];
    let made = [("r1", "gimbal/router"), ("u1", "team/web")];
    for had in [0, 1, 2] {
        let ends = Ends::with_members(&entries, &made, with_members(4), (&[("r1", had), ("u1", 2)], &[]));
        assert_eq!(ends.rejects(), [], "{had}");
        assert_eq!((ends.members_of(&web), ends.members_of(&router_key).len()), (vec![1, 2], 2), "{had}");
    }
}

/// However many members a Service has got since.
#[test]
fn a_router_keeps_what_it_has_after_a_restart() {
    let (web, router_key) = (key("team", "web"), router_key());
    let entries = [
        (web.clone(), service_with(&[1, 2, 3, 4])),
        (router_key.clone(), router_with(&["web"], &[("web", 5), ("web", 6), ("web", 7)])),
    ];
    let made = [("u1", "team/web"), ("r1", "gimbal/router")];
    let mut ends = Ends::with_members(&entries, &made, with_members(4), (&[("r1", 3), ("u1", 1)], &[]));
    assert_eq!(ends.rejects(), [(web.to_string(), KuryrReason::Quota)]);
    assert_eq!(ends.members_of(&router_key), [5, 6, 7]);
    // Until there is room.
    ends.set(&router_key, None);
    assert_eq!((ends.rejects(), ends.members_of(&web)), (Vec::new(), vec![1, 2, 3, 4]));
}

/// A new one with a lower address waits, as it did before.
#[test]
fn a_router_keeps_those_members_that_serve_after_a_restart() {
    let router_key = router_key();
    let entries = [(router_key.clone(), router_with(&["web"], &[("web", 1), ("web", 5), ("web", 6)]))];
    let made = [("r1", "gimbal/router")];
    let ends = Ends::with_members(&entries, &made, with_members(2), (&[("r1", 2)], &[5, 6]));
    assert_eq!((ends.rejects(), ends.members_of(&router_key)), (Vec::new(), vec![5, 6]));
    let sets_members = |change: &&String| change.contains("/members");
    assert_eq!(ends.changes.iter().find(sets_members), None);
}
