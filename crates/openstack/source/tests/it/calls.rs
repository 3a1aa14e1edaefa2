//! The calls of a poll: one list of each kind, and the members of the pools that may have changed.
#![allow(clippy::unwrap_used)] // A panic is the report.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::common::{Caller, INTERVAL, World, id, small};
use gimbal_octavia_rows::UnreadableRow;
use gimbal_octavia_rows::{OperatingStatus, ProvisioningStatus};
use gimbal_openstack_source::{ListMode, MembersError, PollOptions, Query, Reply};

/// `projects` projects with ten load balancers each.
fn large(projects: usize) -> World {
    let mut world = World::default();
    for p in 0..projects {
        world.project(&format!("project{p}"), &format!("team {p}"));
        for n in 0..10 {
            world.tree(p * 10 + n, &format!("project{p}"), 3);
        }
    }
    world.seconds += 60;
    world
}

#[test]
fn an_idle_poll_is_three_lists_and_no_members() {
    let mut caller = Caller::bulk(large(100));
    let outcome = caller.poll();
    assert_eq!((outcome.changes.len(), caller.asked.len()), (1000, 1 + 3 + 1000));
    for _ in 0..20 {
        let outcome = caller.poll();
        assert_eq!((caller.asked.len(), outcome.changes.len()), (3, 0));
    }
    caller.world.change_member("p17", "m17-1").weight = 0;
    let outcome = caller.poll();
    assert_eq!((caller.asked.len(), caller.member_reads().len(), outcome.changes.len()), (4, 1, 1));
    assert_eq!(outcome.members_needed, 1);
    // The second of the change may not have been over.
    caller.poll();
    assert_eq!(caller.asked.len(), 3, "ten seconds later it is");
}

#[test]
fn projects_are_listed_again_when_they_are_old_or_a_new_one_turns_up() {
    let mut caller = Caller::bulk(small());
    caller.poll_until_stable();
    let polls = 300 / INTERVAL.as_secs();
    let lists = (0..polls * 3).filter(|_| {
        caller.poll();
        caller.asked.contains(&Query::Projects)
    });
    assert_eq!(lists.count(), 3);

    caller.world.project("pn", "new");
    caller.world.tree(2, "pn", 1);
    caller.world.tree(3, "orphaned", 1);
    let outcome = caller.poll();
    assert!(caller.asked.contains(&Query::Projects) && outcome.is_complete());
    assert_eq!(caller.names(), ["alpha/web-lb1", "new/web-lb2"]);
    // The list was read because of the orphan, so it is not read again at once.
    caller.poll();
    caller.poll();
    assert_eq!(caller.asked.len(), 3, "{:?}", caller.asked);

    let mut caller = Caller::per_project(small());
    caller.poll();
    for _ in 0..3 {
        caller.poll();
        assert_eq!(caller.asked.len(), 1 + 3);
    }
}

/// Each condition under which a pool's members are read again.
#[test]
fn members_are_read_again_exactly_when_something_says_so() {
    let reads = |change: &mut dyn FnMut(&mut World)| {
        let mut caller = Caller::bulk(small());
        caller.poll_until_stable();
        assert!(caller.member_reads().is_empty());
        change(&mut caller.world);
        caller.poll();
        caller.member_reads().len()
    };
    assert_eq!(reads(&mut |_| {}), 0);
    assert_eq!(reads(&mut |world| world.touch("p1")), 1, "updated_at moved");
    assert_eq!(reads(&mut |world| world.pools.get_mut(&id("p1")).unwrap().updated_at = None), 1, "it differs");
    assert_eq!(reads(&mut |world| world.pools.get_mut(&id("p1")).unwrap().members.push(id("unseen"))), 1);
    for status in [ProvisioningStatus::Pending, ProvisioningStatus::Error] {
        let expected = usize::from(status == ProvisioningStatus::Pending);
        assert_eq!(
            reads(&mut |world| world.pools.get_mut(&id("p1")).unwrap().provisioning = status),
            expected,
            "{status:?}"
        );
    }
    assert_eq!(reads(&mut |world| world.delete_member("p1", "m1-0")), 1);
    assert_eq!(
        reads(&mut |world| world.pools.get_mut(&id("p1")).unwrap().members.retain(|held| *held != id("m1-0"))),
        0,
        "a member that is listed no more needs no call"
    );
}

/// `updated_at` has a resolution of a second: a second change within it does not show.
#[test]
fn a_change_within_the_second_of_a_read_is_not_lost() {
    let mut caller = Caller::bulk(small());
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
    assert_eq!(caller.member_reads(), ["p1"]);
    assert!(caller.addresses().is_empty());
    caller.poll();
    assert!(caller.member_reads().is_empty());
}

