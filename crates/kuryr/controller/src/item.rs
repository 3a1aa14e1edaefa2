//! What is kept of one namespace and name: of the KuryrLoadBalancer, what is offered of it, and what the writer said.

use std::time::Instant;

use gimbal_kubernetes_objects::BalancedService;
use gimbal_kuryr_crd::names::{conditions, finalizers};
use gimbal_kuryr_crd::{KuryrLoadBalancer, KuryrLoadBalancerSpec};
use gimbal_kuryr_model::{CloudFacts, DesiredEntry, Text};
use gimbal_kuryr_resource::{KuryrKind, ObjectPauses, OfferedEntry, Purpose, Told, fingerprint, says_true};
use gimbal_kuryr_translate::{Chosen, Finding, NotStreamed, is_uid, named_service};

use gimbal_session::KeptEntry as _;

use crate::held::HeldBalancer;

/// The kinds that are written to, in the order of [`BalancerItem::pauses`].
pub(crate) const WRITTEN: [KuryrKind; 2] = [KuryrKind::Service, KuryrKind::LoadBalancer];

/// The place of the pauses of a kind.
pub(crate) fn which(kind: KuryrKind) -> usize {
    usize::from(kind == KuryrKind::LoadBalancer)
}

/// One namespace and name.
#[derive(Debug)]
pub(crate) struct BalancerItem<T> {
    /// The KuryrLoadBalancer.
    pub(crate) held: Option<HeldBalancer>,
    /// Whether the Service is known from an answer that the watch has not shown yet.
    pub(crate) service_ahead: bool,
    /// What is offered, and what the writer says of it.
    pub(crate) offer: OfferedEntry<T>,
    /// Whether its owner is the KuryrLoadBalancer, and not a Service.
    pub(crate) offers_itself: bool,
    /// UID of the Service that the watch has shown to be deleted last. UIDs do not come back.
    pub(crate) dead: Option<Text>,
    /// The list of Services that was the latest then.
    pub(crate) dead_in: u32,
    /// The same of the KuryrLoadBalancer.
    pub(crate) dead_balancer: Option<Text>,
    /// The owner that is absent since the cluster's store went back: it was not deleted.
    pub(crate) lost: Option<Text>,
    /// What the API server answered when it was asked for the Service.
    pub(crate) proof: Option<ServiceProof>,
    /// What the Service of this UID asked for when it was wanted last: a fingerprint.
    pub(crate) asked: Option<(Text, u64)>,
    /// Whether it is to be asked.
    pub(crate) needs_proof: bool,
    /// Whether the status of the KuryrLoadBalancer shows it.
    pub(crate) status_done: bool,
    /// Whether the status of the Service shows it.
    pub(crate) service_done: bool,
    /// The spec that is wanted, while it differs from the one that is held.
    pub(crate) wanted_spec: Option<Box<KuryrLoadBalancerSpec>>,
    /// UID and generation of the KuryrLoadBalancer whose spec we have written, or offered, last.
    pub(crate) ours: Option<(Text, i64)>,
    /// What was left out of the spec.
    pub(crate) findings: Vec<Finding>,
    /// What was left out of what is offered.
    pub(crate) offer_findings: Vec<Finding>,
    /// Addresses that the status of the Service may show, and that of the KuryrLoadBalancer not yet.
    pub(crate) shown: Box<[Text]>,
    /// The name that the status of the Service shows.
    pub(crate) hostname: Option<Text>,
    /// Why it is not offered.
    pub(crate) not_offered: Option<NotStreamed>,
    /// When a status that says that something is being done is written. Most is done before.
    pub(crate) hold: Option<Instant>,
    /// Why the Service has no load balancer, as the last notice said.
    pub(crate) skip_told: Option<Told>,
    /// UIDs of Service and KuryrLoadBalancer that were seen without a finalizer while nothing was offered of them: nothing was
    /// made for them.
    pub(crate) unmade: [Option<Text>; 2],
    /// Pauses after failures, of the Service and of the KuryrLoadBalancer.
    pub(crate) pauses: [ObjectPauses; 2],
}

impl<T> Default for BalancerItem<T> {
    fn default() -> Self {
        Self {
            held: None,
            service_ahead: false,
            offer: OfferedEntry::default(),
            offers_itself: false,
            dead: None,
            dead_in: 0,
            dead_balancer: None,
            lost: None,
            proof: None,
            asked: None,
            needs_proof: false,
            status_done: false,
            service_done: false,
            wanted_spec: None,
            ours: None,
            findings: Vec::new(),
            offer_findings: Vec::new(),
            shown: Box::default(),
            hostname: None,
            not_offered: None,
            hold: None,
            skip_told: None,
            unmade: [None, None],
            pauses: Default::default(),
        }
    }
}

/// What the API server answered when it was asked for a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServiceProof {
    /// There is none.
    Absent,
    /// It has this version.
    Version(Text),
}

impl<T> BalancerItem<T> {
    /// Whether there is nothing to keep.
    pub(crate) fn is_idle(&self) -> bool {
        self.held.is_none()
            && self.offer.is_idle()
            && self.skip_told.is_none()
            && self.wanted_spec.is_none()
            && !self.needs_proof
            && !self.service_ahead
            && self.pauses.iter().all(ObjectPauses::is_idle)
    }

