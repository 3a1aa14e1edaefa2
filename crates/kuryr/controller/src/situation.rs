//! Who wants what under one namespace and name.

use std::collections::BTreeSet;
use std::sync::Arc;

use gimbal_kubernetes_objects::BalancedService;
use gimbal_kuryr_crd::KuryrLoadBalancer;
use gimbal_kuryr_model::Text;
use gimbal_kuryr_resource::{KuryrKind, fingerprint};
use gimbal_kuryr_translate::{KeptService, NotBalanced, unwanted};
use gimbal_model::SourceKey;

use crate::KuryrController;
use crate::held::HeldBalancer;
use crate::item::{BalancerItem, ServiceProof, has_finalizer, named_owners, service_has_finalizer, was_served};

/// What the Service says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceNeed {
    /// There is no Service.
    Absent,
    /// It wants a load balancer.
    Wanted,
    /// It wants none, or is being deleted.
    Unwanted(NotBalanced),
    /// It wants one, and its name is taken by a KuryrLoadBalancer that is served for itself.
    NameTaken,
}

/// Whose the KuryrLoadBalancer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BalancerOwner {
    /// There is no KuryrLoadBalancer.
    None,
    /// The Service of its name.
    Service,
    /// Another Service, of this UID: one that had this name before.
    Former(Text),
    /// It was made without a Service.
    Itself,
}

/// Whether an owner goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnerFate {
    /// It is there, and wants its load balancer.
    Stays,
    /// It goes, or is gone.
    Goes,
    /// It seems to go. The watch may be behind, so the API server has to be asked.
    Doubtful,
    /// It is the owner of something under another key: what names it here is a copy, which goes without it.
    Elsewhere,
    /// It is absent because the cluster's store went back. What names it goes, and what exists for it is an orphan.
    Lost,
}

/// Who wants what under one key.
#[derive(Debug, Clone)]
pub(crate) struct Situation {
    pub(crate) service: Option<Arc<BalancedService>>,
    pub(crate) balancer: Option<Arc<KuryrLoadBalancer>>,
    pub(crate) need: ServiceNeed,
    pub(crate) owner: BalancerOwner,
}

impl Situation {
    /// UID of the Service.
    pub(crate) fn service_uid(&self) -> Option<&Text> {
        self.service.as_ref().map(|service| &service.metadata.meta.uid)
    }

    /// The owner's UID of the KuryrLoadBalancer.
    pub(crate) fn owner_uid(&self) -> Option<&Text> {
        match &self.owner {
            BalancerOwner::None => None,
            BalancerOwner::Service => self.service_uid(),
            BalancerOwner::Former(uid) => Some(uid),
            BalancerOwner::Itself => self.balancer.as_ref().map(|balancer| &balancer.metadata.meta.uid),
        }
    }

    /// Whether the Service has our finalizer.
    pub(crate) fn service_is_protected(&self) -> bool {
        self.service.as_ref().is_some_and(|service| service_has_finalizer(service))
    }
}

impl<T> KuryrController<T> {
    pub(crate) fn situation(&mut self, key: &SourceKey) -> Situation {
        let held = self.items.get(key).and_then(|item| item.held.as_ref());
        let balancer = held.map(|held| self.recent.open(held));
        self.situation_of(key, balancer)
    }

    /// The same, where nothing may change.
    pub(crate) fn situation_now(&self, key: &SourceKey) -> Situation {
        let held = self.items.get(key).and_then(|item| item.held.as_ref());
        self.situation_of(key, held.map(HeldBalancer::object))
    }

    fn situation_of(&self, key: &SourceKey, balancer: Option<Arc<KuryrLoadBalancer>>) -> Situation {
        let service = self.index.service(key).map(KeptService::service);
        let item = self.items.get(key).map(|item| &**item);
        let offered = item.and_then(|item| item.offer.owner());
        let need = match &service {
            None => ServiceNeed::Absent,
            Some(service) => {
                let uid = &service.metadata.meta.uid;
                let exists = balancer.is_some() || service_has_finalizer(service) || offered == Some(uid);
                let refusal = self.refusal(key, service, exists);
                let refusal = refusal.filter(|reason| !is_kept(*reason, service, balancer.as_deref(), item));
                refusal.map_or(ServiceNeed::Wanted, ServiceNeed::Unwanted)
            }
        };
        let is_wanted = item.is_some_and(|item| item.offer.offered.as_ref().is_some_and(|entry| !entry.is_deleting()));
        let owner = |it: &Arc<KuryrLoadBalancer>| owner(service.as_deref(), need, it, offered, is_wanted);
        let owner = balancer.as_ref().map_or(BalancerOwner::None, owner);
        let need = match need {
            ServiceNeed::Wanted if owner == BalancerOwner::Itself => ServiceNeed::NameTaken,
            need => need,
        };
        Situation { service, balancer, need, owner }
    }

