//! The way to the source: its watches as one stream, and the question what it is.

use std::time::Instant;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use gimbal_discoverer::{Changed, Known as _, Source, SourceMetrics, Taken};
use gimbal_kubernetes_client::{ApiError, Cluster, WatchScope, watch};
use gimbal_kubernetes_source::{Flavour, Selection};
use gimbal_model::SourceKey;
use gimbal_session::Reject;
use tokio::sync::watch as value;

use crate::events::{Events, Written};
use crate::identity::{Found, identify};
use crate::session::{Notice, Session, SourceEvent};

/// A Kubernetes cluster.
pub(crate) struct Kubernetes {
    cluster: Cluster,
    selection: Selection,
    session: Session,
    watches: BoxStream<'static, SourceEvent>,
    asked: value::Sender<u64>,
    found: BoxStream<'static, Found>,
    metrics: SourceMetrics,
    events: Option<Events>,
}

/// What the way to the source tells.
#[allow(clippy::large_enum_variant)] // Nearly all that comes is watched: a box would cost each of them.
pub(crate) enum Event {
    Watched(SourceEvent),
    Found(Found),
    Written(Written),
}

impl Kubernetes {
    /// `events`: where the owners of Services are told what the writer thinks of them.
    pub(crate) fn new(cluster: Cluster, selection: Selection, metrics: SourceMetrics, events: Option<Events>) -> Self {
        let (asked, questions) = value::channel(0);
        let found = identify(cluster.clone(), questions).boxed();
        let session = Session::new(selection.clone());
        let watches = watches(&cluster, selection.flavour);
        Self { cluster, selection, session, watches, asked, found, metrics, events }
    }

    fn watched(&mut self, event: SourceEvent, now: Instant) -> Taken {
        match self.session.event(event, now) {
            Some(Notice::Failed(kind, error)) => {
                let kind = self.session.name(kind);
                tracing::debug!(kind, %error, "the source failed");
                self.metrics.failed(kind, reason(&error));
            }
            Some(Notice::WentBack { kind, seen, listed }) => {
                let kind = self.session.name(kind);
                tracing::warn!(
                    kind,
                    seen,
                    listed,
                    "the source's store went back to an older state: all of it is read anew"
                );
            }
            Some(Notice::Relisted(kind)) => self.metrics.listed(self.session.name(kind)),
            None => {}
        }
        let flavour = if self.session.lacks_slices(now) {
            tracing::info!("the source has no EndpointSlices: reading Endpoints instead, until it has");
            Flavour::Endpoints
        } else if self.session.has_slices_after_all() {
            tracing::info!("the source has EndpointSlices now: reading them instead of Endpoints");
            Flavour::Slices
        } else {
            return Taken::Told;
        };
        let incarnation = self.session.incarnation().map(ToOwned::to_owned);
        self.start_over(flavour, incarnation);
        Taken::StartedOver
    }

    /// What the source is was looked at.
    fn found(&mut self, found: Found, now: Instant) -> Taken {
        let incarnation = match found.incarnation {
            Ok(incarnation) => incarnation,
            Err(error) => {
                let reason = error.to_string();
                if self.session.identity_trouble() != Some(&reason) {
                    tracing::warn!(reason, "cannot read namespace kube-system, which tells the source's identity");
                }
                self.session.set_identity_trouble(Some(reason));
                return Taken::Told;
            }
        };
        if self.session.identity_trouble().is_some() {
            tracing::info!("the source's identity can be read again");
            self.session.set_identity_trouble(None);
        }
        let known = self.session.incarnation().map(ToOwned::to_owned);
        if self.session.found_incarnation(&incarnation, found.asked, now) {
            if known.is_none() {
                tracing::info!(incarnation, "the source is identified");
            }
            return Taken::Told;
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
        Taken::Replaced
    }

    fn start_over(&mut self, flavour: Flavour, incarnation: Option<String>) {
        self.selection.flavour = flavour;
        self.session.start_over(self.selection.clone(), incarnation);
        self.watches = watches(&self.cluster, flavour);
    }
}

impl Source for Kubernetes {
    type Event = Event;
    type Known = Session;

    async fn event(&mut self) -> Event {
        tokio::select! {
            Some(event) = self.watches.next() => Event::Watched(event),
            Some(found) = self.found.next() => Event::Found(found),
            written = written(&mut self.events) => Event::Written(written),
        }
    }

    fn take(&mut self, event: Event, now: Instant) -> Taken {
        match event {
            Event::Watched(event) => self.watched(event, now),
            Event::Found(found) => self.found(found, now),
            Event::Written(written) => {
                if let Some(events) = &mut self.events {
                    events.take(written, now);
                }
                Taken::Told
            }
        }
    }

    fn settle(&mut self, now: Instant) -> Changed {
        let changed = self.session.settle(now);
        self.asked.send_if_modified(|asked| std::mem::replace(asked, self.session.asked()) != self.session.asked());
        if let Some(events) = &mut self.events {
            changed.iter().filter(|(_, service)| service.is_none()).for_each(|(key, _)| events.gone(key));
            events.settle(now);
        }
        changed
    }

    fn deadline(&self) -> Option<Instant> {
        let events = self.events.as_ref().and_then(Events::deadline);
        [self.session.deadline(), events].into_iter().flatten().min()
    }

    fn known(&self) -> &Session {
        &self.session
    }

    fn rejected(&mut self, key: &SourceKey, reject: &Reject) {
        if let Some(events) = &mut self.events {
            events.rejected(key, reject, Instant::now());
        }
    }

    fn resolved(&mut self, key: &SourceKey) {
        if let Some(events) = &mut self.events {
            events.resolved(key, Instant::now());
        }
    }
}

async fn written(events: &mut Option<Events>) -> Written {
    match events {
        Some(events) => events.written().await,
        None => std::future::pending().await,
    }
}

/// Everything that is watched, for ever.
fn watches(cluster: &Cluster, flavour: Flavour) -> BoxStream<'static, SourceEvent> {
    let all = WatchScope::default;
    let services = watch(cluster.clone(), all()).map(SourceEvent::Service);
    match flavour {
        Flavour::Slices => stream::select(services, watch(cluster.clone(), all()).map(SourceEvent::Slice)).boxed(),
        Flavour::Endpoints => {
            let endpoints = watch(cluster.clone(), all()).map(SourceEvent::Endpoints);
            // Asked for again and again, for they may come: a cluster is updated, and an API server starts piece by piece.
            let slices = watch(cluster.clone(), all()).map(SourceEvent::Slice);
            stream::select(stream::select(services, endpoints), slices).boxed()
        }
    }
}

/// For a metric.
fn reason(error: &ApiError) -> &'static str {
    match error {
        ApiError::NotFound { .. } => "NotFound",
        ApiError::Forbidden { .. } => "Forbidden",
        ApiError::Unauthorized { .. } => "Unauthorized",
        ApiError::Throttled { .. } => "Throttled",
        ApiError::Gone { .. } => "Gone",
        ApiError::Server { .. } => "Server",
        ApiError::Timeout { .. } => "Timeout",
        ApiError::Transport { .. } => "Transport",
        ApiError::Undecodable { .. } => "Undecodable",
        _ => "Refused",
    }
}
