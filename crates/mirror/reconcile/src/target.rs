//! One target, that is, one Service of the Gimbal cluster: the claims on it, its observed objects, and its last
//! failures.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use gimbal_kubernetes_objects::{Kind, Meta};
use gimbal_model::{BackendName, SourceKey, TargetKey, service_name};
use gimbal_plan::{Count, Observed};
use gimbal_schedule::Backoff;

use crate::refusals::Refusals;
use crate::targets::Filed;

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
    pub(crate) observed: Observed,
    /// The source Services that want it, the earliest first. Almost always one.
    pub(crate) claims: Vec<Claim>,
    /// The claim that has it, once that is decided. It keeps the target while its objects exist.
    pub(crate) owner: Option<Claim>,
    /// Claims whose Services are gone. The removal of each is reported as applied when none of its objects is left.
    pub(crate) leaving: Vec<Claim>,
    /// Slice names that are taken by objects without our mark.
    pub(crate) taken: BTreeSet<String>,
    /// Writes that the API server refused.
    pub(crate) refusals: Refusals,
    /// Failures in a row.
    pub(crate) failures: u32,
    /// Jobs in a row that met a 409.
    pub(crate) conflicts: u32,
    /// Nothing was to be written when the target was decided last, and nothing changed since.
    pub(crate) converged: bool,
    /// The endpoints as counted last, normally while no write was under way. The guard counts losses against these.
    pub(crate) settled: Count,
    /// The claim whose backend's quota the target is charged to.
    pub(crate) charged: Option<crate::Claim>,
    /// The number of writes that wait for the backend to leave quarantine.
    pub(crate) preview: Option<crate::Tally>,
    /// The backend whose total includes `settled`.
    pub(crate) counted_for: Option<BackendName>,
    /// The source Service that `settled` belongs to, if that was ever known.
    pub(crate) counted_as: Option<SourceKey>,
    /// Under which backends [`Targets`](crate::targets::Targets) has filed the target.
    pub(crate) filed: Filed,
}

impl Target {
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
        let mut held = self.observed.held().filter(|held| held.kind == kind && held.name == name);
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