    /// Why a Service has no load balancer. One that exists does not go for want of endpoints.
    fn refusal(&self, key: &SourceKey, service: &BalancedService, exists: bool) -> Option<NotBalanced> {
        let settings = &self.settings;
        if let Some(reason) = unwanted(service, &settings.services, self.facts.as_deref()) {
            return Some(reason);
        }
        if !settings.namespaces.contains(&key.namespace) {
            return Some(NotBalanced::Namespace);
        }
        if exists {
            return None;
        }
        let lacks_endpoints = || {
            let joined = self.index.get(key);
            joined.is_none_or(|joined| !joined.slices.iter().any(|part| part.has_endpoints))
        };
        (settings.services.require_endpoints && lacks_endpoints()).then_some(NotBalanced::NoEndpoints)
    }

    /// Returns whether an owner goes. The absence of a Service, or a Service that wants nothing, is believed only when the API
    /// server has said so after it was asked: the watches of two kinds do not wait for each other, so a KuryrLoadBalancer may be
    /// newer than what is known of its Service. A deletion timestamp and a deletion that was seen are final.
    pub(crate) fn fate(&self, key: &SourceKey, situation: &Situation, owner: &Text) -> OwnerFate {
        let item = self.items.get(key);
        if item.is_some_and(|item| item.lost.as_ref() == Some(owner)) {
            return OwnerFate::Lost;
        }
        let balancer = situation.balancer.as_ref().filter(|balancer| balancer.metadata.meta.uid == *owner);
        let offers_itself = item.is_some_and(|item| item.offers_itself && item.offer.owner() == Some(owner));
        let is_balancer = balancer.is_some() || offers_itself;
        if is_balancer && situation.service_uid() != Some(owner) {
            let is_served = |balancer: &&Arc<KuryrLoadBalancer>| !balancer.metadata.is_being_deleted();
            let stays = balancer.filter(is_served).is_some() && situation.owner == BalancerOwner::Itself;
            return match self.reading(KuryrKind::LoadBalancer).went_back() {
                _ if stays => OwnerFate::Stays,
                // Whether it is in the restored store, the list that is running shows.
                true => OwnerFate::Doubtful,
                false => OwnerFate::Goes,
            };
        }
        let is_dead = item.is_some_and(|item| item.dead.as_ref() == Some(owner));
        let proof = item.and_then(|item| item.proof.as_ref());
        let proven = match &situation.service {
            Some(service) if service.metadata.meta.uid == *owner => match situation.need {
                ServiceNeed::Wanted => return OwnerFate::Stays,
                _ => service.metadata.is_being_deleted() || is_proven(proof, Some(service)),
            },
            service => is_dead || is_proven(proof, service.as_deref()),
        };
        // Whether it was deleted, or the store went back to before it, the list that is running shows.
        let proven = proven && !self.reading(KuryrKind::Service).went_back();
        if !proven {
            return OwnerFate::Doubtful;
        }
        if situation.service_uid() == Some(owner) {
            return OwnerFate::Goes;
        }
        // What was offered has been seen.
        let was_service = item.is_some_and(|item| item.offer.owner() == Some(owner));
        match self.fate_elsewhere(key, owner) {
            OwnerFate::Goes if !was_service && self.may_lack_routers() => OwnerFate::Doubtful,
            fate => fate,
        }
    }

    /// What becomes of an owner that is not under this key any more. It may be under another one: somebody has copied what names it.
    fn fate_elsewhere(&self, key: &SourceKey, owner: &Text) -> OwnerFate {
        let of_service = |other: &SourceKey| self.index.service(other).is_some_and(|service| service.uid == *owner);
        if self.is_router(owner) || self.index.services().any(|other| other != key && of_service(other)) {
            return OwnerFate::Elsewhere;
        }
        let others = || self.items.iter().filter(|(other, _)| *other != key);
        // The first one of several removes it.
        if others().any(|(_, item)| item.offer.owner() == Some(owner)) {
            return OwnerFate::Elsewhere;
        }
        let may_be_there = others().any(|(_, item)| item.unread_owners().any(|named| named == owner));
        if may_be_there { OwnerFate::Doubtful } else { OwnerFate::Goes }
    }

