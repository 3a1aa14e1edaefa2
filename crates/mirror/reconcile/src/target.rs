//! One target, that is, one Service of the Gimbal cluster: the claims on it, its observed objects, and its last
//! failures.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use gimbal_kubernetes_objects::{Kind, Meta};
use gimbal_model::{BackendName, SourceKey, TargetKey, service_name};
use gimbal_plan::{Count, Observed};
use gimbal_schedule::Backoff;

use crate::Tally;
use crate::progress::LastWrites;
use crate::refusals::Refusals;
use crate::targets::IndexedAs;

/// A source Service, which claims the target that its backend's policy chooses.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    /// The backend that publishes it.
    pub backend: BackendName,
    /// Its namespace and name in the source.
    pub key: SourceKey,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} of backend {}", self.key.namespace, self.key.name, self.backend)
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Delay after a first failure.
const FIRST_DELAY: Duration = Duration::from_millis(200);
/// Longest delay after failures that may be temporary.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_secs(15);

/// Longest delay that the API server, or a proxy in front of it, can ask for: a mistake there must not stop a target
/// for a day.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

/// One target.
#[derive(Debug, Clone, Default)]
pub(crate) struct Target {
    /// The objects that exist.
    observed: Observed,
    /// The source Services that want it, the earliest first. Almost always one.
    claims: Vec<Claim>,
    /// The claim that has it, once that is decided. It keeps the target while its objects exist.
    owner: Option<Claim>,
    /// Claims whose Services are gone. The removal of each is reported as applied when none of its objects is left.
    leaving: Vec<Claim>,
    /// Slice names that objects without our mark had when they were tried last.
    taken: BTreeSet<String>,
    /// Writes that the API server refused.
    refusals: Refusals,
    /// Failures in a row.
    failures: u32,
    /// Jobs in a row that met a 409.
    conflicts: u32,
    /// Nothing was to be written when the target was decided last, and nothing changed since.
    converged: bool,
    /// The endpoints as counted last, normally while no write was under way. The guard counts losses against these.
    settled: Count,
    /// The claim whose backend's quota the target is charged to.
    charged: Option<Claim>,
    /// The number of writes that wait for the backend to leave quarantine.
    preview: Option<Tally>,
    /// The backend whose total includes `settled`.
    counted_for: Option<BackendName>,
    /// The source Service that `settled` belongs to, if that was ever known.
    counted_as: Option<SourceKey>,
    /// The answers to the last writes of its objects.
    writes: LastWrites,
    /// Under which backends [`Targets`](crate::targets::Targets) has indexed the target.
    indexed_as: IndexedAs,
}

impl Target {
    pub(crate) fn observed(&self) -> &Observed {
        &self.observed
    }

    pub(crate) fn observed_mut(&mut self) -> &mut Observed {
        &mut self.observed
    }

    pub(crate) fn claims(&self) -> &[Claim] {
        &self.claims
    }

    pub(crate) fn owner(&self) -> Option<&Claim> {
        self.owner.as_ref()
    }

    pub(crate) fn set_owner(&mut self, owner: Option<Claim>) {
        self.owner = owner;
    }

    pub(crate) fn leaving(&self) -> &[Claim] {
        &self.leaving
    }

    /// A claim wants the target.
    pub(crate) fn add_claim(&mut self, claim: &Claim) {
        if !self.claims.contains(claim) {
            self.claims.push(claim.clone());
        }
    }

    /// A claim does not want the target any more.
    pub(crate) fn remove_claim(&mut self, claim: &Claim) {
        self.claims.retain(|other| other != claim);
    }

    /// A claim does not want the target any more because its Service is gone.
    pub(crate) fn add_leaving(&mut self, claim: &Claim) {
        self.remove_claim(claim);
        if !self.leaving.contains(claim) {
            self.leaving.push(claim.clone());
        }
    }

    /// The Service of a leaving claim exists again.
    pub(crate) fn cancel_leaving(&mut self, claim: &Claim) {
        self.leaving.retain(|other| other != claim);
    }

    /// Removes and returns the leaving claims, because none of their objects is left.
    pub(crate) fn take_leaving(&mut self) -> Vec<Claim> {
        std::mem::take(&mut self.leaving)
    }

