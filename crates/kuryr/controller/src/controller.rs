//! The controller: what comes in, and what goes out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use gimbal_kuryr_model::Text;
use gimbal_kuryr_model::{CloudFacts, DesiredKey, DesiredKind, FreeQuota, LoadBalancerReport, MemberMode};
use gimbal_kuryr_resource::{
    ChangedServices, ClusterKnowledge, ClusterObject, ClusterWrite, KindReading, KuryrKind, ObjectNotice, ObjectPauses,
    OfferedEntry, ReadyTimes, ResourceCounts, Sighting, WriteOutcome,
};
use gimbal_kuryr_translate::{Nodes, ServiceIndex};
use gimbal_kuryr_wire::PackedEntry;
use gimbal_model::SourceKey;
use gimbal_schedule::{Queue, Urgency};
use jiff::Timestamp;

use crate::held::RecentBalancers;
use crate::item::{BalancerItem, WRITTEN};
use crate::routers::RouterUids;
use crate::timing::is_shown_ready;
use crate::{KuryrSettings, WatchedObject};

/// The state of the controller. `T` is what identifies a report towards the session that brought it.
#[derive(Debug)]
pub struct KuryrController<T> {
    pub(crate) settings: KuryrSettings,
    pub(crate) index: ServiceIndex,
    pub(crate) nodes: Nodes,
    pub(crate) listed_nodes: BTreeSet<Text>,
    /// A node of the map has room for more than it holds, so they are not in it.
    pub(crate) items: BTreeMap<SourceKey, Box<BalancerItem<T>>>,
    pub(crate) recent: RecentBalancers,
    /// How much has been read of each kind.
    pub(crate) readings: [KindReading; KuryrKind::ALL.len()],
    pub(crate) routers: RouterUids,
    /// What has changed of the Services, for another controller that uses them; unset while there is none.
    pub(crate) followed: Option<ChangedServices>,
    /// Without what changes all the time and no spec is made from.
    pub(crate) facts: Option<Arc<CloudFacts>>,
    pub(crate) leads: bool,
    /// What has to be decided again.
    pub(crate) dirty: BTreeSet<SourceKey>,
    /// Services that the watch has shown to change since the lists were complete.
    pub(crate) fresh: BTreeSet<SourceKey>,
    /// Entries that may differ from what was drained last.
    pub(crate) undrained: BTreeSet<SourceKey>,
    /// Keys with an owner that lives and has its finalizer, and of which nothing is offered.
    pub(crate) withheld: BTreeSet<SourceKey>,
    /// Keys whose owner may be that of another key, which has to be asked for first.
    pub(crate) shared_owner: BTreeSet<SourceKey>,
    /// Whether anything was learned that may end their wait.
    pub(crate) shared_owner_news: bool,
    /// Objects that may need a write. The tenant is the namespace.
    pub(crate) queue: Queue<Text, ClusterObject>,
    pub(crate) handled: Vec<T>,
    pub(crate) notices: Vec<ObjectNotice>,
    pub(crate) measured: ReadyTimes,
}

impl<T> KuryrController<T> {
    /// Returns a controller that has seen nothing and does not lead.
    #[must_use]
    pub fn new(settings: KuryrSettings) -> Self {
        Self {
            settings,
            index: ServiceIndex::default(),
            nodes: Nodes::default(),
            listed_nodes: BTreeSet::new(),
            items: BTreeMap::new(),
            recent: RecentBalancers::default(),
            readings: Default::default(),
            routers: RouterUids::default(),
            followed: None,
            facts: None,
            leads: false,
            dirty: BTreeSet::new(),
            fresh: BTreeSet::new(),
            undrained: BTreeSet::new(),
            withheld: BTreeSet::new(),
            shared_owner: BTreeSet::new(),
            shared_owner_news: false,
            queue: Queue::new(),
            handled: Vec::new(),
            notices: Vec::new(),
            measured: ReadyTimes::default(),
        }
    }

