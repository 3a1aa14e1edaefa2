//! What the process shows of itself as it goes: liveness, readiness, and log lines that come once for each change.

use std::collections::BTreeMap;

use gimbal_model::SourceKey;
use gimbal_operate::{Guard, Health, Readiness};
use gimbal_stream::{Reject, RejectReason};

use crate::session::Session;

/// Rejects whose reason is remembered, so that they are logged once. Beyond that the oldest names are logged again.
const REMEMBERED: usize = 100_000;

pub(crate) struct Signs {
    health: Health,
    source: Sign,
    identity: Sign,
    writer: Sign,
    trouble: Option<String>,
    rejects: BTreeMap<SourceKey, RejectReason>,
}

/// Something that must be up before the process is ready.
struct Sign {
    readiness: Readiness,
    what: &'static str,
    guard: Option<Guard>,
}

impl Sign {
    fn new(readiness: &Readiness, what: &'static str) -> Self {
        Self { readiness: readiness.clone(), what, guard: Some(readiness.block(what)) }
    }

    fn set(&mut self, up: bool) {
        if up {
            self.guard = None;
        } else if self.guard.is_none() {
            self.guard = Some(self.readiness.block(self.what));
        }
    }
}

impl Signs {
    pub(crate) fn new(health: Health, readiness: &Readiness) -> Self {
        Self {
            health,
            source: Sign::new(readiness, "a complete list of the source"),
            identity: Sign::new(readiness, "the source's identity (namespace kube-system)"),
            writer: Sign::new(readiness, "the writer"),
            trouble: None,
            rejects: BTreeMap::new(),
        }
    }

    pub(crate) fn beat(&self) {
        self.health.beat();
    }

    /// How the source stands.
    pub(crate) fn source(&mut self, session: &Session, identity_trouble: Option<&str>) {
        self.source.set(session.is_complete());
        self.identity.set(session.incarnation().is_some() && identity_trouble.is_none());
        let trouble = session.trouble();
        if trouble == self.trouble {
            return;
        }
        match &trouble {
            Some(reason) if session.unknown().is_some() => {
                tracing::warn!(reason, "the source is unknown: nothing is removed until it is read again");
            }
            Some(reason) => tracing::warn!(reason, "trouble with the source"),
            None => tracing::info!("the source is well again"),
        }
        self.trouble = trouble;
    }

    /// Whether the writer has taken us in.
    pub(crate) fn writer(&mut self, up: bool) {
        self.writer.set(up);
    }

    /// The writer rejects something: told once for each key and reason.
    pub(crate) fn rejected(&mut self, reject: &Reject) {
        let Reject { key, reason, retryable, message } = reject;
        let Some(key) = key else {
            tracing::warn!(reason = reason.as_str(), message, "the writer could not read a message");
            return;
        };
        if self.rejects.get(key) == Some(reason) {
            return;
        }
        tracing::warn!(service = %key, reason = reason.as_str(), retryable, message, "the writer rejects a Service");
        if self.rejects.len() >= REMEMBERED {
            self.rejects.pop_first();
        }
        self.rejects.insert(key.clone(), *reason);
    }

    /// A Service is gone, and what was said of it with it.
    pub(crate) fn gone(&mut self, key: &SourceKey) {
        self.rejects.remove(key);
    }

    /// A reject is over.
    pub(crate) fn resolved(&mut self, key: &SourceKey) {
        if self.rejects.remove(key).is_some() {
            tracing::info!(service = %key, "the writer no longer rejects a Service");
        }
    }
}
