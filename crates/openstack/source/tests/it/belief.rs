//! Nothing is removed that is not proven gone (docs/design.md#rule-4).
#![allow(clippy::unwrap_used)] // A panic is the report.

use crate::common::faults::{fail, spoil, spoiled, two_projects};
use crate::common::{Caller, World, id, small};
use gimbal_octavia_rows::ProvisioningStatus;
use gimbal_openstack_source::{MembersError, PollTrouble, Query, Reply};

#[test]
fn a_failed_list_is_unknown_and_not_empty() {
    for kind in 0..3 {
        let mut caller = Caller::bulk(two_projects());
        caller.poll_until_stable();
        let before = caller.view.clone();
        caller.world.delete_load_balancer("lb2");
        let outcome = caller.poll_with(|ask, _| {
            let this = match ask {
                Query::LoadBalancers(_) => 0,
                Query::Listeners(_) => 1,
                Query::Pools(_) => 2,
                _ => 3,
            };
            (this == kind).then(|| fail(ask))
        });
        assert!(outcome.changes.is_empty() && !outcome.is_complete());
        assert!(outcome.unknown.unwrap().contains("500"), "{kind}");
        assert_eq!(caller.view, before);
        assert!(caller.poll().is_complete());
        assert_eq!(caller.names(), ["alpha/web-lb1", "beta/web-lb3"], "{kind}");
    }
}

#[test]
fn one_project_that_fails_is_unknown_by_itself() {
    let mut caller = Caller::per_project(two_projects());
    caller.poll_until_stable();
    caller.world.tree(4, "pa", 1);
    caller.world.delete_load_balancer("lb3");
    let outcome = caller.poll_with(|ask, _| {
        matches!(ask, Query::Pools(whose) if *whose == gimbal_openstack_source::ListScope::Project(id("pb")))
            .then(|| fail(ask))
    });
    assert_eq!(outcome.unknown, None);
    assert_eq!(outcome.unknown_namespaces.keys().map(|ns| &**ns).collect::<Vec<_>>(), ["beta"]);
    assert_eq!(caller.names(), ["alpha/web-lb1", "alpha/web-lb4", "beta/web-lb2", "beta/web-lb3"]);
    assert!(caller.poll().is_complete());
    assert_eq!(caller.names(), ["alpha/web-lb1", "alpha/web-lb4", "beta/web-lb2"]);
}

/// A project's token may see all projects: each is published once, in its own namespace.
#[test]
fn a_project_token_that_sees_everything_shows_its_project() {
    let mut caller = Caller::per_project(two_projects());
    for _ in 0..3 {
        let everything = |ask: &Query, world: &mut World| {
            let everyones = gimbal_openstack_source::ListScope::AllProjects;
            match ask.clone() {
                Query::LoadBalancers(whose) => match world.answer(&Query::LoadBalancers(everyones)) {
                    Reply::LoadBalancers(_, list) => Some(Reply::LoadBalancers(whose, list)),
                    _ => None,
                },
                Query::Listeners(whose) => match world.answer(&Query::Listeners(everyones)) {
                    Reply::Listeners(_, list) => Some(Reply::Listeners(whose, list)),
                    _ => None,
                },
                Query::Pools(whose) => match world.answer(&Query::Pools(everyones)) {
                    Reply::Pools(_, list) => Some(Reply::Pools(whose, list)),
                    _ => None,
                },
                _ => None,
            }
        };
        assert!(caller.poll_with(everything).is_complete());
        assert_eq!(caller.cloud.services().count(), 3);
    }
    let mut published = caller.names();
    published.sort();
    assert_eq!(published, ["alpha/web-lb1", "beta/web-lb2", "beta/web-lb3"]);
}

