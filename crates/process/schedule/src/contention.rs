//! Tracks which tenants have writes in flight, and whether several of them compete for the server.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// How long the server counts as shared after a fresh change met other work. The writes that delay the next fresh
/// change were sent before it arrives, so room has to be made in advance.
const SHARED_FOR: Duration = Duration::from_secs(10);

/// Counts the writes in flight for each tenant. Memory is bounded by the tenants that have one.
#[derive(Debug, Clone)]
pub(crate) struct Contention<T> {
    in_flight: HashMap<T, usize>,
    total: usize,
    shared_until: Option<Instant>,
}

impl<T> Default for Contention<T> {
    fn default() -> Self {
        Self { in_flight: HashMap::new(), total: 0, shared_until: None }
    }
}

impl<T: Clone + Eq + Hash> Contention<T> {
    /// Records that a write of the tenant began.
    pub(crate) fn start(&mut self, tenant: &T) {
        *self.in_flight.entry(tenant.clone()).or_default() += 1;
        self.total += 1;
    }

    /// Records that a write of the tenant ended.
    pub(crate) fn done(&mut self, tenant: &T) {
        let Some(count) = self.in_flight.get_mut(tenant) else { return };
        *count -= 1;
        self.total -= 1;
        if *count == 0 {
            self.in_flight.remove(tenant);
        }
    }

    /// Returns whether the tenant has no write in flight.
    pub(crate) fn is_quiet(&self, tenant: &T) -> bool {
        !self.in_flight.contains_key(tenant)
    }

    /// Returns whether another tenant has a write in flight.
    pub(crate) fn has_others(&self, tenant: &T) -> bool {
        self.total > self.in_flight.get(tenant).copied().unwrap_or_default()
    }

    /// Records that a fresh change was handed out while other work was waiting or in flight.
    pub(crate) fn record_contention(&mut self, now: Instant) {
        self.shared_until = Some(now + SHARED_FOR);
    }

    /// Returns whether a fresh change met other work within the last [`SHARED_FOR`].
    pub(crate) fn is_shared(&self, now: Instant) -> bool {
        self.shared_until.is_some_and(|until| now < until)
    }
}
