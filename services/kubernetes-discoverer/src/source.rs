//! A Kubernetes cluster as a source: its watches, the checks of its identity, and Events on its Services.

use std::time::{Instant, SystemTime};

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use gimbal_discoverer::{Changed, EventEffect, Source, SourceMetrics, SourceStatus as _};
use gimbal_kubernetes_agent::{FoundIdentity, failure_label, identify};
use gimbal_kubernetes_client::{Cluster, WatchScope, watch};
use gimbal_kubernetes_source::{Flavour, Selection};
use gimbal_model::SourceKey;
use gimbal_session::Reject;
use tokio::sync::watch as value;

use crate::events::{EventWriter, NoteResult};
use crate::source_state::{Notice, SourceEvent, SourceState};

/// A Kubernetes cluster.
pub(crate) struct Kubernetes {
    cluster: Cluster,
    selection: Selection,
    state: SourceState,
    watches: BoxStream<'static, SourceEvent>,
    asked: value::Sender<u64>,
    found: BoxStream<'static, FoundIdentity>,
    metrics: SourceMetrics,
    events: Option<EventWriter>,
}

/// An event of the source.
#[allow(clippy::large_enum_variant)] // Nearly all events are of the large variant: a box would cost each of them.
pub(crate) enum KubernetesEvent {
    Watched(SourceEvent),
    Found(FoundIdentity),
    Written(NoteResult),
}

impl Kubernetes {
    /// With `events`, rejections are written as Events on the Services.
    pub(crate) fn new(
        cluster: Cluster,
        selection: Selection,
        metrics: SourceMetrics,
        events: Option<EventWriter>,
    ) -> Self {
        let (asked, questions) = value::channel(0);
        let found = identify(cluster.clone(), questions).boxed();
        let state = SourceState::new(selection.clone());
        let watches = watches(&cluster, selection.flavour);
        Self { cluster, selection, state, watches, asked, found, metrics, events }
    }

    fn watched(&mut self, event: SourceEvent, now: Instant) -> EventEffect {
        match self.state.event(event, now) {
            Some(Notice::Failed(kind, error)) => {
                let kind = self.state.name(kind);
                tracing::debug!(kind, %error, "the source failed");
                self.metrics.failed(kind, failure_label(&error));
            }
            Some(Notice::WentBack { kind, seen, listed }) => {
                let kind = self.state.name(kind);
                tracing::warn!(
                    kind,
                    seen,
                    listed,
                    "the source's store went back to an older state: all of it is read anew"
                );
            }
            Some(Notice::Relisted(kind)) => self.metrics.listed(self.state.name(kind)),
            None => {}
        }
        let flavour = if self.state.lacks_slices(now) {
            tracing::info!("the source has no EndpointSlices: reading Endpoints instead, until it has");
            Flavour::Endpoints
        } else if self.state.has_slices_after_all() {
            tracing::info!("the source has EndpointSlices now: reading them instead of Endpoints");
            Flavour::Slices
        } else {
            return EventEffect::Continues;
        };
        let incarnation = self.state.incarnation().map(ToOwned::to_owned);
        self.start_over(flavour, incarnation);
        EventEffect::StartedOver
    }

    /// Handles a check of the source's identity.
    fn found(&mut self, found: FoundIdentity, now: Instant) -> EventEffect {
        let incarnation = match found.incarnation {
            Ok(incarnation) => incarnation,
            Err(error) => {
                let reason = error.to_string();
                if self.state.identity_trouble() != Some(&reason) {
                    tracing::warn!(reason, "cannot read namespace kube-system, which tells the source's identity");
                }
                self.state.set_identity_trouble(Some(reason));
                return EventEffect::Continues;
            }
        };
        if self.state.identity_trouble().is_some() {
            tracing::info!("the source's identity can be read again");
            self.state.set_identity_trouble(None);
        }
        let known = self.state.incarnation().map(ToOwned::to_owned);
        if self.state.found_incarnation(&incarnation, found.asked, now) {
            if known.is_none() {
                tracing::info!(incarnation, "the source is identified");
            }
            return EventEffect::Continues;
        }
        tracing::error!(
            before = known,
            now = incarnation,
            "another cluster answers under the source's address: starting over"
        );
        self.start_over(Flavour::Slices, Some(incarnation));
        if let Some(events) = &mut self.events {
            events.clear();
        }
        EventEffect::Replaced
    }

    fn start_over(&mut self, flavour: Flavour, incarnation: Option<String>) {
        self.selection.flavour = flavour;
        self.state.start_over(self.selection.clone(), incarnation);
        self.watches = watches(&self.cluster, flavour);
    }
}

impl Source for Kubernetes {
    type Event = KubernetesEvent;
    type Status = SourceState;

    async fn event(&mut self) -> KubernetesEvent {
        tokio::select! {
            Some(event) = self.watches.next() => KubernetesEvent::Watched(event),
            Some(found) = self.found.next() => KubernetesEvent::Found(found),
            written = written(&mut self.events) => KubernetesEvent::Written(written),
        }
    }

    fn apply(&mut self, event: KubernetesEvent, now: Instant) -> EventEffect {
        match event {
            KubernetesEvent::Watched(event) => self.watched(event, now),
            KubernetesEvent::Found(found) => self.found(found, now),
            KubernetesEvent::Written(written) => {
                if let Some(events) = &mut self.events {
                    events.note_written(written, now);
                }
                EventEffect::Continues
            }
        }
    }

    fn drain(&mut self, now: Instant) -> Changed {
        let changed = self.state.drain(now, SystemTime::now());
        self.asked.send_if_modified(|asked| std::mem::replace(asked, self.state.asked()) != self.state.asked());
        if let Some(events) = &mut self.events {
            changed.iter().filter(|(_, service)| service.is_none()).for_each(|(key, _)| events.gone(key));
            events.write_next(now);
        }
        changed
    }

    fn deadline(&self) -> Option<Instant> {
        let events = self.events.as_ref().and_then(EventWriter::deadline);
        [self.state.deadline(), events].into_iter().flatten().min()
    }

    fn status(&self) -> &SourceState {
        &self.state
    }

    fn rejected(&mut self, key: &SourceKey, reject: &Reject, is_known: bool) {
        // One Event for each reason.
        if let Some(events) = self.events.as_mut().filter(|_| !is_known) {
            events.rejected(key, reject, Instant::now());
        }
    }

    fn resolved(&mut self, key: &SourceKey) {
        if let Some(events) = &mut self.events {
            events.resolved(key, Instant::now());
        }
    }
}

async fn written(events: &mut Option<EventWriter>) -> NoteResult {
    match events {
        Some(events) => events.written().await,
        None => std::future::pending().await,
    }
}

/// Watches everything that is read, as one stream that never ends.
fn watches(cluster: &Cluster, flavour: Flavour) -> BoxStream<'static, SourceEvent> {
    let all = WatchScope::default;
    let services = watch(cluster.clone(), all()).map(SourceEvent::Service);
    match flavour {
        Flavour::Slices => stream::select(services, watch(cluster.clone(), all()).map(SourceEvent::Slice)).boxed(),
        Flavour::Endpoints => {
            let endpoints = watch(cluster.clone(), all()).map(SourceEvent::Endpoints);
            // Slices may appear later, when the cluster is upgraded or its API server has started completely.
            let slices = watch(cluster.clone(), all()).map(SourceEvent::Slice);
            stream::select(stream::select(services, endpoints), slices).boxed()
        }
    }
}
