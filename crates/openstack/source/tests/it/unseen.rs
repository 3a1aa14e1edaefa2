//! A project that no list shows may be empty or hidden. Its Services are kept unchanged until it is proven to be
//! empty.
#![allow(clippy::unwrap_used)] // A panic is the report.

use crate::common::faults::{fail, lost, spoil, spoiled, two_projects};
use crate::common::{Caller, World, failed, id, row};
use gimbal_octavia_rows::Existence;
use gimbal_openstack_source::{ListMode, PollOptions, Query, Reply};
use serde_json::json;

/// A lookup distinguishes a deletion (404) from a lost role (403).
#[test]
fn a_lost_role_is_a_failed_poll_and_a_deletion_is_none() {
    let mut caller = Caller::bulk(two_projects());
    caller.poll_until_stable();
    let before = caller.view.clone();
    for _ in 0..3 {
        let outcome = caller.poll_with(lost);
        assert!(outcome.changes.is_empty());
        assert!(outcome.unknown.unwrap().contains("role was lost"));
        assert_eq!(caller.asked.iter().filter(|ask| matches!(ask, Query::LoadBalancer(..))).count(), 1);
    }
    assert_eq!(caller.view, before);
    // The role is granted again.
    assert!(caller.poll().is_complete());
    assert_eq!(caller.view, before);

    // All of them are really deleted: each is looked up, and the answers are accepted at once.
    caller.world.delete_load_balancer("lb2");
    caller.world.delete_load_balancer("lb3");
    let outcome = caller.poll();
    assert!(outcome.is_complete());
    assert_eq!(caller.asked.iter().filter(|ask| matches!(ask, Query::LoadBalancer(..))).count(), 2);
    assert_eq!(caller.names(), ["alpha/web-lb1"]);
    caller.poll();
    assert!(caller.asked.iter().all(|ask| !matches!(ask, Query::LoadBalancer(..))));
}

/// An object that may be the unreadable row does not prove that its project is visible.
#[test]
fn a_lost_role_shows_behind_a_row_without_an_id() {
    let mut caller = Caller::bulk(two_projects());
    caller.poll_until_stable();
    let before = caller.view.clone();
    for _ in 0..3 {
        let outcome = caller.poll_with(|ask, world| match world.answer(ask) {
            Reply::LoadBalancers(whose, Ok(mut list)) => {
                list.rows.clear();
                Some(Reply::LoadBalancers(whose, Ok(spoil(list, |_| false, None))))
            }
            Reply::Listeners(whose, _) => Some(Reply::Listeners(whose, Ok(Vec::new().into()))),
            Reply::Pools(whose, _) => Some(Reply::Pools(whose, Ok(Vec::new().into()))),
            Reply::LoadBalancer(whose, id, _) => Some(Reply::LoadBalancer(whose, id, Ok(Existence::Forbidden))),
            _ => None,
        });
        assert!(outcome.unknown.is_some() && outcome.changes.is_empty());
    }
    assert_eq!(caller.view, before);
}

#[test]
fn a_project_whose_emptiness_cannot_be_proven_stays() {
    for answer in [Ok(Existence::Found), Err(failed())] {
        let mut caller = Caller::bulk(two_projects());
        caller.poll_until_stable();
        caller.world.tree(5, "pa", 1);
        caller.world.delete_load_balancer("lb2");
        caller.world.delete_load_balancer("lb3");
        let outcome = caller.poll_with(|ask, _| match ask {
            Query::LoadBalancer(whose, id) => Some(Reply::LoadBalancer(whose.clone(), id.clone(), answer.clone())),
            _ => None,
        });
        assert_eq!(outcome.unknown_namespaces.keys().map(|ns| &**ns).collect::<Vec<_>>(), ["beta"]);
        assert_eq!(caller.names(), ["alpha/web-lb1", "alpha/web-lb5", "beta/web-lb2", "beta/web-lb3"]);
    }
}

/// If an unreadable row without an ID may be any of the missing load balancers, the other lists do not prove their
/// deletion either.
#[test]
fn a_lost_role_behind_a_row_without_an_id_stands_while_nothing_proves_it() {
    let mut caller = Caller::bulk(two_projects());
    caller.poll_until_stable();
    let before = caller.view.clone();
    for _ in 0..3 {
        let outcome = caller.poll_with(|ask, world| match lost(ask, world) {
            Some(Reply::LoadBalancers(whose, Ok(list))) => {
                Some(Reply::LoadBalancers(whose, Ok(spoil(list, |_| false, None))))
            }
            Some(Reply::LoadBalancer(..)) => Some(fail(ask)),
            other => other,
        });
        assert!(outcome.changes.is_empty() && outcome.unknown_namespaces.contains_key("beta"), "{outcome:?}");
    }
    assert!(caller.poll().is_complete());
    assert_eq!(caller.view, before);
}

