//! What is known of the cluster: the state of the cores, and the health of the watches that feed them. No I/O.

use std::time::Instant;

use gimbal_discoverer::{Coverage, SourceStatus, UnhandledReport};
use gimbal_kubernetes_client::{ApiError, WatchEvent};
use gimbal_kubernetes_objects::{BalancedService, BalancedSlice, Ingress, IngressClass, Node};
use gimbal_kuryr_controller_core::{KuryrController, KuryrSettings, WatchedObject};
use gimbal_kuryr_crd::{KuryrL7Router, KuryrLoadBalancer};
use gimbal_kuryr_model::{CloudFacts, DesiredKey, DesiredKind};
use gimbal_kuryr_resource::{ClusterKnowledge, KuryrKind, Sighting};
use gimbal_kuryr_router_core::{RoutedObject, RouterController, RouterSettings};
use gimbal_kuryr_translate::KnownSecret;
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
    Ingress(WatchEvent<Ingress>),
    IngressClass(WatchEvent<IngressClass>),
    Router(WatchEvent<KuryrL7Router>),
    Secret(WatchEvent<KnownSecret>),
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

/// Why nothing is known of routers.
const NOT_SERVED: &str = "Ingresses are not served by this controller, and what was made for them is not known: set --ingress, or \
                          take enable_ingress out of the configuration of openstack-writer";

/// The core for Services.
pub(crate) type Core = KuryrController<Box<UnhandledReport<Kuryr>>>;

/// The core for Ingresses.
pub(crate) type RouterCore = RouterController<Box<UnhandledReport<Kuryr>>>;

/// What is known, for as long as the cluster is the same one.
pub(crate) struct ControllerState {
    pub(crate) core: Core,
    /// Unset where Ingresses are not served.
    pub(crate) routers: Option<RouterCore>,
    /// Whether the writer has leave to serve Ingresses, as far as it has said.
    enable_ingress: bool,
    pub(crate) kinds: Kinds,
}

/// A kind that is watched, as far as it matters.
trait Watched: Sized {
    /// The kind.
    const WATCHED: KuryrKind;

    /// Gives what was seen to the core that it is for.
    fn saw(state: &mut ControllerState, sighting: Sighting<Self>);
}

macro_rules! watched {
    ($of:ident, $core:ident: $($kind:ty),*) => {
        $(impl Watched for $kind {
            const WATCHED: KuryrKind = <Self as $of>::WATCHED;

            fn saw(state: &mut ControllerState, sighting: Sighting<Self>) {
                if let Some(core) = state.$core() {
                    core.saw(sighting);
                }
            }
        })*
    };
}

watched!(WatchedObject, of_services: BalancedService, BalancedSlice, Node, KuryrLoadBalancer);
watched!(RoutedObject, of_ingresses: Ingress, IngressClass, KnownSecret);

impl Watched for KuryrL7Router {
    const WATCHED: KuryrKind = <Self as RoutedObject>::WATCHED;

    fn saw(state: &mut ControllerState, sighting: Sighting<Self>) {
        state.core.saw_router(&sighting);
        if let Some(routers) = &mut state.routers {
            routers.saw(sighting);
        }
    }
}

/// What is seen of a kind without an object.
enum ListNews {
    Done,
    Unreadable(String),
}

impl ControllerState {
    pub(crate) fn new(settings: KuryrSettings, routers: Option<RouterSettings>) -> Self {
        let kinds = Kinds::new(routers.is_some());
        let mut state =
            Self { core: Core::new(settings), routers: routers.map(RouterCore::new), enable_ingress: false, kinds };
        state.share_services();
        state
    }

    /// Forgets everything: another cluster answers.
    pub(crate) fn start_over(&mut self, incarnation: Option<String>) {
        self.core = Core::new(self.core.settings().clone());
        self.routers = self.routers.as_ref().map(|routers| RouterCore::new(routers.settings().clone()));
        self.share_services();
        self.kinds.start_over(incarnation);
    }

    fn share_services(&mut self) {
        if self.routers.is_some() {
            self.core.follow_services();
        }
    }

    fn of_services(&mut self) -> Option<&mut Core> {
        Some(&mut self.core)
    }

    fn of_ingresses(&mut self) -> Option<&mut RouterCore> {
        self.routers.as_mut()
    }

    /// Begins to lead, or ceases to.
    pub(crate) fn set_leading(&mut self, leading: bool) {
        self.core.set_leading(leading);
        if let Some(routers) = &mut self.routers {
            routers.set_leading(leading);
        }
    }

