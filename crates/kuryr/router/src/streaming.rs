//! What goes to the writer, and what comes from it.

use std::time::Instant;

use gimbal_kuryr_model::{DesiredKey, DesiredKind, LoadBalancerReport, Text};
use gimbal_kuryr_resource::ClusterKnowledge;
use gimbal_kuryr_wire::PackedEntry;
use gimbal_model::SourceKey;

use crate::RouterController;
use crate::item::RouterItem;

impl<T> RouterController<T> {
    /// Takes in a report. `token` comes back from [`drain_handled`](Self::drain_handled) when the status that follows from it has
    /// been accepted by the API server, or is there already; not at all where a later report takes its place.
    pub fn reported(&mut self, key: &DesiredKey, report: &LoadBalancerReport, token: T, now: Instant) {
        let key = source_key(key);
        let item = self.routers.get_mut(&key).filter(|item| self.leads && item.offer.is_about(report));
        let Some(item) = item else {
            self.handled.push(token);
            return;
        };
        self.measured.measure(&mut item.offer, report, now);
        item.offer.take_report(report.clone(), token);
        // What they show may change.
        self.dirty_ingresses.extend(item.ingresses.keys().cloned());
        // Routers that they move away from wait for this.
        let elsewhere =
            item.ingresses.keys().filter_map(|ingress| self.ingresses.get(ingress)).flat_map(|item| &item.on);
        self.dirty.extend(elsewhere.cloned());
        self.dirty.insert(key);
    }

    /// Takes in that the writer does not try an entry, and why: `reason` is one word, `message` is for the owner. That holds,
    /// whatever becomes of the entry, until [`resolved`](Self::resolved).
    pub fn rejected(&mut self, key: &DesiredKey, reason: &'static str, message: &str) {
        if self.leads {
            let key = source_key(key);
            self.routers.entry(key.clone()).or_default().offer.rejected(reason, message);
            self.dirty.insert(key);
        }
    }

    /// Takes in that the writer tries an entry that it refused before.
    pub fn resolved(&mut self, key: &DesiredKey, now: Instant) {
        let key = source_key(key);
        if let Some(RouterItem { offer, kept, .. }) = self.routers.get_mut(&key) {
            offer.resolved(now, |generation| RouterItem::<T>::shows_ready(kept, generation));
            self.dirty.insert(key);
        }
    }

    /// Takes in that there is a new stream. What holds is said again on it, of each entry before a report of it. What is not
    /// said again has passed.
    pub fn stream_opened(&mut self) {
        for (key, item) in &mut self.routers {
            if item.offer.stream_opened() {
                self.dirty.insert(key.clone());
            }
        }
    }

    /// Returns the entries that changed since the last call; `None` for one that is not offered any more. Returns nothing
    /// while [`knowledge`](Self::knowledge) is [`Waiting`](ClusterKnowledge::Waiting).
    pub fn drain(&mut self, now: Instant) -> Vec<(DesiredKey, Option<PackedEntry>)> {
        if self.waits_for().is_some() {
            return Vec::new();
        }
        let mut drained = Vec::new();
        for key in std::mem::take(&mut self.undrained) {
            let Some(RouterItem { offer, kept, .. }) = self.routers.get_mut(&key) else { continue };
            let shows_ready = |generation| RouterItem::<T>::shows_ready(kept, generation);
            let Some(found) = offer.drain(now, shows_ready) else { continue };
            self.handled.extend(found.token);
            let desired = DesiredKey::new(DesiredKind::L7Router, key.namespace.clone(), key.name.clone());
            drained.push((desired, found.entry));
            // Whoever leaves it may go now.
            self.dirty.insert(key);
        }
        drained
    }

    /// Returns how much is known.
    #[must_use]
    pub fn knowledge(&self) -> ClusterKnowledge {
        let unreadable = self.unreadable().filter(|_| self.leads && self.facts.is_some());
        if let Some(reason) = unreadable {
            return ClusterKnowledge::Unreadable(reason);
        }
        if let Some(reason) = self.waits_for() {
            return ClusterKnowledge::Waiting(reason);
        }
        let mut namespaces: Vec<Text> = self.withheld.iter().map(|key| key.namespace.clone()).collect();
        namespaces.dedup();
        if namespaces.is_empty() { ClusterKnowledge::Complete } else { ClusterKnowledge::Partial(namespaces) }
    }

    /// Why nothing can be offered.
    fn waits_for(&self) -> Option<String> {
        if !self.leads {
            return Some("another process leads".to_owned());
        }
        let no_facts =
            || self.facts.is_none().then(|| "the writer has not said anything about the cloud yet".to_owned());
        self.unread().or_else(no_facts)
    }
}

pub(crate) fn source_key(key: &DesiredKey) -> SourceKey {
    SourceKey { namespace: key.namespace.clone(), name: key.name.clone() }
}
