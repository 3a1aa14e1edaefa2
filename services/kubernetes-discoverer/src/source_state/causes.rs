//! When the changes of Services began in the source, as far as the endpoints controllers say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gimbal_kubernetes_client::WatchEvent;
use gimbal_kubernetes_objects::{self as objects, Meta, Object, keys};
use gimbal_model::SourceKey;
use jiff::Timestamp;

/// The annotation by which a controller says when the change began that it writes, for example when a pod became ready. A
/// controller that does not know removes it.
const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// When the changes began that were not drained yet.
#[derive(Debug, Default)]
pub(super) struct Causes {
    /// What began before is no change that this process has seen.
    started: Option<SystemTime>,
    /// The earliest cause of each Service's changes.
    pending: BTreeMap<SourceKey, SystemTime>,
    /// For each Service that was drained last, the time from its cause until then.
    drained: BTreeMap<SourceKey, Duration>,
}

/// An object with endpoints of a Service.
pub(super) trait OfService: Object {
    /// Returns the name of the Service.
    fn service(meta: &Meta) -> Option<&Arc<str>>;
}

impl OfService for objects::EndpointSlice {
    fn service(meta: &Meta) -> Option<&Arc<str>> {
        meta.labels.get(keys::SERVICE_NAME)
    }
}

impl OfService for objects::Endpoints {
    fn service(meta: &Meta) -> Option<&Arc<str>> {
        Some(&meta.name)
    }
}

impl Causes {
    /// Notes when the change of an object began.
    pub(super) fn note<T: OfService>(&mut self, event: &WatchEvent<T>) {
        match event {
            WatchEvent::Applied(object) => self.note_object(object),
            WatchEvent::Listed(page) => page.iter().for_each(|object| self.note_object(object)),
            _ => {}
        }
    }

    fn note_object<T: OfService>(&mut self, object: &T) {
        let meta = object.meta();
        let said = meta.annotations.get(TRIGGER_TIME).and_then(|text| text.parse::<Timestamp>().ok());
        let (Some(said), Some(service)) = (said, T::service(meta)) else { return };
        let (said, key) = (SystemTime::from(said), SourceKey::new(meta.namespace.clone(), service.clone()));
        if self.started.is_some_and(|started| said >= started) {
            let known = self.pending.entry(key).or_insert(said);
            *known = said.min(*known);
        }
    }

    /// What was noted is drained at this time.
    pub(super) fn drain(&mut self, wall: SystemTime) {
        self.started.get_or_insert(wall);
        // The clock of the source may be ahead of ours.
        let age = |cause| wall.duration_since(cause).unwrap_or_default();
        self.drained = std::mem::take(&mut self.pending).into_iter().map(|(key, cause)| (key, age(cause))).collect();
    }

    /// Returns the time from the cause of a Service's change until it was drained.
    pub(super) fn caused(&self, key: &SourceKey) -> Option<Duration> {
        self.drained.get(key).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn slice(service: &str, said: Option<&str>) -> objects::EndpointSlice {
        let mut slice = objects::EndpointSlice::default();
        slice.metadata.namespace = "team1".into();
        slice.metadata.labels.insert(keys::SERVICE_NAME.into(), service.into());
        slice.metadata.annotations.extend(said.map(|said| (TRIGGER_TIME.into(), said.into())));
        slice
    }

    fn at(text: &str) -> SystemTime {
        text.parse::<Timestamp>().unwrap().into()
    }

    #[test]
    fn the_earliest_cause_of_what_is_drained_at_once_counts() {
        let mut causes = Causes::default();
        let (web, api) = (SourceKey::new("team1", "web"), SourceKey::new("team1", "api"));
        // What the first list says is no change.
        causes.note(&WatchEvent::Listed(vec![slice("web", Some("2026-01-01T00:00:00Z"))]));
        causes.drain(at("2026-01-01T00:00:10Z"));
        assert_eq!(causes.caused(&web), None);
        for said in ["2026-01-01T00:00:12.5Z", "2026-01-01T00:00:11Z", "2026-01-01T00:00:09Z", "yesterday"] {
            causes.note(&WatchEvent::Applied(slice("web", Some(said))));
        }
        causes.note(&WatchEvent::Applied(slice("api", None)));
        causes.drain(at("2026-01-01T00:00:13Z"));
        assert_eq!((causes.caused(&web), causes.caused(&api)), (Some(2 * SECOND), None));
        causes.drain(at("2026-01-01T00:00:14Z"));
        assert_eq!(causes.caused(&web), None, "each counts once");
        causes.note(&WatchEvent::Listed(vec![slice("api", Some("2026-01-01T01:00:00Z"))]));
        causes.drain(at("2026-01-01T00:00:15Z"));
        assert_eq!(causes.caused(&api), Some(Duration::ZERO), "the source's clock is ahead");
    }
}
