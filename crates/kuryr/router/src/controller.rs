//! The controller: what comes in, and what goes out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_kuryr_model::{CloudFacts, FreeQuota, Text};
use gimbal_kuryr_resource::{
    ChangedServices, ClusterObject, ClusterWrite, KindReading, KnownServices, KuryrKind, LateCounts, ObjectNotice,
    OfferedEntry, ReadyTimes, Sighting, WriteOutcome,
};
use gimbal_kuryr_translate::{IngressIndex, SecretIndex};
use gimbal_model::SourceKey;
use gimbal_schedule::{Queue, Urgency};
use jiff::Timestamp;

use crate::item::{IngressItem, RouterItem};
use crate::{RoutedObject, RouterSettings};

/// The state of the controller. `T` is what identifies a report towards the session that brought it.
#[derive(Debug)]
pub struct RouterController<T> {
    pub(crate) settings: RouterSettings,
    pub(crate) index: IngressIndex,
    pub(crate) ingresses: BTreeMap<SourceKey, IngressItem>,
    pub(crate) routers: BTreeMap<SourceKey, RouterItem<T>>,
    /// What is known of Secrets with certificates.
    pub(crate) secrets: SecretIndex,
    /// How much has been read of Ingresses, their classes, KuryrL7Routers and Secrets.
    pub(crate) readings: [KindReading; 4],
    /// Whether what is known of Services may be acted upon.
    pub(crate) services_are_current: bool,
    /// Without what changes all the time and no spec is made from.
    pub(crate) facts: Option<Arc<CloudFacts>>,
    pub(crate) leads: bool,
    /// What has to be decided again.
    pub(crate) dirty: BTreeSet<SourceKey>,
    /// Ingresses that have to be looked at again.
    pub(crate) dirty_ingresses: BTreeSet<SourceKey>,
    /// Entries that may differ from what was drained last.
    pub(crate) undrained: BTreeSet<SourceKey>,
    /// Routers that live and have their finalizer, and of which nothing is offered.
    pub(crate) withheld: BTreeSet<SourceKey>,
    /// Objects that may need a write. The tenant is the namespace.
    pub(crate) queue: Queue<Text, ClusterObject>,
    pub(crate) handled: Vec<T>,
    pub(crate) notices: Vec<ObjectNotice>,
    pub(crate) measured: ReadyTimes,
}

impl<T> RouterController<T> {
    /// Returns a controller that has seen nothing and does not lead.
    #[must_use]
    pub fn new(settings: RouterSettings) -> Self {
        Self {
            index: IngressIndex::new(settings.ingresses.clone()),
            settings,
            ingresses: BTreeMap::new(),
            routers: BTreeMap::new(),
            secrets: SecretIndex::default(),
            readings: Default::default(),
            services_are_current: false,
            facts: None,
            leads: false,
            dirty: BTreeSet::new(),
            dirty_ingresses: BTreeSet::new(),
            undrained: BTreeSet::new(),
            withheld: BTreeSet::new(),
            queue: Queue::new(),
            handled: Vec::new(),
            notices: Vec::new(),
            measured: ReadyTimes::default(),
        }
    }

    /// Takes in an event of a watch, whether this process leads or not.
    pub fn saw<O: RoutedObject>(&mut self, sighting: Sighting<O>) {
        self.take_sighting(sighting);
    }

    /// Takes in what the writer says about the cloud. What it said last counts until the process ends.
    pub fn set_facts(&mut self, facts: &CloudFacts) {
        let facts = CloudFacts { quota: FreeQuota::default(), ..facts.clone() };
        if self.facts.as_deref() != Some(&facts) {
            self.facts = Some(Arc::new(facts));
            self.mark_all();
        }
    }

    /// Decides everything that changed, with the Services as they are known, and what has changed of them.
    pub fn decide(&mut self, services: KnownServices<'_>, changed: ChangedServices) {
        let was_current = std::mem::replace(&mut self.services_are_current, services.are_current);
        if changed.all || (services.are_current && !was_current) {
            self.mark_routers();
        }
        for key in &changed.keys {
            self.index.service_changed(key);
        }
        self.settle(services);
    }

    /// Begins to lead, or ceases to. Without leadership nothing is written or offered, and reports are not kept. Reports that
    /// came before leadership ended are void, and so is what was offered: the caller starts its stream over.
    pub fn set_leading(&mut self, leading: bool) {
        if std::mem::replace(&mut self.leads, leading) == leading {
            return;
        }
        if leading {
            return self.mark_all();
        }
        for item in self.routers.values_mut() {
            item.offer = OfferedEntry::default();
            // Whoever leads meanwhile may make something for it.
            (item.hold, item.not_offered, item.unmade) = (None, None, None);
            item.pauses.nothing_to_write();
        }
        for item in self.ingresses.values_mut() {
            (item.needs_proof, item.proof) = (false, None);
            item.pauses.nothing_to_write();
        }
        // Of some nothing is left to keep.
        self.mark_all();
        self.undrained.clear();
        self.withheld.clear();
        self.handled.clear();
        self.notices.clear();
    }