    /// Removes all claims of a backend. Returns whether it wanted, left or owned the target.
    pub(crate) fn remove_claims_of(&mut self, backend: &BackendName) -> bool {
        let before = self.claims.len() + self.leaving.len();
        self.claims.retain(|claim| claim.backend != *backend);
        self.leaving.retain(|claim| claim.backend != *backend);
        let owned = self.owner.as_ref().is_some_and(|owner| owner.backend == *backend);
        owned || self.claims.len() + self.leaving.len() != before
    }

    /// Forgets everything that follows from what agents said.
    pub(crate) fn forget_desired(&mut self) {
        self.claims.clear();
        self.leaving.clear();
        self.owner = None;
        self.charged = None;
        self.refusals.clear();
        self.taken.clear();
    }

    pub(crate) fn taken(&self) -> &BTreeSet<String> {
        &self.taken
    }

    /// An object without our mark has the name of a slice.
    pub(crate) fn add_taken(&mut self, name: &str) {
        self.taken.insert(name.to_owned());
    }

    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    pub(crate) fn refusals_mut(&mut self) -> &mut Refusals {
        &mut self.refusals
    }

    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// A write that failed before may succeed now.
    pub(crate) fn forget_failures(&mut self) {
        self.failures = 0;
    }

    /// Counts a job that met a 409. Returns how many in a row did.
    pub(crate) fn count_conflict(&mut self) -> u32 {
        self.conflicts = self.conflicts.saturating_add(1);
        self.conflicts
    }

    pub(crate) fn forget_conflicts(&mut self) {
        self.conflicts = 0;
    }

    /// Everything is written as the source has it. Names that were taken may be free when the next slice is created.
    pub(crate) fn forget_refusals(&mut self) {
        self.refusals.clear();
        self.taken.clear();
    }

    /// Whether nothing was to be written when the target was decided last, and nothing changed since.
    pub(crate) fn has_converged(&self) -> bool {
        self.converged
    }

    pub(crate) fn set_converged(&mut self, converged: bool) {
        self.converged = converged;
    }

    /// Returns the endpoints as counted last.
    pub(crate) fn settled(&self) -> Count {
        self.settled
    }

    /// Sets the endpoints as counted now. Returns the count before.
    pub(crate) fn set_settled(&mut self, count: Count) -> Count {
        std::mem::replace(&mut self.settled, count)
    }

    /// Returns the backend whose total includes the counted endpoints.
    pub(crate) fn counted_for(&self) -> Option<&BackendName> {
        self.counted_for.as_ref()
    }

    /// Returns the source Service that the counted endpoints belong to, if that was ever known.
    pub(crate) fn counted_as(&self) -> Option<&SourceKey> {
        self.counted_as.as_ref()
    }

    /// From now on endpoints are counted for a backend, and for one of its Services. If that is not known, it is the
    /// one known before.
    pub(crate) fn count_for(&mut self, backend: Option<BackendName>, source: Option<SourceKey>) {
        self.counted_for = backend;
        self.counted_as = source.or_else(|| self.counted_as.take());
    }

    /// From now on endpoints are counted for no backend.
    pub(crate) fn count_for_none(&mut self) {
        self.counted_for = None;
        self.counted_as = None;
    }

    /// Returns the claim whose backend's quota the target is charged to.
    pub(crate) fn charged(&self) -> Option<&Claim> {
        self.charged.as_ref()
    }

    /// Sets the claim whose backend's quota the target is charged to. Returns the one before, if it is another.
    pub(crate) fn set_charged(&mut self, claim: Option<Claim>) -> Option<Claim> {
        let before = std::mem::replace(&mut self.charged, claim);
        before.filter(|before| self.charged.as_ref() != Some(before))
    }

    pub(crate) fn preview(&self) -> Option<Tally> {
        self.preview
    }

    pub(crate) fn set_preview(&mut self, preview: Option<Tally>) {
        self.preview = preview;
    }

    pub(crate) fn writes(&self) -> &LastWrites {
        &self.writes
    }

    pub(crate) fn writes_mut(&mut self) -> &mut LastWrites {
        &mut self.writes
    }

    pub(crate) fn indexed_as(&self) -> &IndexedAs {
        &self.indexed_as
    }

    /// Sets the entries of the index. Returns those before.
    pub(crate) fn set_indexed_as(&mut self, entries: IndexedAs) -> IndexedAs {
        std::mem::replace(&mut self.indexed_as, entries)
    }

