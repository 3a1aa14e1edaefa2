//! The virtual clock and the queue of events. Of two events at one time, the one that was added first comes first.

use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Agenda<E> {
    now: Duration,
    number: u64,
    events: BTreeMap<(Duration, u64), E>,
}

impl<E> Agenda<E> {
    pub(crate) fn new() -> Self {
        Self { now: Duration::ZERO, number: 0, events: BTreeMap::new() }
    }

    /// Time since the run began.
    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    /// Adds an event at `when`, or now if that is in the past.
    pub(crate) fn at(&mut self, when: Duration, event: E) {
        self.number += 1;
        self.events.insert((when.max(self.now), self.number), event);
    }

    pub(crate) fn after(&mut self, pause: Duration, event: E) {
        self.at(self.now + pause, event);
    }

    /// Removes the next event, and advances the clock to its time.
    pub(crate) fn pop(&mut self) -> Option<E> {
        let ((when, _), event) = self.events.pop_first()?;
        self.now = when;
        Some(event)
    }
}