/// A list that does not arrive in time is not taken for empty.
#[test]
fn an_answer_that_never_comes_is_unknown() {
    let mut caller = Caller::bulk(two_projects());
    caller.poll_until_stable();
    caller.world.delete_load_balancer("lb3");
    caller.cloud.begin(caller.now);
    while let Some(ask) = caller.cloud.next_query() {
        if !matches!(ask, Query::Pools(_)) {
            let answer = caller.world.answer(&ask);
            caller.cloud.answer(answer, caller.now);
        }
    }
    assert!(!caller.cloud.is_done());
    let outcome = caller.cloud.finish(caller.now);
    assert!(outcome.changes.is_empty() && outcome.unknown.is_some());
    let late = caller.world.answer(&Query::Pools(gimbal_openstack_source::ListScope::AllProjects));
    caller.cloud.answer(late, caller.now);
    assert!(caller.poll().is_complete());
    assert_eq!(caller.names(), ["alpha/web-lb1", "beta/web-lb2"]);
}

/// Each list is of another moment.
#[test]
fn an_open_reference_keeps_what_was_known_for_one_poll() {
    // The pool is missing from its list, and its listener's row is older.
    let mut caller = Caller::bulk(small());
    caller.poll_until_stable();
    let before = caller.view.clone();
    caller.world.pools.remove(&id("p1"));
    let outcome = caller.poll();
    assert!(outcome.changes.is_empty());
    assert!(outcome.is_complete(), "what was last known stays, and a snapshot may say so");
    assert!(matches!(&outcome.troubles[..], [PollTrouble::OpenReference { .. }]), "{:?}", outcome.troubles);
    assert_eq!(caller.view, before);
    // The same in the next poll is accepted.
    caller.poll();
    assert_eq!(caller.show(), "alpha/web-lb1\n  port-80 80/TCP\n");

    // The load balancer is deleted, and its listener is still listed.
    let mut caller = Caller::bulk(two_projects());
    caller.poll_until_stable();
    caller.world.load_balancers.remove(&id("lb3"));
    assert!(caller.poll().changes.is_empty());
    caller.poll();
    assert_eq!(caller.names(), ["alpha/web-lb1", "beta/web-lb2"]);

    // A reference that closes in between counts as new the next time.
    let mut caller = Caller::bulk(small());
    caller.poll_until_stable();
    let pool = caller.world.pools[&id("p1")].clone();
    for _ in 0..3 {
        caller.world.pools.remove(&id("p1"));
        assert!(caller.poll().changes.is_empty());
        caller.world.pools.insert(id("p1"), pool.clone());
        assert!(caller.poll().changes.is_empty());
    }
}

/// A load balancer that was never listed completely is not published, and its namespace is unknown.
#[test]
fn an_open_reference_at_the_start_is_unknown() {
    let mut world = small();
    let pool = world.pools.remove(&id("p1")).unwrap();
    let mut caller = Caller::bulk(world);
    let outcome = caller.poll();
    assert!(outcome.changes.is_empty());
    assert!(outcome.unknown_namespaces["alpha"].contains("p1"), "{outcome:?}");
    caller.world.pools.insert(id("p1"), pool);
    assert!(caller.poll().is_complete());
    assert_eq!(caller.addresses(), ["10.0.1.1 rs-", "10.0.1.2 rs-"]);
}

/// One of several load balancers of a project is deleted: the others show that the project is visible.
#[test]
fn a_deletion_beside_others_needs_no_question() {
    let mut caller = Caller::bulk(two_projects());
    caller.poll_until_stable();
    caller.world.delete_load_balancer("lb2");
    assert!(caller.poll().is_complete());
    assert_eq!(caller.asked.len(), 3, "{:?}", caller.asked);
    assert_eq!(caller.names(), ["alpha/web-lb1", "beta/web-lb3"]);
}