    /// Returns the next write, if there is one now. `now` is for pauses, `wall` for the times in conditions.
    pub fn next_write(&mut self, now: Instant, wall: Timestamp) -> Option<ClusterWrite> {
        if !self.may_act() {
            return None;
        }
        while let Some(object) = self.queue.pop(now) {
            if let Some(write) = self.plan(&object, now, wall) {
                self.queue.start(object);
                return Some(write);
            }
        }
        None
    }

    /// Takes in how a write ended.
    pub fn wrote(&mut self, object: &ClusterObject, outcome: WriteOutcome, now: Instant) {
        self.take_outcome(object, outcome, now);
        self.queue.done(object);
        match object.kind {
            KuryrKind::Ingress => self.dirty_ingresses.insert(object.key()),
            _ => self.dirty.insert(object.key()),
        };
    }

    /// Returns the tokens of the reports that have been dealt with since the last call.
    pub fn drain_handled(&mut self) -> Vec<T> {
        std::mem::take(&mut self.handled)
    }

    /// Returns what is to be reported by Events since the last call.
    pub fn drain_notices(&mut self) -> Vec<ObjectNotice> {
        std::mem::take(&mut self.notices)
    }

    /// Returns how long those routers took that became ready since the last call: from when a change of theirs was first offered
    /// to when everything that was offered by then is there.
    pub fn drain_times(&mut self) -> Vec<Duration> {
        self.measured.drain_times()
    }

    /// Returns how often since the last call a router was reported as degraded that was not before.
    pub fn drain_stuck(&mut self) -> u64 {
        self.measured.drain_stuck()
    }

    /// Looks which routers are ready, and counts those that have not been for long. Call it about once a second. A process counts
    /// from when it began to lead, at the earliest.
    pub fn count_late(&mut self, now: Instant) -> LateCounts {
        let mut counts = LateCounts::default();
        for RouterItem { offer, kept, .. } in self.routers.values_mut() {
            counts.add(offer.note_unready(now, |generation| RouterItem::<T>::shows_ready(kept, generation)));
        }
        counts
    }

    /// Returns when [`next_write`](Self::next_write) may have something although nothing happened. A write that could go now
    /// has no deadline: it has been asked for already.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if self.may_act() { self.queue.next_deadline() } else { None }
    }

    /// Returns how the controller was started.
    #[must_use]
    pub fn settings(&self) -> &RouterSettings {
        &self.settings
    }

    /// Whether Ingresses are served, as far as the writer has said.
    pub(crate) fn is_enabled(&self) -> bool {
        self.facts.as_ref().is_some_and(|facts| facts.enable_ingress)
    }

    pub(crate) fn mark_routers(&mut self) {
        self.routers.values_mut().for_each(|item| item.stale = true);
        self.dirty.extend(self.routers.keys().cloned());
        self.dirty.extend(self.index.routers().cloned());
        self.dirty.insert(self.settings.ingresses.shared.clone());
    }

    pub(crate) fn mark_all(&mut self) {
        self.mark_routers();
        self.dirty_ingresses.extend(self.ingresses.keys().cloned());
    }

    /// Whether this process leads and knows what exists.
    pub(crate) fn may_act(&self) -> bool {
        self.leads && self.unread().is_none()
    }

    pub(crate) fn enqueue(&mut self, key: &SourceKey, kind: KuryrKind) {
        self.queue.push(&ClusterObject::new(key, kind), &key.namespace, Urgency::Fresh);
    }

    /// Removes what nothing is left to keep of.
    pub(crate) fn forget_idle(&mut self, key: &SourceKey) {
        if let Some(item) = self.routers.get_mut(key) {
            if item.kept.object().is_none() && item.wanted == crate::item::WantedSpec::None {
                item.pauses.object_gone();
            }
            if item.is_idle() {
                self.routers.remove(key);
            }
        }
    }

    /// The same for an Ingress.
    pub(crate) fn forget_idle_ingress(&mut self, key: &SourceKey) {
        if let Some(item) = self.ingresses.get_mut(key) {
            if item.kept.object().is_none() && item.on.is_empty() {
                item.pauses.object_gone();
            }
            if item.is_idle() {
                self.ingresses.remove(key);
            }
        }
    }
}
