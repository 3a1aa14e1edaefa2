//! Which target is worked on next: keyed (a target waits once, however often it changes), fair across backends, fresh
//! changes before bulk, with a delay for each target that failed.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use gimbal_model::{BackendName, TargetKey};

use crate::bucket::Bucket;

/// How urgent a target is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// A resync, a comparison, a sweep.
    Bulk,
    /// A change that somebody made just now.
    Fresh,
}

/// After so many fresh targets in a row one of bulk passes, so that a flood of changes cannot stop a resync.
const BULK_SHARE: u32 = 8;

/// A lane of one urgency: backends take turns, each with its own first-in-first-out line.
#[derive(Debug, Default)]
struct Lane {
    /// Backends with a line, but for those that rest.
    turns: VecDeque<BackendName>,
    /// Backends with a line that are over their pace, and until when: nobody has to step around them.
    resting: BTreeSet<(Instant, BackendName)>,
    lines: HashMap<BackendName, VecDeque<TargetKey>>,
}

impl Lane {
    fn push(&mut self, backend: &BackendName, target: TargetKey) {
        let line = self.lines.entry(backend.clone()).or_default();
        if line.is_empty() {
            self.turns.push_back(backend.clone());
        }
        line.push_back(target);
    }

    /// The next target whose entry is still meant: an entry left behind by a change of lane is skipped. A backend that has
    /// to rest loses its turn and nothing else.
    fn pop(
        &mut self,
        now: Instant,
        mut rests_until: impl FnMut(&BackendName) -> Option<Instant>,
        mut meant: impl FnMut(&TargetKey, &BackendName) -> bool,
    ) -> Option<TargetKey> {
        while self.resting.first().is_some_and(|(until, _)| *until <= now) {
            self.turns.extend(self.resting.pop_first().map(|(_, backend)| backend));
        }
        while let Some(backend) = self.turns.pop_front() {
            if let Some(until) = rests_until(&backend) {
                self.resting.insert((until, backend));
                continue;
            }
            let Some(line) = self.lines.get_mut(&backend) else { continue };
            let mut found = None;
            while let Some(target) = line.pop_front() {
                if meant(&target, &backend) {
                    found = Some(target);
                    break;
                }
            }
            if line.is_empty() {
                self.lines.remove(&backend);
            } else {
                self.turns.push_back(backend);
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Ends a rest before its time.
    fn wake(&mut self, backend: &BackendName) {
        let resting = self.resting.extract_if(.., |(_, resting)| resting == backend);
        self.turns.extend(resting.map(|(_, backend)| backend));
    }
}

#[derive(Debug, Clone)]
struct Waiting {
    backend: BackendName,
    urgency: Urgency,
    /// Set while the target waits for a time rather than for its turn.
    until: Option<Instant>,
}

/// The queue. Memory is bounded by the number of targets.
#[derive(Debug, Default)]
pub struct Queue {
    fresh: Lane,
    bulk: Lane,
    waiting: HashMap<TargetKey, Waiting>,
    delayed: BTreeSet<(Instant, TargetKey)>,
    /// Targets that are being written, and what came for them meanwhile.
    in_flight: BTreeMap<TargetKey, Flight>,
    fresh_in_a_row: u32,
    /// Of backends that have a limit on changes a second.
    paces: BTreeMap<BackendName, Bucket>,
}

/// What came for a target that is being written.
#[derive(Debug, Default)]
struct Flight {
    next: Option<Waiting>,
    noticed: usize,
}

impl Queue {
    /// Lines a target up. Its backend and the higher urgency count; a delay ends.
    pub fn push(&mut self, target: &TargetKey, backend: &BackendName, urgency: Urgency) {
        if let Some(Flight { next, .. }) = self.in_flight.get_mut(target) {
            let urgency = next.as_ref().map_or(urgency, |n| n.urgency.max(urgency));
            *next = Some(Waiting { backend: backend.clone(), urgency, until: None });
            return;
        }
        if let Some(waiting) = self.waiting.get(target) {
            if waiting.until.is_none() && waiting.urgency >= urgency && waiting.backend == *backend {
                return;
            }
            if let Some(until) = waiting.until {
                self.delayed.remove(&(until, target.clone()));
            }
        }
        self.line_up(target, Waiting { backend: backend.clone(), urgency, until: None });
    }

    /// Lets a target wait until `until`, unless it is in line already.
    pub fn push_later(&mut self, target: &TargetKey, backend: &BackendName, until: Instant) {
        let later = Waiting { backend: backend.clone(), urgency: Urgency::Bulk, until: Some(until) };
        if let Some(Flight { next, .. }) = self.in_flight.get_mut(target) {
            next.get_or_insert(later);
            return;
        }
        match self.waiting.get(target) {
            Some(waiting) if waiting.until.is_none_or(|u| u <= until) => return,
            Some(Waiting { until: Some(old), .. }) => {
                self.delayed.remove(&(*old, target.clone()));
            }
            _ => {}
        }
        self.line_up(target, later);
    }

    fn line_up(&mut self, target: &TargetKey, waiting: Waiting) {
        match waiting.until {
            Some(until) => {
                self.delayed.insert((until, target.clone()));
            }
            None => self.lane(waiting.urgency).push(&waiting.backend, target.clone()),
        }
        self.waiting.insert(target.clone(), waiting);
    }

    fn lane(&mut self, urgency: Urgency) -> &mut Lane {
        match urgency {
            Urgency::Fresh => &mut self.fresh,
            Urgency::Bulk => &mut self.bulk,
        }
    }

    /// Takes the next target out of the queue.
    pub fn pop(&mut self, now: Instant) -> Option<TargetKey> {
        while let Some((until, target)) = self.delayed.first().cloned().filter(|(until, _)| *until <= now) {
            self.delayed.remove(&(until, target.clone()));
            if let Some(mut waiting) = self.waiting.remove(&target) {
                waiting.until = None;
                self.line_up(&target, waiting);
            }
        }
        let bulk_first = self.fresh_in_a_row >= BULK_SHARE;
        let order = if bulk_first { [Urgency::Bulk, Urgency::Fresh] } else { [Urgency::Fresh, Urgency::Bulk] };
        for urgency in order {
            let waiting = &self.waiting;
            let meant = |target: &TargetKey, backend: &BackendName| {
                waiting.get(target).is_some_and(|w| w.until.is_none() && w.urgency == urgency && w.backend == *backend)
            };
            let lane = match urgency {
                Urgency::Fresh => &mut self.fresh,
                Urgency::Bulk => &mut self.bulk,
            };
            let paces = &mut self.paces;
            let rests_until = |backend: &BackendName| paces.get_mut(backend).and_then(|pace| pace.rests_until(now));
            if let Some(target) = lane.pop(now, rests_until, meant) {
                self.waiting.remove(&target);
                self.fresh_in_a_row = if urgency == Urgency::Fresh { self.fresh_in_a_row + 1 } else { 0 };
                return Some(target);
            }
        }
        None
    }

    /// Limits how many targets of a backend are handed out for a write each second; `None`: any number.
    pub fn set_pace(&mut self, backend: &BackendName, changes_per_second: Option<u64>) {
        match changes_per_second {
            Some(rate) if self.paces.get(backend).is_some_and(|pace| pace.rate() == rate) => return,
            Some(rate) => drop(self.paces.insert(backend.clone(), Bucket::new(rate))),
            None => drop(self.paces.remove(backend)),
        }
        self.fresh.wake(backend);
        self.bulk.wake(backend);
    }

    /// A target of the backend was handed out and is written: looks that find nothing to write cost nothing.
    pub fn spend(&mut self, backend: &BackendName, now: Instant) {
        if let Some(pace) = self.paces.get_mut(backend) {
            pace.take(now);
        }
    }

    /// Marks a target as being written: until [`Queue::done`] it is not handed out again.
    pub fn start(&mut self, target: TargetKey) {
        self.in_flight.insert(target, Flight::default());
    }

    /// Something was observed of a target. Tells whether it is being written: then it may be what is written, and who
    /// knows the answers decides whether it has to line up again.
    pub fn notice(&mut self, target: &TargetKey) -> bool {
        let flight = self.in_flight.get_mut(target);
        flight.map(|flight| flight.noticed += 1).is_some()
    }

    /// How often [`Queue::notice`] was called of a target since it is being written.
    #[must_use]
    pub fn noticed(&self, target: &TargetKey) -> usize {
        self.in_flight.get(target).map_or(0, |flight| flight.noticed)
    }

    /// Ends [`Queue::start`]; what came meanwhile lines up now. Tells whether something did.
    pub fn done(&mut self, target: &TargetKey) -> bool {
        match self.in_flight.remove(target).and_then(|flight| flight.next) {
            Some(next) => {
                match next.until {
                    Some(until) => self.push_later(target, &next.backend, until),
                    None => self.push(target, &next.backend, next.urgency),
                }
                true
            }
            None => false,
        }
    }

    /// Whether the target waits or is being written.
    #[must_use]
    pub fn contains(&self, target: &TargetKey) -> bool {
        self.waiting.contains_key(target) || self.in_flight.contains_key(target)
    }

    /// Whether the target is being written.
    #[must_use]
    pub fn is_in_flight(&self, target: &TargetKey) -> bool {
        self.in_flight.contains_key(target)
    }

    /// Targets waiting for their turn or their time.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Targets being written.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// When the first delayed target is due, or a backend that waits may go on.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let resting = [&self.fresh, &self.bulk].into_iter().filter_map(|lane| lane.resting.first());
        self.delayed.first().map(|(until, _)| *until).into_iter().chain(resting.map(|(until, _)| *until)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn backend(name: &str) -> BackendName {
        BackendName::parse(name).unwrap()
    }

    fn target(name: &str) -> TargetKey {
        TargetKey::new("ns", name)
    }

    fn drain(queue: &mut Queue, now: Instant) -> Vec<String> {
        std::iter::from_fn(|| queue.pop(now)).map(|t| t.name.to_string()).collect()
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
        assert_eq!(order.iter().position(|n| n == "bulk"), Some(BULK_SHARE as usize));
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
        queue.set_pace(&backend("a"), Some(2));
        for n in 0..4 {
            queue.push(&target(&format!("a{n}")), &backend("a"), Urgency::Fresh);
            queue.push(&target(&format!("b{n}")), &backend("b"), Urgency::Bulk);
        }
        let write = |queue: &mut Queue, now| {
            let mut order = Vec::new();
            while let Some(target) = queue.pop(now) {
                queue.spend(&backend(&target.name[..1]), now);
                order.push(target.name.to_string());
            }
            order
        };
        assert_eq!(write(&mut queue, now), ["a0", "a1", "b0", "b1", "b2", "b3"]);
        assert_eq!(queue.len(), 2);
        let next = queue.next_deadline().unwrap();
        assert_eq!(next, now + Duration::from_millis(500));
        // Whatever comes meanwhile, each target waits once.
        queue.push(&target("a2"), &backend("a"), Urgency::Fresh);
        assert_eq!(write(&mut queue, next - Duration::from_millis(1)), [""; 0]);
        assert_eq!(write(&mut queue, next), ["a2"]);
        queue.set_pace(&backend("a"), None);
        assert_eq!(write(&mut queue, next), ["a3"]);
        assert_eq!(queue.next_deadline(), None);
    }

    /// Backend `a` floods, all `slots` are taken by it, and `b` has one change: how many writes end until it starts.
    fn writes_before_b(slots: usize, urgency: Urgency, changes_per_second: Option<u64>) -> usize {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.set_pace(&backend("a"), changes_per_second);
        for n in 0..10_000 {
            queue.push(&target(&format!("a{n}")), &backend("a"), urgency);
        }
        let start = |queue: &mut Queue| {
            let started = queue.pop(now)?;
            queue.spend(&backend(&started.name[..1]), now);
            queue.start(started.clone());
            Some(started)
        };
        let mut under_way: VecDeque<TargetKey> = std::iter::from_fn(|| start(&mut queue)).take(slots).collect();
        queue.push(&target("b"), &backend("b"), Urgency::Fresh);
        for ended in 0..1000 {
            // A slot may be free already, where `a` has to rest.
            while under_way.len() < slots
                && let Some(started) = start(&mut queue)
            {
                if &*started.name == "b" {
                    return ended;
                }
                under_way.push_back(started);
            }
            let Some(done) = under_way.pop_front() else { break };
            queue.done(&done);
            // Whatever is written of the flood changes again meanwhile.
            queue.push(&done, &backend("a"), urgency);
        }
        usize::MAX
    }

    #[test]
    fn one_change_beside_a_flood_waits_for_two_writes_at_most_however_many_are_under_way() {
        for slots in [1, 2, 8, 64] {
            // Its turn comes after one of the flood, and bulk's once in a while.
            assert!(writes_before_b(slots, Urgency::Fresh, None) <= 2, "{slots} slots, fresh");
            assert!(writes_before_b(slots, Urgency::Bulk, None) <= 2, "{slots} slots, bulk");
            // A backend that may not go on leaves its turn and its slots to the others.
            let changes_per_second = Some(slots as u64);
            assert_eq!(writes_before_b(slots, Urgency::Fresh, changes_per_second), 1, "{slots} a second, and slots");
            assert_eq!(writes_before_b(slots + 5, Urgency::Fresh, changes_per_second), 0, "{slots} a second");
        }
    }
}
