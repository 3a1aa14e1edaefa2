//! What is known of one source, as long as it stays the same one: its watches' events in, its Services out. No I/O.
//!
//! Absence is believed only when it is proven: a whole list, of a source that is still the one it was when the list came
//! to its end. Another cluster behind the same address would otherwise look like one from which everything was deleted.

use std::time::Instant;

use gimbal_discoverer::{Changed, Failure, KindHealth, Known, Standing};
use gimbal_kubernetes_client::{ApiError, WatchEvent};
use gimbal_kubernetes_objects::{self as objects, Object};
use gimbal_kubernetes_source::{Flavour, KubernetesIndex, Selection};
use gimbal_model::SourceKey;
use gimbal_session::{Freshness, Scope};

#[cfg(test)]
mod tests;

/// A kind that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watched {
    /// Services.
    Services,
    /// `EndpointSlices`, or Endpoints on a cluster without them.
    Slices,
}

/// What the watches tell.
#[derive(Debug)]
pub(crate) enum SourceEvent {
    Service(WatchEvent<objects::Service>),
    Slice(WatchEvent<objects::EndpointSlice>),
    Endpoints(WatchEvent<objects::Endpoints>),
}

/// Something that is logged and counted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    Failed(Watched, ApiError),
    Relisted(Watched),
    /// The source's store was put back from one version to an older one.
    WentBack {
        kind: Watched,
        seen: String,
        listed: String,
    },
}

/// A source.
pub(crate) struct Session {
    index: KubernetesIndex,
    flavour: Flavour,
    services: KindHealth,
    slices: KindHealth,
    incarnation: Option<String>,
    identity_trouble: Option<String>,
    /// Lists that are whole, but count only once the source is known to be the same.
    unproven: Vec<Watched>,
    /// The number of the last question for the incarnation.
    asked: u64,
    slices_missing: bool,
    /// Slices were read where Endpoints are, for want of slices.
    slices_found: bool,
    /// What the last failure of each kind said: for who runs this discoverer, and nobody else. It may hold what a credential plug-in
    /// printed.
    said: [Option<String>; 2],
}

impl Session {
    pub(crate) fn new(selection: Selection) -> Self {
        Self {
            flavour: selection.flavour,
            index: KubernetesIndex::new(selection),
            services: KindHealth::default(),
            slices: KindHealth::default(),
            incarnation: None,
            identity_trouble: None,
            unproven: Vec::new(),
            asked: 0,
            slices_missing: false,
            slices_found: false,
            said: [None, None],
        }
    }

    /// Knows nothing but what the source is, if that is known. Answers to questions that were asked before are none of
    /// its own.
    pub(crate) fn start_over(&mut self, selection: Selection, incarnation: Option<String>) {
        let identity_trouble = self.identity_trouble.take();
        *self = Self { asked: self.asked, incarnation, identity_trouble, ..Self::new(selection) };
    }

    /// Takes an event of a watch.
    pub(crate) fn event(&mut self, event: SourceEvent, now: Instant) -> Option<Notice> {
        use KubernetesIndex as Index;
        match event {
            SourceEvent::Service(event) => {
                self.take(Watched::Services, event, Index::apply_service, Index::delete_service, now)
            }
            SourceEvent::Slice(event) if self.flavour == Flavour::Endpoints => {
                self.slices_found |= event.is_sign_of_life();
                None
            }
            SourceEvent::Slice(event) => {
                // Before anything was listed this is the whole API that is not there, not a right or a server.
                let missing = matches!(event, WatchEvent::Failed(ApiError::NotFound { .. }));
                if !matches!(event, WatchEvent::ListBegin) {
                    self.slices_missing = missing && self.slices.age(now).is_none();
                }
                self.take(Watched::Slices, event, Index::apply_slice, Index::delete_slice, now)
            }
            SourceEvent::Endpoints(event) => {
                self.take(Watched::Slices, event, Index::apply_endpoints, Index::delete_endpoints, now)
            }
        }
    }

    fn take<T: Object>(
        &mut self,
        kind: Watched,
        event: WatchEvent<T>,
        apply: fn(&mut KubernetesIndex, T),
        delete: fn(&mut KubernetesIndex, &str, &str),
        now: Instant,
    ) -> Option<Notice> {
        if event.is_sign_of_life() {
            self.health_mut(kind).heard(now);
        }
        match event {
            WatchEvent::Alive => {}
            WatchEvent::ListBegin => {
                self.unproven.retain(|other| *other != kind);
                match kind {
                    Watched::Services => self.index.begin_services(),
                    Watched::Slices => self.index.begin_slices(),
                }
            }
            WatchEvent::Listed(page) => page.into_iter().for_each(|object| apply(&mut self.index, object)),
            WatchEvent::WentBack { seen, listed } => return Some(Notice::WentBack { kind, seen, listed }),
            WatchEvent::ListDone => {
                if self.incarnation.is_some() {
                    self.asked += 1;
                    self.unproven.push(kind);
                    self.health_mut(kind)
                        .awaits("the source was listed, but not yet found to be the same as before", now);
                } else {
                    self.end(kind, now);
                }
                return Some(Notice::Relisted(kind));
            }
            WatchEvent::Applied(object) => apply(&mut self.index, object),
            WatchEvent::Deleted(object) => delete(&mut self.index, &object.meta().namespace, &object.meta().name),
            WatchEvent::Failed(error) => {
                self.said[kind as usize] = Some(error.to_string());
                self.health_mut(kind).failed(weight(&error), words(&error), now);
                return Some(Notice::Failed(kind, error));
            }
        }
        None
    }

    fn end(&mut self, kind: Watched, now: Instant) {
        match kind {
            Watched::Services => self.index.end_services(),
            Watched::Slices => self.index.end_slices(),
        }
        self.health_mut(kind).listed(now);
    }

