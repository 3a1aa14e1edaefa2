use std::collections::VecDeque;

use super::*;

type Queue = super::Queue<String, String>;

fn backend(name: &str) -> String {
    name.into()
}

fn target(name: &str) -> String {
    name.into()
}

fn drain(queue: &mut Queue, now: Instant) -> Vec<String> {
    std::iter::from_fn(|| queue.pop(now)).collect()
}

#[test]
fn backends_take_turns() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    for n in ["a1", "a2", "a3"] {
        queue.push(&target(n), &backend("a"), Urgency::Fresh);
    }
    queue.push(&target("b1"), &backend("b"), Urgency::Fresh);
    assert_eq!(drain(&mut queue, now), ["a1", "b1", "a2", "a3"]);
}

#[test]
fn fresh_passes_bulk_and_bulk_is_not_starved() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    queue.push(&target("bulk"), &backend("a"), Urgency::Bulk);
    for n in 0..20 {
        queue.push(&target(&format!("fresh{n}")), &backend("a"), Urgency::Fresh);
    }
    let order = drain(&mut queue, now);
    assert_eq!(order.iter().position(|n| n == "bulk"), Some(FRESH_PER_BULK as usize));
    assert_eq!(order.len(), 21);
}

#[test]
fn a_target_waits_once_and_its_urgency_rises() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    queue.push(&target("x"), &backend("a"), Urgency::Bulk);
    queue.push(&target("y"), &backend("a"), Urgency::Bulk);
    queue.push(&target("y"), &backend("a"), Urgency::Fresh);
    queue.push(&target("y"), &backend("a"), Urgency::Bulk);
    assert_eq!(queue.len(), 2);
    assert_eq!(drain(&mut queue, now), ["y", "x"]);
    assert_eq!(queue.len(), 0);
}

#[test]
fn what_is_postponed_comes_back_as_urgent_as_it_was() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let later = now + Duration::from_secs(1);
    for (name, urgency) in [("bulk", Urgency::Bulk), ("fresh", Urgency::Fresh)] {
        queue.push(&target(name), &backend("a"), urgency);
        assert_eq!(queue.pop(now), Some(target(name)));
        queue.postpone(&target(name), &backend("a"), later);
    }
    assert_eq!((queue.pop(now), queue.next_deadline()), (None, Some(later)));
    assert_eq!(drain(&mut queue, later), ["fresh", "bulk"]);
}

#[test]
fn what_comes_during_a_write_waits_for_its_end() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    queue.push(&target("x"), &backend("a"), Urgency::Fresh);
    let x = queue.pop(now).unwrap();
    queue.start(x.clone());
    queue.push(&x, &backend("a"), Urgency::Fresh);
    queue.push_later(&x, &backend("a"), now + Duration::from_secs(9));
    assert_eq!(queue.pop(now), None);
    assert!(queue.done(&x));
    assert_eq!(queue.pop(now), Some(x));
}

/// A throttled key comes back before a resync's keys, with the urgency that it had.
/// A caller that may not do one thing now asks for the key later, and may find another thing to do at once.
#[test]
fn what_was_pushed_before_a_write_began_waits_for_its_end_too() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let (later, key) = (now + Duration::from_secs(1), target("t"));
    queue.push(&key, &backend("a"), Urgency::Fresh);
    assert_eq!(queue.pop(now).as_ref(), Some(&key));
    queue.push_later(&key, &backend("a"), later);
    queue.start(key.clone());
    assert_eq!((queue.next_deadline(), queue.pop(later)), (None, None));
    assert!(queue.done(&key));
    assert_eq!((queue.pop(now), queue.pop(later).as_ref()), (None, Some(&key)));
    for (tenants, urgency) in [(&["a"][..], Urgency::Bulk), (&["a", "b"], Urgency::Fresh)] {
        queue.push(&key, &backend("a"), urgency);
        assert_eq!(queue.pop(later).as_ref(), Some(&key));
        tenants.iter().for_each(|tenant| queue.push(&key, &backend(tenant), urgency));
        queue.start(key.clone());
        assert_eq!((queue.len(), queue.pop(later)), (0, None), "{tenants:?}");
        assert!(queue.done(&key));
        assert_eq!((queue.pop(later).as_ref(), queue.pop(later)), (Some(&key), None), "{tenants:?}");
    }
}

