//! Doubts left by a restart, an unreadable row, changed roles or a 404 that proves nothing: they remove nothing, and
//! nothing else waits for them.
#![allow(clippy::unwrap_used)] // A panic is the report.

use std::time::Duration;

use crate::common::faults::{spoil, two_projects};
use crate::common::{Caller, World, id, quiet, row};
use gimbal_octavia_rows::Existence;
use gimbal_openstack_source::{ListMode, ListScope, PollOptions, Query, Reply, SkipReason};
use serde_json::json;

const LOOK: Duration = Duration::from_secs(60);

fn held() -> PollOptions {
    PollOptions { project_hold: LOOK, ..quiet() }
}

/// Projects may have left the list while the process was down, so what the writer holds of them is kept as long as if
/// they had left while it ran.
#[test]
fn after_a_start_a_list_by_role_is_not_all_that_there_was() {
    for (mode, by_role, doubted) in
        [(ListMode::PerProject, false, true), (ListMode::Bulk, true, true), (ListMode::Bulk, false, false)]
    {
        let mut caller = Caller::new(mode, PollOptions { by_role, ..held() }, two_projects());
        for poll in 0..8 {
            let outcome = caller.poll();
            assert!(outcome.is_complete(), "{mode:?} {poll}: {outcome:?}");
            assert_eq!(outcome.rest.is_some(), doubted && poll < 6, "{mode:?} {poll}");
            assert_eq!(caller.view.len(), 3);
        }
    }
}

#[test]
fn what_is_no_owners_holds_up_no_other() {
    for owner in [json!(null), json!("")] {
        let mut world = two_projects();
        let orphan = json!({"id": "lb9", "project_id": owner, "tenant_id": null, "name": "web"});
        world.load_balancers.insert(id("lb9"), row(orphan));
        let mut caller = Caller::bulk(world);
        let outcome = caller.poll();
        assert!(outcome.is_complete() && outcome.troubles.is_empty(), "{outcome:?}");
        assert_eq!(caller.names(), ["alpha/web-lb1", "beta/web-lb2", "beta/web-lb3"]);
        assert_eq!(caller.cloud.skipped()[&SkipReason::ProjectGone], 1);
        caller.poll_until_stable();
        assert_eq!(caller.asked.len(), 3, "{:?}", caller.asked);
    }
}

#[test]
fn a_row_with_no_id_that_says_whose_it_is_leaves_the_others_known() {
    let mut caller = Caller::bulk(two_projects());
    for _ in 0..3 {
        let outcome = caller.poll_with(|ask, world| match world.answer(ask) {
            Reply::LoadBalancers(whose, Ok(list)) => {
                let mut list = spoil(list, |row| row.id == id("lb2"), Some("not an ID"));
                list.unreadable[0].project = Some("pb".into());
                Some(Reply::LoadBalancers(whose, Ok(list)))
            }
            _ => None,
        });
        assert_eq!(outcome.unknown_namespaces.keys().map(|ns| &**ns).collect::<Vec<_>>(), ["beta"]);
    }
}

/// The first list after a start has a row with a name that is not text, or one that a proxy has damaged.
#[test]
fn a_project_whose_row_cannot_be_read_is_not_gone() {
    for (mode, says) in [(ListMode::Bulk, Some("pb")), (ListMode::Bulk, None), (ListMode::PerProject, Some("pb"))] {
        let mut caller = Caller::new(mode, quiet(), two_projects());
        for poll in 0..3 {
            let outcome = caller.poll_with(|ask, world| match world.answer(ask) {
                Reply::Projects(Ok(list)) => Some(Reply::Projects(Ok(spoil(list, |row| row.id == id("pb"), says)))),
                _ => None,
            });
            assert!(outcome.rest.is_some() && outcome.unlisted.is_some(), "{mode:?} {says:?}: {outcome:?}");
            assert_eq!(outcome.unknown, None);
            assert_eq!(caller.names(), ["alpha/web-lb1"]);
            assert_eq!(caller.cloud.skipped().get(&SkipReason::ProjectGone), None, "{mode:?} {says:?}");
            let again = poll > 0 && mode == ListMode::Bulk && caller.asked.contains(&Query::Projects);
            assert!(!again, "{says:?}: asked for in each poll");
        }
        caller.now += Duration::from_secs(600);
        let outcome = caller.poll();
        assert!(outcome.is_complete() && outcome.rest.is_none(), "{outcome:?}");
        assert_eq!(caller.view.len(), 3);
    }
}