/// A reference proves a deletion only if it is open in two polls in a row: a role may be lost, granted and lost again.
#[test]
fn an_open_reference_is_not_the_same_one_after_a_poll_that_failed() {
    for forbidden in [true, false] {
        let mut caller = Caller::bulk(two_projects());
        caller.poll_until_stable();
        let before = caller.view.clone();
        for _ in 0..3 {
            let midway = |ask: &Query, world: &mut World| match ask {
                Query::LoadBalancers(_) => None,
                _ => lost(ask, world),
            };
            assert!(caller.poll_with(midway).is_complete());
            assert_eq!(caller.view, before, "{forbidden}");
            let outcome = caller.poll_with(|ask, world| match ask {
                Query::Pools(_) if !forbidden => Some(fail(ask)),
                _ => lost(ask, world),
            });
            assert!(outcome.unknown.is_some());
        }
        assert!(caller.poll().is_complete());
        assert_eq!(caller.view, before);
    }
}

/// A kept Service was published with rows that the lists have lacked since. If one of these rows is listed again and
/// cannot be read, it is a known row and not a new one.
#[test]
fn what_stood_unseen_loses_nothing_to_a_row_that_cannot_be_read() {
    for (kind, named, midway) in (0..16).map(|n| (n % 4, n & 4 == 0, n & 8 != 0)) {
        let mut caller = Caller::bulk(two_projects());
        caller.poll_until_stable();
        let before = caller.view.clone();
        // The role is lost before the first list, which nothing proves, or after it, so that the lists do not fit
        // together.
        let outcome = caller.poll_with(|ask, world| match ask {
            Query::LoadBalancer(..) => Some(fail(ask)),
            Query::LoadBalancers(_) if midway => None,
            _ => lost(ask, world),
        });
        assert_eq!(outcome.is_complete(), midway, "{outcome:?}");
        if midway {
            assert!(caller.poll_with(lost).unknown.is_some());
        }
        // The role is granted again.
        caller.world.touch("p2");
        for _ in 0..2 {
            caller.poll_with(|ask, world| spoiled(ask, world, kind, named));
            assert_eq!(caller.view, before, "{kind} {named} {midway}");
        }
        assert!(caller.poll_until_stable().is_complete());
        assert_eq!(caller.view, before);
    }
}

/// The L7 policies of a kept load balancer are kept, too, although their list was read meanwhile.
#[test]
fn what_stood_unseen_loses_no_policy_that_cannot_be_read() {
    for named in [true, false] {
        let mut world = two_projects();
        for n in [1, 2] {
            let (pool, policy, listener) = (format!("q{n}"), format!("x{n}"), format!("l{n}"));
            world.pool(&pool, &format!("lb{n}"), "HTTP");
            world.member(&pool, &format!("mq{n}"), &format!("10.9.{n}.1"), 80);
            world.listeners.get_mut(&id(&listener)).unwrap().l7_policies = Some(vec![id(&policy)]);
            let new =
                json!({"id": policy, "listener_id": listener, "redirect_pool_id": pool, "action": "REDIRECT_TO_POOL"});
            world.policies.insert(id(&policy), row(new));
        }
        world.seconds += 60;
        let mut caller =
            Caller::new(ListMode::Bulk, PollOptions { sweep: None, l7_pools: true, ..PollOptions::default() }, world);
        caller.poll_until_stable();
        let before = caller.view.clone();
        assert_eq!(before.len(), 5, "{}", caller.show());
        caller.world.listeners.get_mut(&id("l1")).unwrap().updated_at = caller.world.time();
        caller.poll_with(|ask, world| match ask {
            Query::LoadBalancer(..) => Some(fail(ask)),
            Query::L7Policies(whose) => {
                let seen = vec![world.policies[&id("x1")].clone()];
                Some(Reply::L7Policies(whose.clone(), Ok(seen.into())))
            }
            _ => lost(ask, world),
        });
        assert!(caller.asked.iter().any(|ask| matches!(ask, Query::L7Policies(_))));
        for _ in 0..2 {
            caller.poll_with(|ask, world| match world.answer(ask) {
                Reply::L7Policies(whose, Ok(list)) => {
                    let list = spoil(list, |row| row.id == id("x2"), named.then_some("x2"));
                    Some(Reply::L7Policies(whose, Ok(list)))
                }
                _ => None,
            });
            assert_eq!(caller.view, before, "{named}");
        }
    }
}
