//! Liveness, readiness, and log lines that are written once for each change.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gimbal_runtime::{Liveness, Readiness, ReadinessGuard};
use gimbal_session::Reject;

use crate::payload::OfferedPayload;
use crate::publisher::Publisher;
use crate::source::SourceStatus;

/// Number of rejects that are remembered to be logged once. Beyond it, the first names are forgotten and logged again.
const REMEMBERED: usize = 100_000;
/// How long the writer has, on a new stream, to say again what it rejects. What it has decided by then and not said again
/// has ended.
const SAID_AGAIN_WITHIN: Duration = Duration::from_secs(30);

pub(crate) struct HealthLog<P: OfferedPayload> {
    health: Liveness,
    source: ReadinessBlock,
    identity: ReadinessBlock,
    trouble: TroubleLog,
    rejects: BTreeMap<P::Key, KnownReject<P>>,
    /// When the stream began, while there may be rejects that were not said on it.
    unsaid_since: Option<Instant>,
}

/// A reject that was logged.
struct KnownReject<P: OfferedPayload> {
    reason: P::Reason,
    /// Whether it was said on this stream.
    is_said: bool,
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
        // What is logged then is compared with what was logged before.
        let waits = trouble.is_none() && !complete;
        if waits {
            return None;
        }
        // A source in trouble may become unknown later for the same reason, which is logged again.
        let turned = std::mem::replace(&mut self.unknown, unknown) != unknown;
        if trouble == self.trouble && !(turned && unknown && trouble.is_some()) {
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
            unsaid_since: None,
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
            tracing::warn!(reason = P::reason_name(*reason), text, "the writer could not read a part of what was sent");
            return None;
        };
        if let Some(known) = self.rejects.get_mut(key).filter(|known| known.reason == *reason) {
            known.is_said = true;
            return None;
        }
        tracing::warn!(service = %key, reason = P::reason_name(*reason), retryable, text, "the writer rejects a {}", P::ENTRY);
        if self.rejects.len() >= REMEMBERED {
            self.rejects.pop_first();
        }
        self.rejects.insert(key.clone(), KnownReject { reason: *reason, is_said: true });
        Some(key)
    }

    /// Called when the writer took a new stream in. It says again what it rejects, and nothing of what ended meanwhile. Where it
    /// `reports` on entries, the first report of one says that it tries it; that it has acknowledged it says nothing, because it
    /// may not have decided yet.
    pub(crate) fn stream_opened(&mut self, reports: bool, now: Instant) {
        self.rejects.values_mut().for_each(|known| known.is_said = false);
        self.unsaid_since = Some(now).filter(|_| !reports && !self.rejects.is_empty());
    }

    /// Returns whether a reject of a former stream was not said on this one, so that a report ends it.
    pub(crate) fn is_unsaid(&self, key: &P::Key) -> bool {
        self.rejects.get(key).is_some_and(|known| !known.is_said)
    }

    /// Returns the rejects that ended between two streams: those that were not said on this one although there was time,
    /// and although the writer has decided the entry (`is_decided`). Called about once a second while a stream is open.
    pub(crate) fn ended(&mut self, is_decided: impl Fn(&P::Key) -> bool, now: Instant) -> Vec<P::Key> {
        if self.unsaid_since.is_none_or(|since| now.saturating_duration_since(since) < SAID_AGAIN_WITHIN) {
            return Vec::new();
        }
        if self.rejects.values().all(|known| known.is_said) {
            self.unsaid_since = None;
            return Vec::new();
        }
        let unsaid = self.rejects.iter().filter(|(_, known)| !known.is_said).map(|(key, _)| key);
        unsaid.filter(|key| is_decided(key)).cloned().collect()
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
    use gimbal_model::SourceKey;
    use gimbal_session::{RejectReason, Services};

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

    #[test]
    fn a_source_that_becomes_unknown_while_it_says_nothing_is_said_to_be() {
        let mut log = TroubleLog::default();
        let refused = || Some("refused".to_owned());
        assert_eq!(log.change(refused(), false, false), Some(TroubleChange::Trouble("refused".into())));
        assert_eq!(log.change(None, true, false), None);
        assert_eq!(log.change(refused(), true, false), Some(TroubleChange::Unknown("refused".into())));
        assert_eq!(log.change(refused(), true, false), None);
    }

    fn reject(name: &str) -> Reject {
        let (key, message) = (Some(SourceKey::new("team", name)), "no such namespace".to_owned());
        Reject { key, reason: RejectReason::NamespaceMissing, retryable: true, message }
    }

    #[test]
    fn a_reject_that_is_not_said_again_on_a_new_stream_has_ended() {
        let now = Instant::now();
        let mut log =
            HealthLog::<Services>::new(Liveness::new(Duration::from_secs(10)), &Readiness::default(), "its name");
        for name in ["a", "b", "c"] {
            assert!(log.rejected(&reject(name)).is_some());
        }
        assert!(log.rejected(&reject("a")).is_none(), "it is known");
        assert_eq!(log.ended(|_| true, now + SAID_AGAIN_WITHIN), [], "the stream goes on");
        log.stream_opened(false, now);
        assert!(log.rejected(&reject("a")).is_none(), "it was logged");
        let early = now + SAID_AGAIN_WITHIN - Duration::from_millis(1);
        assert_eq!(log.ended(|_| true, early), []);
        let key = |name: &str| SourceKey::new("team", name);
        // Of an entry that is on its way nothing is known yet.
        assert_eq!(log.ended(|decided| *decided != key("c"), now + SAID_AGAIN_WITHIN), [key("b")]);
        log.resolved(&key("b"));
        assert!(log.rejected(&reject("b")).is_some(), "it begins anew");
        assert_eq!(log.ended(|_| true, now + 2 * SAID_AGAIN_WITHIN), [key("c")]);
        log.resolved(&key("c"));
        assert_eq!(log.ended(|_| true, now + 2 * SAID_AGAIN_WITHIN), []);
        assert!(log.rejected(&reject("a")).is_none());
    }

    /// A writer that has begun anew may take minutes to decide, and acknowledges what comes until then.
    #[test]
    fn where_there_are_reports_no_reject_ends_by_itself() {
        let now = Instant::now();
        let mut log =
            HealthLog::<Services>::new(Liveness::new(Duration::from_secs(10)), &Readiness::default(), "its name");
        assert!(log.rejected(&reject("a")).is_some());
        log.stream_opened(true, now);
        let key = SourceKey::new("team", "a");
        assert_eq!(log.ended(|_| true, now + 100 * SAID_AGAIN_WITHIN), []);
        assert!(log.is_unsaid(&key), "a report would end it");
        assert!(log.rejected(&reject("a")).is_none(), "it is known");
        assert!(!log.is_unsaid(&key));
    }
}