#[test]
fn what_has_to_wait_comes_back_as_urgent_as_it_was() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let later = now + Duration::from_secs(1);
    queue.push(&target("x"), &backend("a"), Urgency::Fresh);
    let x = queue.pop(now).unwrap();
    queue.start(x.clone());
    queue.push_later(&x, &backend("a"), later);
    assert!(queue.done(&x));
    queue.push(&target("y"), &backend("a"), Urgency::Bulk);
    assert_eq!(drain(&mut queue, later), ["x", "y"]);
}

fn places(queue: &Queue) -> usize {
    [&queue.fresh, &queue.bulk].into_iter().flat_map(|lines| lines.lines.values()).map(VecDeque::len).sum()
}

/// A key that two backends want has one place in the line of each, however often each changes.
#[test]
fn a_line_does_not_grow_with_changes() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    for _ in 0..100 {
        queue.push(&target("x"), &backend("a"), Urgency::Fresh);
        queue.push(&target("x"), &backend("b"), Urgency::Fresh);
    }
    assert_eq!(places(&queue), 2);
    assert_eq!(drain(&mut queue, now), ["x"]);
}

/// A line that rests holds each key once, although the key is handed out again and again in another tenant's turn.
#[test]
fn a_line_that_rests_does_not_grow_with_changes() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    queue.set_rate_limit(&backend("a"), Some(1));
    queue.spend(&backend("a"), now);
    for urgency in [Urgency::Fresh, Urgency::Bulk].repeat(50) {
        queue.push(&target("x"), &backend("a"), urgency);
        queue.push(&target("x"), &backend("b"), Urgency::Fresh);
        assert_eq!(drain(&mut queue, now), ["x"]);
    }
    assert!(places(&queue) <= 2, "{}", places(&queue));
    assert_eq!(drain(&mut queue, now + Duration::from_secs(2)), [""; 0], "nothing is left of it");
    assert_eq!((places(&queue), queue.fresh.abandoned.len() + queue.bulk.abandoned.len()), (0, 0));
}

/// A backend over its rate does not delay the change of another one to a name that both want.
#[test]
fn a_change_waits_in_its_own_backends_turn() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    queue.set_rate_limit(&backend("a"), Some(1));
    queue.spend(&backend("a"), now);
    queue.push(&target("x"), &backend("a"), Urgency::Fresh);
    assert_eq!(queue.pop(now), None, "backend a is over its rate");
    queue.push(&target("x"), &backend("b"), Urgency::Bulk);
    assert_eq!(drain(&mut queue, now), ["x"]);
    assert_eq!(drain(&mut queue, now + Duration::from_secs(2)), [""; 0], "it is handed out once");
    // The same for what is pushed while the key is in flight.
    queue.push(&target("x"), &backend("b"), Urgency::Fresh);
    let x = queue.pop(now).unwrap();
    queue.start(x.clone());
    queue.push(&x, &backend("b"), Urgency::Bulk);
    queue.push(&x, &backend("a"), Urgency::Fresh);
    assert!(queue.done(&x));
    assert_eq!(drain(&mut queue, now), ["x"]);
}

#[test]
fn a_later_push_lowers_no_urgency() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let delayed = |queue: &mut Queue| {
        queue.push(&target("x"), &backend("a"), Urgency::Fresh);
        let x = queue.pop(now).unwrap();
        queue.start(x.clone());
        queue.push_later(&x, &backend("a"), now + Duration::from_secs(9));
        queue.done(&x);
        queue.push(&target("y"), &backend("a"), Urgency::Bulk);
    };
    let mut queue_of = |end: fn(&mut Queue, Instant)| {
        delayed(&mut queue);
        end(&mut queue, now);
        drain(&mut queue, now + Duration::from_secs(1))
    };
    let bulk = |queue: &mut Queue, _| queue.push(&target("x"), &backend("a"), Urgency::Bulk);
    assert_eq!(queue_of(bulk), ["x", "y"], "a comparison ends the delay");
    let earlier = |queue: &mut Queue, now| queue.push_later(&target("x"), &backend("a"), now + Duration::from_secs(1));
    assert_eq!(queue_of(earlier), ["x", "y"], "an earlier time replaces the delay");
}

