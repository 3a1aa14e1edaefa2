//! Published Services are kept while their replacement cannot be read, and what cannot be read delays nothing else.
#![allow(clippy::unwrap_used)] // A panic is the report.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::common::faults::{fail, spoil, two_projects};
use crate::common::{Caller, World, id, small};
use gimbal_octavia_rows::{Existence, OperatingStatus};
use gimbal_openstack_source::{ListMode, MembersError, PollOptions, Query, Reply};

/// New endpoints are published before old ones are removed: with none left, Envoy would answer 503.
#[test]
fn members_that_were_all_replaced_stand_until_the_new_ones_are_read() {
    for gone in [false, true] {
        let mut caller = Caller::bulk(small());
        caller.poll_until_stable();
        caller.world.delete_member("p1", "m1-0");
        caller.world.delete_member("p1", "m1-1");
        caller.world.member("p1", "m9", "10.0.0.9", 8080);
        for poll in 0..4 {
            let outcome = caller.poll_with(|ask, _| match ask {
                Query::Members(whose, pool) if gone => {
                    Some(Reply::Members(whose.clone(), pool.clone(), Err(MembersError::PoolGone)))
                }
                Query::Members(..) => Some(fail(ask)),
                _ => None,
            });
            assert_eq!(caller.addresses(), ["10.0.1.1 rs-", "10.0.1.2 rs-"], "{gone} {poll}");
            assert_eq!(outcome.unknown_namespaces.contains_key("alpha"), poll > 0, "{gone} {poll}: {outcome:?}");
        }
        assert!(caller.poll().is_complete());
        assert_eq!(caller.addresses(), ["10.0.0.9 rs-"]);
    }
}

/// The list of projects fails after a project was created.
#[test]
fn a_load_balancer_of_an_unknown_project_holds_up_no_other() {
    let mut caller = Caller::bulk(two_projects());
    caller.poll_until_stable();
    caller.world.project("pn", "new");
    caller.world.tree(7, "pn", 1);
    caller.world.tree(8, "pa", 1);
    caller.world.delete_load_balancer("lb3");
    for _ in 0..3 {
        let outcome = caller.poll_with(|ask, _| matches!(ask, Query::Projects).then(|| fail(ask)));
        assert_eq!(outcome.unknown, None);
        let troubles: Vec<String> = outcome.troubles.iter().map(ToString::to_string).collect();
        assert!(troubles.iter().any(|trouble| trouble.contains("project pn")), "{troubles:?}");
        assert_eq!(caller.names(), ["alpha/web-lb1", "alpha/web-lb8", "beta/web-lb2"]);
    }
    caller.poll();
    assert_eq!(caller.names(), ["alpha/web-lb1", "alpha/web-lb8", "beta/web-lb2", "new/web-lb7"]);
}

/// One load balancer may really be deleted in the minute in which the role is lost.
#[test]
fn one_that_is_gone_does_not_answer_for_its_project() {
    let mut caller = Caller::bulk(two_projects());
    caller.poll_until_stable();
    let before = caller.view.clone();
    let lost = |ask: &Query, world: &mut World| match ask {
        Query::LoadBalancer(whose, lb) if *lb == id("lb3") => {
            Some(Reply::LoadBalancer(whose.clone(), lb.clone(), Ok(Existence::Forbidden)))
        }
        Query::LoadBalancer(whose, lb) => Some(Reply::LoadBalancer(whose.clone(), lb.clone(), Ok(Existence::Gone))),
        _ => crate::common::faults::lost(ask, world),
    };
    let outcome = caller.poll_with(lost);
    assert!(outcome.unknown.unwrap().contains("role was lost"));
    assert_eq!(caller.view, before);
}