    /// Decides again about the keys whose owner no unread key names any more. Thousands may name one owner, so that is looked up for
    /// all of them together.
    pub(crate) fn wake_shared_owners(&mut self) {
        // Routers that have been listed wake them all.
        if !std::mem::take(&mut self.shared_owner_news) || self.shared_owner.is_empty() || self.may_lack_routers() {
            return;
        }
        let unread: BTreeSet<&Text> = self.items.values().flat_map(|item| item.unread_owners()).collect();
        let waits = |key: &SourceKey| {
            // What was said of it may be out of date: it is asked for again.
            self.items
                .get(key)
                .filter(|item| item.proof.is_some())
                .is_some_and(|item| item.named_owners().chain(item.offer.owner()).any(|owner| unread.contains(owner)))
        };
        let (waiting, woken): (BTreeSet<_>, BTreeSet<_>) =
            std::mem::take(&mut self.shared_owner).into_iter().partition(waits);
        self.shared_owner = waiting;
        self.dirty.extend(woken);
    }
}

/// Whether a load balancer stays although none would be made any more. A setting of the controller or of the writer counts for
/// all Services at once, and takes nothing away by itself: the Service is as it was when it got its load balancer. What somebody
/// makes of the KuryrLoadBalancer is no wish either, except its deletion (docs/way-back.md#which-services).
fn is_kept<T>(
    reason: NotBalanced,
    service: &BalancedService,
    balancer: Option<&KuryrLoadBalancer>,
    item: Option<&BalancerItem<T>>,
) -> bool {
    let uid = &service.metadata.meta.uid;
    let offered = item.and_then(|item| item.offer.offered.as_ref()).filter(|entry| entry.owner() == uid);
    let names_it = |balancer: &&KuryrLoadBalancer| named_owners(balancer).contains(&Some(uid));
    let names_none = |balancer: &KuryrLoadBalancer| named_owners(balancer) == [None, None];
    let own = balancer.filter(|balancer| names_it(balancer) || names_none(balancer) || offered.is_some());
    let is_let_go =
        own.is_some_and(|own| own.metadata.is_being_deleted()) || offered.is_some_and(|entry| entry.is_deleting());
    let named = own.filter(|own| has_finalizer(own)).filter(names_it);
    let exists = offered.is_some() || service_has_finalizer(service) || named.is_some();
    if !reason.leaves_what_exists() || is_let_go || !exists {
        return false;
    }
    let asked = asked_by(service);
    // After a restart the KuryrLoadBalancer tells what the Service asked for.
    match item.and_then(|item| item.asked.as_ref()).filter(|(of, _)| of == uid) {
        Some((_, before)) => *before == asked,
        None => named.is_none_or(|named| asked_of(&named.spec.type_, &named.spec.load_balancer_class) == asked),
    }
}

/// What a Service says about who serves it: a fingerprint of its type and class.
pub(crate) fn asked_by(service: &BalancedService) -> u64 {
    asked_of(&service.spec.type_, &service.spec.load_balancer_class)
}

fn asked_of(type_: &Option<Text>, class: &Option<Text>) -> u64 {
    fingerprint(&(type_.as_deref().unwrap_or("ClusterIP"), class.as_deref()))
}

/// Whether the API server has said of a Service, or of its absence, what is known of it.
pub(crate) fn is_proven(proof: Option<&ServiceProof>, service: Option<&BalancedService>) -> bool {
    match (proof, service) {
        (Some(ServiceProof::Version(version)), Some(service)) => *version == service.metadata.meta.resource_version,
        (Some(ServiceProof::Absent), None) => true,
        _ => false,
    }
}

fn owner(
    service: Option<&BalancedService>,
    need: ServiceNeed,
    balancer: &KuryrLoadBalancer,
    offered: Option<&Text>,
    is_wanted: bool,
) -> BalancerOwner {
    let [reference, spec] = named_owners(balancer);
    let former = reference.or(spec);
    let Some(service) = service else {
        return former.map_or(BalancerOwner::Itself, |uid| BalancerOwner::Former(uid.clone()));
    };
    let uid = Some(&service.metadata.meta.uid);
    // What is offered for the Service was made from its KuryrLoadBalancer: one that names somebody else now was edited.
    if reference == uid || spec == uid || offered == uid {
        return BalancerOwner::Service;
    }
    if let Some(former) = former {
        return BalancerOwner::Former(former.clone());
    }
    let is_offered = is_wanted && offered == Some(&balancer.metadata.meta.uid);
    let served_for_itself = was_served(balancer) || is_offered;
    let takes_it = service_has_finalizer(service) || (need == ServiceNeed::Wanted && !served_for_itself);
    match (takes_it, has_finalizer(balancer)) {
        (false, _) => BalancerOwner::Itself,
        (true, false) => BalancerOwner::Service,
        // As Kuryr left them, or served for itself and not said so yet: something may have been made for it. It goes, and is made
        // again for the Service.
        (true, true) => BalancerOwner::Former(balancer.metadata.meta.uid.clone()),
    }
}
