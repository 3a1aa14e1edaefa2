//! Watch calls. Each asks for the next events when it has sent the last ones. Changes in between are kept as a set of
//! keys, so a slow reader costs no more than a fast one and never misses the last state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Weak;

use gimbal_model::SourceKey;
use gimbal_transport::pb;
use pb::watch_response::{Event, SnapshotDone};
use tokio::sync::oneshot;

use crate::inspection_view::InspectionView;

/// Largest number of events in a batch.
const BATCH: usize = 256;

/// A batch of events.
pub(crate) type Batch = Vec<pb::WatchResponse>;

/// All open Watch calls.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    last: u64,
    watchers: BTreeMap<u64, Watcher>,
}

#[derive(Debug)]
struct Watcher {
    namespace: String,
    alive: Weak<()>,
    /// Keys of the first snapshot that were not sent yet; `None` when it is done.
    snapshot: Option<BTreeSet<SourceKey>>,
    /// Keys that changed since they were sent.
    dirty: BTreeSet<SourceKey>,
    /// Keys that were sent as pending, which an acknowledgement changes.
    pending: BTreeSet<SourceKey>,
    asking: Option<oneshot::Sender<Batch>>,
}

impl Watchers {
    /// Adds a Watch call, which lasts for as long as `alive` is held.
    pub(crate) fn add(&mut self, view: &InspectionView<'_>, request: &pb::WatchRequest, alive: Weak<()>) -> u64 {
        let namespace = request.namespace.clone();
        let wanted = |key: &SourceKey| namespace.is_empty() || *key.namespace == *namespace;
        let shown = view.is_asked_for(&request.backend);
        let snapshot = view.offer.agent.services().map(|(key, _)| key.clone());
        let snapshot = snapshot.filter(|key| shown && wanted(key)).collect();
        self.last += 1;
        let watcher = Watcher {
            namespace,
            alive,
            snapshot: Some(snapshot),
            dirty: BTreeSet::new(),
            pending: BTreeSet::new(),
            asking: None,
        };
        self.watchers.insert(self.last, watcher);
        self.last
    }

    /// Called when a Watch call asks for its next batch.
    pub(crate) fn ask(&mut self, view: &InspectionView<'_>, id: u64, reply: oneshot::Sender<Batch>) {
        if let Some(watcher) = self.watchers.get_mut(&id) {
            watcher.asking = Some(reply);
            watcher.answer(view);
        }
    }

    /// Called when Services, or their states, changed.
    pub(crate) fn changed<'a>(&mut self, view: &InspectionView<'_>, keys: impl Iterator<Item = &'a SourceKey> + Clone) {
        for watcher in self.watchers.values_mut() {
            for key in keys.clone() {
                watcher.touch(key);
            }
            watcher.answer(view);
        }
    }

    /// Called when the writer acknowledged something.
    pub(crate) fn acknowledged(&mut self, view: &InspectionView<'_>) {
        for watcher in self.watchers.values_mut() {
            let news: Vec<_> =
                watcher.pending.iter().filter(|key| !view.offer.agent.is_pending(key)).cloned().collect();
            for key in news {
                watcher.touch(&key);
            }
            watcher.answer(view);
        }
    }

    /// Called when every state may have changed, with the source or the stream.
    pub(crate) fn everything(&mut self, view: &InspectionView<'_>, gone: &[SourceKey]) {
        if self.watchers.is_empty() {
            return;
        }
        let all: Vec<_> = view.offer.agent.services().map(|(key, _)| key.clone()).chain(gone.iter().cloned()).collect();
        self.changed(view, all.iter());
    }

    /// Drops Watch calls that ended.
    pub(crate) fn prune(&mut self) {
        self.watchers.retain(|_, watcher| watcher.alive.strong_count() > 0);
    }
}

impl Watcher {
    fn touch(&mut self, key: &SourceKey) {
        let wanted = self.namespace.is_empty() || *key.namespace == *self.namespace;
        // The rest of the snapshot is sent in its newest state anyway.
        let still_to_come = self.snapshot.as_ref().is_some_and(|keys| keys.contains(key));
        if wanted && !still_to_come {
            self.dirty.insert(key.clone());
        }
    }

    fn answer(&mut self, view: &InspectionView<'_>) {
        if self.asking.is_none() || (self.snapshot.is_none() && self.dirty.is_empty()) {
            return;
        }
        let batch = self.batch(view);
        // A reader that is gone is pruned soon.
        if let Some(reply) = self.asking.take()
            && reply.send(batch).is_err()
        {
            self.alive = Weak::new();
        }
    }

    fn batch(&mut self, view: &InspectionView<'_>) -> Batch {
        let mut batch = Vec::new();
        while batch.len() < BATCH {
            let event = match &mut self.snapshot {
                Some(keys) => match keys.pop_first() {
                    Some(key) => self.event(view, key),
                    None => {
                        self.snapshot = None;
                        Event::SnapshotDone(SnapshotDone {})
                    }
                },
                None => match self.dirty.pop_first() {
                    Some(key) => self.event(view, key),
                    None => break,
                },
            };
            batch.push(pb::WatchResponse { event: Some(event) });
        }
        batch
    }

    fn event(&mut self, view: &InspectionView<'_>, key: SourceKey) -> Event {
        match view.service(&key) {
            Some(status) => {
                if status.state() == pb::ServiceState::Pending {
                    self.pending.insert(key);
                } else {
                    self.pending.remove(&key);
                }
                Event::Service(status)
            }
            None => {
                self.pending.remove(&key);
                Event::Gone(pb::ServiceGone { backend: view.backend.to_string(), source: Some((&key).into()) })
            }
        }
    }
}
