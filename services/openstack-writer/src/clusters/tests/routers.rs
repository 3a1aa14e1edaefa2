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

impl Ends {
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
