//! Tracks which frames are done, for cumulative acknowledgement. Each operation costs O(log n).

use std::collections::BTreeMap;

/// Keys that wait to be settled, each under the newest frame that changed it.
#[derive(Debug, Clone)]
pub(crate) struct Ledger<K> {
    waiting: BTreeMap<K, u64>,
    /// Number of waiting keys by frame.
    frames: BTreeMap<u64, usize>,
    received: u64,
    acknowledged: u64,
}

impl<K> Default for Ledger<K> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), frames: BTreeMap::new(), received: 0, acknowledged: 0 }
    }
}

impl<K: Clone + Ord> Ledger<K> {
    /// Called when a frame came or is known to be lost, before [`Self::wait`] for its keys.
    pub(crate) fn receive(&mut self, seq: u64) {
        self.received = seq;
    }

    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Adds a key to a frame. Does nothing if the key waits under this frame or a later one, or if the frame is
    /// acknowledged or has not come.
    pub(crate) fn wait(&mut self, key: &K, seq: u64) {
        if seq <= self.acknowledged || seq > self.received || self.waiting.get(key).is_some_and(|later| *later >= seq) {
            return;
        }
        self.settle(key);
        self.waiting.insert(key.clone(), seq);
        *self.frames.entry(seq).or_default() += 1;
    }

    pub(crate) fn settle(&mut self, key: &K) {
        let Some(seq) = self.waiting.remove(key) else { return };
        if let Some(count) = self.frames.get_mut(&seq) {
            *count -= 1;
            if *count == 0 {
                self.frames.remove(&seq);
            }
        }
    }

    /// Returns the frame number to acknowledge, if it is larger than the last one.
    pub(crate) fn acknowledge(&mut self) -> Option<u64> {
        let done = self.frames.first_key_value().map_or(self.received, |(seq, _)| seq - 1);
        (done > self.acknowledged).then(|| {
            self.acknowledged = done;
            done
        })
    }
}

#[cfg(test)]
mod tests {
    use gimbal_model::SourceKey;

    use super::*;

    fn key(name: &str) -> SourceKey {
        SourceKey::new("ns", name)
    }

    #[test]
    fn acknowledges_up_to_the_first_that_waits() {
        let mut ledger = Ledger::default();
        for (seq, name) in [(1, "a"), (2, "b"), (3, "c")] {
            ledger.receive(seq);
            ledger.wait(&key(name), seq);
        }
        assert_eq!(ledger.acknowledge(), None);
        ledger.settle(&key("b"));
        assert_eq!(ledger.acknowledge(), None, "1 still waits");
        ledger.settle(&key("a"));
        assert_eq!(ledger.acknowledge(), Some(2));
        assert_eq!(ledger.acknowledge(), None, "acknowledged already");
        ledger.settle(&key("c"));
        assert_eq!(ledger.acknowledge(), Some(3));
    }

    #[test]
    fn a_newer_change_supersedes_the_older() {
        let mut ledger = Ledger::default();
        ledger.receive(1);
        ledger.wait(&key("a"), 1);
        ledger.receive(2);
        ledger.wait(&key("a"), 2);
        assert_eq!(ledger.acknowledge(), Some(1));
        ledger.wait(&key("a"), 1);
        ledger.wait(&key("b"), 1);
        assert_eq!(ledger.acknowledge(), None, "what is acknowledged stays so");
        ledger.settle(&key("a"));
        assert_eq!(ledger.acknowledge(), Some(2));
    }

    #[test]
    fn a_frame_without_changes_waits_for_those_before_it() {
        let mut ledger = Ledger::default();
        ledger.receive(1);
        ledger.wait(&key("a"), 1);
        ledger.receive(2);
        assert_eq!(ledger.acknowledge(), None);
        ledger.wait(&key("later"), 3);
        ledger.settle(&key("a"));
        assert_eq!(ledger.acknowledge(), Some(2), "a frame that never came keeps nothing waiting");
    }
}
