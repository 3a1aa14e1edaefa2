//! Changes of one Service that follow each other closely, and are written together.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use gimbal_model::{BackendName, TargetKey};

/// When targets were written, within the last period. Empty while the period is zero, so that memory is bounded by the writes of one
/// period.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batches {
    period: Duration,
    written: HashMap<TargetKey, Instant>,
    /// Every write in the order of time, those that were forgotten or followed by another among them.
    order: VecDeque<(Instant, TargetKey)>,
    /// Targets with a change that waits, each with the backend in whose turn it does.
    waiting: HashMap<TargetKey, BackendName>,
}

impl Batches {
    /// A change waits until `period` has passed since the last write of its target; zero: none waits.
    pub(crate) fn of(period: Duration) -> Self {
        Self { period, ..Self::default() }
    }

    /// Returns until when a change of a target may wait for others; `None`: the target was not written within the period, so that
    /// the change is the first.
    pub(crate) fn open_until(&self, target: &TargetKey, now: Instant) -> Option<Instant> {
        let until = *self.written.get(target)? + self.period;
        (now < until).then_some(until)
    }

    /// A target is being written.
    pub(crate) fn written(&mut self, target: &TargetKey, now: Instant) {
        if self.period.is_zero() {
            return;
        }
        while let Some((at, old)) = self.order.pop_front_if(|(at, _)| *at + self.period <= now) {
            if self.written.get(&old) == Some(&at) {
                self.written.remove(&old);
            }
        }
        self.written.insert(target.clone(), now);
        self.order.push_back((now, target.clone()));
    }

    /// A change of a target waits.
    pub(crate) fn wait(&mut self, target: &TargetKey, backend: &BackendName) {
        self.waiting.insert(target.clone(), backend.clone());
    }

    /// A target has its turn: nothing of it waits.
    pub(crate) fn end_wait(&mut self, target: &TargetKey) {
        self.waiting.remove(target);
    }

    /// Returns the targets with a change that waits in the turn of a backend. They wait no longer.
    pub(crate) fn take_waiting(&mut self, backend: &BackendName) -> Vec<TargetKey> {
        self.waiting.extract_if(|_, of| of == backend).map(|(target, _)| target).collect()
    }

    /// A write was not all of it, or failed: what is left to do for its target waits for nothing.
    pub(crate) fn forget(&mut self, target: &TargetKey) {
        self.written.remove(target);
    }

    /// Forgets every write: another process writes now.
    pub(crate) fn clear(&mut self) {
        self.written.clear();
        self.order.clear();
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(100);

    fn key(n: u64) -> TargetKey {
        TargetKey::new("team1", format!("web-{n}"))
    }

    #[test]
    fn a_change_waits_for_the_end_of_the_period_since_the_last_write() {
        let (start, mut batches) = (Instant::now(), Batches::of(PERIOD));
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(batches.open_until(&key(1), start), None);
        batches.written(&key(1), start);
        assert_eq!(batches.open_until(&key(1), at(99)), Some(at(100)));
        assert_eq!(batches.open_until(&key(1), at(100)), None);
        assert_eq!(batches.open_until(&key(2), at(1)), None);
        batches.written(&key(1), at(40));
        assert_eq!(batches.open_until(&key(1), at(120)), Some(at(140)));
        batches.forget(&key(1));
        assert_eq!(batches.open_until(&key(1), at(120)), None);
    }

    #[test]
    fn what_was_written_before_the_period_takes_no_memory() {
        let (start, mut batches) = (Instant::now(), Batches::of(PERIOD));
        for n in 0..10_000 {
            let now = start + Duration::from_millis(n);
            batches.written(&key(n), now);
            // Written again, and forgotten: no entry stays behind.
            batches.written(&key(0), now);
            batches.forget(&key(n / 2));
        }
        assert!(batches.written.len() <= 101 && batches.order.len() <= 200, "{batches:?}");
    }

    #[test]
    fn without_a_period_nothing_waits_and_nothing_is_remembered() {
        let (now, mut batches) = (Instant::now(), Batches::default());
        batches.written(&key(1), now);
        assert_eq!((batches.open_until(&key(1), now), batches.order.len()), (None, 0));
    }
}