    /// The owners that the KuryrLoadBalancer names.
    pub(crate) fn named_owners(&self) -> impl Iterator<Item = &Text> {
        self.held.iter().flat_map(|held| held.owners.iter().flatten())
    }

    /// The owners that it names and that may be the Service's under its name, for that was not read.
    pub(crate) fn unread_owners(&self) -> impl Iterator<Item = &Text> {
        self.named_owners().filter(|owner| self.proof.is_none() && self.dead.as_ref() != Some(*owner))
    }

    /// Whether the spec of the KuryrLoadBalancer is what somebody has made of it while something else is offered, or while no
    /// controller ran. It is set back, and the writer must not act upon it before. What is wanted is in `wanted_spec` only if it
    /// `is_known`.
    pub(crate) fn is_edited(&self, balancer: &KuryrLoadBalancer, is_known: bool) -> bool {
        let offers = self.offer.offered.as_ref().is_some_and(|entry| !entry.is_deleting() && !entry.is_alone());
        if self.ours.as_ref() == Some(&spec_version(balancer)) {
            return false;
        }
        // What another process has offered the writer has reported on.
        if !offers && is_reported(balancer) {
            return false;
        }
        let Some(wanted) = &self.wanted_spec else { return !is_known };
        let (wanted, held) = (fingerprint(wanted), fingerprint(&balancer.spec));
        wanted != held && !self.pauses[1].is_accepted(Purpose::Conform, wanted, || held)
    }

    /// What was chosen for the load balancer of a Service: what its KuryrLoadBalancer says, unless somebody has edited it.
    pub(crate) fn chosen(
        &self,
        service: &Text,
        balancer: Option<&KuryrLoadBalancer>,
        facts: &CloudFacts,
    ) -> Option<Chosen> {
        let offered = self.offer.offered.as_ref();
        let offered = offered.filter(|entry| !entry.is_deleting() && !entry.is_alone() && entry.owner() == service);
        let is_made = |spec: &KuryrLoadBalancerSpec| named_service(spec) == Some(service) && spec.project_id.is_some();
        let held = balancer.filter(|held| is_made(&held.spec));
        let is_ours = |held: &&KuryrLoadBalancer| self.ours.as_ref() == Some(&spec_version(held));
        let status = balancer.and_then(|held| held.status.as_ref());
        let made_in = status.and_then(|status| status.loadbalancer.as_ref()).map(|made| made.subnet_id.clone());
        let chosen = match (held.filter(|held| offered.is_none() || is_ours(held)), offered) {
            (Some(held), _) => Some(Chosen::of_spec(&held.spec)),
            (None, offered) => offered.and_then(|offered| match &*offered.entry() {
                DesiredEntry::LoadBalancer(it) => Some(Chosen::of_header(&it.header).with_members(&it.members, facts)),
                DesiredEntry::Deleting { .. } => None,
            }),
        };
        let conditions = status.map(|status| &*status.conditions);
        let was_kept = |finding: &Finding| {
            let is_said = |said| says_true(said, finding.condition(), &finding.to_string());
            self.findings.contains(finding) || conditions.is_some_and(is_said)
        };
        chosen.map(|chosen| chosen.made_in(made_in).kept(was_kept))
    }
}

pub(crate) fn service_has_finalizer(service: &BalancedService) -> bool {
    service.metadata.has_finalizer(finalizers::SERVICE)
}

pub(crate) fn has_finalizer(balancer: &KuryrLoadBalancer) -> bool {
    balancer.metadata.has_finalizer(finalizers::LOAD_BALANCER)
}

/// Whether its status is about the spec that it has: no one has changed that since the writer had it.
fn is_reported(balancer: &KuryrLoadBalancer) -> bool {
    let status = balancer.status.as_ref();
    status.is_some_and(|status| status.observed_generation == Some(balancer.metadata.generation))
}

/// Names the spec of a KuryrLoadBalancer: the API server counts its changes.
pub(crate) fn spec_version(balancer: &KuryrLoadBalancer) -> (Text, i64) {
    (balancer.metadata.meta.uid.clone(), balancer.metadata.generation)
}

/// The UIDs of Services that a KuryrLoadBalancer names as its owner: by reference, and in its spec. What is no UID names none.
pub(crate) fn named_owners(balancer: &KuryrLoadBalancer) -> [Option<&Text>; 2] {
    let references = balancer.metadata.owner_references.iter();
    let reference = references.filter(|owner| &*owner.kind == "Service" && &*owner.api_version == "v1");
    let mut reference = reference.map(|owner| &owner.uid).filter(|uid| is_uid(uid));
    [reference.next(), named_service(&balancer.spec)]
}

/// Whether we have written its status: Kuryr wrote no conditions.
pub(crate) fn was_served(balancer: &KuryrLoadBalancer) -> bool {
    let status = balancer.status.as_ref();
    status.is_some_and(|status| status.conditions.iter().any(|one| &*one.type_ == conditions::READY))
}
