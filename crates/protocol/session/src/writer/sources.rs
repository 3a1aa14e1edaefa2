//! When the source of a backend was last heard, as far as its agents say.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::WriterEnd;
use crate::{Freshness, Payload};

/// What heartbeats said of the source.
#[derive(Debug, Clone, Default)]
pub(super) struct HeardSources {
    /// As the last heartbeat said it.
    freshness: Vec<Freshness>,
    /// When the newest stream opened.
    opened: Option<Instant>,
    /// When the last heartbeat of that stream came.
    heartbeat: Option<Instant>,
    /// The agent's clock then, in milliseconds since 1970, if it said so.
    clock_ms: Option<i64>,
    /// Since when each kind of the last heartbeat is silent. It outlives streams: an agent that restarts behind a silent
    /// source has heard nothing, and does not know for how long.
    silent_since: BTreeMap<String, Instant>,
}

impl HeardSources {
    /// A stream opened.
    pub(super) fn opened(&mut self, now: Instant) {
        (self.opened, self.heartbeat, self.clock_ms) = (Some(now), None, None);
    }

    /// A heartbeat came.
    pub(super) fn heard(&mut self, sources: Vec<Freshness>, clock_ms: Option<i64>, now: Instant) {
        let before = std::mem::take(&mut self.silent_since);
        for Freshness { kind, age } in &sources {
            let heard = age.and_then(|age| now.checked_sub(age));
            let since = heard.or_else(|| before.get(kind).copied()).or(self.opened).unwrap_or(now);
            // An agent may name a kind twice.
            let oldest = self.silent_since.entry(kind.clone()).or_insert(since);
            *oldest = since.min(*oldest);
        }
        (self.freshness, self.heartbeat, self.clock_ms) = (sources, Some(now), clock_ms);
    }
}

impl<P: Payload> WriterEnd<P> {
    /// Returns when the source was last heard, as of the last heartbeat.
    #[must_use]
    pub fn freshness(&self) -> &[Freshness] {
        &self.sources.freshness
    }

    /// Returns each kind of the last heartbeat, and since when the source has said nothing about it. A kind that the agent
    /// never heard is silent since an earlier agent heard it, or else since the first stream whose agent awaited it.
    pub fn silent_since(&self) -> impl Iterator<Item = (&str, Instant)> {
        self.sources.silent_since.iter().map(|(kind, since)| (kind.as_str(), *since))
    }

    /// Returns what the agent's clock shows now, in milliseconds since 1970, if it has gone on since the last heartbeat of the
    /// stream; `None`: the agent did not say.
    #[must_use]
    pub fn agent_clock_ms(&self, now: Instant) -> Option<i64> {
        let since = now.saturating_duration_since(self.sources.heartbeat?).as_millis();
        Some(self.sources.clock_ms?.saturating_add(i64::try_from(since).unwrap_or(i64::MAX)))
    }

    /// Returns how long ago the kind that was silent for longest was heard; `None` before the first heartbeat of the
    /// stream. A kind that was never heard counts as [`Duration::MAX`].
    #[must_use]
    pub fn silence(&self, now: Instant) -> Option<Duration> {
        let since = now.saturating_duration_since(self.sources.heartbeat?);
        let longest = self.sources.freshness.iter().map(|source| source.age.unwrap_or(Duration::MAX)).max();
        Some(longest.unwrap_or_default().saturating_add(since))
    }
}
