//! Decides what is offered.

use std::collections::BTreeSet;

use gimbal_kuryr_crd::KuryrLoadBalancer;
use gimbal_kuryr_crd::names::reasons;
use gimbal_kuryr_model::{DesiredEntry, LoadBalancerHeader, Text};
use gimbal_kuryr_resource::{ClusterObject, KuryrKind, ObjectNotice, ObjectPauses, Told};
use gimbal_kuryr_translate::{
    Finding, Input, NotBalanced, NotStreamed, desired, named_service, owner_alone, translate,
};
use gimbal_model::SourceKey;
use gimbal_session::KeptEntry as _;

use crate::KuryrController;
use crate::item::{BalancerItem, has_finalizer};
use crate::situation::{BalancerOwner, OwnerFate, ServiceNeed, Situation, asked_by, is_proven};

impl<T> KuryrController<T> {
    /// Decides everything that changed.
    pub(crate) fn settle(&mut self) {
        if !self.leads {
            return self.stand_by();
        }
        if !self.may_act() {
            return self.wait();
        }
        self.note_changed();
        self.wake_shared_owners();
        while let Some(key) = self.dirty.pop_first() {
            let situation = self.situation(&key);
            let is_fresh = self.fresh.remove(&key);
            if !self.items.contains_key(&key) && !needs_item(&situation) && !is_fresh {
                self.withheld.remove(&key);
                continue;
            }
            self.items.entry(key.clone()).or_default().needs_proof = false;
            self.translate(&key, &situation);
            self.offer(&key, &situation);
            self.withhold(&key, &situation);
            self.tell_skipped(&key, &situation, is_fresh);
            self.enqueue(&key);
            self.forget_idle(&key);
        }
        self.fresh = BTreeSet::new();
    }

    /// Keeps nothing of what is gone. When leadership begins, everything is decided anew.
    fn stand_by(&mut self) {
        self.note_changed();
        for key in std::mem::take(&mut self.dirty) {
            if self.index.service(&key).is_none()
                && let Some(item) = self.items.get_mut(&key)
            {
                (item.skip_told, item.wanted_spec) = (None, None);
            }
            self.forget_idle(&key);
        }
        self.fresh.clear();
    }

    /// Keeps of what cannot be decided yet only what there is: a kind may not be there for as long as its definition is missing.
    fn wait(&mut self) {
        self.note_changed();
        let is_there = |key: &SourceKey| self.index.service(key).is_some() || self.items.contains_key(key);
        self.dirty.retain(is_there);
        self.fresh.retain(is_there);
    }

    /// Returns whether specs can be made: everything that they are made from has been read.
    pub(crate) fn can_translate(&self) -> bool {
        let current = |kind| self.is_current(kind);
        current(KuryrKind::Service) && current(KuryrKind::Slice) && (!self.needs_nodes() || current(KuryrKind::Node))
    }

    /// Makes the spec that the Service wants.
    fn translate(&mut self, key: &SourceKey, situation: &Situation) {
        if situation.need != ServiceNeed::Wanted {
            if let Some(item) = self.items.get_mut(key) {
                (item.wanted_spec, item.findings, item.hostname) = (None, Vec::new(), None);
            }
            return;
        }
        if let (Some(item), Some(service)) = (self.items.get_mut(key), &situation.service) {
            item.asked = Some((service.metadata.meta.uid.clone(), asked_by(service)));
        }
        if !self.can_translate() {
            return;
        }
        let Some(joined) = self.index.get(key) else { return };
        let (facts, settings) = (self.facts.as_deref(), &self.settings.services);
        let item = self.items.get(key);
        let (uid, balancer) = (&joined.service.metadata.meta.uid, situation.balancer.as_deref());
        let chosen = item.zip(facts).and_then(|(item, facts)| item.chosen(uid, balancer, facts));
        let chosen = chosen.as_ref();
        let input = Input { joined: &joined, nodes: &self.nodes, facts, settings, exists: true, chosen };
        // Why it has none was asked already.
        let Ok(mut translated) = translate(&input) else { return };
        if !self.settings.namespaces.contains(&key.namespace) {
            translated.findings.push(Finding::Kept(NotBalanced::Namespace));
        }
        if let Some(item) = self.items.get_mut(key) {
            (item.findings, item.hostname) = (translated.findings, translated.hostname);
            let spec = translated.spec;
            let is_other = situation.balancer.as_ref().is_none_or(|balancer| balancer.spec != spec);
            item.wanted_spec = is_other.then(|| Box::new(spec));
        }
    }

