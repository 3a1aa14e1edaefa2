//! Liveness, readiness, and log lines that are written once for each change.

use std::collections::BTreeMap;

use gimbal_runtime::{Liveness, Readiness, ReadinessGuard};
use gimbal_session::Reject;

use crate::payload::OfferedPayload;
use crate::publisher::Publisher;
use crate::source::SourceStatus;

/// Number of rejects that are remembered to be logged once. Beyond it, the first names are forgotten and logged again.
const REMEMBERED: usize = 100_000;

pub(crate) struct HealthLog<P: OfferedPayload> {
    health: Liveness,
    source: ReadinessBlock,
    identity: ReadinessBlock,
    trouble: TroubleLog,
    rejects: BTreeMap<P::Key, P::Reason>,
}

/// The trouble with the source that was logged last.
#[derive(Default)]
struct TroubleLog {
    trouble: Option<String>,
    /// Whether a part of the source is unknown.
    unknown: bool,
}

/// A change to be logged, with the reason.
#[derive(Debug, PartialEq, Eq)]
enum TroubleChange {
    Unknown(String),
    Trouble(String),
    Well,
}

impl TroubleLog {
    /// Returns what is to be logged, if anything. The source is well again once it is `complete`: an answer alone ends its
    /// trouble, but may be the first of many that lead to nothing.
    fn change(&mut self, trouble: Option<String>, unknown: bool, complete: bool) -> Option<TroubleChange> {
        // A source in trouble may become unknown later for the same reason, which is logged again.
        let turned = std::mem::replace(&mut self.unknown, unknown) != unknown;
        let waits = trouble.is_none() && !complete;
        if waits || (trouble == self.trouble && !(turned && unknown && trouble.is_some())) {
            return None;
        }
        self.trouble.clone_from(&trouble);
        Some(match trouble {
            Some(reason) if unknown => TroubleChange::Unknown(reason),
            Some(reason) => TroubleChange::Trouble(reason),
            None => TroubleChange::Well,
        })
    }
}

/// A condition of readiness. A stream to the writer is not one, so that an update of many discoverers does not wait for
/// the writer; the metric `gimbal_discoverer_connected` shows it.
struct ReadinessBlock {
    readiness: Readiness,
    what: String,
    guard: Option<ReadinessGuard>,
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

impl<P: OfferedPayload> HealthLog<P> {
    /// Creates the log. `identified_by` says where the source's identity is read.
    pub(crate) fn new(health: Liveness, readiness: &Readiness, identified_by: &str) -> Self {
        Self {
            health,
            source: ReadinessBlock::new(readiness, "a complete list of the source"),
            identity: ReadinessBlock::new(readiness, format!("the source's identity ({identified_by})")),
            trouble: TroubleLog::default(),
            rejects: BTreeMap::new(),
        }
    }

    pub(crate) fn beat(&self) {
        self.health.beat();
    }

    /// Updates readiness, and logs trouble with the source when it changes.
    pub(crate) fn source(&mut self, source: &dyn SourceStatus<P>, publisher: &Publisher<P>) {
        let complete = source.is_ready();
        self.source.set(complete);
        self.identity.set(source.incarnation().is_some() && source.identity_trouble().is_none());
        let unknown = !publisher.unknown().is_empty();
        match self.trouble.change(source.trouble(), unknown, complete) {
            Some(TroubleChange::Unknown(reason)) => {
                tracing::warn!(reason, "the source is unknown: nothing is removed until it is read again");
            }
            Some(TroubleChange::Trouble(reason)) => tracing::warn!(reason, "trouble with the source"),
            Some(TroubleChange::Well) => tracing::info!("the source is well again"),
            None => {}
        }
    }

    /// Logs a reject, once for each key and reason. Returns the key if it was not logged with this reason before.
    pub(crate) fn rejected<'a>(&mut self, reject: &'a Reject<P>) -> Option<&'a P::Key> {
        let Reject { key, reason, retryable, message: text } = reject;
        let Some(key) = key else {
            tracing::warn!(reason = P::reason_name(*reason), text, "the writer could not read a message");
            return None;
        };
        if self.rejects.get(key) == Some(reason) {
            return None;
        }
        tracing::warn!(service = %key, reason = P::reason_name(*reason), retryable, text, "the writer rejects a {}", P::ENTRY);
        if self.rejects.len() >= REMEMBERED {
            self.rejects.pop_first();
        }
        self.rejects.insert(key.clone(), *reason);
        Some(key)
    }

    /// Called when an entry is gone. Returns whether it was rejected.
    pub(crate) fn gone(&mut self, key: &P::Key) -> bool {
        self.rejects.remove(key).is_some()
    }

    /// Called when a reject ended.
    pub(crate) fn resolved(&mut self, key: &P::Key) {
        if self.rejects.remove(key).is_some() {
            tracing::info!(service = %key, "the writer no longer rejects a {}", P::ENTRY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_well_again_once_it_is_complete() {
        let mut log = TroubleLog::default();
        let refused = || Some("refused".to_owned());
        assert_eq!(log.change(None, false, false), None, "nothing was wrong");
        assert_eq!(log.change(refused(), false, false), Some(TroubleChange::Trouble("refused".into())));
        assert_eq!(log.change(None, false, false), None, "the first page of a list");
        assert_eq!(log.change(refused(), false, false), None, "the same again");
        assert_eq!(log.change(refused(), true, false), Some(TroubleChange::Unknown("refused".into())));
        assert_eq!(log.change(None, true, false), None);
        assert_eq!(log.change(None, false, true), Some(TroubleChange::Well));
        assert_eq!(log.change(None, false, true), None);
    }
}
