//! The work queue.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::contention::Contention;
use crate::tenant_lines::TenantLines;
use crate::token_bucket::TokenBucket;

/// How urgent a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Urgency {
    /// Part of a resync, a comparison or a sweep.
    #[default]
    Bulk,
    /// A change that was made just now.
    Fresh,
}

/// After this many fresh keys in a row one bulk key is handed out, so that a flood of changes cannot stop a resync.
const FRESH_PER_BULK: u32 = 8;
/// How much a tenant with a rate limit may save up.
const BURST: Duration = Duration::from_secs(1);

/// A work queue over keys of type `K` that belong to tenants of type `T`.
///
/// - A key waits at most once, however often it is pushed, so memory is bounded by the number of keys.
/// - Tenants take turns, each with an optional rate limit; [`Urgency::Fresh`] passes [`Urgency::Bulk`].
/// - A key that was handed out and [started](Queue::start) is not handed out again until it is [done](Queue::done).
/// - A key that failed is delayed with [`Queue::push_later`].
#[derive(Debug, Clone)]
pub struct Queue<T, K> {
    fresh: TenantLines<T, K>,
    bulk: TenantLines<T, K>,
    waiting: HashMap<K, Waiting<T>>,
    delayed: BTreeSet<(Instant, K)>,
    in_flight: BTreeMap<K, InFlight<T>>,
    fresh_in_a_row: u32,
    contention: Contention<T>,
    /// The tenant and urgency of the key that was handed out last, and when, until it is started.
    handed_out: Option<(T, Urgency, Instant)>,
    /// Rate limits of the tenants that have one.
    rate_limits: BTreeMap<T, TokenBucket>,
}

/// A key that waits for its turn, or for `until`.
#[derive(Debug, Clone)]
struct Waiting<T> {
    tenant: T,
    urgency: Urgency,
    until: Option<Instant>,
}

/// A key that is being written.
#[derive(Debug, Clone)]
struct InFlight<T> {
    /// The tenant in whose turn it was handed out.
    tenant: Option<T>,
    /// The urgency with which it was handed out.
    urgency: Urgency,
    /// The tenant and urgency pushed for the key since, if any.
    next: Option<Waiting<T>>,
    noticed: usize,
}

impl<T, K> Default for Queue<T, K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, K> Queue<T, K> {
    /// Creates an empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self {
            fresh: TenantLines::default(),
            bulk: TenantLines::default(),
            waiting: HashMap::new(),
            delayed: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            fresh_in_a_row: 0,
            contention: Contention::default(),
            handed_out: None,
            rate_limits: BTreeMap::new(),
        }
    }
}

impl<T: Clone + Ord + Hash, K: Clone + Ord + Hash> Queue<T, K> {
    /// Enqueues a key. A key that waits for its turn already keeps its place unless `urgency` is higher, so that lines
    /// do not grow with the number of changes. A delay ends, and `urgency` replaces that of the delayed key.
    pub fn push(&mut self, key: &K, tenant: &T, urgency: Urgency) {
        if let Some(InFlight { next, .. }) = self.in_flight.get_mut(key) {
            let urgency = next.as_ref().map_or(urgency, |n| n.urgency.max(urgency));
            *next = Some(Waiting { tenant: tenant.clone(), urgency, until: None });
            return;
        }
        if let Some(waiting) = self.waiting.get(key) {
            if waiting.until.is_none() && waiting.urgency >= urgency {
                return;
            }
            if let Some(until) = waiting.until {
                self.delayed.remove(&(until, key.clone()));
            }
        }
        self.enqueue(key, Waiting { tenant: tenant.clone(), urgency, until: None });
    }

    /// Enqueues a key once `until` has passed, unless it waits for its turn or for an earlier time already. A key in
    /// flight keeps the urgency with which it was handed out; any other is [`Urgency::Bulk`].
    pub fn push_later(&mut self, key: &K, tenant: &T, until: Instant) {
        let urgency = self.in_flight.get(key).map_or(Urgency::Bulk, |in_flight| in_flight.urgency);
        self.delay(key, Waiting { tenant: tenant.clone(), urgency, until: Some(until) }, until);
    }

    fn delay(&mut self, key: &K, later: Waiting<T>, until: Instant) {
        if let Some(InFlight { next, .. }) = self.in_flight.get_mut(key) {
            next.get_or_insert(later);
            return;
        }
        match self.waiting.get(key) {
            Some(waiting) if waiting.until.is_none_or(|u| u <= until) => return,
            Some(Waiting { until: Some(old), .. }) => {
                self.delayed.remove(&(*old, key.clone()));
            }
            _ => {}
        }
        self.enqueue(key, later);
    }

    fn enqueue(&mut self, key: &K, waiting: Waiting<T>) {
        match waiting.until {
            Some(until) => {
                self.delayed.insert((until, key.clone()));
            }
            None => self.lines(waiting.urgency).push(&waiting.tenant, key.clone()),
        }
        self.waiting.insert(key.clone(), waiting);
    }

    fn lines(&mut self, urgency: Urgency) -> &mut TenantLines<T, K> {
        match urgency {
            Urgency::Fresh => &mut self.fresh,
            Urgency::Bulk => &mut self.bulk,
        }
    }

    /// Takes the next key out of the queue.
    pub fn pop(&mut self, now: Instant) -> Option<K> {
        self.end_delays(now);
        let bulk_first = self.fresh_in_a_row >= FRESH_PER_BULK;
        let order = if bulk_first { [Urgency::Bulk, Urgency::Fresh] } else { [Urgency::Fresh, Urgency::Bulk] };
        order.into_iter().find_map(|urgency| self.pop_from(urgency, false, now))
    }