    /// Decides what is offered under a key. Each owner whose load balancer may exist is offered until it is gone, one after the
    /// other.
    fn offer(&mut self, key: &SourceKey, situation: &Situation) {
        let Some(item) = self.items.get(key) else { return };
        let Some(entry) = item.offer.offered.clone() else { return self.offer_first(key, situation) };
        let owner = entry.owner();
        let is_gone = entry.is_deleting() && item.offer.is_gone(owner);
        match self.fate(key, situation, owner) {
            OwnerFate::Stays => {
                if let Some(entry) = self.present(key, situation, owner) {
                    self.set_offered(key, Some(entry));
                } else if let Some(item) = self.items.get_mut(key) {
                    // It may have been to go for a moment.
                    item.offer.take_back_deletion();
                }
            }
            _ if is_gone && !is_protecting(situation, owner) => {
                self.set_offered(key, None);
                self.offer_first(key, situation);
            }
            OwnerFate::Goes => self.set_offered(key, Some(DesiredEntry::Deleting { owner: owner.clone() })),
            OwnerFate::Doubtful => self.doubt(key, situation),
            OwnerFate::Elsewhere | OwnerFate::Lost => {
                self.set_offered(key, None);
                self.offer_first(key, situation);
            }
        }
    }

    /// Notes whether something may exist for an owner of which nothing is offered: its absence means nothing then.
    fn withhold(&mut self, key: &SourceKey, situation: &Situation) {
        let of_balancer = situation.owner_uid().cloned().filter(|owner| {
            !matches!(situation.owner, BalancerOwner::Former(_))
                || !matches!(self.fate(key, situation, owner), OwnerFate::Elsewhere | OwnerFate::Lost)
        });
        let has_own = situation.balancer.as_ref().is_some_and(|balancer| has_finalizer(balancer));
        let Some(item) = self.items.get_mut(key) else { return };
        let owners = [
            (situation.service_uid().cloned(), situation.service_is_protected()),
            (of_balancer, has_own || (situation.owner == BalancerOwner::Service && situation.service_is_protected())),
        ];
        let protected: Vec<Text> = owners.iter().filter_map(|(owner, by)| owner.clone().filter(|_| *by)).collect();
        let mut is_withheld = false;
        for (at, (owner, _)) in owners.into_iter().enumerate() {
            // Both finalizers stand for one owner, and either may have been removed by force.
            let is_protected = owner.as_ref().is_some_and(|owner| protected.contains(owner));
            let is_offered = owner.is_some() && item.offer.owner() == owner.as_ref();
            if is_offered {
                item.unmade
                    .iter_mut()
                    .for_each(|unmade| drop(unmade.take_if(|unmade| Some(&*unmade) == owner.as_ref())));
            } else if owner.is_some() && !is_protected {
                item.unmade[at] = owner;
            } else {
                is_withheld |= owner.is_some() && !item.unmade.contains(&owner);
            }
        }
        if is_withheld {
            self.withheld.insert(key.clone());
        } else {
            self.withheld.remove(key);
        }
    }

    /// Decides what is offered where nothing is.
    fn offer_first(&mut self, key: &SourceKey, situation: &Situation) {
        if let (Some(balancer), Some(owner)) = (&situation.balancer, situation.owner_uid()) {
            match self.fate(key, situation, owner) {
                OwnerFate::Stays => {
                    if let Some(entry) = self.present(key, situation, owner) {
                        self.set_offered(key, Some(entry));
                    }
                    return;
                }
                OwnerFate::Goes if has_finalizer(balancer) => {
                    self.set_offered(key, Some(DesiredEntry::Deleting { owner: owner.clone() }));
                    return;
                }
                OwnerFate::Goes | OwnerFate::Elsewhere | OwnerFate::Lost => {}
                OwnerFate::Doubtful => return self.doubt(key, situation),
            }
        }
        // A Service with our finalizer and without a KuryrLoadBalancer: somebody has removed that by force.
        if let Some(uid) = situation.service_uid()
            && situation.service_is_protected()
        {
            match self.fate(key, situation, uid) {
                OwnerFate::Stays => self.name_unmade(key, situation, uid),
                OwnerFate::Elsewhere | OwnerFate::Lost => {}
                OwnerFate::Goes => self.set_offered(key, Some(DesiredEntry::Deleting { owner: uid.clone() })),
                OwnerFate::Doubtful => self.doubt(key, situation),
            }
        }
    }

