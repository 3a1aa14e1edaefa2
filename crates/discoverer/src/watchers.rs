//! Watch calls. Each asks for the next events when it has sent the last ones. Changes in between are kept as a set of
//! keys, so a slow reader costs no more than a fast one and never misses the last state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Weak;

use gimbal_session::Key as _;
use gimbal_transport::pb;
use pb::watch_response::{Event, SnapshotDone};
use tokio::sync::oneshot;

use crate::inspection_view::InspectionView;
use crate::payload::OfferedPayload;

/// Largest number of events in a batch.
const BATCH: usize = 256;

/// A batch of events.
pub(crate) type Batch = Vec<pb::WatchResponse>;

/// All open Watch calls.
#[derive(Debug)]
pub(crate) struct Watchers<P: OfferedPayload> {
    last: u64,
    watchers: BTreeMap<u64, Watcher<P>>,
}

#[derive(Debug)]
struct Watcher<P: OfferedPayload> {
    /// Whether the call asks for this backend. If it does not, it never has an event.
    is_asked_for: bool,
    /// The only namespace that is sent; empty for all.
    namespace: String,
    alive: Weak<()>,
    /// Keys of the first snapshot that were not sent yet; `None` when it is done.
    snapshot: Option<BTreeSet<P::Key>>,
    /// Keys that changed since they were sent.
    dirty: BTreeSet<P::Key>,
    /// Keys that were sent as pending, which an acknowledgement changes.
    pending: BTreeSet<P::Key>,
    reply: Option<oneshot::Sender<Batch>>,
}

impl<P: OfferedPayload> Default for Watchers<P> {
    fn default() -> Self {
        Self { last: 0, watchers: BTreeMap::new() }
    }
}

impl<P: OfferedPayload> Watchers<P> {
    /// Adds a Watch call, which lasts for as long as `alive` is held.
    pub(crate) fn add(&mut self, view: &InspectionView<'_, P>, request: &pb::WatchRequest, alive: Weak<()>) -> u64 {
        self.last += 1;
        let mut watcher: Watcher<P> = Watcher {
            is_asked_for: view.is_asked_for(&request.backend),
            namespace: request.namespace.clone(),
            alive,
            snapshot: None,
            dirty: BTreeSet::new(),
            pending: BTreeSet::new(),
            reply: None,
        };
        let keys = view.publisher.agent.entries().map(|(key, _)| key);
        watcher.snapshot = Some(keys.filter(|key| watcher.wants(key)).cloned().collect());
        self.watchers.insert(self.last, watcher);
        self.last
    }

    /// Called when a Watch call asks for its next batch.
    pub(crate) fn next_batch(&mut self, view: &InspectionView<'_, P>, id: u64, reply: oneshot::Sender<Batch>) {
        if let Some(watcher) = self.watchers.get_mut(&id) {
            watcher.reply = Some(reply);
            watcher.answer(view);
        }
    }

    /// Called when entries, or their states, changed.
    pub(crate) fn changed<'a>(&mut self, view: &InspectionView<'_, P>, keys: impl Iterator<Item = &'a P::Key> + Clone) {
        for watcher in self.watchers.values_mut() {
            for key in keys.clone() {
                watcher.mark_dirty(key);
            }
            watcher.answer(view);
        }
    }

    /// Called when the writer acknowledged something.
    pub(crate) fn acknowledged(&mut self, view: &InspectionView<'_, P>) {
        for watcher in self.watchers.values_mut() {
            let news: Vec<_> =
                watcher.pending.iter().filter(|key| !view.publisher.agent.is_pending(key)).cloned().collect();
            for key in news {
                watcher.mark_dirty(&key);
            }
            watcher.answer(view);
        }
    }

    /// Called when every state may have changed, with the source or the stream.
    pub(crate) fn everything(&mut self, view: &InspectionView<'_, P>, gone: &[P::Key]) {
        if self.watchers.is_empty() {
            return;
        }
        let all: Vec<_> =
            view.publisher.agent.entries().map(|(key, _)| key.clone()).chain(gone.iter().cloned()).collect();
        self.changed(view, all.iter());
    }

    /// Drops Watch calls that ended.
    pub(crate) fn prune(&mut self) {
        self.watchers.retain(|_, watcher| watcher.alive.strong_count() > 0);
    }
}