/// A world in which `pb` has lost its load balancers, while `pa` and another project still have theirs.
fn emptied(options: PollOptions) -> Caller {
    let mut world = two_projects();
    world.project("pc", "gamma");
    world.tree(4, "pc", 1);
    let mut caller = Caller::new(ListMode::Bulk, PollOptions { own: Some(id("pa")), ..options }, world);
    caller.poll_until_stable();
    caller.world.delete_load_balancer("lb2");
    caller.world.delete_load_balancer("lb3");
    caller
}

fn roles_lost(ask: &Query, _: &mut World) -> Option<Reply> {
    match ask {
        Query::Roles(whose) => Some(Reply::Roles(whose.clone(), Ok(vec!["not-needed".into()]))),
        _ => None,
    }
}

/// A role that was removed long ago, and that was not needed to see anything.
#[test]
fn a_role_that_is_not_needed_is_not_missed() {
    let mut caller = emptied(quiet());
    let outcome = caller.poll_with(roles_lost);
    assert_eq!((outcome.unknown.as_ref(), outcome.is_complete()), (None, true), "{outcome:?}");
    assert!(outcome.troubles[0].to_string().contains("not-needed"), "{outcome:?}");
    assert_eq!(caller.names(), ["alpha/web-lb1", "gamma/web-lb4"]);

    // Where a 404 proves nothing, the project's Services are kept, and all others are updated.
    let mut caller = emptied(PollOptions { second_look: Some(Duration::ZERO), ..quiet() });
    caller.world.member("p4", "new", "10.0.0.9", 80);
    let outcome = caller.poll_with(roles_lost);
    assert_eq!(outcome.unknown, None);
    assert_eq!(outcome.unknown_namespaces.keys().map(|ns| &**ns).collect::<Vec<_>>(), ["beta"]);
    assert!(caller.show().contains("10.0.0.9") && caller.view.len() == 4, "{}", caller.show());

    // If one list has no objects of other projects, the token sees less than before.
    for kind in 0..3 {
        let mut caller = emptied(quiet());
        let before = caller.view.clone();
        let outcome = caller.poll_with(|ask, world| match (world.answer(ask), kind) {
            (Reply::LoadBalancers(whose, Ok(mut list)), 0) => {
                list.rows.retain(|row| row.project == id("pa"));
                Some(Reply::LoadBalancers(whose, Ok(list)))
            }
            (Reply::Listeners(whose, Ok(mut list)), 1) => {
                list.rows.retain(|row| row.id == id("l1"));
                Some(Reply::Listeners(whose, Ok(list)))
            }
            (Reply::Pools(whose, Ok(mut list)), 2) => {
                list.rows.retain(|row| row.id == id("p1"));
                Some(Reply::Pools(whose, Ok(list)))
            }
            _ => roles_lost(ask, world),
        });
        assert!(outcome.unknown.is_some(), "{kind}: {outcome:?}");
        assert_eq!(caller.view, before);
    }
}