    /// Names a living owner whose KuryrLoadBalancer cannot be made, for its creation fails, or one that goes has its name: something
    /// may exist for it, and its namespace must not be unknown for as long as that lasts.
    fn name_unmade(&mut self, key: &SourceKey, situation: &Situation, uid: &Text) {
        let Some(item) = self.items.get(key) else { return };
        let cannot_be_made = match &situation.balancer {
            None => item.pauses[1].is_failing(),
            Some(balancer) => is_kept_by_others(balancer),
        };
        let is_unmade = item.unmade.iter().flatten().any(|unmade| unmade == uid);
        let spec = item.wanted_spec.as_deref().filter(|_| cannot_be_made && !is_unmade);
        let Some(spec) = spec else { return };
        let mut object = KuryrLoadBalancer::default();
        object.metadata.meta.namespace = key.namespace.clone();
        object.spec.shared_group = spec.shared_group.clone();
        self.set_offered(key, Some(DesiredEntry::LoadBalancer(owner_alone(Some(&object), uid))));
    }

    fn doubt(&mut self, key: &SourceKey, situation: &Situation) {
        if let Some(item) = self.items.get_mut(key) {
            // What the API server has said of this key need not be asked for again.
            item.needs_proof = !is_proven(item.proof.as_ref(), situation.service.as_deref());
            if !item.needs_proof {
                self.shared_owner.insert(key.clone());
            }
        }
    }

    /// Returns what is offered of a KuryrLoadBalancer for its owner: nothing new before the watch has shown it, with its
    /// finalizer and that of its Service.
    fn present(&mut self, key: &SourceKey, situation: &Situation, owner: &Text) -> Option<DesiredEntry> {
        let balancer = situation.balancer.as_ref().filter(|_| situation.owner_uid() == Some(owner))?;
        let facts = self.facts.clone()?;
        let can_translate = self.can_translate();
        let item = self.items.get_mut(key)?;
        let of_service = situation.owner == BalancerOwner::Service;
        let names_owner = if of_service {
            balancer.spec.service_uid.as_ref() == Some(owner)
        } else {
            named_service(&balancer.spec).is_none()
        };
        let is_shown = item.held.as_ref().is_some_and(|held| !held.ahead) && !(of_service && item.service_ahead);
        let is_protected = has_finalizer(balancer) && (!of_service || situation.service_is_protected());
        // What a former process, or another one, may have made for it has an owner.
        let is_made = item.offer.offered.is_none()
            && is_protecting(situation, owner)
            && !item.unmade.iter().flatten().any(|unmade| unmade == owner);
        let alone = || is_made.then(|| DesiredEntry::LoadBalancer(owner_alone(Some(balancer), owner)));
        let is_sound = is_shown && is_protected && names_owner && !balancer.metadata.is_being_deleted();
        if !is_sound || (of_service && item.is_edited(balancer, can_translate)) {
            // It is set right, or made again, first. Where that fails, the namespace must not be unknown for as long as that lasts.
            let fails = is_kept_by_others(balancer) || item.pauses.iter().any(ObjectPauses::is_failing);
            return if fails { alone() } else { None };
        }
        item.ours = item.held.as_ref().map(|held| (held.uid.clone(), held.generation));
        match desired(balancer, &facts) {
            Ok(streamed) => {
                (item.not_offered, item.offer_findings) = (None, streamed.findings);
                Some(DesiredEntry::LoadBalancer(streamed.wanted))
            }
            Err(error) => {
                item.not_offered = Some(error);
                alone()
            }
        }
    }

    fn set_offered(&mut self, key: &SourceKey, entry: Option<DesiredEntry>) {
        let Some(item) = self.items.get_mut(key) else { return };
        if item.offer.offers(entry.as_ref()) {
            return;
        }
        let told = entry.as_ref().and_then(|entry| replacement(item, entry));
        let change = item.offer.set(entry);
        self.handled.extend(change.token);
        if change.is_other_owner {
            let own = item.held.as_ref().map(|held| &held.uid);
            item.offers_itself = own.is_some() && item.offer.owner() == own;
        }
        if item.offer.is_deleting() {
            item.not_offered = None;
        }
        self.undrained.insert(key.clone());
        self.tell(key, told.into_iter().collect());
    }

