//! Which target is worked on next: keyed (a target waits once, however often it changes), fair across backends, fresh
//! changes before bulk, with a delay for each target that failed.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use gimbal_model::{BackendName, TargetKey};

use crate::bucket::Bucket;
use crate::crowd::Crowd;

/// How urgent a target is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Urgency {
    /// A resync, a comparison, a sweep.
    #[default]
    Bulk,
    /// A change that somebody made just now.
    Fresh,
}

/// After so many fresh targets in a row one of bulk passes, so that a flood of changes cannot stop a resync.
const BULK_SHARE: u32 = 8;

/// A lane of one urgency: backends take turns, each with its own first-in-first-out line.
#[derive(Debug, Clone, Default)]
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
        may_go: impl Fn(&BackendName) -> bool,
        mut rests_until: impl FnMut(&BackendName) -> Option<Instant>,
        mut meant: impl FnMut(&TargetKey, &BackendName) -> bool,
    ) -> Option<(TargetKey, BackendName)> {
        while self.resting.first().is_some_and(|(until, _)| *until <= now) {
            self.turns.extend(self.resting.pop_first().map(|(_, backend)| backend));
        }
        let mut passed_over = Vec::new();
        let mut popped = None;
        while popped.is_none()
            && let Some(backend) = self.turns.pop_front()
        {
            if !may_go(&backend) {
                passed_over.push(backend);
                continue;
            }
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
                self.turns.push_back(backend.clone());
            }
            popped = found.map(|target| (target, backend));
        }
        for backend in passed_over.into_iter().rev() {
            self.turns.push_front(backend);
        }
        popped
    }

    /// Whether anything is lined up, or of `backend` only.
    fn has_others(&self, backend: &BackendName) -> bool {
        self.lines.len() > usize::from(self.lines.contains_key(backend))
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
#[derive(Debug, Clone, Default)]
pub struct Queue {
    fresh: Lane,
    bulk: Lane,
    waiting: HashMap<TargetKey, Waiting>,
    delayed: BTreeSet<(Instant, TargetKey)>,
    /// Targets that are being written, and what came for them meanwhile.
    in_flight: BTreeMap<TargetKey, Flight>,
    fresh_in_a_row: u32,
    /// Who else waits for the API server.
    crowd: Crowd,
    /// In whose turn a target was handed out last, how urgent it was, and when.
    turn: Option<(BackendName, Urgency, Instant)>,
    /// Of backends that have a limit on changes a second.
    paces: BTreeMap<BackendName, Bucket>,
}

/// What came for a target that is being written.
#[derive(Debug, Clone, Default)]
struct Flight {
    /// In whose turn it was handed out.
    backend: Option<BackendName>,
    /// How urgent it was.
    urgency: Urgency,
    next: Option<Waiting>,
    noticed: usize,
}

impl Queue {
    /// Lines a target up. The higher urgency counts; a delay ends. What is in line already stays where it is, whoever asks
    /// again, so that lines do not grow with what happens.
    pub fn push(&mut self, target: &TargetKey, backend: &BackendName, urgency: Urgency) {
        if let Some(Flight { next, .. }) = self.in_flight.get_mut(target) {
            let urgency = next.as_ref().map_or(urgency, |n| n.urgency.max(urgency));
            *next = Some(Waiting { backend: backend.clone(), urgency, until: None });
            return;
        }
        if let Some(waiting) = self.waiting.get(target) {
            if waiting.until.is_none() && waiting.urgency >= urgency {
                return;
            }
            if let Some(until) = waiting.until {
                self.delayed.remove(&(until, target.clone()));
            }
        }
        self.line_up(target, Waiting { backend: backend.clone(), urgency, until: None });
    }

    /// Lets a target wait until `until`, unless it is in line already. It is as urgent then as it was when it was handed out.
    pub fn push_later(&mut self, target: &TargetKey, backend: &BackendName, until: Instant) {
        let urgency = self.in_flight.get(target).map_or(Urgency::Bulk, |flight| flight.urgency);
        self.put_off(target, Waiting { backend: backend.clone(), urgency, until: Some(until) }, until);
    }

    fn put_off(&mut self, target: &TargetKey, later: Waiting, until: Instant) {
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
        self.end_delays(now);
        let bulk_first = self.fresh_in_a_row >= BULK_SHARE;
        let order = if bulk_first { [Urgency::Bulk, Urgency::Fresh] } else { [Urgency::Fresh, Urgency::Bulk] };
        order.into_iter().find_map(|urgency| self.pop_from(urgency, false, now))
    }

    /// Takes the next fresh target of a backend of which nothing is being written.
    pub fn pop_quiet(&mut self, now: Instant) -> Option<TargetKey> {
        self.end_delays(now);
        self.pop_from(Urgency::Fresh, true, now)
    }

    /// Whether fresh changes and other work have lately been about at the same time: of several backends, or beside bulk.
    #[must_use]
    pub fn is_shared(&self, now: Instant) -> bool {
        self.crowd.is_shared(now)
    }

    fn end_delays(&mut self, now: Instant) {
        while let Some((until, target)) = self.delayed.first().cloned().filter(|(until, _)| *until <= now) {
            self.delayed.remove(&(until, target.clone()));
            if let Some(mut waiting) = self.waiting.remove(&target) {
                waiting.until = None;
                self.line_up(&target, waiting);
            }
        }
    }

    fn pop_from(&mut self, urgency: Urgency, quiet_only: bool, now: Instant) -> Option<TargetKey> {
        let waiting = &self.waiting;
        let meant = |target: &TargetKey, backend: &BackendName| {
            waiting.get(target).is_some_and(|w| w.until.is_none() && w.urgency == urgency && w.backend == *backend)
        };
        let lane = match urgency {
            Urgency::Fresh => &mut self.fresh,
            Urgency::Bulk => &mut self.bulk,
        };
        let (paces, crowd) = (&mut self.paces, &self.crowd);
        let may_go = |backend: &BackendName| !quiet_only || crowd.is_quiet(backend);
        let rests_until = |backend: &BackendName| paces.get_mut(backend).and_then(|pace| pace.rests_until(now));
        let (target, backend) = lane.pop(now, may_go, rests_until, meant)?;
        self.waiting.remove(&target);
        self.fresh_in_a_row = if urgency == Urgency::Fresh { self.fresh_in_a_row + 1 } else { 0 };
        self.turn = Some((backend, urgency, now));
        Some(target)
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

    /// Marks the target that was handed out last as being written: until [`Queue::done`] it is not handed out again.
    pub fn start(&mut self, target: TargetKey) {
        let turn = self.turn.take();
        let urgency = turn.as_ref().map_or(Urgency::Bulk, |(_, urgency, _)| *urgency);
        let backend = turn.map(|(backend, urgency, now)| {
            let beside =
                self.crowd.has_others(&backend) || self.fresh.has_others(&backend) || !self.bulk.lines.is_empty();
            if urgency == Urgency::Fresh && beside {
                self.crowd.met(now);
            }
            self.crowd.start(&backend);
            backend
        });
        self.in_flight.insert(target, Flight { backend, urgency, ..Flight::default() });
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
        let flight = self.in_flight.remove(target);
        if let Some(backend) = flight.as_ref().and_then(|flight| flight.backend.as_ref()) {
            self.crowd.done(backend);
        }
        match flight.and_then(|flight| flight.next) {
            Some(next) => {
                match next.until {
                    Some(until) => self.put_off(target, next, until),
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
mod tests;
