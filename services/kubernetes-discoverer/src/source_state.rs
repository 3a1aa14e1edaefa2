//! The state of one source: events of its watches in, Services out. No I/O.
//!
//! Objects count as deleted only after a complete list, and only if the source is still the same cluster at the end of the
//! list. Otherwise another cluster behind the same address would look like one from which everything was deleted (see
//! docs/design.md#rule-4).

use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};

use gimbal_discoverer::{Changed, Coverage, KindHealth, SourceStatus};
use gimbal_kubernetes_agent::kind_failure;
use gimbal_kubernetes_client::{ApiError, WatchEvent};
use gimbal_kubernetes_objects::{self as objects, Object};
use gimbal_kubernetes_source::{Flavour, KubernetesIndex, Selection};
use gimbal_model::{AddressInSource, SourceKey};
use gimbal_session::{Freshness, Scope};

use causes::Causes;

mod causes;
#[cfg(test)]
mod tests;

/// A watched kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchedKind {
    /// Services.
    Services,
    /// `EndpointSlices`, or Endpoints on a cluster without them.
    Slices,
}

/// An event of one of the watches.
#[derive(Debug)]
pub(crate) enum SourceEvent {
    Service(WatchEvent<objects::Service>),
    Slice(WatchEvent<objects::EndpointSlice>),
    Endpoints(WatchEvent<objects::Endpoints>),
}

/// Something to log and count.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    Failed(WatchedKind, ApiError),
    Relisted(WatchedKind),
    /// The source's store was restored to an older state.
    WentBack {
        kind: WatchedKind,
        seen: String,
        listed: String,
    },
}

/// The state of a source, for as long as it is the same cluster.
pub(crate) struct SourceState {
    index: KubernetesIndex,
    causes: Causes,
    flavour: Flavour,
    services: KindHealth,
    slices: KindHealth,
    incarnation: Option<String>,
    identity_trouble: Option<String>,
    /// Complete lists that count once the source is confirmed to be the same cluster.
    unproven: Vec<WatchedKind>,
    /// The number of the last check of the incarnation that was requested.
    asked: u64,
    slices_missing: bool,
    /// Slices were found while Endpoints are read in their place.
    slices_found: bool,
    /// The message of the last failure of each kind, for the operator of this discoverer only: it may contain output of a
    /// credential plug-in.
    last_errors: [Option<String>; 2],
}

impl SourceState {
    pub(crate) fn new(selection: Selection) -> Self {
        Self {
            flavour: selection.flavour,
            index: KubernetesIndex::new(selection),
            causes: Causes::default(),
            services: KindHealth::default(),
            slices: KindHealth::default(),
            incarnation: None,
            identity_trouble: None,
            unproven: Vec::new(),
            asked: 0,
            slices_missing: false,
            slices_found: false,
            last_errors: [None, None],
        }
    }

    /// Forgets everything but the incarnation, if it is known. Checks that were requested before do not confirm later
    /// lists.
    pub(crate) fn start_over(&mut self, selection: Selection, incarnation: Option<String>) {
        let identity_trouble = self.identity_trouble.take();
        *self = Self { asked: self.asked, incarnation, identity_trouble, ..Self::new(selection) };
    }

    /// Handles an event of a watch.
    pub(crate) fn event(&mut self, event: SourceEvent, now: Instant) -> Option<Notice> {
        use KubernetesIndex as Index;
        match event {
            SourceEvent::Service(event) => {
                self.take(WatchedKind::Services, event, Index::apply_service, Index::delete_service, now)
            }
            SourceEvent::Slice(event) if self.flavour == Flavour::Endpoints => {
                self.slices_found |= event.is_sign_of_life();
                None
            }
            SourceEvent::Slice(event) => {
                // Not served before the first list means that the server has no such API.
                let missing = matches!(event, WatchEvent::Failed(ApiError::NotServed { .. }));
                if !matches!(event, WatchEvent::ListBegin) {
                    self.slices_missing = missing && self.slices.age(now).is_none();
                }
                self.causes.note(&event);
                self.take(WatchedKind::Slices, event, Index::apply_slice, Index::delete_slice, now)
            }
            SourceEvent::Endpoints(event) => {
                self.causes.note(&event);
                self.take(WatchedKind::Slices, event, Index::apply_endpoints, Index::delete_endpoints, now)
            }
        }
    }

