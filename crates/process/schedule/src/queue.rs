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
/// - A key waits at most once for each tenant that pushed it, however often it is pushed, so memory is bounded by the
///   number of keys. It is handed out once, in the turn that comes first.
/// - Tenants take turns, each with an optional rate limit; [`Urgency::Fresh`] passes [`Urgency::Bulk`].
/// - A key that was handed out and [started](Queue::start) is not handed out again until it is [done](Queue::done).
/// - A key that failed is delayed with [`Queue::push_later`].
#[derive(Debug, Clone)]
pub struct Queue<T, K> {
    fresh: TenantLines<T, K>,
    bulk: TenantLines<T, K>,
    waiting: HashMap<K, Waiting<T>>,
    /// The further tenants of keys in `waiting` that several tenants pushed, each with its urgency. Usually empty.
    shared: HashMap<K, Vec<(T, Urgency)>>,
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
    /// The tenant that pushed it first.
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
    /// The further tenants that pushed it since.
    shared: Vec<(T, Urgency)>,
    noticed: usize,
}

impl<T: Clone + PartialEq> InFlight<T> {
    /// Notes that a tenant pushed the key, which ends a delay.
    fn push(&mut self, tenant: &T, urgency: Urgency) {
        let next = self.next.get_or_insert_with(|| Waiting { tenant: tenant.clone(), urgency, until: None });
        next.until = None;
        if next.tenant == *tenant {
            next.urgency = next.urgency.max(urgency);
        } else if let Some((_, old)) = self.shared.iter_mut().find(|(other, _)| other == tenant) {
            *old = urgency.max(*old);
        } else {
            self.shared.push((tenant.clone(), urgency));
        }
    }
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
            shared: HashMap::new(),
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
    /// Enqueues a key. A key that waits in its tenant's line already keeps its place there unless `urgency` is higher,
    /// so that lines do not grow with the number of changes. A delay ends. Nothing lowers the urgency of a key.
    pub fn push(&mut self, key: &K, tenant: &T, urgency: Urgency) {
        if let Some(in_flight) = self.in_flight.get_mut(key) {
            in_flight.push(tenant, urgency);
            return;
        }
        let Some(waiting) = self.waiting.get_mut(key) else {
            return self.enqueue(key, Waiting { tenant: tenant.clone(), urgency, until: None });
        };
        let same = waiting.tenant == *tenant;
        if let Some(until) = waiting.until.take() {
            if same {
                waiting.urgency = waiting.urgency.max(urgency);
            }
            let (first, its_urgency) = (waiting.tenant.clone(), waiting.urgency);
            self.delayed.remove(&(until, key.clone()));
            self.lines(its_urgency).push(&first, key.clone());
        } else if same && waiting.urgency < urgency {
            let old = std::mem::replace(&mut waiting.urgency, urgency);
            self.lines(old).abandon(tenant, key);
            self.lines(urgency).push(tenant, key.clone());
        }
        if !same {
            self.share(key, tenant, urgency);
        }
    }

    /// Lets a key that waits in the turn of one tenant wait in that of another one too.
    fn share(&mut self, key: &K, tenant: &T, urgency: Urgency) {
        let others = self.shared.entry(key.clone()).or_default();
        match others.iter_mut().find(|(other, _)| other == tenant) {
            Some((_, old)) if *old >= urgency => return,
            Some((_, old)) => {
                let old = std::mem::replace(old, urgency);
                self.lines(old).abandon(tenant, key);
            }
            None => others.push((tenant.clone(), urgency)),
        }
        self.lines(urgency).push(tenant, key.clone());
    }

    /// Enqueues a key once `until` has passed, unless it waits for its turn or for an earlier time already. A key in
    /// flight keeps the urgency with which it was handed out; any other is [`Urgency::Bulk`], unless it waited for a
    /// later time with a higher one.
    pub fn push_later(&mut self, key: &K, tenant: &T, until: Instant) {
        let urgency = self.in_flight.get(key).map_or(Urgency::Bulk, |in_flight| in_flight.urgency);
        self.delay(key, Waiting { tenant: tenant.clone(), urgency, until: Some(until) }, until);
    }

    /// Enqueues the key that was handed out last once `until` has passed, as [`Queue::push_later`] does, with the urgency with which
    /// it was handed out: it has not failed, it waits for company.
    pub fn postpone(&mut self, key: &K, tenant: &T, until: Instant) {
        let urgency = self.handed_out.as_ref().map_or(Urgency::Bulk, |(_, urgency, _)| *urgency);
        self.delay(key, Waiting { tenant: tenant.clone(), urgency, until: Some(until) }, until);
    }