#[test]
fn a_key_that_two_pushed_stays_as_urgent_as_the_more_urgent_push() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    queue.set_rate_limit(&backend("a"), Some(1));
    queue.spend(&backend("a"), now);
    queue.push(&target("x"), &backend("a"), Urgency::Fresh);
    queue.push(&target("x"), &backend("a-b"), Urgency::Bulk);
    // Backend a rests, so the key comes in the turn of the other one; its write fails.
    let x = queue.pop(now).unwrap();
    queue.start(x.clone());
    queue.push_later(&x, &backend("a-b"), now);
    queue.done(&x);
    queue.push(&target("y"), &backend("c"), Urgency::Bulk);
    queue.push(&target("z"), &backend("c"), Urgency::Bulk);
    assert_eq!(drain(&mut queue, now)[0], "x");
}

#[test]
fn a_key_costs_the_tenant_in_whose_turn_it_comes() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    queue.set_rate_limit(&backend("a-b"), Some(1));
    queue.push(&target("x"), &backend("a-b"), Urgency::Fresh);
    let x = queue.pop(now).unwrap();
    // What is written belongs to another backend.
    queue.spend(&backend("a"), now);
    queue.start(x.clone());
    queue.done(&x);
    queue.push(&target("x"), &backend("a-b"), Urgency::Fresh);
    assert_eq!(queue.pop(now), None, "it writes without a limit");
}

#[test]
fn a_delay_ends_by_time_or_by_a_change() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let soon = now + Duration::from_secs(1);
    queue.push_later(&target("x"), &backend("a"), soon);
    assert_eq!(queue.pop(now), None);
    assert_eq!(queue.next_deadline(), Some(soon));
    assert_eq!(queue.pop(soon), Some(target("x")));
    queue.push_later(&target("x"), &backend("a"), soon);
    queue.push(&target("x"), &backend("a"), Urgency::Fresh);
    assert_eq!(queue.pop(now), Some(target("x")));
    assert_eq!((queue.pop(soon), queue.next_deadline()), (None, None));
}

#[test]
fn a_backend_over_its_pace_waits_alone_and_loses_nothing() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    queue.set_rate_limit(&backend("a"), Some(2));
    for n in 0..4 {
        queue.push(&target(&format!("a{n}")), &backend("a"), Urgency::Fresh);
        queue.push(&target(&format!("b{n}")), &backend("b"), Urgency::Bulk);
    }
    let write = |queue: &mut Queue, now| {
        let mut order = Vec::new();
        while let Some(target) = queue.pop(now) {
            queue.spend(&backend(&target[..1]), now);
            order.push(target);
        }
        order
    };
    assert_eq!(write(&mut queue, now), ["a0", "a1", "b0", "b1", "b2", "b3"]);
    assert_eq!(queue.len(), 2);
    let next = queue.next_deadline().unwrap();
    assert_eq!(next, now + Duration::from_millis(500));
    // Each key has one place in the queue, whatever is pushed meanwhile.
    queue.push(&target("a2"), &backend("a"), Urgency::Fresh);
    assert_eq!(write(&mut queue, next - Duration::from_millis(1)), [""; 0]);
    assert_eq!(write(&mut queue, next), ["a2"]);
    queue.set_rate_limit(&backend("a"), None);
    assert_eq!(write(&mut queue, next), ["a3"]);
    assert_eq!(queue.next_deadline(), None);
}