/// neutron-lbaas answers 404 for pools that one of its processes hides.
#[test]
fn where_404_proves_nothing_a_pool_is_gone_after_a_second_look() {
    for gone in [false, true] {
        let mut caller =
            Caller::new(ListMode::Bulk, PollOptions { second_look: Some(LOOK), ..quiet() }, two_projects());
        caller.poll_until_stable();
        let before = caller.view.clone();
        let hidden = |ask: &Query, world: &mut World| match (ask, world.answer(ask)) {
            (_, Reply::Pools(whose, Ok(mut list))) => {
                list.rows.retain(|pool| pool.id == id("p1"));
                Some(Reply::Pools(whose, Ok(list)))
            }
            (Query::Pool(whose, pool), _) => Some(Reply::Pool(whose.clone(), pool.clone(), Ok(Existence::Gone))),
            _ => None,
        };
        // The reference is open first, and then for six polls of ten seconds.
        for poll in 0..6 {
            caller.poll_with(hidden);
            assert_eq!(caller.view, before, "{poll}");
            assert_eq!(caller.asked.contains(&Query::Roles(ListScope::AllProjects)), poll > 0, "{poll}");
        }
        if gone {
            caller.poll_with(hidden);
            assert_eq!(caller.addresses().len(), 2, "it is believed in the end");
            continue;
        }
        // The lost role is detected: the poll fails, and the wait starts again.
        let outcome = caller.poll_with(|ask, world| hidden(ask, world).or_else(|| roles_lost(ask, world)));
        assert!(outcome.unknown.is_some(), "{outcome:?}");
        for _ in 0..6 {
            caller.poll_with(hidden);
            assert_eq!(caller.view, before);
        }
        assert!(caller.poll_until_stable().is_complete());
        assert_eq!(caller.view, before);
    }
}

/// All members of a pool are replaced after the pools were listed and before its members are read.
#[test]
fn members_that_are_replaced_between_two_lists_leave_no_gap() {
    for deleting in [false, true] {
        let mut caller = Caller::bulk(two_projects());
        caller.poll_until_stable();
        let before = caller.addresses();
        caller.world.touch("p1");
        caller.poll_with(|ask, world| match (ask, world.answer(ask)) {
            (Query::Members(whose, pool), _) if *pool == id("p1") && world.pools[&id("p1")].members.len() == 2 => {
                let old = world.members[&id("p1")].values().cloned().collect::<Vec<_>>();
                world.delete_member("p1", "m1-0");
                world.delete_member("p1", "m1-1");
                world.member("p1", "m9", "10.0.0.9", 8080);
                let Reply::Members(_, _, Ok(mut list)) = world.answer(ask) else { panic!("{ask:?}") };
                let leaving = |mut row: gimbal_octavia_rows::Member| {
                    row.provisioning = gimbal_octavia_rows::ProvisioningStatus::Deleting;
                    row
                };
                list.rows.extend(old.into_iter().filter(|_| deleting).map(leaving));
                Some(Reply::Members(whose.clone(), pool.clone(), Ok(list)))
            }
            _ => None,
        });
        assert_eq!(caller.addresses(), before, "{deleting}");
        caller.poll();
        let now = caller.addresses().join(" ");
        assert!(now.contains("10.0.0.9") && !now.contains("10.0.1.1"), "{now}");
    }
}

/// If a server's lists never agree, they are accepted the second time.
#[test]
fn lists_of_members_that_never_agree_are_believed() {
    let mut caller = Caller::bulk(two_projects());
    caller.poll_until_stable();
    let odd = |ask: &Query, world: &mut World| match (ask, world.answer(ask)) {
        (Query::Members(..), Reply::Members(whose, pool, Ok(mut list))) if pool == id("p1") => {
            list.rows.retain(|row| row.id == id("m1-0"));
            list.rows.push(row(json!({"id": "odd", "address": "10.0.0.9", "protocol_port": 80})));
            Some(Reply::Members(whose, pool, Ok(list)))
        }
        _ => None,
    };
    caller.world.touch("p1");
    caller.poll_with(odd);
    assert!(caller.show().contains("10.0.1.2"), "{}", caller.show());
    caller.world.touch("p1");
    caller.poll_with(odd);
    assert!(!caller.show().contains("10.0.1.2"), "{}", caller.show());
}
