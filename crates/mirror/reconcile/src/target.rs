//! One Service of the Gimbal cluster: who wants it, what is there, and what went wrong last.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use gimbal_kubernetes_objects::{Kind, Meta};
use gimbal_model::{BackendName, SourceKey, TargetKey, service_name};
use gimbal_plan::{Count, Observed};
use gimbal_schedule::Backoff;

use crate::refusals::Refusals;
use crate::targets::Filed;

/// A source Service that wants a target.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    /// Whose.
    pub backend: BackendName,
    /// Which of its Services.
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
/// Longest wait after failures that may pass any moment.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_secs(15);

/// However long the API server, or a proxy before it, asks for: an error of theirs must not stop a target for a day.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Target {
    /// What the Gimbal cluster holds.
    pub(crate) observed: Observed,
    /// Source Services that want it, the earliest first. Almost always one.
    pub(crate) claims: Vec<Claim>,
    /// The claim that has it, once decided; it keeps it while it stands.
    pub(crate) owner: Option<Claim>,
    /// Claims that went away; each is settled when nothing of it is left.
    pub(crate) leaving: Vec<Claim>,
    /// Slice names that a foreign object has.
    pub(crate) taken: BTreeSet<String>,
    /// Writes that were refused, and are not to be sent again yet.
    pub(crate) refusals: Refusals,
    /// Failures in a row.
    pub(crate) failures: u32,
    /// Writes that met 409 since it was as wanted last.
    pub(crate) conflicts: u32,
    /// Nothing differed when it was last looked at, and nothing changed since.
    pub(crate) converged: bool,
    /// Endpoints when nothing was under way for it last: what the guard counts losses against.
    pub(crate) settled: Count,
    /// The claim that counts here against its backend's quota.
    pub(crate) charged: Option<crate::Claim>,
    /// What would be written if its backend were not in quarantine.
    pub(crate) preview: Option<crate::Tally>,
    /// Whose total `settled` is in.
    pub(crate) counted_for: Option<BackendName>,
    /// The source Service that `settled` is of, as far as that was ever known.
    pub(crate) counted_as: Option<SourceKey>,
    /// See there.
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

    /// Returns the claim that the labels and annotations of the objects name. A claim that would have another name was written by
    /// hand and does not count. Its namespace may be another: the policy may have changed since.
    pub(crate) fn holder(&self, key: &TargetKey) -> Option<Claim> {
        self.observed.owners().find_map(|(label, source)| {
            let backend = BackendName::parse(label).ok()?;
            let plausible = *service_name(&backend, &source.name) == *key.name;
            plausible.then(|| Claim { backend, key: source.clone() })
        })
    }

    /// Whether this very version of an object is held: the watch's echo of an answer.
    pub(crate) fn holds_version(&self, kind: Kind, name: Option<&str>, meta: &Meta) -> bool {
        let mut held = self.observed.held().filter(|held| held.kind == kind && held.name == name);
        held.any(|held| *held.resource_version == *meta.resource_version && *held.uid == *meta.uid)
    }

    /// Whether all objects name this claim.
    pub(crate) fn is_all_of(&self, claim: &Claim) -> bool {
        self.observed.owners().all(|(label, source)| **label == *claim.backend.as_str() && *source == claim.key)
    }

    /// Returns the claim whose backend's turn in the queue the target takes.
    pub(crate) fn first_claim(&self) -> Option<&Claim> {
        self.owner.iter().chain(&self.claims).chain(&self.leaving).next()
    }

    /// Every backend that a claim, an object or a count names, with repeats.
    pub(crate) fn concerns(&self) -> impl Iterator<Item = &str> {
        let claims = self.owner.iter().chain(&self.claims).chain(&self.leaving).map(|claim| claim.backend.as_str());
        let labels = self.observed.owners().map(|(label, _)| &**label).chain(self.observed.strays());
        claims.chain(labels).chain(self.counted_for.as_ref().map(BackendName::as_str))
    }

    /// The backend, by its label, and the source Service that its objects say they stand for.
    pub(crate) fn stands_for(&self) -> Option<(&str, &SourceKey)> {
        self.observed.owner().map(|(label, key)| (&**label, key))
    }

    /// The backend that it is not as wanted for, as a claim or a label has it.
    pub(crate) fn pending_for(&self) -> Option<&str> {
        let label = || self.stands_for().map(|(label, _)| label);
        let backend = self.first_claim().map(|claim| claim.backend.as_str()).or_else(label);
        backend.filter(|_| !self.converged)
    }

    /// Whether nobody wants it, nothing is there, and nobody waits to hear so.
    pub(crate) fn is_idle(&self) -> bool {
        self.claims.is_empty() && self.leaving.is_empty() && self.observed.is_empty()
    }

    /// Notes a failure that may pass any moment; returns when to try again: not before `at_least`, within reason.
    pub(crate) fn failed(&mut self, now: Instant, at_least: Option<Duration>) -> Instant {
        let delay = delay(self.failures, LONGEST_DELAY);
        self.failures += 1;
        now + delay.max(at_least.unwrap_or_default().min(LONGEST_ASKED))
    }
}

/// How long to wait after one more failure than `before`.
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