    fn delay(&mut self, key: &K, mut later: Waiting<T>, until: Instant) {
        if let Some(InFlight { next, .. }) = self.in_flight.get_mut(key) {
            next.get_or_insert(later);
            return;
        }
        match self.waiting.get(key) {
            Some(waiting) if waiting.until.is_none_or(|u| u <= until) => return,
            Some(Waiting { until: Some(old), urgency, .. }) => {
                later.urgency = later.urgency.max(*urgency);
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
        let (waiting, shared) = (&self.waiting, &self.shared);
        let is_shared = |key: &K, tenant: &T| {
            shared.get(key).is_some_and(|others| others.iter().any(|(of, its)| of == tenant && *its == urgency))
        };
        let is_current = |key: &K, tenant: &T| {
            waiting.get(key).is_some_and(|w| w.until.is_none() && w.urgency == urgency && w.tenant == *tenant)
                || !shared.is_empty() && is_shared(key, tenant)
        };
        let lines = match urgency {
            Urgency::Fresh => &mut self.fresh,
            Urgency::Bulk => &mut self.bulk,
        };
        let (rate_limits, contention) = (&mut self.rate_limits, &self.contention);
        let may_go = |tenant: &T| !quiet_only || contention.is_quiet(tenant);
        let rests_until = |tenant: &T| rate_limits.get_mut(tenant).and_then(|bucket| bucket.rests_until(now));
        let (key, tenant) = lines.pop(now, may_go, rests_until, is_current)?;
        let first = self.waiting.remove(&key);
        // In whoever's turn it is handed out, it stays as urgent as the most urgent push for it.
        let mut most_urgent = first.as_ref().map_or(urgency, |first| first.urgency.max(urgency));
        if let Some(others) = self.shared.remove(&key) {
            most_urgent = others.iter().map(|(_, urgency)| *urgency).fold(most_urgent, Urgency::max);
            let first = first.map(|first| (first.tenant, first.urgency));
            for (other, its_urgency) in others.into_iter().chain(first).filter(|(other, _)| *other != tenant) {
                self.lines(its_urgency).abandon(&other, &key);
            }
        }
        self.fresh_in_a_row = if urgency == Urgency::Fresh { self.fresh_in_a_row + 1 } else { 0 };
        self.handed_out = Some((tenant, most_urgent, now));
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
        // A key that several tenants pushed costs the one in whose turn it came too: else two of them could write each other's
        // without a limit.
        let in_turn = self.handed_out.as_ref().map(|(in_turn, ..)| in_turn).filter(|in_turn| *in_turn != tenant);
        for tenant in [Some(tenant), in_turn].into_iter().flatten() {
            if let Some(bucket) = self.rate_limits.get_mut(tenant) {
                bucket.take(now);
            }
        }
    }

    /// Marks the key that was handed out last as in flight. It is not handed out again until [`Queue::done`], also where it was
    /// pushed since.
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
        let (next, shared) = self.take_waiting(&key);
        self.in_flight.insert(key, InFlight { tenant, urgency, next, shared, noticed: 0 });
    }

    /// Takes a key out of all lines.
    fn take_waiting(&mut self, key: &K) -> (Option<Waiting<T>>, Vec<(T, Urgency)>) {
        let (next, shared) = (self.waiting.remove(key), self.shared.remove(key).unwrap_or_default());
        match &next {
            Some(Waiting { until: Some(until), .. }) => drop(self.delayed.remove(&(*until, key.clone()))),
            Some(Waiting { tenant, urgency, until: None }) => self.lines(*urgency).abandon(tenant, key),
            None => {}
        }
        for (tenant, urgency) in &shared {
            self.lines(*urgency).abandon(tenant, key);
        }
        (next, shared)
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
        let Some(InFlight { next: Some(next), shared, .. }) = in_flight else { return false };
        match next.until {
            Some(until) => self.delay(key, next, until),
            None => self.push(key, &next.tenant, next.urgency),
        }
        for (tenant, urgency) in shared {
            self.push(key, &tenant, urgency);
        }
        true
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

    /// Returns whether a tenant may have keys that wait for its turn; `false` is certain.
    #[must_use]
    pub fn has_line(&self, tenant: &T) -> bool {
        self.fresh.lines.contains_key(tenant) || self.bulk.lines.contains_key(tenant)
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
