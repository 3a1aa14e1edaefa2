//! What is known of the cluster: the core's state, and the health of the watches that feed it. No I/O.

use std::time::Instant;

use gimbal_discoverer::{Coverage, SourceStatus, UnhandledReport};
use gimbal_kubernetes_client::{ApiError, WatchEvent};
use gimbal_kubernetes_objects::{BalancedService, BalancedSlice, Node};
use gimbal_kuryr_controller_core::{
    ClusterKnowledge, KuryrController, KuryrKind, KuryrSettings, Sighting, WatchedObject,
};
use gimbal_kuryr_crd::KuryrLoadBalancer;
use gimbal_kuryr_model::DesiredKey;
use gimbal_kuryr_wire::Kuryr;
use gimbal_session::{Freshness, Scope};

use crate::kinds::Kinds;

/// An event of one of the watches.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // In a large cluster nearly all events are of slices, and a box would cost most of them.
pub(crate) enum ControllerWatchEvent {
    Service(WatchEvent<BalancedService>),
    Slice(WatchEvent<BalancedSlice>),
    LoadBalancer(WatchEvent<KuryrLoadBalancer>),
    Node(WatchEvent<Node>),
}

/// Something to log and count.
#[derive(Debug)]
pub(crate) enum ClusterNotice {
    Failed(KuryrKind, ApiError),
    Listed(KuryrKind),
    /// The cluster's store was restored to an older state.
    WentBack {
        kind: KuryrKind,
        seen: String,
        listed: String,
    },
}

/// The controller's core.
pub(crate) type Core = KuryrController<UnhandledReport<Kuryr>>;

/// What is known, for as long as the cluster is the same one.
pub(crate) struct ControllerState {
    pub(crate) core: Core,
    pub(crate) kinds: Kinds,
}

impl ControllerState {
    pub(crate) fn new(settings: KuryrSettings) -> Self {
        Self { core: Core::new(settings), kinds: Kinds::default() }
    }

    /// Forgets everything: another cluster answers.
    pub(crate) fn start_over(&mut self, incarnation: Option<String>) {
        self.core = Core::new(self.core.settings().clone());
        self.kinds.start_over(incarnation);
    }

    /// Handles an event of a watch.
    pub(crate) fn event(&mut self, event: ControllerWatchEvent, now: Instant) -> Option<ClusterNotice> {
        match event {
            ControllerWatchEvent::Service(event) => self.take(event, now),
            ControllerWatchEvent::Slice(event) => self.take(event, now),
            ControllerWatchEvent::LoadBalancer(event) => self.take(event, now),
            ControllerWatchEvent::Node(event) => self.take(event, now),
        }
    }

    fn take<T: WatchedObject>(&mut self, event: WatchEvent<T>, now: Instant) -> Option<ClusterNotice> {
        let kind = T::WATCHED;
        if event.is_sign_of_life() {
            self.kinds.heard(kind, now);
        }
        match event {
            WatchEvent::Alive => {}
            WatchEvent::ListBegin => {
                self.kinds.list_began(kind);
                self.core.saw(Sighting::<T>::ListBegan);
            }
            WatchEvent::Listed(page) => page.into_iter().for_each(|object| self.core.saw(Sighting::Set(object))),
            WatchEvent::WentBack { seen, listed } => {
                self.kinds.read_anew();
                self.core.saw(Sighting::<T>::WentBack);
                return Some(ClusterNotice::WentBack { kind, seen, listed });
            }
            WatchEvent::ListDone => {
                if self.kinds.list_done(kind, now) {
                    self.core.saw(Sighting::<T>::ListDone);
                }
                return Some(ClusterNotice::Listed(kind));
            }
            WatchEvent::Applied(object) => self.core.saw(Sighting::Set(object)),
            WatchEvent::Deleted(object) => self.core.saw(Sighting::Deleted(object)),
            WatchEvent::Failed(error) => {
                if self.kinds.failed(kind, &error, now) {
                    self.core.saw(Sighting::<T>::Unreadable(error.public_reason().to_owned()));
                }
                return Some(ClusterNotice::Failed(kind, error));
            }
        }
        None
    }

    /// Called when a check found this incarnation; see [`Kinds::identified`]. Returns false if this is another cluster.
    pub(crate) fn identified(&mut self, incarnation: &str, asked: u64, now: Instant) -> bool {
        let Some(proven) = self.kinds.identified(incarnation, asked, now) else { return false };
        for kind in proven {
            match kind {
                KuryrKind::Service => self.core.saw(Sighting::<BalancedService>::ListDone),
                KuryrKind::Slice => self.core.saw(Sighting::<BalancedSlice>::ListDone),
                KuryrKind::Node => self.core.saw(Sighting::<Node>::ListDone),
                KuryrKind::LoadBalancer => self.core.saw(Sighting::<KuryrLoadBalancer>::ListDone),
            }
        }
        true
    }