impl<P: OfferedPayload> Watcher<P> {
    fn wants(&self, key: &P::Key) -> bool {
        self.is_asked_for && (self.namespace.is_empty() || **key.namespace() == *self.namespace)
    }

    fn mark_dirty(&mut self, key: &P::Key) {
        // The rest of the snapshot is sent in its newest state anyway.
        let still_to_come = self.snapshot.as_ref().is_some_and(|keys| keys.contains(key));
        if self.wants(key) && !still_to_come {
            self.dirty.insert(key.clone());
        }
    }

    fn answer(&mut self, view: &InspectionView<'_, P>) {
        if self.reply.is_none() || (self.snapshot.is_none() && self.dirty.is_empty()) {
            return;
        }
        let batch = self.batch(view);
        // A reader that is gone is pruned soon.
        if let Some(reply) = self.reply.take()
            && reply.send(batch).is_err()
        {
            self.alive = Weak::new();
        }
    }

    fn batch(&mut self, view: &InspectionView<'_, P>) -> Batch {
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

    fn event(&mut self, view: &InspectionView<'_, P>, key: P::Key) -> Event {
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
                Event::Gone(pb::ServiceGone {
                    backend: view.backend.to_string(),
                    source: Some((&P::shown_key(&key)).into()),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use gimbal_model::{BackendName, Header, Service, SourceKey};
    use gimbal_session::AgentConfig;

    use super::*;
    use crate::publisher::Publisher;
    use crate::publisher::tests::Fake;
    use crate::source::Coverage;

    /// Returns the events that a Watch call with this request has, once its snapshot was sent and a Service changed.
    fn after_a_change(request: &pb::WatchRequest) -> Option<Batch> {
        let backend = BackendName::parse("osp1").unwrap();
        let source = Fake { incarnation: Some("one"), coverage: Coverage::Complete, rest_is_known: true };
        let config = AgentConfig { backend: "osp1".into(), instance: "i".into(), version: "v".into() };
        let mut publisher = Publisher::new(config, None);
        let key = SourceKey::new("team", "web");
        let service = Arc::new(Service::new(Arc::new(Header::default()), []));
        publisher.publish(&source, &vec![(key.clone(), Some(service))], Instant::now());
        let view = InspectionView {
            backend: &backend,
            instance: "i",
            version: "v",
            source: &source,
            publisher: &publisher,
            connected: true,
            dry_run: false,
            link_trouble: None,
            reader: crate::inspection_view::Reader::Operator,
            now: Instant::now(),
        };
        let (mut watchers, alive) = (Watchers::default(), Arc::new(()));
        let id = watchers.add(&view, request, Arc::downgrade(&alive));
        let (reply, mut snapshot) = oneshot::channel();
        watchers.next_batch(&view, id, reply);
        let done = pb::WatchResponse { event: Some(Event::SnapshotDone(SnapshotDone {})) };
        assert!(snapshot.try_recv().unwrap().contains(&done));
        let (reply, mut changes) = oneshot::channel();
        watchers.next_batch(&view, id, reply);
        watchers.changed(&view, std::iter::once(&key));
        changes.try_recv().ok()
    }

    #[test]
    fn changes_are_those_of_the_backend_and_the_namespace_that_are_asked_for() {
        for (backend, namespace, wanted) in
            [("", "", true), ("osp1", "team", true), ("osp1", "other", false), ("other", "", false)]
        {
            let request = pb::WatchRequest { backend: backend.into(), namespace: namespace.into() };
            assert_eq!(after_a_change(&request).is_some(), wanted, "{request:?}");
        }
    }
}
