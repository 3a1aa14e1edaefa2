//! One Service of the Gimbal cluster: who wants it, what is there, and what went wrong last.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use gimbal_model::{BackendName, SourceKey};
use gimbal_plan::Observed;

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

/// Shortest wait after a failure; doubles with each further one.
const FIRST_DELAY: Duration = Duration::from_millis(200);
/// Longest wait after failures that may pass any moment.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_secs(15);

/// See the module.
#[derive(Debug, Default)]
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
    /// Failures in a row.
    pub(crate) failures: u32,
    /// Nothing differed when it was last looked at, and nothing changed since.
    pub(crate) converged: bool,
    /// Endpoints when it last converged or was first observed: what the guard counts losses against.
    pub(crate) settled_endpoints: usize,
    /// Endpoints that it would lose, as the guard was last told.
    pub(crate) loss: u64,
    /// The claim that counts here against its backend's quota.
    pub(crate) charged: Option<crate::Claim>,
    /// What would be written if its backend were not in quarantine.
    pub(crate) preview: Option<crate::Tally>,
    /// Whose total `settled_endpoints` is in.
    pub(crate) counted_for: Option<BackendName>,
    /// See there.
    pub(crate) filed: Filed,
}

impl Target {
    /// The claim that says first whose it is.
    pub(crate) fn first_claim(&self) -> Option<&Claim> {
        self.owner.iter().chain(&self.claims).chain(&self.leaving).next()
    }

    /// Every backend that a claim, an object or a count names, with repeats.
    pub(crate) fn concerns(&self) -> impl Iterator<Item = &str> {
        let claims = self.owner.iter().chain(&self.claims).chain(&self.leaving).map(|claim| claim.backend.as_str());
        let labels = self.observed.owners().map(|(label, _)| &**label).chain(self.observed.strays());
        claims.chain(labels).chain(self.counted_for.as_ref().map(BackendName::as_str))
    }

    /// The backend that it is not as wanted for, as a claim or a label has it.
    pub(crate) fn pending_for(&self) -> Option<&str> {
        let label = || self.observed.owner().map(|(label, _)| &**label);
        let backend = self.first_claim().map(|claim| claim.backend.as_str()).or_else(label);
        backend.filter(|_| !self.converged)
    }

    /// Whether nobody wants it, nothing is there, and nobody waits to hear so.
    pub(crate) fn is_idle(&self) -> bool {
        self.claims.is_empty() && self.leaving.is_empty() && self.observed.is_empty()
    }

    /// Notes a failure; returns when to try again.
    pub(crate) fn failed(&mut self, now: Instant, longest: Duration, at_least: Option<Duration>) -> Instant {
        let delay = FIRST_DELAY.saturating_mul(1 << self.failures.min(12)).min(longest);
        self.failures += 1;
        now + delay.max(at_least.unwrap_or_default())
    }
}
