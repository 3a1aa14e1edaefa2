//! What a complete list does not contain is gone: for indexes that keep their objects themselves.

use std::collections::BTreeSet;

/// What a list of one kind has had so far.
#[derive(Debug)]
pub struct ListProgress<K> {
    seen: Option<BTreeSet<K>>,
    is_complete: bool,
}

impl<K> Default for ListProgress<K> {
    fn default() -> Self {
        Self { seen: None, is_complete: false }
    }
}

impl<K: Ord + Clone> ListProgress<K> {
    /// Begins a list, also in place of one that failed.
    pub fn begin(&mut self) {
        self.seen = Some(BTreeSet::new());
    }

    /// Takes note of an object, of the list or of a watch.
    pub fn saw(&mut self, key: &K) {
        if let Some(seen) = &mut self.seen {
            seen.insert(key.clone());
        }
    }

    /// Ends a list that was complete, and returns what it had. A list that never began has nothing.
    pub fn end(&mut self) -> BTreeSet<K> {
        self.is_complete = true;
        self.seen.take().unwrap_or_default()
    }

    /// Whether any list was complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }
}