    /// Makes kinds unreadable whose failure has lasted.
    pub(crate) fn tick(&mut self, now: Instant) {
        for (kind, reason) in self.kinds.tick(now) {
            match kind {
                KuryrKind::Service => self.core.saw(Sighting::<BalancedService>::Unreadable(reason)),
                KuryrKind::Slice => self.core.saw(Sighting::<BalancedSlice>::Unreadable(reason)),
                KuryrKind::Node => self.core.saw(Sighting::<Node>::Unreadable(reason)),
                KuryrKind::LoadBalancer => self.core.saw(Sighting::<KuryrLoadBalancer>::Unreadable(reason)),
            }
        }
    }
}

impl SourceStatus<Kuryr> for ControllerState {
    /// The UID of the namespace `kube-system`, which exists for exactly as long as the cluster does.
    fn incarnation(&self) -> Option<&str> {
        self.kinds.incarnation()
    }

    fn identified_by(&self) -> &'static str {
        "namespace kube-system"
    }

    fn identity_trouble(&self) -> Option<&str> {
        self.kinds.identity_trouble()
    }

    fn coverage(&self) -> Coverage {
        match self.core.knowledge() {
            ClusterKnowledge::Waiting(_) => Coverage::Nothing,
            ClusterKnowledge::Complete => Coverage::Complete,
            ClusterKnowledge::Unreadable(reason) => Coverage::Unknown(vec![(Scope::All, reason)]),
            ClusterKnowledge::Partial(namespaces) => {
                let reason = "load balancers may exist there that cannot be offered now".to_owned();
                Coverage::Unknown(vec![(Scope::Namespaces(namespaces), reason)])
            }
        }
    }

    /// A standby, and a controller whose writer is away, have read the cluster and are ready.
    fn is_ready(&self) -> bool {
        self.kinds.is_complete() && self.kinds.lost().is_none()
    }

    fn freshness(&self, now: Instant) -> Vec<Freshness> {
        self.kinds.freshness(now)
    }

    fn trouble(&self) -> Option<String> {
        self.kinds.trouble()
    }

    fn skipped(&self) -> Vec<(&'static str, u64)> {
        let counts = self.core.counts();
        [("WaitingForWriter", counts.waiting_for_writer), ("NotOffered", counts.not_offered)]
            .map(|(reason, count)| (reason, count as u64))
            .into()
    }

    fn explain(&self, key: &DesiredKey) -> Vec<String> {
        let waiting = match self.core.knowledge() {
            ClusterKnowledge::Waiting(reason) => Some(format!("nothing is streamed yet: {reason}")),
            ClusterKnowledge::Complete | ClusterKnowledge::Unreadable(_) | ClusterKnowledge::Partial(_) => None,
        };
        waiting.into_iter().chain(self.core.explain(key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gimbal_kuryr_crd::{KlbPort, KuryrLoadBalancerSpec};
    use gimbal_kuryr_model::{CloudFacts, DesiredEntry, DesiredKind};
    use gimbal_kuryr_translate::{MOST_LISTED, desired};
    use gimbal_session::{AgentConfig, AgentEnd};

    use super::*;

    type List = fn(&mut KuryrLoadBalancerSpec, Vec<Arc<str>>);

    /// The session takes the namespace of one that does not for unknown.
    #[test]
    fn what_is_streamed_fits_in_a_frame() {
        let lists: [(List, usize); 7] = [
            (|spec, texts| spec.security_groups_ids = texts, 5),
            (|spec, texts| spec.additional_vip_subnet_ids = texts, 5),
            (|spec, texts| spec.tls_container_refs = texts, 5),
            (|spec, texts| spec.tls_container_refs = texts, 255),
            (|spec, texts| spec.additional_ips = vec!["10.0.0.1".into(); texts.len()], 0),
            (
                |spec, texts| {
                    let range = |n| format!("10.{}.{}.0/24", n / 256, n % 256).as_str().into();
                    spec.source_ranges = Some((0..texts.len()).map(range).collect());
                },
                0,
            ),
            (
                |spec, texts| {
                    let port = |(port, name)| KlbPort {
                        name: Some(name),
                        port,
                        protocol: "TCP".into(),
                        target_port: "80".into(),
                        node_port: None,
                        app_protocol: None,
                    };
                    spec.ports = (1..).zip(texts).map(port).collect();
                },
                5,
            ),
        ];
        let config = AgentConfig { backend: "prod1".into(), instance: "i".into(), version: "v".into() };
        let mut agent = AgentEnd::<Kuryr>::new(config);
        let key = DesiredKey::new(DesiredKind::LoadBalancer, "team", "web");
        for (at, (list, len)) in lists.into_iter().enumerate() {
            let texts = (0..MOST_LISTED / (32 + len)).map(|n| format!("{n:0len$}").as_str().into());
            let mut object = KuryrLoadBalancer::default();
            object.metadata.meta.uid = "uid".into();
            (object.spec.project_id, object.spec.subnet_id) = (Some("project".into()), Some("services".into()));
            list(&mut object.spec, texts.collect());
            let found = desired(&object, &CloudFacts::default()).unwrap();
            let entry = DesiredEntry::LoadBalancer(found.wanted);
            agent.set(key.clone(), Some(Arc::new(entry)), Instant::now());
            assert!(!agent.is_too_large(&key), "{at}: {:?}", agent.rejects());
        }
    }
}