    fn take<T: Object>(
        &mut self,
        kind: WatchedKind,
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
                    WatchedKind::Services => self.index.begin_services(),
                    WatchedKind::Slices => self.index.begin_slices(),
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
                self.last_errors[kind as usize] = Some(error.to_string());
                self.health_mut(kind).failed(kind_failure(&error), public_reason(&error), now);
                return Some(Notice::Failed(kind, error));
            }
        }
        None
    }

    fn end(&mut self, kind: WatchedKind, now: Instant) {
        match kind {
            WatchedKind::Services => self.index.end_services(),
            WatchedKind::Slices => self.index.end_slices(),
        }
        self.health_mut(kind).listed(now);
    }

    /// Called when a check found this incarnation. `asked` is the number of the last request before the check started.
    /// Returns false if this is another cluster: nothing in this state is true of it.
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

    /// Returns the Services that changed, once the pending events are handled.
    pub(crate) fn drain(&mut self, now: Instant, wall: SystemTime) -> Changed {
        self.causes.drain(wall);
        self.services.tick(now);
        self.slices.tick(now);
        self.index.set_slices_current(self.slices.is_current());
        self.index.drain()
    }

    /// Sets why the incarnation cannot be read, or `None` if it can.
    pub(crate) fn set_identity_trouble(&mut self, trouble: Option<String>) {
        self.identity_trouble = trouble;
    }

    fn lost(&self) -> Option<String> {
        let lost: Vec<_> =
            self.kinds().filter_map(|(name, health)| Some(format!("{name}: {}", health.lost()?))).collect();
        (!lost.is_empty()).then(|| lost.join("; "))
    }

    fn health_mut(&mut self, kind: WatchedKind) -> &mut KindHealth {
        match kind {
            WatchedKind::Services => &mut self.services,
            WatchedKind::Slices => &mut self.slices,
        }
    }

    fn kinds(&self) -> impl Iterator<Item = (&'static str, &KindHealth)> {
        [(self.name(WatchedKind::Services), &self.services), (self.name(WatchedKind::Slices), &self.slices)].into_iter()
    }

    /// Returns what is wrong with each kind: what was `said` of it, or else why it is unknown.
    fn trouble_with(&self, said: impl Fn(&Option<String>) -> Option<&str>) -> Option<String> {
        let trouble = |((name, health), last): ((&str, &KindHealth), &Option<String>)| {
            let trouble = health.trouble()?;
            Some(format!("{name}: {}", said(last).unwrap_or(trouble)))
        };
        let trouble: Vec<_> = self.kinds().zip(&self.last_errors).filter_map(trouble).collect();
        (!trouble.is_empty()).then(|| trouble.join("; "))
    }

    /// Returns the name of a kind in logs, metrics and messages to the writer.
    pub(crate) fn name(&self, kind: WatchedKind) -> &'static str {
        match (kind, self.flavour) {
            (WatchedKind::Services, _) => "services",
            (WatchedKind::Slices, Flavour::Slices) => "endpointslices",
            (WatchedKind::Slices, Flavour::Endpoints) => "endpoints",
        }
    }

    /// Returns when [`drain`](Self::drain) has something to return without an event.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.kinds().filter_map(|(_, health)| health.deadline()).min()
    }

    /// Whether the cluster has no `EndpointSlices`: it lists Services and has no such API.
    pub(crate) fn lacks_slices(&self, now: Instant) -> bool {
        self.flavour == Flavour::Slices && self.slices_missing && self.services.age(now).is_some()
    }

    /// Whether `EndpointSlices` were found while Endpoints are read: the cluster was upgraded, or its API server was starting.
    pub(crate) fn has_slices_after_all(&self) -> bool {
        self.slices_found
    }

    /// Returns the number of the last check of the incarnation that was requested.
    pub(crate) fn asked(&self) -> u64 {
        self.asked
    }
}

impl SourceStatus for SourceState {
    /// The UID of the namespace `kube-system`, which exists for exactly as long as the cluster does.
    fn incarnation(&self) -> Option<&str> {
        self.incarnation.as_deref()
    }

    fn identified_by(&self) -> &'static str {
        "namespace kube-system"
    }

    fn identity_trouble(&self) -> Option<&str> {
        self.identity_trouble.as_deref()
    }

    fn coverage(&self) -> Coverage {
        match self.lost() {
            Some(reason) => Coverage::Unknown(vec![(Scope::All, reason)]),
            None if self.index.is_complete() => Coverage::Complete,
            None => Coverage::Nothing,
        }
    }

    fn freshness(&self, now: Instant) -> Vec<Freshness> {
        self.kinds().map(|(kind, health)| Freshness { kind: kind.to_owned(), age: health.age(now) }).collect()
    }

    fn trouble(&self) -> Option<String> {
        self.trouble_with(Option::as_deref)
    }

    fn public_trouble(&self) -> Option<String> {
        self.trouble_with(|_| None)
    }

    fn caused(&self, key: &SourceKey) -> Option<Duration> {
        self.causes.caused(key)
    }

    fn skipped(&self) -> Vec<(&'static str, u64)> {
        self.index.skipped().iter().map(|(skip, count)| (skip.as_str(), *count)).collect()
    }

    fn explain(&self, key: &SourceKey) -> Vec<String> {
        self.index.explain(key)
    }

    fn explain_address(&self, key: &SourceKey, address: IpAddr) -> AddressInSource {
        self.index.explain_address(key, address)
    }
}

/// Returns a fixed description of an error, which is sent to the writer as the reason why a part of the source is unknown.
/// The text of a server or a credential plug-in must not be sent.
fn public_reason(error: &ApiError) -> &'static str {
    match error {
        ApiError::Forbidden { .. } => "forbidden: the discoverer has no right to list and watch them",
        ApiError::Unauthorized { .. } => "unauthorized: the discoverer's credentials are not accepted",
        ApiError::NotFound { .. } | ApiError::NotServed { .. } => "not found: the source does not have them",
        ApiError::Throttled { .. } => "throttled: the source's API server is busy",
        ApiError::Gone { .. } => "gone: the source has forgotten what changed, and is listed anew",
        ApiError::Server { .. } => "server error: the source's API server fails",
        ApiError::Timeout { .. } => "timed out: the source's API server does not answer",
        ApiError::Transport { .. } => "cannot reach the source's API server",
        ApiError::Truncated { .. } => "broken off: the source's API server does not finish its answers",
        ApiError::Undecodable { .. } => "cannot read what the source's API server answers",
        _ => "refused by the source's API server",
    }
}
