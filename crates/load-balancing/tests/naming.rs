//! Projects, namespaces, selection, L7 pools, and the sentences that explain them.
#![allow(clippy::unwrap_used)] // A panic is the report.

mod common;

use common::{Caller, World, id, row, small};
use gimbal_load_balancing::{Ask, Mode, Options, Skip, Trouble};
use gimbal_model::SourceKey;
use serde_json::json;

/// Two projects, of two domains, whose names yield one namespace.
fn twins() -> World {
    let mut world = World::default();
    world.project("pb", "Shop");
    world.tree(2, "pb", 1);
    world
}

fn both(world: World) -> [Caller; 2] {
    [Caller::bulk(world.clone()), Caller::per_project(world)].map(|mut caller| {
        caller.settle();
        caller
    })
}

/// Polls until the list of projects is surely a new one.
fn later(caller: &mut Caller) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    for _ in 0..31 {
        let outcome = caller.poll();
        assert!(outcome.is_complete());
        if caller.asked.contains(&Ask::Projects) {
            troubles = outcome.troubles;
        }
    }
    troubles
}

#[test]
fn the_first_project_keeps_the_namespace() {
    for mut caller in both(twins()) {
        caller.world.project("pa", "shop");
        caller.world.tree(1, "pa", 1);
        let troubles = later(&mut caller);
        assert_eq!(caller.names(), ["shop/web-lb2"]);
        let message = troubles[0].to_string();
        assert!(message.contains("project pa (\"shop\")") && message.contains("(NameConflict)"), "{message}");
        assert!(message.contains("namespace shop, which project pb has"), "{message}");
        // The holder goes: the name is free.
        caller.world.projects.remove(&id("pb"));
        caller.world.delete_load_balancer("lb2");
        assert!(later(&mut caller).is_empty());
        assert_eq!(caller.names(), ["shop/web-lb1"]);
    }
}

#[test]
fn at_the_start_the_smallest_id_has_the_namespace() {
    let mut world = twins();
    world.project("pa", "shop");
    world.tree(1, "pa", 1);
    for caller in both(world) {
        assert_eq!(caller.names(), ["shop/web-lb1"]);
    }
}

/// The original keyed by name: a rename orphaned everything.
#[test]
fn a_renamed_project_moves() {
    for mut caller in both(small()) {
        caller.world.project("pa", "gamma");
        later(&mut caller);
        assert_eq!(caller.names(), ["gamma/web-lb1"]);
    }
    // Two projects that exchange their names exchange their namespaces.
    let mut world = small();
    world.project("pb", "beta");
    world.tree(2, "pb", 1);
    for mut caller in both(world) {
        caller.world.project("pa", "beta");
        caller.world.project("pb", "alpha");
        later(&mut caller);
        assert_eq!(caller.names(), ["alpha/web-lb2", "beta/web-lb1"]);
    }
}

#[test]
fn projects_are_selected_by_name_id_and_pattern() {
    let mut world = small();
    for (n, name) in [(2, "beta"), (3, "Team One"), (4, "Team Two")] {
        world.project(&format!("id{n}"), name);
        world.tree(n, &format!("id{n}"), 1);
    }
    for (patterns, expected) in [
        (&["alpha"][..], &["alpha/web-lb1"][..]),
        (&["id2"], &["beta/web-lb2"]),
        (&["Team *"], &["team-one/web-lb3", "team-two/web-lb4"]),
        (&["team *"], &[]),
        (&["alpha", "*Two"], &["alpha/web-lb1", "team-two/web-lb4"]),
        (&[], &["alpha/web-lb1", "beta/web-lb2", "team-one/web-lb3", "team-two/web-lb4"]),
    ] {
        for mode in [Mode::Bulk, Mode::PerProject] {
            let projects = patterns.iter().map(|pattern| pattern.parse().unwrap()).collect();
            let mut caller = Caller::new(mode, Options { projects, ..Options::default() }, world.clone());
            assert!(caller.poll().is_complete());
            assert_eq!(caller.names(), expected, "{patterns:?} {mode:?}");
        }
    }
}

/// One that is not selected holds no namespace.
#[test]
fn an_unselected_project_is_in_nobodys_way() {
    let mut world = twins();
    world.project("pa", "shop");
    world.tree(1, "pa", 1);
    let options = Options { projects: vec!["Shop".parse().unwrap()], ..Options::default() };
    let mut caller = Caller::new(Mode::Bulk, options, world);
    assert!(caller.poll().troubles.is_empty());
    assert_eq!(caller.names(), ["shop/web-lb2"]);
    assert_eq!(caller.cloud.skipped().into_iter().collect::<Vec<_>>(), [(Skip::ProjectNotSelected, 1)]);
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
    caller.settle();
    assert_eq!(caller.names(), ["alpha/web-lb1"]);
    assert!(!caller.asked.iter().any(|ask| matches!(ask, Ask::L7Policies(_))));

    for mode in [Mode::Bulk, Mode::PerProject] {
        let options = Options { l7_pools: true, sweep: None, ..Options::default() };
        let mut caller = Caller::new(mode, options, world.clone());
        assert!(caller.settle().is_complete());
        assert!(
            caller
                .show()
                .ends_with("alpha/web-lb1-px\n  port-80 80/TCP https\n    rs- 10.0.0.9 port-80=443/TCP https\n"),
            "{}",
            caller.show()
        );
        let policies = |caller: &Caller| caller.asked.iter().filter(|ask| matches!(ask, Ask::L7Policies(_))).count();
        caller.poll();
        assert_eq!(policies(&caller), 0, "nothing says that they changed");
        assert_eq!(caller.view.len(), 2);
        // Switched off: no endpoints; gone: no Service.
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

/// neutron-lbaas' listeners do not say which policies they have.
#[test]
fn redirect_pools_of_a_cloud_without_times() {
    let mut world = small();
    with_policy(&mut world, 0);
    let listener = world.listeners.get_mut(&id("l1")).unwrap();
    (listener.l7_policies, listener.updated_at) = (None, None);
    let mut caller = Caller::new(Mode::Bulk, Options { l7_pools: true, ..Options::default() }, world);
    caller.settle();
    assert_eq!(caller.names(), ["alpha/web-lb1", "alpha/web-lb1-px"]);
    caller.world.policies.clear();
    caller.poll();
    assert_eq!(caller.names(), ["alpha/web-lb1"]);
}

#[test]
fn everything_is_explained() {
    let mut world = small();
    world.project("pb", "ALPHA");
    world.tree(2, "pb", 1);
    world.tree(3, "pa", 1);
    world.health("p1", "m1-0").weight = 0;
    let mut caller = Caller::bulk(world);
    let key = |text: &str| SourceKey::from_annotation(text).unwrap();
    let said = |caller: &Caller, text: &str| caller.cloud.explain(&key(text)).join("\n");
    assert!(said(&caller, "alpha/web-lb1").contains("has not been read yet"));
    caller.poll_with(|ask, _| match ask {
        Ask::Members(whose, pool) if *pool == id("p3") => Some(gimbal_load_balancing::Answer::Members(
            whose.clone(),
            pool.clone(),
            Err(gimbal_load_balancing::NoMembers::Failed(common::failed())),
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
    assert!(said(&caller, "alpha/web-lb2").contains("(NameConflict)"));
    let text = said(&caller, "nowhere/nothing");
    assert!(text.contains("no load balancer") && text.contains("no selected project has namespace nowhere"), "{text}");
    caller.settle();
    caller.world.pools.remove(&id("p3"));
    caller.poll();
    assert!(said(&caller, "alpha/web-lb3").contains("what was last known of it stands"));
}
