//! Liveness, readiness, and log lines that are written once for each change.

use std::collections::BTreeMap;

use gimbal_model::SourceKey;
use gimbal_runtime::{Guard, Health, Readiness};
use gimbal_session::{Reject, RejectReason};

use crate::offer::Offer;
use crate::source::Known;

/// Number of rejects that are remembered to be logged once. Beyond it, the first names are forgotten and logged again.
const REMEMBERED: usize = 100_000;

pub(crate) struct HealthLog {
    health: Health,
    source: ReadinessBlock,
    identity: ReadinessBlock,
    trouble: Option<String>,
    /// Whether a part of the source is unknown.
    unknown: bool,
    rejects: BTreeMap<SourceKey, RejectReason>,
}

/// A condition of readiness. A stream to the writer is not one, so that an update of many discoverers does not wait for
/// the writer; the metric `gimbal_discoverer_connected` shows it.
struct ReadinessBlock {
    readiness: Readiness,
    what: String,
    guard: Option<Guard>,
}

impl ReadinessBlock {
    fn new(readiness: &Readiness, what: impl Into<String>) -> Self {
        let what = what.into();
        Self { readiness: readiness.clone(), guard: Some(readiness.block(&*what)), what }
    }

    fn set(&mut self, up: bool) {
        if up {
            self.guard = None;
        } else if self.guard.is_none() {
            self.guard = Some(self.readiness.block(&*self.what));
        }
    }
}

impl HealthLog {
    /// Creates the log. `identified_by` says where the source's identity is read.
    pub(crate) fn new(health: Health, readiness: &Readiness, identified_by: &str) -> Self {
        Self {
            health,
            source: ReadinessBlock::new(readiness, "a complete list of the source"),
            identity: ReadinessBlock::new(readiness, format!("the source's identity ({identified_by})")),
            trouble: None,
            unknown: false,
            rejects: BTreeMap::new(),
        }
    }

    pub(crate) fn beat(&self) {
        self.health.beat();
    }

    /// Updates readiness, and logs trouble with the source when it changes.
    pub(crate) fn source(&mut self, source: &dyn Known, offer: &Offer) {
        self.source.set(offer.is_complete() && source.is_whole());
        self.identity.set(source.incarnation().is_some() && source.identity_trouble().is_none());
        let trouble = source.trouble();
        // A source in trouble may become unknown later for the same reason, which is logged again.
        let unknown = !offer.unknown().is_empty();
        let turned = std::mem::replace(&mut self.unknown, unknown) != unknown;
        if trouble == self.trouble && !(turned && unknown && trouble.is_some()) {
            return;
        }
        match &trouble {
            Some(reason) if unknown => {
                tracing::warn!(reason, "the source is unknown: nothing is removed until it is read again");
            }
            Some(reason) => tracing::warn!(reason, "trouble with the source"),
            None => tracing::info!("the source is well again"),
        }
        self.trouble = trouble;
    }

    /// Logs a reject, once for each key and reason. Returns the key if it was not logged with this reason before.
    pub(crate) fn rejected<'a>(&mut self, reject: &'a Reject) -> Option<&'a SourceKey> {
        let Reject { key, reason, retryable, message: text } = reject;
        let Some(key) = key else {
            tracing::warn!(reason = reason.as_str(), text, "the writer could not read a message");
            return None;
        };
        if self.rejects.get(key) == Some(reason) {
            return None;
        }
        tracing::warn!(service = %key, reason = reason.as_str(), retryable, text, "the writer rejects a Service");
        if self.rejects.len() >= REMEMBERED {
            self.rejects.pop_first();
        }
        self.rejects.insert(key.clone(), *reason);
        Some(key)
    }

    /// Called when a Service is gone. Returns whether it was rejected.
    pub(crate) fn gone(&mut self, key: &SourceKey) -> bool {
        self.rejects.remove(key).is_some()
    }

    /// Called when a reject ended. Returns whether it was logged.
    pub(crate) fn resolved(&mut self, key: &SourceKey) -> bool {
        let was_told = self.rejects.remove(key).is_some();
        if was_told {
            tracing::info!(service = %key, "the writer no longer rejects a Service");
        }
        was_told
    }
}
