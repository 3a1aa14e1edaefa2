//! Shares values that many Services have in common: port sets, zones, label keys.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use gimbal_model::{Detail, PortSet};

/// Keeps one copy of equal values.
///
/// Sharing only saves memory, so a full pool is cleared instead of tracking which values are still in use. That bounds its
/// size and its cost per value.
#[derive(Debug)]
struct Pool<T> {
    values: HashSet<T>,
    limit: usize,
}

impl<T: Clone + Eq + Hash> Pool<T> {
    fn new(limit: usize) -> Self {
        Self { values: HashSet::new(), limit }
    }

    fn share(&mut self, value: T) -> T {
        if let Some(held) = self.values.get(&value) {
            return held.clone();
        }
        if self.values.len() >= self.limit {
            self.values.clear();
        }
        self.values.insert(value.clone());
        value
    }
}

/// The pools of one index.
#[derive(Debug)]
pub(crate) struct Pools {
    texts: Pool<Arc<str>>,
    ports: Pool<PortSet>,
    details: Pool<Arc<Detail>>,
}

impl Pools {
    pub(crate) fn new() -> Self {
        Self { texts: Pool::new(16_384), ports: Pool::new(4_096), details: Pool::new(16_384) }
    }

    pub(crate) fn text(&mut self, text: Arc<str>) -> Arc<str> {
        self.texts.share(text)
    }

    pub(crate) fn ports(&mut self, ports: PortSet) -> PortSet {
        self.ports.share(ports)
    }

    pub(crate) fn detail(&mut self, detail: Detail) -> Option<Arc<Detail>> {
        (detail != Detail::default()).then(|| self.details.share(Arc::new(detail)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_stays_bounded() {
        let mut pool: Pool<Arc<str>> = Pool::new(2);
        let first = pool.share("a".into());
        assert!(Arc::ptr_eq(&first, &pool.share("a".into())));
        for text in ["b", "c", "d", "e"] {
            pool.share(text.into());
            assert!(pool.values.len() <= 2);
        }
    }
}