    /// Takes in an event of a watch, whether this process leads or not.
    pub fn saw<O: WatchedObject>(&mut self, sighting: Sighting<O>) {
        self.take_sighting(sighting);
    }

    /// Whether nodes have to be watched: the writer has said that members are nodes. It may change with the facts. While nodes
    /// are needed and not listed, no spec is written.
    #[must_use]
    pub fn needs_nodes(&self) -> bool {
        self.facts.as_ref().is_some_and(|facts| facts.members == MemberMode::Node)
    }

    /// Takes in what the writer says about the cloud. What it said last counts until the process ends.
    pub fn set_facts(&mut self, facts: &CloudFacts) {
        let facts = CloudFacts { quota: FreeQuota::default(), ..facts.clone() };
        if self.facts.as_deref() != Some(&facts) {
            self.facts = Some(Arc::new(facts));
            if !self.needs_nodes() {
                // Their watch ends. If they are needed again, what was known of them is out of date.
                self.forget_nodes();
            }
            self.mark_all();
        }
    }

    /// Takes in a report. `token` comes back from [`drain_handled`](Self::drain_handled) when the statuses that follow from it
    /// have been accepted by the API server, or are there already; not at all where a later report takes its place.
    pub fn reported(&mut self, key: &DesiredKey, report: &LoadBalancerReport, token: T, now: Instant) {
        let (of, key) = (key.kind, SourceKey { namespace: key.namespace.clone(), name: key.name.clone() });
        let item = self.items.get_mut(&key).filter(|item| {
            // A router may have its name.
            self.leads && of == DesiredKind::LoadBalancer && item.offer.is_about(report)
        });
        let Some(item) = item else {
            self.handled.push(token);
            return;
        };
        self.measured.measure(&mut item.offer, report, now);
        item.offer.take_report(report.clone(), token);
        (item.status_done, item.service_done) = (false, false);
        self.dirty.insert(key);
    }

    /// Begins to lead, or ceases to. Without leadership nothing is written or offered, and reports are not kept. Reports that
    /// came before leadership ended are void, and so is what was offered: the caller starts its stream over.
    pub fn set_leading(&mut self, leading: bool) {
        if std::mem::replace(&mut self.leads, leading) == leading {
            return;
        }
        if leading {
            self.mark_all();
            return;
        }
        for item in self.items.values_mut() {
            item.offer = OfferedEntry::default();
            (item.proof, item.hold, item.needs_proof, item.not_offered) = (None, None, false, None);
            // Whoever leads meanwhile may make something for them.
            (item.asked, item.unmade) = (None, [None, None]);
            item.pauses.iter_mut().for_each(ObjectPauses::nothing_to_write);
        }
        // Of some nothing is left to keep.
        self.dirty.extend(self.items.keys().cloned());
        self.undrained.clear();
        self.withheld.clear();
        self.shared_owner.clear();
        self.handled.clear();
        self.notices.clear();
    }

    /// Returns the next write, if there is one now. `now` is for pauses, `wall` for the times in conditions.
    pub fn next_write(&mut self, now: Instant, wall: Timestamp) -> Option<ClusterWrite> {
        self.settle();
        let write = if self.may_act() { self.plan_next(now, wall) } else { None };
        if write.is_none() {
            self.recent.clear();
        }
        write
    }

    fn plan_next(&mut self, now: Instant, wall: Timestamp) -> Option<ClusterWrite> {
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
        self.dirty.insert(object.key());
    }