/// A load balancer, listener or pool that is being deleted loses its endpoints; other statuses withdraw nothing.
#[test]
fn pending_delete_withdraws_and_other_statuses_do_not() {
    for (status, addresses) in [
        (ProvisioningStatus::Deleting, 0),
        (ProvisioningStatus::Pending, 2),
        (ProvisioningStatus::Error, 2),
        (ProvisioningStatus::Active, 2),
    ] {
        for which in 0..3 {
            let mut caller = Caller::bulk(small());
            caller.poll_until_stable();
            let world = &mut caller.world;
            match which {
                0 => world.load_balancers.get_mut(&id("lb1")).unwrap().provisioning = status,
                1 => world.listeners.get_mut(&id("l1")).unwrap().provisioning = status,
                _ => world.pools.get_mut(&id("p1")).unwrap().provisioning = status,
            }
            caller.poll();
            assert_eq!((caller.view.len(), caller.addresses().len()), (1, addresses), "{status:?} {which}");
        }
    }
}

/// A project that a complete list lacks is removed, which the original never did.
#[test]
fn a_project_that_is_gone_from_a_complete_list_is_removed() {
    for per_project in [false, true] {
        let mut caller = if per_project { Caller::per_project(two_projects()) } else { Caller::bulk(two_projects()) };
        caller.poll_until_stable();
        caller.world.projects.remove(&id("pb"));
        // A failed list shows nothing of projects.
        for _ in 0..40 {
            caller.poll_with(|ask, _| matches!(ask, Query::Projects).then(|| fail(ask)));
        }
        assert_eq!(caller.view.len(), 3, "{per_project}");
        let outcome = caller.poll();
        assert!(outcome.is_complete());
        assert_eq!(caller.names(), ["alpha/web-lb1"], "{per_project}");
    }
}

#[test]
fn an_empty_list_of_projects_is_a_lost_role() {
    for per_project in [false, true] {
        let mut caller = if per_project { Caller::per_project(two_projects()) } else { Caller::bulk(two_projects()) };
        caller.poll_until_stable();
        caller.world.projects.clear();
        for _ in 0..40 {
            caller.poll();
        }
        assert_eq!(caller.view.len(), 3, "{per_project}");
    }
    let outcome = Caller::per_project(World::default()).poll();
    assert!(outcome.unknown.is_some(), "at the start, too, it is no proof of an empty cloud");
}

/// A 404 for a pool's members is not an empty list of members.
#[test]
fn members_of_a_pool_that_is_gone_are_not_an_empty_list() {
    let gone = |ask: &Query, _: &mut World| match ask {
        Query::Members(whose, pool) => Some(Reply::Members(whose.clone(), pool.clone(), Err(MembersError::PoolGone))),
        _ => None,
    };
    let mut caller = Caller::bulk(small());
    caller.poll_until_stable();
    caller.world.member("p1", "m9", "10.0.0.9", 8080);
    caller.world.delete_member("p1", "m1-0");
    let before = caller.view.clone();
    assert!(caller.poll_with(gone).changes.is_empty(), "once, what was known stays");
    assert_eq!(caller.view, before);
    // The pool stays listed: a 404 never means that there are no members, and new members are published before old ones
    // are removed.
    for _ in 0..3 {
        assert!(caller.poll_with(gone).unknown_namespaces.contains_key("alpha"));
        assert_eq!(caller.view, before);
    }
    caller.poll();
    assert_eq!(caller.addresses(), ["10.0.0.9 rs-", "10.0.1.2 rs-"]);

    let mut caller = Caller::bulk(small());
    for _ in 0..4 {
        let outcome = caller.poll_with(gone);
        assert!(outcome.changes.is_empty() && outcome.unknown_namespaces.contains_key("alpha"));
    }
}

#[test]
fn nothing_is_sent_before_its_members_are_known() {
    let mut world = two_projects();
    world.tree(7, "pa", 1);
    let mut caller = Caller::bulk(world);
    let outcome = caller.poll_with(|ask, _| {
        matches!(ask, Query::Members(_, pool) if *pool == id("p2") || *pool == id("p7")).then(|| fail(ask))
    });
    assert_eq!(outcome.unknown, None);
    assert_eq!(outcome.unknown_namespaces.keys().map(|ns| &**ns).collect::<Vec<_>>(), ["alpha", "beta"]);
    assert_eq!(caller.names(), ["alpha/web-lb1", "beta/web-lb3"]);
    assert!(caller.poll().is_complete());
    assert_eq!(caller.view.len(), 5 - 1);
}

