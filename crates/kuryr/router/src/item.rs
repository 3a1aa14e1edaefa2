//! What is kept of an Ingress, and of a KuryrL7Router.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use gimbal_kubernetes_objects::{Ingress, LifecycleMeta};
use gimbal_kuryr_crd::names::{finalizers, labels};
use gimbal_kuryr_crd::{KuryrL7Router, KuryrL7RouterSpec};
use gimbal_kuryr_model::{CertificateHash, LoadBalancerReport, Phase, Text};
use gimbal_kuryr_resource::{KeptObject, ObjectPauses, OfferedEntry, Told, shows_ready};
use gimbal_kuryr_translate::{Finding, NotStreamed};
use gimbal_model::SourceKey;

/// An Ingress.
#[derive(Debug, Default)]
pub(crate) struct IngressItem {
    /// It, without its spec.
    pub(crate) kept: KeptObject<Ingress>,
    /// The routers that may have routes of it.
    pub(crate) on: BTreeSet<SourceKey>,
    /// Whether those are among them that it may have left when this process began.
    pub(crate) is_placed: bool,
    /// Whether the API server is to be asked for it.
    pub(crate) needs_proof: bool,
    /// What the API server answered when it was asked.
    pub(crate) proof: Option<IngressProof>,
    /// What its notices have said; unset before it was looked at for the first time, where it was there before this process began.
    pub(crate) told: Option<Vec<Told>>,
    /// Pauses after failures.
    pub(crate) pauses: ObjectPauses,
}

/// What the API server answered when it was asked for an Ingress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IngressProof {
    /// There is none.
    Absent,
    /// It has this version.
    Version(Text),
}

impl IngressItem {
    /// Whether there is nothing to keep.
    pub(crate) fn is_idle(&self) -> bool {
        self.kept.object().is_none() && self.on.is_empty() && !self.needs_proof && self.pauses.is_idle()
    }

    /// Whether the watch has shown it with our finalizer.
    pub(crate) fn is_protected(&self) -> bool {
        self.kept.shown().is_some_and(|ingress| has_ingress_finalizer(&ingress.metadata))
    }
}

pub(crate) fn has_ingress_finalizer(metadata: &LifecycleMeta) -> bool {
    metadata.has_finalizer(finalizers::INGRESS)
}

/// A KuryrL7Router.
#[derive(Debug)]
pub(crate) struct RouterItem<T> {
    /// It.
    pub(crate) kept: KeptObject<KuryrL7Router>,
    /// What is offered, and what the writer says of it.
    pub(crate) offer: OfferedEntry<T>,
    /// The owner that is absent since the cluster's store went back: it was not deleted.
    pub(crate) lost: Option<Text>,
    /// UID of the one that was seen without a finalizer while nothing was offered of it: nothing was made for it.
    pub(crate) unmade: Option<Text>,
    /// UID and generation of the one whose spec we have written, or offered, last.
    pub(crate) ours: Option<(Text, i64)>,
    /// Certificates in its spec that Secrets of its own namespace have had since this process began.
    pub(crate) own_certificates: BTreeSet<CertificateHash>,
    /// Ingresses that may have routes here.
    pub(crate) ingresses: BTreeMap<SourceKey, IngressPlace>,
    /// Whether it is translated anew, once that is possible.
    pub(crate) stale: bool,
    /// The spec that is wanted.
    pub(crate) wanted: WantedSpec,
    /// What was left out of the spec.
    pub(crate) findings: Vec<Finding>,
    /// What was left out of what is offered.
    pub(crate) offer_findings: Vec<Finding>,
    /// Why it is not offered.
    pub(crate) not_offered: Option<NotStreamed>,
    /// When a status that says that something is being done is written. Most is done before.
    pub(crate) hold: Option<Instant>,
    /// Pauses after failures.
    pub(crate) pauses: ObjectPauses,
}

/// Whether an Ingress is served by a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IngressPlace {
    /// It is.
    Served,
    /// It leaves. Since this version of the spec, if there is one, its routes are not in it.
    Leaving(Option<(Text, i64)>),
    /// The same of one that may never have been there: that was before this process began.
    MayLeave(Option<(Text, i64)>),
}

/// The spec that is wanted of a router.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum WantedSpec {
    /// Not known, or nothing is wanted.
    #[default]
    None,
    /// The one that this version has.
    Held((Text, i64)),
    /// This one.
    Other(Box<KuryrL7RouterSpec>),
}