/// A first poll that times out publishes what it has read.
#[test]
fn a_poll_that_is_given_up_tells_what_it_has_read() {
    let mut caller = Caller::bulk(two_projects());
    caller.cloud.begin(caller.now);
    while let Some(ask) = caller.cloud.next_query() {
        if !matches!(&ask, Query::Members(_, pool) if *pool == id("p2")) {
            let answer = caller.world.answer(&ask);
            caller.cloud.answer(answer, caller.now);
        }
    }
    assert!(!caller.cloud.is_done());
    let outcome = caller.cloud.finish(caller.now);
    caller.apply(&outcome.changes);
    assert_eq!(outcome.unknown, None);
    assert_eq!(outcome.unknown_namespaces.keys().map(|ns| &**ns).collect::<Vec<_>>(), ["beta"]);
    assert_eq!(caller.names(), ["alpha/web-lb1", "beta/web-lb3"]);
    assert!(caller.poll().is_complete());
    assert_eq!(caller.view.len(), 3);
}

/// Without the server's clock it is not known whether the second of a change was over at the time of the read.
#[test]
fn a_change_in_the_second_of_a_read_is_not_lost_where_answers_have_no_date() {
    let mut world = small();
    world.undated = true;
    let mut caller = Caller::bulk(world);
    caller.poll_until_stable();
    caller.poll_with(|ask, world| {
        if matches!(ask, Query::Pools(_)) {
            world.change_member("p1", "m1-0").weight = 0;
        }
        None
    });
    assert_eq!(caller.addresses(), ["10.0.1.2 rs-"]);
    caller.world.health("p1", "m1-1").weight = 0; // In the same second: no time moves.
    caller.poll();
    assert_eq!(caller.addresses(), [""; 0]);
    // The members are read twice, and then not again.
    caller.poll();
    assert!(caller.member_reads().is_empty());
}

/// Consumers that look at `serving` alone must not send traffic to endpoints that are not ready.
#[test]
fn what_is_not_ready_does_not_serve() {
    let mut world = small();
    world.health("p1", "m1-0").operating = gimbal_octavia_rows::OperatingStatus::Error;
    world.member("p1", "m9", "10.0.0.9", 8080).backup = true;
    let mut caller = Caller::bulk(world);
    caller.poll_until_stable();
    assert_eq!(caller.addresses(), ["10.0.0.9 ---", "10.0.1.1 ---", "10.0.1.2 rs-"]);
}

/// A tenant may create a project with any name in its own domain.
#[test]
fn a_restart_gives_a_namespace_to_no_namesake() {
    let mut world = World::default();
    world.project("pb", "Shop");
    world.tree(2, "pb", 1);
    let mut caller = Caller::bulk(world);
    caller.poll_until_stable();
    caller.world.project("pa", "shop");
    caller.world.tree(1, "pa", 1);
    caller.poll_until_stable();
    assert_eq!(caller.owners(), ["pa/web-lb1 of pa", "shop/web-lb2 of pb"]);
    let mut restarted = Caller::bulk(caller.world);
    restarted.poll_until_stable();
    assert_eq!(restarted.owners(), ["pa/web-lb1 of pa", "pb/web-lb2 of pb"]);
}

/// Policies differ by kind of object: a complete list of load balancers and a short list of pools have the same gap in
/// every poll.
#[test]
fn what_a_list_lacks_for_ever_is_gone_only_when_it_is_shown_to_be() {
    for existence in [Ok(Existence::Found), Ok(Existence::Forbidden), Err("500".to_owned())] {
        let mut caller = Caller::bulk(two_projects());
        caller.poll_until_stable();
        let before = caller.view.clone();
        for poll in 0..4 {
            let outcome = caller.poll_with(|ask, world| match (ask, world.answer(ask)) {
                (_, Reply::Pools(whose, Ok(mut list))) => {
                    list.rows.retain(|pool| pool.id == id("p1"));
                    Some(Reply::Pools(whose, Ok(list)))
                }
                (Query::Pool(whose, pool), _) => Some(Reply::Pool(whose.clone(), pool.clone(), existence.clone())),
                _ => None,
            });
            assert_eq!(caller.view, before);
            let asked = caller.asked.iter().filter(|ask| matches!(ask, Query::Pool(..))).count();
            assert_eq!(asked, if poll == 0 { 0 } else { 2 }, "{poll}");
            let unknown = poll > 0 && existence.is_ok();
            assert_eq!(outcome.unknown_namespaces.contains_key("beta"), unknown, "{poll} {outcome:?}");
        }
        assert!(caller.poll().is_complete());
        assert_eq!(caller.view, before);
    }
}