    /// Takes in what the writer says about the cloud.
    pub(crate) fn set_facts(&mut self, facts: &CloudFacts) {
        self.enable_ingress = facts.enable_ingress;
        self.core.set_facts(facts);
        if let Some(routers) = &mut self.routers {
            routers.set_facts(facts);
        }
    }

    /// Decides what follows for Ingresses from what is known of Services.
    pub(crate) fn decide(&mut self) {
        if let Some(routers) = &mut self.routers {
            let changed = self.core.drain_followed();
            routers.decide(self.core.known_services(), changed);
        }
    }

    /// Handles an event of a watch.
    pub(crate) fn event(&mut self, event: ControllerWatchEvent, now: Instant) -> Option<ClusterNotice> {
        match event {
            ControllerWatchEvent::Service(event) => self.take(event, now),
            ControllerWatchEvent::Slice(event) => self.take(event, now),
            ControllerWatchEvent::LoadBalancer(event) => self.take(event, now),
            ControllerWatchEvent::Node(event) => self.take(event, now),
            ControllerWatchEvent::Ingress(event) => self.take(event, now),
            ControllerWatchEvent::IngressClass(event) => self.take(event, now),
            ControllerWatchEvent::Router(event) => self.take(event, now),
            ControllerWatchEvent::Secret(event) => self.take(event, now),
        }
    }

    fn take<T: Watched>(&mut self, event: WatchEvent<T>, now: Instant) -> Option<ClusterNotice> {
        let kind = T::WATCHED;
        if event.is_sign_of_life() {
            self.kinds.heard(kind, now);
        }
        match event {
            WatchEvent::Alive => {}
            WatchEvent::ListBegin => {
                self.kinds.list_began(kind);
                T::saw(self, Sighting::ListBegan);
            }
            WatchEvent::Listed(page) => page.into_iter().for_each(|object| T::saw(self, Sighting::Set(object))),
            WatchEvent::WentBack { seen, listed } => {
                self.kinds.read_anew();
                // It is one store.
                BalancedService::saw(self, Sighting::WentBack);
                Ingress::saw(self, Sighting::WentBack);
                return Some(ClusterNotice::WentBack { kind, seen, listed });
            }
            WatchEvent::ListDone => {
                if self.kinds.list_done(kind, now) {
                    T::saw(self, Sighting::ListDone);
                }
                return Some(ClusterNotice::Listed(kind));
            }
            WatchEvent::Applied(object) => T::saw(self, Sighting::Set(object)),
            WatchEvent::Deleted(object) => T::saw(self, Sighting::Deleted(object)),
            WatchEvent::Failed(error) => {
                if self.kinds.failed(kind, &error, now) {
                    T::saw(self, Sighting::Unreadable(error.public_reason().to_owned()));
                }
                return Some(ClusterNotice::Failed(kind, error));
            }
        }
        None
    }

    /// Called when a check found this incarnation; see [`Kinds::identified`]. Returns false if this is another cluster.
    pub(crate) fn identified(&mut self, incarnation: &str, asked: u64, now: Instant) -> bool {
        let Some(proven) = self.kinds.identified(incarnation, asked, now) else { return false };
        proven.into_iter().for_each(|kind| self.list_news(kind, ListNews::Done));
        true
    }

    /// Makes kinds unreadable whose failure has lasted.
    pub(crate) fn tick(&mut self, now: Instant) {
        for (kind, reason) in self.kinds.tick(now) {
            self.list_news(kind, ListNews::Unreadable(reason));
        }
    }

    fn list_news(&mut self, kind: KuryrKind, news: ListNews) {
        match kind {
            KuryrKind::Service => BalancedService::saw(self, news.into()),
            KuryrKind::Slice => BalancedSlice::saw(self, news.into()),
            KuryrKind::Node => Node::saw(self, news.into()),
            KuryrKind::LoadBalancer => KuryrLoadBalancer::saw(self, news.into()),
            KuryrKind::Ingress => Ingress::saw(self, news.into()),
            KuryrKind::IngressClass => IngressClass::saw(self, news.into()),
            KuryrKind::Router => KuryrL7Router::saw(self, news.into()),
            KuryrKind::Secret => KnownSecret::saw(self, news.into()),
        }
    }

    fn knowledge(&self) -> ClusterKnowledge {
        let known = self.core.knowledge();
        match &self.routers {
            Some(routers) => known.with(routers.knowledge()),
            // A process with --ingress may have had routers made, whose absence here means nothing.
            None if self.enable_ingress => known.with(ClusterKnowledge::Unreadable(NOT_SERVED.to_owned())),
            None => known,
        }
    }
}