/// An overlapping change is compared with the list before the read, not with the one after it.
#[test]
fn a_change_between_list_and_read_is_read_again() {
    let mut caller = Caller::bulk(small());
    caller.poll_until_stable();
    caller.world.touch("p1");
    caller.world.seconds += 30;
    let mut has_changed = false;
    caller.poll_with(|ask, world| {
        let answer = world.answer(ask);
        if matches!(ask, Query::Members(..)) && !has_changed {
            has_changed = true;
            world.change_member("p1", "m1-0").weight = 0;
            world.seconds += 30;
        }
        Some(answer)
    });
    assert_eq!(caller.addresses().len(), 2);
    caller.poll();
    assert_eq!(caller.addresses(), ["10.0.1.2 rs-"]);
}

#[test]
fn the_newest_change_is_read_first() {
    let mut world = small();
    for n in 2..6 {
        world.seconds += 10;
        world.tree(n, "pa", 1);
    }
    world.seconds += 60;
    let mut caller = Caller::bulk(world);
    caller.poll();
    assert_eq!(caller.member_reads(), ["p5", "p4", "p3", "p2", "p1"]);
}

#[test]
fn only_pools_whose_members_are_offered_are_read() {
    let mut world = small();
    world.project("pb", "beta");
    world.tree(2, "pb", 1);
    world.pool("unused", "lb1", "HTTP");
    world.member("unused", "mu", "10.0.0.1", 1);
    world.pool("empty", "lb1", "HTTP");
    world.listener("l9", "lb1", 9, "HTTP", "empty");
    world.tree(3, "pa", 1);
    world.load_balancers.get_mut(&id("lb3")).unwrap().admin_state_up = false;
    let options = PollOptions { projects: vec!["alpha".parse().unwrap()], sweep: None, ..PollOptions::default() };
    let mut caller = Caller::new(ListMode::Bulk, options, world);
    caller.poll();
    assert_eq!(caller.member_reads(), ["p1"]);
    assert_eq!(caller.names(), ["alpha/web-lb1", "alpha/web-lb3"]);
    caller.world.load_balancers.get_mut(&id("lb3")).unwrap().admin_state_up = true;
    caller.poll();
    assert_eq!(caller.member_reads(), ["p3"]);
}

fn sweeping(world: World, period: u64) -> Caller {
    let options = PollOptions { sweep: Some(Duration::from_secs(period)), ..PollOptions::default() };
    let mut caller = Caller::new(ListMode::Bulk, options, world);
    caller.poll();
    caller
}

/// Two pools in 300 s: most polls sweep none, and no pool is forgotten.
#[test]
fn the_sweep_saves_up_a_budget() {
    let mut world = small();
    world.tree(2, "pa", 1);
    world.seconds += 60;
    let mut caller = sweeping(world, 300);
    let mut swept = Vec::new();
    for poll in 1..=60 {
        let outcome = caller.poll();
        assert_eq!(outcome.members_needed, 0);
        assert_eq!(outcome.members_swept, caller.member_reads().len());
        swept.extend(caller.member_reads().iter().map(|pool| (poll, (*pool).to_owned())));
    }
    let polls: Vec<i32> = swept.iter().map(|(poll, _)| *poll).collect();
    assert_eq!(polls, [15, 30, 45, 60]);
    let pools: Vec<&str> = swept.iter().map(|(_, pool)| &**pool).collect();
    assert_eq!(pools, ["p1", "p2", "p1", "p2"], "least recently read first");
    // A change of health alone shows in no list; the sweep finds it.
    caller.world.health("p1", "m1-0").operating = OperatingStatus::Error;
    (0..30).for_each(|_| drop(caller.poll()));
    assert!(caller.addresses().contains(&"10.0.1.1 ---".to_owned()), "{:?}", caller.addresses());
}

#[test]
fn a_pool_that_its_monitor_calls_broken_is_swept_first_and_starves_no_other() {
    let mut caller = sweeping(large(2), 200);
    let broken = caller.world.pools.get_mut(&id("p13")).unwrap();
    broken.monitored = true;
    broken.operating = OperatingStatus::Error;
    let mut reads: Vec<String> = Vec::new();
    for _ in 0..40 {
        caller.poll();
        reads.extend(caller.member_reads().iter().map(|pool| (*pool).to_owned()));
    }
    assert_eq!(reads.len(), 40);
    assert_eq!(reads[0], "p13");
    assert!(reads.iter().filter(|pool| **pool == "p13").count() >= 4, "{reads:?}");
    assert_eq!(reads.iter().collect::<BTreeSet<_>>().len(), 20, "{reads:?}");
}