impl<T> Default for RouterItem<T> {
    fn default() -> Self {
        Self {
            kept: KeptObject::default(),
            offer: OfferedEntry::default(),
            lost: None,
            unmade: None,
            ours: None,
            own_certificates: BTreeSet::new(),
            ingresses: BTreeMap::new(),
            stale: true,
            wanted: WantedSpec::None,
            findings: Vec::new(),
            offer_findings: Vec::new(),
            not_offered: None,
            hold: None,
            pauses: ObjectPauses::default(),
        }
    }
}

impl<T> RouterItem<T> {
    /// Whether there is nothing to keep.
    pub(crate) fn is_idle(&self) -> bool {
        self.kept.object().is_none()
            && self.offer.is_idle()
            && self.ingresses.is_empty()
            && self.wanted == WantedSpec::None
            && self.pauses.is_idle()
    }

    /// Whether nothing was made of the router: it had no finalizer, nothing of it was offered since, and its status names nothing.
    pub(crate) fn is_new(&self) -> bool {
        let is_unmade = |router: &&std::sync::Arc<KuryrL7Router>| {
            let names_one = router.status.as_ref().is_some_and(|status| status.balancer.loadbalancer.is_some());
            self.unmade.as_ref() == Some(&router.metadata.meta.uid) && !names_one
        };
        self.offer.offered.is_none() && self.kept.object().filter(is_unmade).is_some()
    }

    /// The Ingresses that it was given routes of. What somebody else has written into one of their own is not ours: whoever may make a
    /// KuryrL7Router may label it, and only the `shared` one has Ingresses of other namespaces.
    pub(crate) fn named_ingresses(&self, shared: &SourceKey) -> BTreeSet<SourceKey> {
        let Some(router) = self.kept.object().filter(|router| is_made_for_ingresses(router)) else {
            return BTreeSet::new();
        };
        let meta = &router.metadata.meta;
        let is_shared = meta.namespace == shared.namespace && meta.name == shared.name;
        ingresses_in(&router.spec).filter(|ingress| is_shared || ingress.namespace == meta.namespace).collect()
    }

    /// Whether something is in the way of what it is to have, which may last. `report` is the writer's last one.
    pub(crate) fn is_impeded(&self, report: Option<&LoadBalancerReport>) -> bool {
        let phase = report.map(|report| report.phase);
        self.not_offered.is_some()
            || self.offer.reject.is_some()
            || matches!(phase, Some(Phase::Blocked | Phase::Degraded | Phase::Held))
    }

    /// Whether its status says that a generation is there.
    pub(crate) fn shows_ready(kept: &KeptObject<KuryrL7Router>, generation: i64) -> bool {
        let status = kept.object().and_then(|router| router.status.as_ref());
        status.is_some_and(|status| shows_ready(&status.balancer.conditions, generation))
    }

    /// Called when it is not there any more, or another one is, and no watch has shown a deletion. It is lost if the store went
    /// back, and if it had our finalizer: it cannot have gone without us.
    pub(crate) fn note_lost(&mut self, router: &KuryrL7Router, went_back: bool) {
        let own = &router.metadata.meta.uid;
        let is_undone = went_back || (has_finalizer(router) && !router.metadata.is_being_deleted());
        if is_undone && self.offer.wanted_owner() == Some(own) {
            self.lost = Some(own.clone());
        }
    }
}

pub(crate) fn has_finalizer(router: &KuryrL7Router) -> bool {
    router.metadata.has_finalizer(finalizers::L7_ROUTER)
}

/// Whether the controller has made it for Ingresses, or has taken it over for them.
pub(crate) fn is_made_for_ingresses(router: &KuryrL7Router) -> bool {
    router.metadata.meta.labels.contains_key(labels::ROUTER_OF)
}

/// Names the spec of a KuryrL7Router: the API server counts its changes.
pub(crate) fn spec_version(router: &KuryrL7Router) -> (Text, i64) {
    (router.metadata.meta.uid.clone(), router.metadata.generation)
}

/// The Ingresses that a spec has routes of, whoever has written it.
pub(crate) fn ingresses_in(spec: &KuryrL7RouterSpec) -> impl Iterator<Item = SourceKey> {
    let all = spec.routes.iter().map(|route| &route.ingress).chain([&spec.default_ingress]);
    let named = all.filter_map(|ingress| ingress.as_deref()?.split_once('/'));
    named.map(|(namespace, name)| SourceKey::new(namespace, name))
}