/// A listener gets another pool, whose members were not read yet: the Service stays as it was and is never empty.
#[test]
fn an_unread_pool_keeps_what_was_known() {
    let mut caller = Caller::bulk(small());
    caller.poll_until_stable();
    let before = caller.view.clone();
    caller.world.pool("p9", "lb1", "HTTP");
    caller.world.member("p9", "m9", "10.0.0.9", 80);
    caller.world.listeners.get_mut(&id("l1")).unwrap().default_pool_id = Some(id("p9"));
    let outcome = caller.poll_with(|ask, _| matches!(ask, Query::Members(..)).then(|| fail(ask)));
    assert!(outcome.changes.is_empty() && outcome.is_complete());
    assert_eq!(caller.view, before);
    caller.poll();
    assert_eq!(caller.addresses(), ["10.0.0.9 rs-"]);
}

#[test]
fn a_row_that_cannot_be_read_any_more_stays_as_it_was_and_stops_nothing_else() {
    for kind in 0..4 {
        for named in [true, false] {
            let mut caller = Caller::bulk(two_projects());
            caller.poll_until_stable();
            let before = caller.view.clone();
            for n in 10..14 {
                caller.world.tree(n, "pa", 1);
                caller.world.touch("p2");
                let outcome = caller.poll_with(|ask, world| spoiled(ask, world, kind, named));
                assert!(
                    matches!(&outcome.troubles[..], [PollTrouble::Unreadable { .. }]),
                    "{kind} {named} {outcome:?}"
                );
                for (key, service) in &before {
                    assert_eq!(caller.view.get(key), Some(service), "{kind} {named}");
                }
            }
            assert_eq!(caller.view.len(), before.len() + 4, "{kind} {named}");
        }
    }
}

/// After a restart the writer may hold objects that cannot be read now, so their namespace is unknown.
#[test]
fn a_row_that_never_could_be_read_is_not_absent() {
    for kind in 0..4 {
        for named in [true, false] {
            let mut caller = Caller::bulk(two_projects());
            for _ in 0..3 {
                let outcome = caller.poll_with(|ask, world| spoiled(ask, world, kind, named));
                assert!(outcome.unknown.is_none(), "{kind} {named}: one row stops nothing else");
                assert!(outcome.unknown_namespaces.contains_key("beta"), "{kind} {named} {outcome:?}");
            }
            assert_eq!(caller.names(), ["alpha/web-lb1", "beta/web-lb3"], "{kind} {named}");
            assert!(caller.poll_until_stable().is_complete());
            assert_eq!(caller.view.len(), 3);
        }
    }
}

/// The published Services never had the row, so leaving it out removes nothing, and the rest is updated.
#[test]
fn a_new_row_that_cannot_be_read_does_not_freeze_what_was_published() {
    let mut caller = Caller::bulk(two_projects());
    caller.poll_until_stable();
    caller.world.listener("l9", "lb2", 81, "HTTP", "p2");
    caller.world.delete_member("p2", "m2-0");
    caller.world.member("p2", "m2-9", "10.0.2.9", 8080);
    let outcome = caller.poll_with(|ask, world| match world.answer(ask) {
        Reply::Listeners(whose, Ok(list)) => {
            Some(Reply::Listeners(whose, Ok(spoil(list, |row| row.id == id("l9"), Some("l9")))))
        }
        _ => None,
    });
    assert!(outcome.is_complete());
    assert!(caller.show().contains("beta/web-lb2\n  port-80 80/TCP http\n    rs- 10.0.2.9"), "{}", caller.show());
    assert_eq!(
        caller.cloud.skipped().into_iter().collect::<Vec<_>>(),
        [(gimbal_openstack_source::SkipReason::Unreadable, 1)]
    );
}
