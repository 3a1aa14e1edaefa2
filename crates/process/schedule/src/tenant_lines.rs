//! The keys of one urgency: a line for each tenant, served in turns.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::Instant;

/// First-in-first-out lines, one for each tenant. Tenants take turns.
#[derive(Debug, Clone)]
pub(crate) struct TenantLines<T, K> {
    /// Tenants with a line, in the order of their turns, without those in `resting`.
    turns: VecDeque<T>,
    /// Tenants with a line that are over their rate, and until when. They are kept apart so that `pop` need not step
    /// over them.
    resting: BTreeSet<(Instant, T)>,
    pub(crate) lines: HashMap<T, VecDeque<K>>,
    /// Entries of `lines` whose key no longer waits there. They stay until they come first, or until their key waits
    /// there again, so that a line holds each key at most once.
    pub(crate) abandoned: HashSet<(T, K)>,
}

impl<T, K> Default for TenantLines<T, K> {
    fn default() -> Self {
        Self { turns: VecDeque::new(), resting: BTreeSet::new(), lines: HashMap::new(), abandoned: HashSet::new() }
    }
}

impl<T: Clone + Ord + Hash, K: Clone + Eq + Hash> TenantLines<T, K> {
    /// Appends a key to its tenant's line. A key that was abandoned there gets its place back.
    pub(crate) fn push(&mut self, tenant: &T, key: K) {
        if !self.abandoned.is_empty() && self.abandoned.remove(&(tenant.clone(), key.clone())) {
            return;
        }
        let line = self.lines.entry(tenant.clone()).or_default();
        if line.is_empty() {
            self.turns.push_back(tenant.clone());
        }
        line.push_back(key);
    }

    /// A key in its tenant's line does not wait there any more.
    pub(crate) fn abandon(&mut self, tenant: &T, key: &K) {
        self.abandoned.insert((tenant.clone(), key.clone()));
    }

    /// Returns the next key and its tenant. Skips tenants that `may_go` refuses (they keep their turn), tenants for
    /// which `rests_until` returns a time (they lose it), and keys that `is_current` refuses, because they were
    /// abandoned.
    pub(crate) fn pop(
        &mut self,
        now: Instant,
        may_go: impl Fn(&T) -> bool,
        mut rests_until: impl FnMut(&T) -> Option<Instant>,
        mut is_current: impl FnMut(&K, &T) -> bool,
    ) -> Option<(K, T)> {
        while self.resting.first().is_some_and(|(until, _)| *until <= now) {
            self.turns.extend(self.resting.pop_first().map(|(_, tenant)| tenant));
        }
        let mut passed_over = Vec::new();
        let mut popped = None;
        while popped.is_none()
            && let Some(tenant) = self.turns.pop_front()
        {
            if !may_go(&tenant) {
                passed_over.push(tenant);
                continue;
            }
            if let Some(until) = rests_until(&tenant) {
                self.resting.insert((until, tenant));
                continue;
            }
            let Some(line) = self.lines.get_mut(&tenant) else { continue };
            let mut found = None;
            while let Some(key) = line.pop_front() {
                if is_current(&key, &tenant) {
                    found = Some(key);
                    break;
                }
                self.abandoned.remove(&(tenant.clone(), key));
            }
            if line.is_empty() {
                self.lines.remove(&tenant);
            } else {
                self.turns.push_back(tenant.clone());
            }
            popped = found.map(|key| (key, tenant));
        }
        for tenant in passed_over.into_iter().rev() {
            self.turns.push_front(tenant);
        }
        popped
    }

    /// Returns whether no tenant has a line.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns whether a tenant other than this one has a line.
    pub(crate) fn has_others(&self, tenant: &T) -> bool {
        self.lines.len() > usize::from(self.lines.contains_key(tenant))
    }

    /// Ends the rest of a tenant before its time.
    pub(crate) fn wake(&mut self, tenant: &T) {
        let resting = self.resting.extract_if(.., |(_, resting)| resting == tenant);
        self.turns.extend(resting.map(|(_, tenant)| tenant));
    }

    /// Returns when the first resting tenant may go on.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.resting.first().map(|(until, _)| *until)
    }
}