/// Every open reference is looked up in turn, however many there are.
#[test]
fn what_stays_open_keeps_nothing_else_from_being_asked_about() {
    let mut world = small();
    for n in 10..50 {
        world.tree(n, "pa", 1);
    }
    let mut caller = Caller::bulk(world);
    caller.poll_until_stable();
    let mut asked = BTreeSet::new();
    for _ in 0..4 {
        caller.poll_with(|ask, world| match (ask, world.answer(ask)) {
            (_, Reply::Pools(whose, Ok(mut list))) => {
                list.rows.clear();
                Some(Reply::Pools(whose, Ok(list)))
            }
            (Query::Pool(whose, pool), _) => Some(Reply::Pool(whose.clone(), pool.clone(), Ok(Existence::Found))),
            _ => None,
        });
        asked.extend(caller.asked.iter().filter_map(|ask| match ask {
            Query::Pool(_, pool) => Some(pool.clone()),
            _ => None,
        }));
    }
    assert!(asked.len() > 40, "{asked:?}");
}

/// A load balancer that only its listener names is looked up, too.
#[test]
fn a_load_balancer_that_is_named_and_not_listed_is_asked_for() {
    let mut caller = Caller::bulk(two_projects());
    caller.poll_until_stable();
    let before = caller.view.clone();
    for _ in 0..3 {
        caller.poll_with(|ask, world| match world.answer(ask) {
            Reply::LoadBalancers(whose, Ok(mut list)) => {
                list.rows.retain(|row| row.id != id("lb3"));
                Some(Reply::LoadBalancers(whose, Ok(list)))
            }
            _ => None,
        });
        assert_eq!(caller.view, before);
    }
}

/// A token stays valid after a role is lost, and sees less.
#[test]
fn a_project_that_vanishes_is_believed_gone_only_with_the_roles_of_before() {
    for roles in [Ok(vec!["load-balancer_global_observer".to_owned()]), Err("500".to_owned())] {
        let mut caller = Caller::bulk(two_projects());
        caller.poll_until_stable();
        let before = caller.view.clone();
        let neutron = |ask: &Query, world: &mut World| match ask {
            // 404 for other projects' objects, as neutron-lbaas answers.
            Query::LoadBalancer(whose, lb) => Some(Reply::LoadBalancer(whose.clone(), lb.clone(), Ok(Existence::Gone))),
            Query::Roles(whose) => Some(Reply::Roles(whose.clone(), roles.clone())),
            _ => crate::common::faults::lost(ask, world),
        };
        for _ in 0..3 {
            let outcome = caller.poll_with(neutron);
            // A lost role may hide anything, so the poll fails; if the roles cannot be read, only what vanished is
            // unknown.
            assert_eq!(outcome.unknown.is_some(), roles.is_ok(), "{outcome:?}");
            assert_eq!(outcome.unknown_namespaces.contains_key("beta"), roles.is_err(), "{outcome:?}");
            assert_eq!(caller.view, before);
        }
        assert!(caller.poll().is_complete());
        assert_eq!(caller.asked.iter().filter(|ask| matches!(ask, Query::Roles(_))).count(), 0);
    }
}

