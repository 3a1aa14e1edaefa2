//! A second instance of the guard: load balancers by ID, of weight 1, grouped by project.

use std::time::{Duration, Instant, SystemTime};

use gimbal_guard::{Fall, Floors, Guard, GuardConfig, GuardKey, Passage};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct LoadBalancer {
    project: u8,
    id: u32,
}

impl GuardKey for LoadBalancer {
    /// The Service that the load balancer was created for.
    type Source = &'static str;
    type Group = u8;

    fn group(&self) -> &u8 {
        &self.project
    }

    fn record_bytes(&self) -> usize {
        40
    }
}

fn load_balancer(id: u32) -> LoadBalancer {
    LoadBalancer { project: u8::from(id >= 8), id }
}

/// Ten load balancers that have existed for a while: eight in one project, two in another.
#[allow(clippy::disallowed_methods)] // The only clock: every time is this one and some seconds.
fn guard(floors: Floors) -> (Guard<LoadBalancer>, Instant) {
    let config = GuardConfig { min_endpoints: 3, floors, ..GuardConfig::default() };
    let (mut guard, now) = (Guard::new(config), Instant::now());
    for id in 0..10 {
        guard.observed(&load_balancer(id), None, 0, 1, Fall::Lost, now);
    }
    (guard, now + Duration::from_secs(600))
}

/// Returns the verdict on deleting a load balancer. A record that it needs is stored at once.
fn verdict(guard: &mut Guard<LoadBalancer>, id: u32, now: Instant) -> Passage {
    let verdict = guard.verdict(&load_balancer(id), now);
    if verdict != Passage::Unkept {
        return verdict;
    }
    assert!(guard.record(SystemTime::UNIX_EPOCH).is_some() && guard.kept());
    guard.verdict(&load_balancer(id), now)
}

fn delete_all(guard: &mut Guard<LoadBalancer>, ids: std::ops::Range<u32>, now: Instant) -> Vec<Passage> {
    for id in ids.clone() {
        guard.pending(&load_balancer(id), 1, 1, now);
    }
    ids.map(|id| verdict(guard, id, now)).collect()
}

#[test]
fn half_of_the_load_balancers_may_go_and_no_more() {
    let (mut guard, now) = guard(Floors::default());
    assert_eq!(delete_all(&mut guard, 0..5, now), [Passage::Allowed; 5]);
    let (mut guard, now) = self::guard(Floors::default());
    assert_eq!(delete_all(&mut guard, 0..6, now), [Passage::Held; 6]);
    let held = guard.held().unwrap();
    assert_eq!((held.endpoints_removed, held.endpoints_before, held.targets), (6, 10, 6));
    assert_eq!(guard.approve(&held.id), Some(6));
    assert_eq!(verdict(&mut guard, 0, now), Passage::Allowed);
}

#[test]
fn a_load_balancer_that_was_recreated_under_another_id_is_not_lost() {
    let (mut guard, now) = guard(Floors::default());
    for id in 0..5 {
        guard.observed(&load_balancer(id), Some(&"service"), 1, 0, Fall::Lost, now);
    }
    guard.pending(&load_balancer(5), 1, 1, now);
    assert_eq!(verdict(&mut guard, 5, now), Passage::Held, "five of ten are gone");
    guard.observed(&load_balancer(20), Some(&"service"), 0, 1, Fall::Lost, now);
    assert_eq!(verdict(&mut guard, 5, now), Passage::Allowed);
}

#[test]
fn a_floor_holds_the_last_ones_of_a_project() {
    let (mut guard, now) = guard(Floors { endpoints_per_namespace: 2, ..Floors::default() });
    assert_eq!(delete_all(&mut guard, 8..9, now), [Passage::Held], "one would be left of two");
    assert_eq!(delete_all(&mut guard, 0..2, now), [Passage::Allowed; 2], "six are left of eight");
}
