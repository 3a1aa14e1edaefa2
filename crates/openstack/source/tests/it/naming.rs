//! The project of a Service, Services for L7 pools, and the sentences that explain both.
#![allow(clippy::unwrap_used)] // A panic is the report.

use crate::common::{Caller, World, id, row, small};
use gimbal_model::SourceKey;
use gimbal_openstack_source::{ListMode, PollOptions, Query};
use serde_json::json;

/// A map at the writer finds a project by its ID, whatever its name is.
#[test]
fn every_service_names_its_project() {
    let mut world = small();
    with_policy(&mut world, 0);
    world.seconds += 60;
    for mode in [ListMode::Bulk, ListMode::PerProject] {
        let options = PollOptions { l7_pools: true, ..PollOptions::default() };
        let mut caller = Caller::new(mode, options, world.clone());
        caller.poll_until_stable();
        assert_eq!(caller.owners(), ["alpha/web-lb1 of pa", "alpha/web-lb1-px of pa"]);
    }
}

fn with_policy(world: &mut World, seconds: i64) {
    world.pool("px", "lb1", "HTTPS");
    world.member("px", "mx", "10.0.0.9", 443);
    world.seconds += seconds;
    let time = world.time();
    let listener = world.listeners.get_mut(&id("l1")).unwrap();
    listener.l7_policies = Some(vec![id("x")]);
    listener.updated_at = time;
    world.policies.insert(
        id("x"),
        row(json!({"id": "x", "listener_id": "l1", "action": "REDIRECT_TO_POOL", "redirect_pool_id": "px"})),
    );
}

#[test]
fn redirect_pools_are_services_of_their_own_if_asked_for() {
    let mut world = small();
    with_policy(&mut world, 0);
    world.seconds += 60;
    let mut caller = Caller::bulk(world.clone());
    caller.poll_until_stable();
    assert_eq!(caller.names(), ["alpha/web-lb1"]);
    assert!(!caller.asked.iter().any(|ask| matches!(ask, Query::L7Policies(_))));

    for mode in [ListMode::Bulk, ListMode::PerProject] {
        let options = PollOptions { l7_pools: true, sweep: None, ..PollOptions::default() };
        let mut caller = Caller::new(mode, options, world.clone());
        assert!(caller.poll_until_stable().is_complete());
        assert!(
            caller
                .show()
                .ends_with("alpha/web-lb1-px\n  port-80 80/TCP https\n    rs- 10.0.0.9 port-80=443/TCP https\n"),
            "{}",
            caller.show()
        );
        let policies = |caller: &Caller| caller.asked.iter().filter(|ask| matches!(ask, Query::L7Policies(_))).count();
        caller.poll();
        assert_eq!(policies(&caller), 0, "nothing says that they changed");
        assert_eq!(caller.view.len(), 2);
        // A policy that is switched off has no endpoints; a deleted one has no Service.
        let touch = |world: &mut World| {
            let time = world.time();
            world.listeners.get_mut(&id("l1")).unwrap().updated_at = time;
        };
        caller.world.policies.get_mut(&id("x")).unwrap().admin_state_up = false;
        touch(&mut caller.world);
        caller.poll();
        assert_eq!((policies(&caller), caller.view.len()), (1, 2));
        assert!(caller.show().ends_with("alpha/web-lb1-px\n  port-80 80/TCP https\n"));
        caller.world.policies.clear();
        caller.world.listeners.get_mut(&id("l1")).unwrap().l7_policies = Some(Vec::new());
        touch(&mut caller.world);
        caller.poll();
        assert_eq!(caller.names(), ["alpha/web-lb1"], "{mode:?}");
    }
}

/// neutron-lbaas' rows of listeners do not list their policies.
#[test]
fn redirect_pools_of_a_cloud_without_times() {
    let mut world = small();
    with_policy(&mut world, 0);
    let listener = world.listeners.get_mut(&id("l1")).unwrap();
    (listener.l7_policies, listener.updated_at) = (None, None);
    let mut caller = Caller::new(ListMode::Bulk, PollOptions { l7_pools: true, ..PollOptions::default() }, world);
    caller.poll_until_stable();
    assert_eq!(caller.names(), ["alpha/web-lb1", "alpha/web-lb1-px"]);
    caller.world.policies.clear();
    caller.poll();
    assert_eq!(caller.names(), ["alpha/web-lb1"]);
}

fn said(caller: &Caller, text: &str) -> String {
    caller.cloud.explain(&SourceKey::from_annotation(text).unwrap()).join("\n")
}

#[test]
fn everything_is_explained() {
    let options = PollOptions { projects_for: std::time::Duration::ZERO, ..crate::common::quiet() };
    let mut caller = Caller::new(ListMode::Bulk, options, small());
    assert!(said(&caller, "alpha/web-lb1").contains("has not been read yet"));
    caller.poll();
    caller.world.project("pb", "ALPHA");
    caller.world.tree(2, "pb", 1);
    caller.world.tree(3, "pa", 1);
    caller.world.change_member("p1", "m1-0").weight = 0;
    caller.poll_with(|ask, _| match ask {
        Query::Members(whose, pool) if *pool == id("p3") => Some(gimbal_openstack_source::Reply::Members(
            whose.clone(),
            pool.clone(),
            Err(gimbal_openstack_source::MembersError::Failed(crate::common::failed())),
        )),
        _ => None,
    });
    let text = said(&caller, "alpha/web-lb1");
    for part in [
        "load balancer lb1 (\"web\")",
        "project pa has namespace alpha",
        "1 ports and 1 endpoints, 1 of them ready",
        "member m1-0 is left out: its weight is 0 (NoWeight)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(said(&caller, "alpha/lb3").contains("it waits: the members of pool p3 are not known"));
    for key in ["alpha/web-lb2", "pb/web-lb2"] {
        let text = said(&caller, key);
        assert!(text.contains("project pb has namespace pb\n") && text.contains("(NameConflict)"), "{text}");
    }
    assert!(!said(&caller, "alpha/web-lb1").contains("NameConflict"));
    let text = said(&caller, "nowhere/nothing");
    assert!(text.contains("no load balancer") && text.contains("no selected project has namespace nowhere"), "{text}");
    caller.poll_until_stable();
    caller.world.pools.remove(&id("p3"));
    caller.poll();
    assert!(said(&caller, "alpha/web-lb3").contains("what was last known of it stays published"));
}
