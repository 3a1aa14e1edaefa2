//! The namespaces of projects: selection, renames, and name conflicts.
#![allow(clippy::unwrap_used)] // A panic is the report.

use crate::common::{Caller, World, failed, id, small};
use gimbal_model::SourceKey;
use gimbal_octavia_rows::Existence;
use gimbal_openstack_source::{ListMode, ListScope, PollOptions, PollTrouble, Query, Reply, SkipReason};

/// A world with project `pb`, named `Shop`. A project `shop` of another domain would yield the same namespace.
fn twins() -> World {
    let mut world = World::default();
    world.project("pb", "Shop");
    world.tree(2, "pb", 1);
    world
}

fn both(world: World) -> [Caller; 2] {
    [Caller::bulk(world.clone()), Caller::per_project(world)].map(|mut caller| {
        caller.poll_until_stable();
        caller
    })
}

/// Polls until the list of projects was certainly read again.
fn later(caller: &mut Caller) -> Vec<PollTrouble> {
    let mut troubles = Vec::new();
    for _ in 0..31 {
        let outcome = caller.poll();
        assert!(outcome.is_complete());
        if caller.asked.contains(&Query::Projects) {
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
        assert_eq!(caller.owners(), ["pa/web-lb1 of pa", "shop/web-lb2 of pb"]);
        assert_eq!(caller.addresses(), ["10.0.1.1 rs-", "10.0.2.1 rs-"]);
        assert_eq!(troubles.len(), 1, "{troubles:?}");
        let message = troubles[0].to_string();
        assert!(message.contains("project pa (\"shop\") is offered under its ID"), "{message}");
        assert!(message.contains("namespace shop, which project pb has"), "{message}");
        assert!(message.contains("(NameConflict)") && message.contains("namespaces.map"), "{message}");
        // The holder is deleted, so the name is free.
        caller.world.projects.remove(&id("pb"));
        caller.world.delete_load_balancer("lb2");
        assert!(later(&mut caller).is_empty());
        assert_eq!(caller.owners(), ["shop/web-lb1 of pa"]);
    }
}

#[test]
fn at_the_start_no_project_has_a_namespace_that_several_could() {
    let mut world = twins();
    world.project("pa", "shop");
    world.tree(1, "pa", 1);
    for mut caller in both(world) {
        assert_eq!(caller.owners(), ["pa/web-lb1 of pa", "pb/web-lb2 of pb"]);
        let said = caller.cloud.explain(&SourceKey::new("pa", "web-lb1")).join("\n");
        assert!(
            said.contains("namespace shop, which project pb could have as well, so that no project has it"),
            "{said}"
        );
        // One project is deleted, so the other has no conflict.
        caller.world.projects.remove(&id("pa"));
        caller.world.delete_load_balancer("lb1");
        later(&mut caller);
        assert_eq!(caller.owners(), ["shop/web-lb2 of pb"]);
    }
}

/// Services published before a restart in a namespace that no project holds now are not removed at once.
#[test]
fn a_namespace_that_no_project_holds_is_unknown_for_a_while() {
    let mut world = twins();
    world.project("pa", "shop");
    let options = PollOptions { project_hold: std::time::Duration::from_secs(30), ..crate::common::quiet() };
    let mut caller = Caller::new(ListMode::Bulk, options, world);
    for _ in 0..3 {
        assert!(caller.poll().unknown_namespaces["shop"].contains("no project holds it"));
    }
    assert!(caller.poll().is_complete());
}

/// The writer takes a namespace that equals the annotated project ID for a name conflict. So each conflict must have
/// that form, whatever the ID, and a project without a conflict must not.
#[test]
fn the_project_is_its_namespace_only_where_its_name_is_taken() {
    for (project, name, expected) in [
        ("pb", "Alpha", "pb/web-lb2 of pb"),
        ("PB.x_y", "Alpha", "PB.x_y/web-lb2 of PB.x_y"),
        ("pb", "日本", "pb/web-lb2"),
        ("PB.x_y", "日本", "pb-x-y/web-lb2 of PB.x_y"),
        ("pb", "PB", "pb/web-lb2"),
    ] {
        let mut world = twins();
        world.projects.clear();
        world.load_balancers.get_mut(&id("lb2")).unwrap().project = id(project);
        world.project("AA", "alpha");
        world.tree(1, "AA", 1);
        for mut caller in both(world) {
            caller.world.project(project, name);
            later(&mut caller);
            assert_eq!(
                caller.owners().iter().filter(|line| line.contains("lb2")).collect::<Vec<_>>(),
                [expected],
                "{name}"
            );
            assert!(caller.owners().contains(&"alpha/web-lb1 of AA".to_owned()), "{name}");
        }
    }
}

/// A user who may name a project must not reach the namespace to which a map leads another project by its ID.
#[test]
fn the_id_of_another_project_is_no_name_to_have() {
    let mut world = small();
    world.project("pb", "PA");
    world.tree(2, "pb", 1);
    for mut caller in both(world) {
        assert_eq!(caller.owners(), ["alpha/web-lb1 of pa", "pb/web-lb2 of pb"]);
        let said = caller.cloud.explain(&SourceKey::new("pb", "web-lb2")).join("\n");
        assert!(said.contains("namespace pa, which project pa has"), "{said}");
        // A held name does not take precedence over a later project that has it as its ID.
        caller.world.project("pb", "pc");
        later(&mut caller);
        assert_eq!(caller.owners(), ["alpha/web-lb1 of pa", "pc/web-lb2 of pb"]);
        caller.world.project("pc", "gamma");
        later(&mut caller);
        assert_eq!(caller.owners(), ["alpha/web-lb1 of pa", "pb/web-lb2 of pb"]);
    }
}

/// In both directions the Services leave the old namespace and appear in the new one in the same poll.
#[test]
fn between_id_and_name_a_project_moves_whole() {
    let mut world = twins();
    world.project("pa", "alpha");
    world.tree(1, "pa", 1);
    for mut caller in both(world) {
        for (name, from, to) in [("Shop", "alpha", "pa"), ("alpha", "pa", "alpha")] {
            caller.world.project("pa", name);
            let changes = (0..31).map(|_| caller.poll().changes).find(|changes| !changes.is_empty()).unwrap();
            let mut found: Vec<(bool, String)> =
                changes.iter().map(|(key, service)| (service.is_some(), key.to_string())).collect();
            found.sort();
            assert_eq!(found, [(false, format!("{from}/web-lb1")), (true, format!("{to}/web-lb1"))]);
            assert_eq!(caller.addresses(), ["10.0.1.1 rs-", "10.0.2.1 rs-"]);
            assert_eq!(later(&mut caller).len(), usize::from(to == "pa"), "reported while it lasts");
        }
    }
}

/// The original used the name as key, so a rename orphaned all Services.
#[test]
fn a_renamed_project_moves() {
    for mut caller in both(small()) {
        caller.world.project("pa", "gamma");
        later(&mut caller);
        assert_eq!(caller.names(), ["gamma/web-lb1"]);
    }
    // Two projects that swap names swap namespaces.
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
        for mode in [ListMode::Bulk, ListMode::PerProject] {
            let projects = patterns.iter().map(|pattern| pattern.parse().unwrap()).collect();
            let mut caller = Caller::new(mode, PollOptions { projects, ..PollOptions::default() }, world.clone());
            assert!(caller.poll().is_complete());
            assert_eq!(caller.names(), expected, "{patterns:?} {mode:?}");
        }
    }
}