    /// Returns the entries that changed since the last call; `None` for one that is not offered any more. Returns nothing
    /// while [`knowledge`](Self::knowledge) is [`Waiting`](ClusterKnowledge::Waiting).
    pub fn drain(&mut self, now: Instant) -> Vec<(DesiredKey, Option<PackedEntry>)> {
        self.settle();
        if self.waits_for().is_some() {
            return Vec::new();
        }
        let mut drained = Vec::new();
        for key in std::mem::take(&mut self.undrained) {
            let Some(item) = self.items.get_mut(&key) else { continue };
            let BalancerItem { offer, held, .. } = &mut **item;
            let Some(found) = offer.drain(now, |generation| is_shown_ready(held.as_ref(), generation)) else {
                continue;
            };
            self.handled.extend(found.token);
            let desired = DesiredKey::new(DesiredKind::LoadBalancer, key.namespace.clone(), key.name.clone());
            drained.push((desired, found.entry));
            self.forget_idle(&key);
        }
        drained
    }

    /// Returns the tokens of the reports that have been dealt with since the last call.
    pub fn drain_handled(&mut self) -> Vec<T> {
        self.settle();
        std::mem::take(&mut self.handled)
    }

    /// Returns what is to be reported by Events since the last call.
    pub fn drain_notices(&mut self) -> Vec<ObjectNotice> {
        std::mem::take(&mut self.notices)
    }

    /// Returns how much is known.
    #[must_use]
    pub fn knowledge(&self) -> ClusterKnowledge {
        if let Some(reason) = self.waits_for() {
            return ClusterKnowledge::Waiting(reason);
        }
        // What is offered are KuryrLoadBalancers, and they go with their Services. Nothing else counts.
        let unreadable =
            [KuryrKind::Service, KuryrKind::LoadBalancer].into_iter().find_map(|kind| self.unreadable(kind));
        if let Some(reason) = unreadable {
            return ClusterKnowledge::Unreadable(reason);
        }
        let mut namespaces: Vec<Text> = self.withheld.iter().map(|key| key.namespace.clone()).collect();
        namespaces.dedup();
        if namespaces.is_empty() { ClusterKnowledge::Complete } else { ClusterKnowledge::Partial(namespaces) }
    }

    /// Returns when [`next_write`](Self::next_write) may have something although nothing happened. A write that could go now
    /// has no deadline: it has been asked for already.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if self.may_act() { self.queue.next_deadline() } else { None }
    }

    /// Returns how the controller was started.
    #[must_use]
    pub fn settings(&self) -> &KuryrSettings {
        &self.settings
    }

    /// Returns how many Services are known.
    #[must_use]
    pub fn count_services(&self) -> usize {
        self.index.services().count()
    }

    /// Returns how many KuryrLoadBalancers there are, and writes, for metrics.
    #[must_use]
    pub fn counts(&self) -> ResourceCounts {
        let mut counts =
            ResourceCounts { queued: self.queue.len(), in_flight: self.queue.in_flight(), ..ResourceCounts::default() };
        for item in self.items.values() {
            counts.add(item.held.is_some(), &item.offer);
            counts.failing += item.pauses.iter().filter(|pauses| pauses.is_failing()).count();
            counts.not_offered += usize::from(item.not_offered.is_some());
        }
        if self.facts.is_none() {
            counts.waiting_for_writer = counts.known;
        }
        counts
    }

    pub(crate) fn mark_all(&mut self) {
        if let Some(followed) = &mut self.followed {
            followed.all = true;
        }
        self.dirty.extend(self.items.keys().cloned());
        self.dirty.extend(self.index.services().cloned());
    }

    /// Whether this process leads and knows what exists.
    pub(crate) fn may_act(&self) -> bool {
        self.leads && self.unread().is_none()
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

    /// Enqueues both objects of a key.
    pub(crate) fn enqueue(&mut self, key: &SourceKey) {
        for kind in WRITTEN {
            let object = ClusterObject::new(key, kind);
            self.queue.push(&object, &key.namespace, Urgency::Fresh);
        }
    }

    pub(crate) fn forget_idle(&mut self, key: &SourceKey) {
        let Some(item) = self.items.get_mut(key) else { return };
        if item.held.is_none() && self.index.service(key).is_none() {
            item.pauses.iter_mut().for_each(ObjectPauses::object_gone);
        }
        if item.is_idle() {
            self.items.remove(key);
        }
    }
}