/// OpenStack services cache for some minutes what a token may do, so lists stay short after a role is granted again.
#[test]
fn where_404_proves_nothing_a_second_look_must_confirm_it() {
    let options = PollOptions { second_look: Some(Duration::from_secs(300)), ..crate::common::quiet() };
    let mut caller = Caller::new(ListMode::Bulk, options, two_projects());
    caller.poll_until_stable();
    let before = caller.view.clone();
    let short = |ask: &Query, world: &mut World| match ask {
        Query::LoadBalancer(whose, lb) => Some(Reply::LoadBalancer(whose.clone(), lb.clone(), Ok(Existence::Gone))),
        _ => crate::common::faults::lost(ask, world),
    };
    for _ in 0..29 {
        let outcome = caller.poll_with(short);
        assert!(outcome.unknown_namespaces["beta"].contains("300 s"), "{outcome:?}");
    }
    assert!(caller.poll().is_complete());
    assert_eq!(caller.view, before);
    // Really deleted: removed at the second look, and no earlier.
    caller.world.delete_load_balancer("lb2");
    caller.world.delete_load_balancer("lb3");
    for _ in 0..30 {
        assert!(!caller.poll().is_complete());
        assert_eq!(caller.view, before);
    }
    assert!(caller.poll().is_complete());
    assert_eq!(caller.names(), ["alpha/web-lb1"]);
}

/// In per-project mode a deleted project cannot be distinguished from a lost role.
#[test]
fn a_project_that_leaves_the_list_is_held_for_a_while() {
    let options = PollOptions { project_hold: Duration::from_secs(60), ..crate::common::quiet() };
    let mut caller = Caller::new(ListMode::PerProject, options, two_projects());
    caller.poll_until_stable();
    let before = caller.view.clone();
    for back in [true, false] {
        let beta = caller.world.projects.remove(&id("pb")).unwrap();
        for _ in 0..6 {
            let outcome = caller.poll();
            assert!(outcome.unknown_namespaces["beta"].contains("has left the list"), "{outcome:?}");
            assert_eq!(outcome.troubles.len(), 1);
            assert_eq!(caller.asked.len(), 1 + 3, "its token cannot be had, and is not asked for");
            assert_eq!(caller.view, before);
        }
        if back {
            caller.world.projects.insert(id("pb"), beta);
        }
        assert!(caller.poll().is_complete());
        assert_eq!(caller.names().len(), if back { 3 } else { 1 });
    }
}

/// A project whose role was lost leaves the list of projects, while its load balancers are still listed.
#[test]
fn in_everyones_list_a_project_keeps_its_name_while_it_is_listed() {
    let options = PollOptions { by_role: true, ..crate::common::quiet() };
    let mut caller = Caller::new(ListMode::Bulk, options, two_projects());
    caller.poll_until_stable();
    caller.world.projects.remove(&id("pb"));
    for _ in 0..31 {
        assert!(caller.poll().is_complete());
        assert_eq!(caller.names(), ["alpha/web-lb1", "beta/web-lb2", "beta/web-lb3"]);
    }
    caller.world.delete_load_balancer("lb2");
    caller.world.delete_load_balancer("lb3");
    caller.poll_until_stable();
    assert_eq!(caller.names(), ["alpha/web-lb1"]);
}

#[test]
fn a_list_of_projects_that_fails_for_long_leaves_the_cloud_unseen() {
    let mut caller = Caller::bulk(two_projects());
    caller.poll_until_stable();
    let failed_since = |polls: usize, caller: &mut Caller| {
        let poll = |caller: &mut Caller| caller.poll_with(|ask, _| matches!(ask, Query::Projects).then(|| fail(ask)));
        (0..polls).map(|_| poll(caller)).last().unwrap()
    };
    assert!(failed_since(110, &mut caller).is_complete());
    let outcome = failed_since(20, &mut caller);
    assert!(outcome.unlisted.is_some() && outcome.unknown.is_none() && outcome.unknown_namespaces.is_empty());
    assert_eq!(caller.view.len(), 3);
    assert!(caller.poll().is_complete());
}