    /// The source's incarnation, as found by a question that was asked after `asked` of them were wanted. False: this is
    /// another source, and nothing that this session holds is true of it.
    pub(crate) fn found_incarnation(&mut self, incarnation: &str, asked: u64, now: Instant) -> bool {
        match &self.incarnation {
            None => self.incarnation = Some(incarnation.to_owned()),
            Some(known) if known != incarnation => return false,
            Some(_) => {}
        }
        if asked >= self.asked {
            for kind in std::mem::take(&mut self.unproven) {
                self.end(kind, now);
            }
        }
        true
    }

    /// Hands on what changed, once the events at hand are taken.
    pub(crate) fn settle(&mut self, now: Instant) -> Changed {
        self.services.tick(now);
        self.slices.tick(now);
        self.index.set_slices_current(self.slices.is_current());
        self.index.drain()
    }

    /// The incarnation cannot be read, or can again.
    pub(crate) fn set_identity_trouble(&mut self, trouble: Option<String>) {
        self.identity_trouble = trouble;
    }

    fn lost(&self) -> Option<String> {
        let lost: Vec<_> =
            self.kinds().filter_map(|(name, health)| Some(format!("{name}: {}", health.lost()?))).collect();
        (!lost.is_empty()).then(|| lost.join("; "))
    }

    fn health_mut(&mut self, kind: Watched) -> &mut KindHealth {
        match kind {
            Watched::Services => &mut self.services,
            Watched::Slices => &mut self.slices,
        }
    }

    fn kinds(&self) -> impl Iterator<Item = (&'static str, &KindHealth)> {
        [(self.name(Watched::Services), &self.services), (self.name(Watched::Slices), &self.slices)].into_iter()
    }

    /// What a kind is called towards people and the writer.
    pub(crate) fn name(&self, kind: Watched) -> &'static str {
        match (kind, self.flavour) {
            (Watched::Services, _) => "services",
            (Watched::Slices, Flavour::Slices) => "endpointslices",
            (Watched::Slices, Flavour::Endpoints) => "endpoints",
        }
    }

    /// When [`settle`](Self::settle) has something to say without an event.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.kinds().filter_map(|(_, health)| health.deadline()).min()
    }

    /// The cluster has no `EndpointSlices`: it answers for Services, and has no such API.
    pub(crate) fn lacks_slices(&self, now: Instant) -> bool {
        self.flavour == Flavour::Slices && self.slices_missing && self.services.age(now).is_some()
    }

    /// The cluster has `EndpointSlices` after all: it was updated, or its API server had not come up wholly.
    pub(crate) fn has_slices_after_all(&self) -> bool {
        self.slices_found
    }

    /// How many times the incarnation was asked for. A watch on it wakes whoever finds it out.
    pub(crate) fn asked(&self) -> u64 {
        self.asked
    }
}

impl Known for Session {
    /// The UID of the namespace `kube-system`, which lasts exactly as long as the cluster does.
    fn incarnation(&self) -> Option<&str> {
        self.incarnation.as_deref()
    }

    fn identified_by(&self) -> &'static str {
        "namespace kube-system"
    }

    fn identity_trouble(&self) -> Option<&str> {
        self.identity_trouble.as_deref()
    }

    fn standing(&self) -> Standing {
        match self.lost() {
            Some(reason) => Standing::Unknown(vec![(Scope::All, reason)]),
            None if self.index.is_complete() => Standing::Complete,
            None => Standing::Nothing,
        }
    }

    fn freshness(&self, now: Instant) -> Vec<Freshness> {
        self.kinds().map(|(kind, health)| Freshness { kind: kind.to_owned(), age: health.age(now) }).collect()
    }

    fn trouble(&self) -> Option<String> {
        let trouble = |((name, health), said): ((&str, &KindHealth), &Option<String>)| {
            let trouble = health.trouble()?;
            Some(format!("{name}: {}", said.as_deref().unwrap_or(trouble)))
        };
        let trouble: Vec<_> = self.kinds().zip(&self.said).filter_map(trouble).collect();
        (!trouble.is_empty()).then(|| trouble.join("; "))
    }

    fn skipped(&self) -> Vec<(&'static str, u64)> {
        self.index.skipped().iter().map(|(skip, count)| (skip.as_str(), *count)).collect()
    }

    fn explain(&self, key: &SourceKey) -> Vec<String> {
        self.index.explain(key)
    }
}

/// A failure in words of our own: the writer is told why a part of the source is unknown, and is not to be told what a
/// server or a credential plug-in says to us.
fn words(error: &ApiError) -> &'static str {
    match error {
        ApiError::Forbidden { .. } => "forbidden: the discoverer has no right to list and watch them",
        ApiError::Unauthorized { .. } => "unauthorized: the discoverer's credentials are not accepted",
        ApiError::NotFound { .. } => "not found: the source does not have them",
        ApiError::Throttled { .. } => "throttled: the source's API server is busy",
        ApiError::Gone { .. } => "gone: the source has forgotten what changed, and is listed anew",
        ApiError::Server { .. } => "server error: the source's API server fails",
        ApiError::Timeout { .. } => "timed out: the source's API server does not answer",
        ApiError::Transport { .. } => "cannot reach the source's API server",
        ApiError::Undecodable { .. } => "cannot read what the source's API server answers",
        _ => "refused by the source's API server",
    }
}

/// What a failure says of a watched kind.
fn weight(error: &ApiError) -> Failure {
    match error {
        ApiError::Forbidden { .. } => Failure::Denied,
        ApiError::Unauthorized { .. }
        | ApiError::NotFound { .. }
        | ApiError::Gone { .. }
        | ApiError::Undecodable { .. } => Failure::Missed,
        _ => Failure::Passing,
    }
}