/// A project that is not selected holds no namespace.
#[test]
fn an_unselected_project_blocks_no_other() {
    let mut world = twins();
    world.project("pa", "shop");
    world.tree(1, "pa", 1);
    let options = PollOptions { projects: vec!["Shop".parse().unwrap()], ..PollOptions::default() };
    let mut caller = Caller::new(ListMode::Bulk, options, world);
    assert!(caller.poll().troubles.is_empty());
    assert_eq!(caller.names(), ["shop/web-lb2"]);
    assert_eq!(caller.cloud.skipped().into_iter().collect::<Vec<_>>(), [(SkipReason::ProjectNotSelected, 1)]);
}

/// A world in which project `pa` has one load balancer and `pb` has two.
fn three_trees() -> World {
    let mut world = small();
    world.project("pb", "beta");
    world.tree(2, "pb", 1);
    world.tree(3, "pb", 1);
    world.seconds += 60;
    world
}

/// A project that takes the name of another one keeps its namespace until its own lists are read again.
#[test]
fn a_project_that_is_to_move_under_its_id_and_fails_stays() {
    let pools = Query::Pools(ListScope::Project(id("pb")));
    let fail = |ask: &Query| {
        let answer = || Reply::Pools(ListScope::Project(id("pb")), Err(failed()));
        (*ask == pools).then(answer)
    };
    let mut caller = Caller::per_project(three_trees());
    caller.poll_until_stable();
    caller.world.project("pb", "alpha");
    for _ in 0..3 {
        let outcome = caller.poll_with(|ask, _| fail(ask));
        assert!(outcome.changes.is_empty());
        assert_eq!(outcome.unknown_namespaces.keys().map(|ns| &**ns).collect::<Vec<_>>(), ["beta", "pb"]);
        assert_eq!(caller.names(), ["alpha/web-lb1", "beta/web-lb2", "beta/web-lb3"]);
    }
    assert!(caller.poll().is_complete());
    assert_eq!(caller.names(), ["alpha/web-lb1", "pb/web-lb2", "pb/web-lb3"]);
    // The same in the other direction.
    caller.world.project("pb", "beta");
    let outcome = caller.poll_with(|ask, _| fail(ask));
    assert_eq!(outcome.unknown_namespaces.keys().map(|ns| &**ns).collect::<Vec<_>>(), ["beta", "pb"]);
    caller.poll();
    assert_eq!(caller.names(), ["alpha/web-lb1", "beta/web-lb2", "beta/web-lb3"]);
}

/// In bulk mode, too, a project that is offered under its ID is gone only when a lookup proves it.
#[test]
fn a_project_under_its_id_that_vanishes_is_asked_for() {
    let mut caller = Caller::bulk(three_trees());
    caller.poll_until_stable();
    caller.world.project("pb", "alpha");
    later(&mut caller);
    caller.world.delete_load_balancer("lb2");
    caller.world.delete_load_balancer("lb3");
    let found = |ask: &Query, _: &mut World| match ask {
        Query::LoadBalancer(whose, id) => Some(Reply::LoadBalancer(whose.clone(), id.clone(), Ok(Existence::Found))),
        _ => None,
    };
    let outcome = caller.poll_with(found);
    assert_eq!(outcome.unknown_namespaces.keys().map(|ns| &**ns).collect::<Vec<_>>(), ["pb"]);
    assert_eq!(caller.names(), ["alpha/web-lb1", "pb/web-lb2", "pb/web-lb3"]);
    caller.poll();
    assert_eq!(caller.names(), ["alpha/web-lb1"]);
}