/// A row that can never be read keeps only its own project unknown.
#[test]
fn a_row_that_says_whose_it_is_leaves_the_others_known() {
    let mut caller = Caller::bulk(two_projects());
    for _ in 0..3 {
        let outcome = caller.poll_with(|ask, world| match world.answer(ask) {
            Reply::LoadBalancers(whose, Ok(list)) => {
                let mut list = spoil(list, |row| row.id == id("lb2"), Some("lb2"));
                list.unreadable[0].project = Some("pb".into());
                Some(Reply::LoadBalancers(whose, Ok(list)))
            }
            _ => None,
        });
        assert_eq!(outcome.unknown_namespaces.keys().map(|ns| &**ns).collect::<Vec<_>>(), ["beta"]);
    }
    assert_eq!(caller.names(), ["alpha/web-lb1", "beta/web-lb3"]);
}

#[test]
fn excluded_projects_are_not_offered() {
    for (projects, exclude, expected) in
        [(&[][..], &["beta"][..], 1), (&[], &["pa"], 2), (&["*"], &["*"], 0), (&["alpha"], &["beta"], 1)]
    {
        let patterns = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let options =
            PollOptions { projects: patterns(projects), exclude: patterns(exclude), ..crate::common::quiet() };
        let mut caller = Caller::new(ListMode::Bulk, options, two_projects());
        assert!(caller.poll().is_complete());
        assert_eq!(caller.names().len(), expected, "{projects:?} {exclude:?}");
    }
}

/// Features of a load balancer that a Service cannot have are reported.
#[test]
fn what_is_not_carried_is_explained() {
    let mut world = small();
    world.health("p1", "m1-0").weight = 5;
    world.listeners.get_mut(&id("l1")).unwrap().restricted = true;
    world.pools.get_mut(&id("p1")).unwrap().sticky = true;
    let mut caller = Caller::bulk(world);
    caller.poll_until_stable();
    let explained =
        |caller: &Caller| caller.cloud.explain(&gimbal_model::SourceKey::new("alpha", "web-lb1")).join("\n");
    for part in ["weights of the members of pool p1 (1, 5)", "listener l1", "allowed_cidrs", "session_persistence"] {
        assert!(explained(&caller).contains(part), "{part}: {}", explained(&caller));
    }
    caller.world.change_member("p1", "m1-0").weight = 0;
    caller.poll();
    assert!(!explained(&caller).contains("weights"), "{}", explained(&caller));
}

#[test]
fn an_address_is_found_with_its_member_or_there_is_why_not() {
    let mut world = small();
    world.health("p1", "m1-0").operating = OperatingStatus::Error;
    let mut caller = Caller::bulk(world);
    caller.poll_until_stable();
    let of = |caller: &Caller, name: &str, address: &str| {
        let key = gimbal_model::SourceKey::new("alpha", name);
        let found = caller.cloud.explain_address(&key, address.parse().unwrap());
        let objects = found.objects.iter().map(|one| format!("{} {} {}", one.kind, one.name, one.conditions.ready));
        (objects.collect::<Vec<_>>().join(", "), found.reasons.join(", "))
    };
    let is = |objects: &str, reasons: &str| (objects.to_owned(), reasons.to_owned());
    assert_eq!(
        of(&caller, "web-lb1", "10.0.1.1"),
        is("member m1-0 false", "member m1-0 fails its health check (operating_status ERROR)")
    );
    assert_eq!(of(&caller, "web-lb1", "10.0.1.2"), is("member m1-1 true", ""));
    assert_eq!(of(&caller, "web-lb1", "10.0.1.9"), is("", "no member of the pools of load balancer lb1 has it"));
    assert_eq!(of(&caller, "none", "10.0.1.1"), is("", ""));

    caller.world.change_member("p1", "m1-1").weight = 0;
    caller.world.change_member("p1", "m1-0").backup = true;
    caller.poll();
    assert_eq!(
        of(&caller, "web-lb1", "10.0.1.2"),
        is("member m1-1 false", "member m1-1 is left out: its weight is 0 (NoWeight)")
    );
    let (objects, reasons) = of(&caller, "web-lb1", "10.0.1.1");
    assert_eq!(objects, "member m1-0 true", "none works, so all are tried");
    assert!(reasons.ends_with("member m1-0 is a backup: it is ready only while no primary member works"), "{reasons}");
}