    /// Tells why a Service that asks for a load balancer has none, when that changes while it is watched.
    fn tell_skipped(&mut self, key: &SourceKey, situation: &Situation, is_fresh: bool) {
        let told = match situation.need {
            ServiceNeed::Unwanted(reason @ (NotBalanced::OldAnnotation | NotBalanced::NoEndpoints)) => {
                Some(Told::normal(reasons::SERVICE_SKIPPED, reason.to_string()))
            }
            ServiceNeed::NameTaken => {
                let message = "a KuryrLoadBalancer of this name was made without a Service, and is served for itself";
                Some(Told::warning(reasons::ENSURE_LB_ERROR, message))
            }
            _ => None,
        };
        let Some(item) = self.items.get_mut(key) else { return };
        let before = std::mem::replace(&mut item.skip_told, told.clone());
        if let (Some(told), Some(service)) = (told, &situation.service)
            && before.as_ref() != Some(&told)
            && is_fresh
        {
            let object = ClusterObject::new(key, KuryrKind::Service);
            self.notices.push(ObjectNotice { object, uid: service.metadata.meta.uid.clone(), told });
        }
    }

    /// Why a KuryrLoadBalancer is not offered, if that has a reason which its status shows.
    pub(crate) fn not_offered(&self, key: &SourceKey, balancer: &KuryrLoadBalancer) -> Option<NotStreamed> {
        if self.facts.is_none() {
            // It was made with facts: what they said still holds, and will be heard again.
            let waits = !has_finalizer(balancer) && balancer.spec.project_id.is_none();
            return waits.then_some(NotStreamed::WaitingForWriter);
        }
        self.items.get(key).and_then(|item| item.not_offered.clone())
    }
}

/// Whether anything under a key has to be looked after.
fn needs_item(situation: &Situation) -> bool {
    situation.balancer.is_some()
        || matches!(situation.need, ServiceNeed::Wanted | ServiceNeed::NameTaken)
        || situation.service_is_protected()
}

/// Whether somebody else's finalizer keeps a KuryrLoadBalancer that goes.
fn is_kept_by_others(balancer: &KuryrLoadBalancer) -> bool {
    balancer.metadata.is_being_deleted() && !has_finalizer(balancer)
}

/// Whether a finalizer still stands for an owner.
fn is_protecting(situation: &Situation, owner: &Text) -> bool {
    let balancer = situation.balancer.as_ref().filter(|_| situation.owner_uid() == Some(owner));
    let by_service = situation.service_uid() == Some(owner) && situation.service_is_protected();
    balancer.is_some_and(|balancer| has_finalizer(balancer)) || by_service
}

/// Returns what is to be reported of a load balancer that is replaced: something is to be another one that it keeps for its life.
fn replacement<T>(item: &BalancerItem<T>, after: &DesiredEntry) -> Option<Told> {
    let before = item.offer.offered.as_ref().filter(|entry| !entry.is_alone())?.entry();
    let (before, after) = (wanted_header(&before)?, wanted_header(after)?);
    if before.owner != after.owner || (&before.placement, &before.vip) == (&after.placement, &after.vip) {
        return None;
    }
    let held = item.held.as_ref()?.object();
    let made = held.status.as_ref()?.loadbalancer.as_ref()?;
    // The status names neither flavor nor zone.
    let made: [&str; 7] = [&made.project_id, &made.provider, "", "", &made.subnet_id, &made.ip, &made.port_id];
    let parts = before.kept_for_life().into_iter().zip(after.kept_for_life()).zip(made);
    let changes = parts.filter_map(|(((what, before), (_, after)), made)| {
        let after = after.filter(|after| before.as_ref() != Some(after) && **after != *made)?;
        let made = Some(made).filter(|made| !made.is_empty());
        let was = before.as_deref().or(made).map(|before| format!("was {before} and ")).unwrap_or_default();
        Some(format!("its {what} {was}is to be {after}"))
    });
    let changes: Vec<String> = changes.collect();
    let message = || format!("the load balancer is replaced: {}", changes.join("; "));
    (!changes.is_empty()).then(|| Told::normal(reasons::UPDATE_PROVIDER, message()))
}

fn wanted_header(entry: &DesiredEntry) -> Option<&LoadBalancerHeader> {
    match entry {
        DesiredEntry::LoadBalancer(wanted) if !entry.is_alone() => Some(&wanted.header),
        DesiredEntry::LoadBalancer(_) | DesiredEntry::Deleting { .. } => None,
    }
}