/// After a long outage not everything is read at once.
#[test]
fn the_budget_is_no_more_than_every_pool_once() {
    let mut caller = sweeping(large(1), 100);
    caller.now += Duration::from_secs(100_000);
    caller.poll();
    assert_eq!(caller.member_reads().iter().collect::<BTreeSet<_>>().len(), caller.member_reads().len());
    caller.poll();
    assert_eq!(caller.member_reads().len(), 1);
}

/// Mitaka has no timestamps, so changed weights are found only by the sweep, and new members by their IDs.
#[test]
fn without_times_only_unseen_members_and_the_sweep_lead_to_a_read() {
    let mut world = World { timeless: true, ..World::default() };
    world.project("pa", "alpha");
    world.tree(1, "pa", 2);
    let mut caller = sweeping(world, 100);
    caller.world.change_member("p1", "m1-0").weight = 0;
    for _ in 0..9 {
        caller.poll();
        assert!(caller.member_reads().is_empty());
    }
    caller.poll();
    assert_eq!(caller.addresses(), ["10.0.1.2 rs-"]);
    caller.world.member("p1", "m1-9", "10.0.1.9", 8080);
    caller.poll();
    assert_eq!(caller.addresses(), ["10.0.1.2 rs-", "10.0.1.9 rs-"]);
    caller.world.delete_member("p1", "m1-9");
    caller.poll();
    assert!(caller.member_reads().is_empty());
    assert_eq!(caller.addresses(), ["10.0.1.2 rs-"]);
}

/// The row kept in place of an unreadable one may have changed.
#[test]
fn a_read_with_an_unreadable_row_is_needed_still() {
    let mut caller = Caller::bulk(small());
    caller.poll_until_stable();
    caller.world.change_member("p1", "m1-0").weight = 0;
    caller.world.seconds += 30;
    caller.poll_with(|ask, world| match world.answer(ask) {
        Reply::Members(whose, pool, Ok(mut list)) => {
            list.rows.retain(|row| row.id != id("m1-0"));
            list.unreadable.push(UnreadableRow { id: Some("m1-0".into()), project: None, problem: "odd".into() });
            Some(Reply::Members(whose, pool, Ok(list)))
        }
        _ => None,
    });
    assert_eq!(caller.addresses().len(), 2, "it stays as it was last");
    caller.poll();
    assert_eq!(caller.addresses(), ["10.0.1.2 rs-"]);
    caller.poll();
    assert!(caller.member_reads().is_empty());
}

/// A failed read is repeated in the next poll.
#[test]
fn a_failed_read_is_needed_still() {
    let mut caller = Caller::bulk(small());
    caller.poll_until_stable();
    caller.world.change_member("p1", "m1-0").weight = 0;
    let outcome = caller.poll_with(|ask, _| match ask {
        Query::Members(whose, pool) => {
            Some(Reply::Members(whose.clone(), pool.clone(), Err(MembersError::Failed(crate::common::failed()))))
        }
        _ => None,
    });
    assert_eq!((outcome.changes.len(), outcome.troubles.len(), outcome.is_complete()), (0, 1, true));
    caller.poll();
    assert_eq!(caller.addresses(), ["10.0.1.2 rs-"]);
}

/// The changes of a project whose lists were read do not wait for a slow project.
#[test]
fn a_slow_project_delays_no_other() {
    let mut world = small();
    world.project("pb", "beta");
    world.tree(2, "pb", 1);
    let mut caller = Caller::per_project(world);
    caller.cloud.begin(caller.now);
    let mut slow = Vec::new();
    while let Some(ask) = caller.cloud.next_query() {
        let answer = caller.world.answer(&ask);
        if format!("{ask:?}").contains("pb") { slow.push(answer) } else { caller.cloud.answer(answer, caller.now) }
    }
    let changes = caller.cloud.take_changes();
    assert_eq!(changes.iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>(), ["alpha/web-lb1"]);
    for answer in slow {
        caller.cloud.answer(answer, caller.now);
    }
    while let Some(ask) = caller.cloud.next_query() {
        let answer = caller.world.answer(&ask);
        caller.cloud.answer(answer, caller.now);
    }
    let outcome = caller.cloud.finish(caller.now);
    assert_eq!(outcome.changes.iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>(), ["beta/web-lb2"]);
    assert!(outcome.is_complete());
}