impl<T> From<ListNews> for Sighting<T> {
    fn from(news: ListNews) -> Self {
        match news {
            ListNews::Done => Self::ListDone,
            ListNews::Unreadable(reason) => Self::Unreadable(reason),
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
        match self.knowledge() {
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

    fn public_trouble(&self) -> Option<String> {
        self.kinds.public_trouble()
    }

    fn skipped(&self) -> Vec<(&'static str, u64)> {
        let counts = self.core.counts();
        let routers = self.routers.as_ref().map(RouterCore::counts).unwrap_or_default();
        [
            ("WaitingForWriter", counts.waiting_for_writer + routers.waiting_for_writer),
            ("NotOffered", counts.not_offered + routers.not_offered),
        ]
        .map(|(reason, count)| (reason, count as u64))
        .into()
    }

    fn explain(&self, key: &DesiredKey) -> Vec<String> {
        let (knowledge, said) = match (&self.routers, key.kind) {
            (Some(routers), DesiredKind::L7Router) => (routers.knowledge(), routers.explain(key)),
            (None, DesiredKind::L7Router) => return vec!["Ingresses are not served: --ingress is not set.".to_owned()],
            _ => (self.core.knowledge(), self.core.explain(key)),
        };
        let waiting = match knowledge {
            ClusterKnowledge::Waiting(reason) => Some(format!("nothing is streamed yet: {reason}")),
            ClusterKnowledge::Complete | ClusterKnowledge::Unreadable(_) | ClusterKnowledge::Partial(_) => None,
        };
        waiting.into_iter().chain(said).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gimbal_kuryr_crd::{KlbPort, KuryrLoadBalancerSpec};
    use gimbal_kuryr_model::{CloudFacts, DesiredEntry, DesiredKind};
    use gimbal_kuryr_resource::NamespacePatterns;
    use gimbal_kuryr_translate::{IngressSettings, MOST_LISTED, desired};
    use gimbal_session::{AgentConfig, AgentEnd};

    use super::*;

    /// Lists what is needed for Services, of which there is none.
    fn list_services(state: &mut ControllerState, now: Instant) {
        let services = [WatchEvent::ListBegin, WatchEvent::ListDone].map(ControllerWatchEvent::Service);
        let slices = [WatchEvent::ListBegin, WatchEvent::ListDone].map(ControllerWatchEvent::Slice);
        let balancers = [WatchEvent::ListBegin, WatchEvent::ListDone].map(ControllerWatchEvent::LoadBalancer);
        for event in services.into_iter().chain(slices).chain(balancers) {
            assert!(!matches!(state.event(event, now), Some(ClusterNotice::Failed(..))));
        }
    }

    #[test]
    fn without_ingress_the_absence_of_routers_means_nothing() {
        let (mut state, now) = (ControllerState::new(KuryrSettings::default(), None), Instant::now());
        state.set_leading(true);
        list_services(&mut state, now);
        state.set_facts(&CloudFacts::default());
        assert_eq!(state.coverage(), Coverage::Complete);
        state.set_facts(&CloudFacts { enable_ingress: true, ..CloudFacts::default() });
        assert!(matches!(state.coverage(), Coverage::Unknown(unknown) if unknown[0].0 == Scope::All));
    }

    /// Whatever has no right to read Ingresses serves Services.
    #[test]
    fn services_are_known_when_routers_are_or_cannot_be() {
        let ingresses = IngressSettings::in_namespace("gimbal");
        let routers = RouterSettings { ingresses, namespaces: NamespacePatterns::default() };
        let (mut state, now) = (ControllerState::new(KuryrSettings::default(), Some(routers)), Instant::now());
        state.set_leading(true);
        state.set_facts(&CloudFacts { enable_ingress: true, ..CloudFacts::default() });
        list_services(&mut state, now);
        assert_eq!(state.coverage(), Coverage::Nothing, "a KuryrLoadBalancer may name a router");
        let forbidden = ApiError::Forbidden { message: "no".into() };
        state.event(ControllerWatchEvent::Ingress(WatchEvent::Failed(forbidden)), now);
        assert!(matches!(state.coverage(), Coverage::Unknown(unknown) if unknown[0].0 == Scope::All));
    }

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
            agent.set(key.clone(), Some(entry.into()), Instant::now());
            assert!(!agent.is_too_large(&key), "{at}: {:?}", agent.rejects());
        }
    }
}
