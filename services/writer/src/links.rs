//! What the writer knows of the links to agents beside what they say: how long their changes take, and when their
//! certificates end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use gimbal_model::BackendName;

use crate::lag::{LagHistory, LagSummary};

/// The links of all backends.
#[derive(Debug, Default)]
pub(crate) struct Links(BTreeMap<BackendName, Link>);

/// The link of one backend.
#[derive(Debug, Default)]
struct Link {
    lag: LagHistory,
    /// The newest stream, and when the client certificate with which it was opened ends.
    certificate: Option<(u64, SystemTime)>,
}

impl Links {
    /// A stream was opened with a client certificate, or without one.
    pub(crate) fn opened(&mut self, backend: &BackendName, generation: u64, certificate_ends: Option<SystemTime>) {
        let certificate = certificate_ends.map(|ends| (generation, ends));
        self.0.entry(backend.clone()).or_default().certificate = certificate;
    }

    /// A stream ended. What is known of a newer one stays.
    pub(crate) fn closed(&mut self, backend: &BackendName, generation: u64) {
        if let Some(link) = self.0.get_mut(backend) {
            link.certificate.take_if(|(newest, _)| *newest == generation);
        }
    }

    /// A change of a backend was written `lag` after its source reported it.
    pub(crate) fn written(&mut self, backend: &BackendName, lag: Duration, now: Instant) {
        self.0.entry(backend.clone()).or_default().lag.record(lag, now);
    }

    /// Returns what the latest changes of a backend took; `None`: there were none.
    pub(crate) fn lag(&self, backend: &BackendName, now: Instant) -> Option<LagSummary> {
        self.0.get(backend)?.lag.recent(now)
    }

    /// Returns what the changes of a backend took, minute by minute, the oldest first, each with its age.
    pub(crate) fn lag_by_minute(
        &self,
        backend: &BackendName,
        now: Instant,
    ) -> impl Iterator<Item = (Duration, LagSummary)> {
        self.0.get(backend).into_iter().flat_map(move |link| link.lag.minutes(now))
    }

    /// Returns when the client certificate of a backend's stream ends; `None`: no stream, or one without a certificate.
    pub(crate) fn certificate_ends(&self, backend: &BackendName) -> Option<SystemTime> {
        self.0.get(backend)?.certificate.map(|(_, ends)| ends)
    }

    /// Forgets the backends that are no longer known.
    pub(crate) fn keep(&mut self, is_known: impl Fn(&BackendName) -> bool) {
        self.0.retain(|backend, _| is_known(backend));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_older_stream_takes_nothing_from_the_newer_one() {
        let (mut links, now) = (Links::default(), Instant::now());
        let name = BackendName::parse("a").unwrap();
        let later = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        links.opened(&name, 1, Some(SystemTime::UNIX_EPOCH));
        links.opened(&name, 2, Some(later));
        links.closed(&name, 1);
        assert_eq!(links.certificate_ends(&name), Some(later));
        links.closed(&name, 2);
        assert_eq!(links.certificate_ends(&name), None);
        links.written(&name, Duration::from_millis(5), now);
        assert_eq!(links.lag(&name, now).unwrap().changes, 1);
        links.keep(|_| false);
        assert_eq!(links.lag(&name, now), None);
    }
}