    /// Returns the claim that the objects belong to: as decided, else as their labels and annotations say.
    pub(crate) fn belongs_to(&self, key: &TargetKey) -> Option<Claim> {
        self.owner.clone().or_else(|| self.holder(key))
    }

    /// Whether objects exist that belong to another claim, or to none.
    pub(crate) fn belongs_to_other(&self, key: &TargetKey, claim: &Claim) -> bool {
        !self.observed.is_empty() && self.belongs_to(key).as_ref() != Some(claim)
    }

    /// Returns the claim that the labels and annotations of the objects name. A claim that leads to another name than
    /// this one comes from an edit by hand and does not count. The namespace may differ, because the policy may have
    /// changed since.
    pub(crate) fn holder(&self, key: &TargetKey) -> Option<Claim> {
        self.observed.owners().find_map(|(label, source)| {
            let backend = BackendName::parse(label).ok()?;
            let plausible = *service_name(&backend, &source.name) == *key.name;
            plausible.then(|| Claim { backend, key: source.clone() })
        })
    }

    /// Whether exactly this version of an object is observed now.
    pub(crate) fn holds_version(&self, kind: Kind, name: Option<&str>, meta: &Meta) -> bool {
        let mut held = self.observed.objects().filter(|held| held.kind == kind && held.name == name);
        held.any(|held| *held.resource_version == *meta.resource_version && *held.uid == *meta.uid)
    }

    /// Whether all objects that name a source Service name this claim.
    pub(crate) fn is_all_of(&self, claim: &Claim) -> bool {
        self.observed.owners().all(|(label, source)| **label == *claim.backend.as_str() && *source == claim.key)
    }

    /// Returns the claim whose backend's turn in the queue the target takes.
    pub(crate) fn first_claim(&self) -> Option<&Claim> {
        self.owner.iter().chain(&self.claims).chain(&self.leaving).next()
    }

    /// Returns every backend that a claim, an object or a count names, with repeats.
    pub(crate) fn concerns(&self) -> impl Iterator<Item = &str> {
        let claims = self.owner.iter().chain(&self.claims).chain(&self.leaving).map(|claim| claim.backend.as_str());
        let labels = self.observed.owners().map(|(label, _)| &**label).chain(self.observed.strays());
        claims.chain(labels).chain(self.counted_for.as_ref().map(BackendName::as_str))
    }

    /// Returns the backend's label and the source Service that the objects name.
    pub(crate) fn stands_for(&self) -> Option<(&str, &SourceKey)> {
        self.observed.owner().map(|(label, key)| (&**label, key))
    }

    /// Returns the backend for which the target is pending, as a claim or a label names it. `None` if it has converged.
    pub(crate) fn pending_for(&self) -> Option<&str> {
        let label = || self.stands_for().map(|(label, _)| label);
        let backend = self.first_claim().map(|claim| claim.backend.as_str()).or_else(label);
        backend.filter(|_| !self.converged)
    }

    /// Whether the target can be dropped: no claim wants or leaves it, and no object exists.
    pub(crate) fn is_idle(&self) -> bool {
        self.claims.is_empty() && self.leaving.is_empty() && self.observed.is_empty()
    }

    /// Counts a failure that may be temporary. Returns when to retry: after a growing delay, and not before `at_least`,
    /// of which at most `LONGEST_ASKED` counts.
    pub(crate) fn failed(&mut self, now: Instant, at_least: Option<Duration>) -> Instant {
        let delay = delay(self.failures, LONGEST_DELAY);
        self.failures += 1;
        now + delay.max(at_least.unwrap_or_default().min(LONGEST_ASKED))
    }
}

/// Returns the delay after `before` + 1 failures in a row.
pub(crate) fn delay(before: u32, longest: Duration) -> Duration {
    Backoff { first: FIRST_DELAY, longest }.delay(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_eternity_gets_five_minutes() {
        let (mut target, now) = (Target::default(), Instant::now());
        for asked in [Duration::from_secs(24 * 3600), Duration::from_secs(u64::MAX), Duration::MAX] {
            assert_eq!(target.failed(now, Some(asked)), now + LONGEST_ASKED, "{asked:?}");
        }
        assert_eq!(target.failed(now, Some(Duration::from_secs(2))), now + Duration::from_secs(2));
    }
}