/// Backend `a` floods and takes all `slots`, and `b` has one change. Returns how many writes end until it starts.
fn writes_before_b(slots: usize, urgency: Urgency, changes_per_second: Option<u64>) -> usize {
    let (mut queue, now) = (Queue::default(), Instant::now());
    queue.set_rate_limit(&backend("a"), changes_per_second);
    for n in 0..10_000 {
        queue.push(&target(&format!("a{n}")), &backend("a"), urgency);
    }
    let start = |queue: &mut Queue| {
        let started = queue.pop(now)?;
        queue.spend(&backend(&started[..1]), now);
        queue.start(started.clone());
        Some(started)
    };
    let mut under_way: VecDeque<String> = std::iter::from_fn(|| start(&mut queue)).take(slots).collect();
    queue.push(&target("b"), &backend("b"), Urgency::Fresh);
    for ended in 0..1000 {
        // A slot may be free already while `a` rests.
        while under_way.len() < slots
            && let Some(started) = start(&mut queue)
        {
            if started == "b" {
                return ended;
            }
            under_way.push_back(started);
        }
        let Some(done) = under_way.pop_front() else { break };
        queue.done(&done);
        // Each key of the flood that is written changes again meanwhile.
        queue.push(&done, &backend("a"), urgency);
    }
    usize::MAX
}

#[test]
fn one_change_beside_a_flood_waits_for_two_writes_at_most_however_many_are_under_way() {
    for slots in [1, 2, 8, 64] {
        // Its turn comes after one of the flood, and a bulk turn comes once in a while.
        assert!(writes_before_b(slots, Urgency::Fresh, None) <= 2, "{slots} slots, fresh");
        assert!(writes_before_b(slots, Urgency::Bulk, None) <= 2, "{slots} slots, bulk");
        // A backend over its rate leaves its turn and its slots to the others.
        let changes_per_second = Some(slots as u64);
        assert_eq!(writes_before_b(slots, Urgency::Fresh, changes_per_second), 1, "{slots} a second, and slots");
        assert_eq!(writes_before_b(slots + 5, Urgency::Fresh, changes_per_second), 0, "{slots} a second");
    }
}

#[test]
fn a_quiet_backends_change_passes_those_that_have_writes_under_way() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    for n in 0..3 {
        queue.push(&target(&format!("a{n}")), &backend("a"), Urgency::Fresh);
    }
    let first = queue.pop(now).unwrap();
    queue.start(first.clone());
    assert_eq!(queue.pop_quiet(now), None, "it has one under way");
    queue.push(&target("bulk"), &backend("b"), Urgency::Bulk);
    assert_eq!(queue.pop_quiet(now), None, "bulk can wait");
    queue.push(&target("b0"), &backend("b"), Urgency::Fresh);
    let quiet = queue.pop_quiet(now).unwrap();
    assert_eq!(quiet, target("b0"));
    queue.start(quiet.clone());
    queue.push(&target("b1"), &backend("b"), Urgency::Fresh);
    assert_eq!(queue.pop_quiet(now), None);
    queue.done(&quiet);
    assert_eq!(queue.pop_quiet(now), Some(target("b1")), "it is quiet again");
    queue.done(&first);
    assert_eq!(drain(&mut queue, now), ["a1", "a2", "bulk"], "no tenant lost a turn");
}

#[test]
fn fresh_changes_beside_other_work_share_the_server_and_bulk_alone_does_not() {
    let later = Duration::from_secs(11);
    let (mut queue, now) = (Queue::default(), Instant::now());
    let start = |queue: &mut Queue, now| {
        let target = queue.pop(now).unwrap();
        queue.start(target.clone());
        target
    };
    for (name, of) in [("a0", "a"), ("b0", "b"), ("b1", "b")] {
        queue.push(&target(name), &backend(of), Urgency::Bulk);
    }
    let under_way = [start(&mut queue, now), start(&mut queue, now)];
    assert!(!queue.is_shared(now), "a fill from empty may take all");
    queue.push(&target("a1"), &backend("a"), Urgency::Fresh);
    let fresh = start(&mut queue, now);
    assert!(queue.is_shared(now), "others wait, too");
    assert!(!queue.is_shared(now + later));
    start(&mut queue, now);
    for done in [under_way[0].clone(), under_way[1].clone(), fresh, target("b1")] {
        queue.done(&done);
    }
    let now = now + later;
    for n in 0..3 {
        queue.push(&target(&format!("a{n}")), &backend("a"), Urgency::Fresh);
        start(&mut queue, now);
    }
    assert!(!queue.is_shared(now), "one backend's changes alone");
    queue.push(&target("b0"), &backend("b"), Urgency::Fresh);
    start(&mut queue, now);
    assert!(queue.is_shared(now));
}
