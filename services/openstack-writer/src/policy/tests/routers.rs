//! Routers.

use gimbal_kuryr_model::{PoolId, RoutedPool, Routing};

use super::*;

fn router(change: impl FnOnce(&mut LoadBalancerHeader)) -> DesiredLoadBalancer {
    with(|header| {
        let pool = |id: &str| RoutedPool { id: id.into(), name: "shop_web".into() };
        let pools = [pool("shop/api/80"), pool("shop/web/80")].into();
        header.routing = Some(Box::new(Routing { pools, ..Routing::default() }));
        change(header);
    })
}

fn in_pool(wanted: DesiredLoadBalancer, members: &[(&str, &str)]) -> DesiredLoadBalancer {
    let member = |(pool, address): &(&str, &str)| DesiredMember {
        id: MemberId { pool: PoolId::Service((*pool).into()), address: address.parse().unwrap(), port: 8080 },
        weight: 1,
        name: None,
        subnet: None,
    };
    DesiredLoadBalancer { members: DesiredMembers::new(members.iter().map(member).collect()), ..wanted }
}

#[test]
fn a_router_is_made_where_ingress_is_enabled() {
    let may_be = |enable_ingress, kind, wanted: &DesiredLoadBalancer| {
        let policy = ClusterPolicy { enable_ingress, ..policy() };
        let key = DesiredKey::new(kind, "shop", "one");
        policy.may_be(&key, wanted).map_err(|breach| (breach.reason, breach.message))
    };
    let (plain, router) = (with(|_| {}), router(|_| {}));
    for enabled in [true, false] {
        may_be(enabled, DesiredKind::LoadBalancer, &plain).unwrap();
        for kind in [DesiredKind::Port, DesiredKind::Network, DesiredKind::SecurityGroup] {
            let (reason, message) = may_be(enabled, kind, &plain).unwrap_err();
            assert_eq!(
                (reason, message),
                (KuryrReason::Unsupported, format!("this writer makes no {}", kind.as_str()))
            );
        }
    }
    may_be(true, DesiredKind::L7Router, &router).unwrap();
    let (reason, message) = may_be(false, DesiredKind::L7Router, &router).unwrap_err();
    assert_eq!(reason, KuryrReason::Unsupported);
    assert!(message.contains("enable_ingress is false for this cluster"), "{message}");
    let (reason, _) = may_be(true, DesiredKind::L7Router, &plain).unwrap_err();
    assert_eq!(reason, KuryrReason::Invalid, "without routing it is no router");
    let lost = in_pool(router, &[("shop/gone/80", "10.0.0.1")]);
    let (reason, message) = may_be(true, DesiredKind::L7Router, &lost).unwrap_err();
    assert_eq!(reason, KuryrReason::Invalid);
    assert!(message.contains("pool shop/gone/80"), "{message}");
}

/// It is the writer's own configuration that names it.
#[test]
fn the_address_of_the_configuration_is_allowed_for_routers_alone() {
    let address: IpAddr = "172.24.4.13".parse().unwrap();
    let policy = ClusterPolicy { l7_router_ip: Some(address), ..policy() };
    let floats = |address| {
        move |header: &mut LoadBalancerHeader| {
            header.floating = Some(Box::new(FloatingWish { address: Some(address), ..FloatingWish::default() }));
        }
    };
    let checked = |wanted: &DesiredLoadBalancer| policy.check(&known(), wanted).map_err(|breach| breach.reason);
    assert_eq!(checked(&router(floats(address))), Ok(()));
    assert_eq!(checked(&router(floats("172.24.4.14".parse().unwrap()))), Err(KuryrReason::FloatingNotAllowed));
    assert_eq!(checked(&with(floats(address))), Err(KuryrReason::FloatingNotAllowed), "a Service may not take it");
    let policy_of_users = ClusterPolicy { user_addresses: true, ..policy.clone() };
    let checked_for_users = |wanted: &DesiredLoadBalancer| policy_of_users.check(&known(), wanted).is_ok();
    assert!(checked_for_users(&with(floats("172.24.4.14".parse().unwrap()))));
    assert!(!checked_for_users(&with(floats(address))), "nor where users name addresses");
    let elsewhere = router(|header| {
        let network = Some("theirs".into());
        header.floating = Some(Box::new(FloatingWish { network, address: Some(address), ..FloatingWish::default() }));
    });
    assert_eq!(checked(&elsewhere), Err(KuryrReason::FloatingNotAllowed));
}

/// One Service must not stop the routes to the others.
#[test]
fn a_pool_of_which_no_member_is_allowed_is_empty_and_the_others_are_served() {
    let wanted = in_pool(router(|_| {}), &[("shop/api/80", "192.168.0.1"), ("shop/web/80", "10.0.0.1")]);
    let (served, words) = policy().with_allowed_members(wanted).unwrap();
    let pools: Vec<String> = served.members.as_slice().iter().map(|one| one.id.pool.to_string()).collect();
    assert_eq!(pools, ["shop/web/80"]);
    let words = words.unwrap();
    assert!(words.contains("1 of 2 members are left out") && words.ends_with("serves to shop/api/80"), "{words}");
}

#[test]
fn what_a_router_has_is_counted_like_that_of_others() {
    let members = [("shop/api/80", "10.0.0.1"), ("shop/api/80", "10.0.0.2"), ("shop/web/80", "10.0.0.1")];
    let wanted = in_pool(router(|header| header.floating = Some(Box::default())), &members);
    let mut used = ClusterUse::default();
    let quota = ClusterQuota { members: 2, ..ClusterQuota::default() };
    let key = DesiredKey::new(DesiredKind::L7Router, "gimbal", "router");
    let full = used.take(&key, EntrySize::of(&wanted), None, &quota).unwrap_err();
    assert!(full.message.contains("quota.members"), "{full}");
    used.take(&key, EntrySize::of(&wanted), None, &ClusterQuota { members: 3, ..quota }).unwrap();
}
