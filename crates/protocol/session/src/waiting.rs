//! Keys that wait for their turn.

use std::collections::BTreeMap;

/// Keys in the order in which they began to wait, each of them once.
#[derive(Debug, Clone)]
pub(crate) struct Waiting<K> {
    order: BTreeMap<u64, K>,
    places: BTreeMap<K, u64>,
    last: u64,
}

impl<K> Default for Waiting<K> {
    fn default() -> Self {
        Self { order: BTreeMap::new(), places: BTreeMap::new(), last: 0 }
    }
}

impl<K: Clone + Ord> Waiting<K> {
    /// Adds a key at the end. One that waits already keeps its place.
    pub(crate) fn push(&mut self, key: K) {
        if !self.places.contains_key(&key) {
            self.last += 1;
            self.order.insert(self.last, key.clone());
            self.places.insert(key, self.last);
        }
    }

    /// Returns the key that has waited longest.
    pub(crate) fn first(&self) -> Option<&K> {
        self.order.first_key_value().map(|(_, key)| key)
    }

    /// Removes the key that has waited longest.
    pub(crate) fn pop(&mut self) -> Option<K> {
        let (_, key) = self.order.pop_first()?;
        self.places.remove(&key);
        Some(key)
    }

    /// Removes a key. Returns whether it waited.
    pub(crate) fn remove(&mut self, key: &K) -> bool {
        let place = self.places.remove(key);
        place.is_some_and(|place| self.order.remove(&place).is_some())
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.places.contains_key(key)
    }
}
