//! The queue over load balancers by number, with projects as tenants: nothing in it depends on the types of the mirror.

use std::time::{Duration, Instant};

use gimbal_schedule::{Queue, Urgency};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Project(u8);

/// Project 1 creates a hundred load balancers at once, and project 2 changes one of its own.
fn contended() -> Queue<Project, u32> {
    let mut queue = Queue::new();
    for id in 0..100 {
        queue.push(&id, &Project(1), Urgency::Fresh);
    }
    queue.push(&1000, &Project(2), Urgency::Fresh);
    queue
}

#[test]
fn projects_take_turns() {
    let (mut queue, now) = (contended(), Instant::now());
    assert_eq!([queue.pop(now), queue.pop(now), queue.pop(now)], [Some(0), Some(1000), Some(1)]);
}

#[test]
fn a_project_with_a_rate_limit_delays_no_other_project() {
    let (mut queue, now) = (contended(), Instant::now());
    queue.set_rate_limit(&Project(1), Some(2));
    let mut order = Vec::new();
    while let Some(id) = queue.pop(now) {
        queue.spend(&Project(if id < 1000 { 1 } else { 2 }), now);
        order.push(id);
    }
    assert_eq!(order, [0, 1000, 1]);
    assert_eq!(queue.next_deadline(), Some(now + Duration::from_millis(500)));
}

#[test]
fn a_load_balancer_in_flight_is_handed_out_again_only_when_it_is_done() {
    let (mut queue, now) = (Queue::new(), Instant::now());
    queue.push(&7, &Project(1), Urgency::Fresh);
    let id = queue.pop(now).unwrap();
    queue.start(id);
    queue.push(&7, &Project(1), Urgency::Fresh);
    assert_eq!(queue.pop(now), None);
    assert!(queue.done(&7));
    assert_eq!(queue.pop(now), Some(7));
}