    /// Takes the next fresh key of a tenant that has nothing in flight.
    pub fn pop_quiet(&mut self, now: Instant) -> Option<K> {
        self.end_delays(now);
        self.pop_from(Urgency::Fresh, true, now)
    }

    /// Returns whether tenants have recently competed: a fresh change was started while another tenant had a key in
    /// flight or a fresh key waiting, or while a bulk key of any tenant was waiting.
    #[must_use]
    pub fn is_shared(&self, now: Instant) -> bool {
        self.contention.is_shared(now)
    }

    fn end_delays(&mut self, now: Instant) {
        while let Some((until, key)) = self.delayed.first().cloned().filter(|(until, _)| *until <= now) {
            self.delayed.remove(&(until, key.clone()));
            if let Some(mut waiting) = self.waiting.remove(&key) {
                waiting.until = None;
                self.enqueue(&key, waiting);
            }
        }
    }

    fn pop_from(&mut self, urgency: Urgency, quiet_only: bool, now: Instant) -> Option<K> {
        let waiting = &self.waiting;
        let is_current = |key: &K, tenant: &T| {
            waiting.get(key).is_some_and(|w| w.until.is_none() && w.urgency == urgency && w.tenant == *tenant)
        };
        let lines = match urgency {
            Urgency::Fresh => &mut self.fresh,
            Urgency::Bulk => &mut self.bulk,
        };
        let (rate_limits, contention) = (&mut self.rate_limits, &self.contention);
        let may_go = |tenant: &T| !quiet_only || contention.is_quiet(tenant);
        let rests_until = |tenant: &T| rate_limits.get_mut(tenant).and_then(|bucket| bucket.rests_until(now));
        let (key, tenant) = lines.pop(now, may_go, rests_until, is_current)?;
        self.waiting.remove(&key);
        self.fresh_in_a_row = if urgency == Urgency::Fresh { self.fresh_in_a_row + 1 } else { 0 };
        self.handed_out = Some((tenant, urgency, now));
        Some(key)
    }

    /// Sets how many keys of a tenant may be [spent](Queue::spend) a second. `None` removes the limit.
    pub fn set_rate_limit(&mut self, tenant: &T, per_second: Option<u64>) {
        match per_second {
            Some(rate) if self.rate_limits.get(tenant).is_some_and(|bucket| bucket.rate() == rate) => return,
            Some(rate) => drop(self.rate_limits.insert(tenant.clone(), TokenBucket::new(rate, BURST))),
            None => drop(self.rate_limits.remove(tenant)),
        }
        self.fresh.wake(tenant);
        self.bulk.wake(tenant);
    }

    /// Charges one write to the tenant's rate limit. Call it for keys that are written, not for those where nothing
    /// differed.
    pub fn spend(&mut self, tenant: &T, now: Instant) {
        if let Some(bucket) = self.rate_limits.get_mut(tenant) {
            bucket.take(now);
        }
    }

    /// Marks the key that was handed out last as in flight. It is not handed out again until [`Queue::done`].
    pub fn start(&mut self, key: K) {
        let handed_out = self.handed_out.take();
        let urgency = handed_out.as_ref().map_or(Urgency::Bulk, |(_, urgency, _)| *urgency);
        let tenant = handed_out.map(|(tenant, urgency, now)| {
            let contended =
                self.contention.has_others(&tenant) || self.fresh.has_others(&tenant) || !self.bulk.is_empty();
            if urgency == Urgency::Fresh && contended {
                self.contention.record_contention(now);
            }
            self.contention.start(&tenant);
            tenant
        });
        self.in_flight.insert(key, InFlight { tenant, urgency, next: None, noticed: 0 });
    }

    /// Counts an observation of a key that is in flight; returns false if it is not. The observation may be the write's
    /// own result, so the caller decides whether to push the key again once the answer is known.
    pub fn notice(&mut self, key: &K) -> bool {
        let in_flight = self.in_flight.get_mut(key);
        in_flight.map(|in_flight| in_flight.noticed += 1).is_some()
    }

    /// Returns how often [`Queue::notice`] was called for a key since it was started.
    #[must_use]
    pub fn noticed(&self, key: &K) -> usize {
        self.in_flight.get(key).map_or(0, |in_flight| in_flight.noticed)
    }

    /// Ends [`Queue::start`] and enqueues what was pushed for the key meanwhile. Returns whether anything was.
    pub fn done(&mut self, key: &K) -> bool {
        let in_flight = self.in_flight.remove(key);
        if let Some(tenant) = in_flight.as_ref().and_then(|in_flight| in_flight.tenant.as_ref()) {
            self.contention.done(tenant);
        }
        match in_flight.and_then(|in_flight| in_flight.next) {
            Some(next) => {
                match next.until {
                    Some(until) => self.delay(key, next, until),
                    None => self.push(key, &next.tenant, next.urgency),
                }
                true
            }
            None => false,
        }
    }

    /// Returns whether the key waits or is in flight.
    #[must_use]
    pub fn contains(&self, key: &K) -> bool {
        self.waiting.contains_key(key) || self.in_flight.contains_key(key)
    }

    /// Returns whether the key is in flight.
    #[must_use]
    pub fn is_in_flight(&self, key: &K) -> bool {
        self.in_flight.contains_key(key)
    }

    /// Returns the number of keys that wait for their turn or for the end of a delay.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether no key waits. Keys in flight do not count.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the number of keys in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns when the first delay or rest ends, if keys are delayed or tenants rest.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let delayed = self.delayed.first().map(|(until, _)| *until);
        [delayed, self.fresh.next_deadline(), self.bulk.next_deadline()].into_iter().flatten().min()
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
