//! Decides what is offered.

use std::collections::BTreeSet;
use std::sync::Arc;

use gimbal_kuryr_crd::KuryrL7Router;
use gimbal_kuryr_crd::names::labels;
use gimbal_kuryr_model::{DesiredEntry, Text};
use gimbal_kuryr_resource::KuryrKind;
use gimbal_kuryr_translate::{NotStreamed, desired_router, router_owner_alone};
use gimbal_kuryr_wire::PackedEntry;
use gimbal_model::SourceKey;
use gimbal_session::KeptEntry as _;

use crate::RouterController;
use crate::item::{IngressPlace, RouterItem, has_finalizer, is_made_for_ingresses, spec_version};

/// Whether an owner goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnerFate {
    /// It is there.
    Stays,
    /// It goes, or is gone.
    Goes,
    /// It seems to be gone. Whether it was deleted, or the store went back to before it, the list that is running shows.
    Doubtful,
    /// It is absent because the cluster's store went back: what exists for it is an orphan.
    Lost,
}

impl<T> RouterController<T> {
    fn fate(&self, item: &RouterItem<T>, owner: &Text) -> OwnerFate {
        if item.lost.as_ref() == Some(owner) {
            return OwnerFate::Lost;
        }
        match item.kept.object().filter(|router| router.metadata.meta.uid == *owner) {
            Some(router) if router.metadata.is_being_deleted() => OwnerFate::Goes,
            Some(_) => OwnerFate::Stays,
            None if self.reading(KuryrKind::Router).went_back() => OwnerFate::Doubtful,
            None => OwnerFate::Goes,
        }
    }

    /// Decides what is offered under a key. Each owner whose load balancer may exist is offered until it is gone, one after the
    /// other.
    pub(crate) fn offer(&mut self, key: &SourceKey) {
        let Some(item) = self.routers.get(key) else { return };
        let Some(entry) = item.offer.offered.clone() else { return self.offer_first(key) };
        let owner = entry.owner();
        let is_gone = entry.is_deleting() && item.offer.is_gone(owner);
        let is_protected = item.kept.object().is_some_and(|it| it.metadata.meta.uid == *owner && has_finalizer(it));
        match self.fate(item, owner) {
            OwnerFate::Stays => match self.present(key) {
                Some(entry) => self.set_offered(key, Some(entry)),
                // It may have been to go for a moment.
                None => {
                    if let Some(item) = self.routers.get_mut(key) {
                        item.offer.take_back_deletion();
                    }
                }
            },
            OwnerFate::Goes if is_gone && !is_protected => {
                self.set_offered(key, None);
                self.offer_first(key);
            }
            OwnerFate::Goes => self.set_offered(key, Some(DesiredEntry::Deleting { owner: owner.clone() })),
            OwnerFate::Doubtful => {}
            OwnerFate::Lost => {
                self.set_offered(key, None);
                self.offer_first(key);
            }
        }
    }

    /// Decides what is offered where nothing is.
    fn offer_first(&mut self, key: &SourceKey) {
        let Some(item) = self.routers.get(key) else { return };
        let Some(router) = item.kept.object().cloned() else { return };
        if !router.metadata.is_being_deleted() {
            if let Some(entry) = self.present(key) {
                self.set_offered(key, Some(entry));
            }
        } else if has_finalizer(&router) {
            let owner = router.metadata.meta.uid.clone();
            self.set_offered(key, Some(DesiredEntry::Deleting { owner }));
        }
    }

    /// Returns what is offered of a KuryrL7Router: nothing new before the watch has shown it with its finalizer, and the Ingresses
    /// that it serves with theirs.
    fn present(&mut self, key: &SourceKey) -> Option<DesiredEntry> {
        let facts = self.facts.clone()?;
        let are_protected = self.are_protected(key);
        let foreign = self.foreign_certificates(key)?;
        let router = self.routers.get(key)?.kept.shown()?.clone();
        let is_anothers = self.is_anothers(key, &router);
        let item = self.routers.get_mut(key)?;
        let owner = &router.metadata.meta.uid;
        if !has_finalizer(&router) || router.metadata.is_being_deleted() {
            return None;
        }
        // What a former process, or another one, may have made for it has an owner.
        let is_made = item.offer.offered.is_none() && item.unmade.as_ref() != Some(owner);
        let alone = || is_made.then(|| DesiredEntry::LoadBalancer(router_owner_alone(Some(&router), owner)));
        if !facts.enable_ingress {
            return alone();
        }
        let is_unlabeled = !is_made_for_ingresses(&router) && !item.ingresses.is_empty();
        if item.is_edited(&router) || (is_unlabeled && !item.is_as_wanted(&router)) {
            // It is set back first. Where that fails, the namespace must not be unknown for as long as that lasts.
            return if item.pauses.is_failing() || is_anothers { alone() } else { None };
        }
        if item.offer.wanted_owner() != Some(owner) && !are_protected {
            return None;
        }
        item.ours = Some(spec_version(&router));
        // Whoever takes the label off changes nothing about what it was made for, and takes no certificate away.
        let labeled = if is_unlabeled { with_label(&router) } else { Arc::clone(&router) };
        let labeled = foreign.left_out_of(labeled);
        // It is unpacked only where it matters.
        let is_needed = |entry: &&PackedEntry| !facts.certificates && !entry.is_alone() && entry.owner() == owner;
        let offered = item.offer.offered.as_ref().filter(is_needed).map(PackedEntry::entry);
        match desired_router(&labeled, &facts, offered.as_deref()) {
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

    /// Whether the Ingresses that a router serves, or has routes of, have their finalizers. One that does not get it is served
    /// nevertheless where it may have been before this process began, and else is not before that (docs/way-back.md#rule-4).
    fn are_protected(&self, key: &SourceKey) -> bool {
        let Some(item) = self.routers.get(key) else { return true };
        let is_new = item.is_new();
        // Of another one, those that leave have left.
        let named = if is_new { item.named_ingresses(&self.settings.ingresses.shared) } else { BTreeSet::new() };
        let is_protected = |ingress: &SourceKey| {
            let item = self.ingresses.get(ingress);
            item.is_none_or(|item| item.is_protected() || (item.pauses.is_failing() && !is_new))
        };
        let mut places = item.ingresses.iter();
        places.all(|(ingress, place)| {
            let has_routes = *place == IngressPlace::Served || named.contains(ingress);
            !has_routes || is_protected(ingress)
        })
    }

    fn set_offered(&mut self, key: &SourceKey, entry: Option<DesiredEntry>) {
        let Some(item) = self.routers.get_mut(key) else { return };
        if item.offer.offers(entry.as_ref()) {
            return;
        }
        let change = item.offer.set(entry);
        self.handled.extend(change.token);
        if item.offer.is_deleting() {
            item.not_offered = None;
        }
        self.undrained.insert(key.clone());
    }

    /// Notes whether something may exist for a router of which nothing is offered: its absence means nothing then.
    pub(crate) fn withhold(&mut self, key: &SourceKey) {
        let Some(item) = self.routers.get_mut(key) else { return };
        let owner = item.kept.object().map(|router| router.metadata.meta.uid.clone());
        let is_protected = item.kept.object().is_some_and(|router| has_finalizer(router));
        let is_offered = owner.is_some() && item.offer.owner() == owner.as_ref();
        if is_offered {
            item.unmade.take_if(|unmade| Some(&*unmade) == owner.as_ref());
        } else if owner.is_some() && !is_protected {
            item.unmade.clone_from(&owner);
        }
        if owner.is_some() && is_protected && !is_offered && item.unmade != owner {
            self.withheld.insert(key.clone());
        } else {
            self.withheld.remove(key);
        }
    }

    /// Why a KuryrL7Router is not offered, if that has a reason which its status shows.
    pub(crate) fn not_offered(&self, key: &SourceKey, router: &KuryrL7Router) -> Option<NotStreamed> {
        match &self.facts {
            // It was made with facts: what they said still holds, and will be heard again.
            None => {
                let waits = !has_finalizer(router) && router.spec.project_id.is_none();
                waits.then_some(NotStreamed::WaitingForWriter)
            }
            Some(facts) if !facts.enable_ingress => Some(NotStreamed::NotEnabled),
            Some(_) => self.routers.get(key).and_then(|item| item.not_offered.clone()),
        }
    }
}

/// Returns a router as it is when it has its label back.
fn with_label(router: &KuryrL7Router) -> Arc<KuryrL7Router> {
    let mut labeled = router.clone();
    labeled.metadata.meta.labels.insert(labels::ROUTER_OF.into(), "".into());
    Arc::new(labeled)
}

impl<T> RouterItem<T> {
    /// Whether the spec is what somebody has made of it while something else is offered, or while no controller ran. It is set back,
    /// and the writer must not act upon it before. One that was not made for Ingresses is its maker's to edit.
    fn is_edited(&self, router: &KuryrL7Router) -> bool {
        let offers = self.offer.offered.as_ref().is_some_and(|entry| !entry.is_deleting() && !entry.is_alone());
        let is_known = self.ours.as_ref() == Some(&spec_version(router));
        // What another process has offered the writer has reported on.
        let is_reported = || {
            let status = router.status.as_ref();
            !offers && status.is_some_and(|it| it.balancer.observed_generation == Some(router.metadata.generation))
        };
        let is_of_ingresses = is_made_for_ingresses(router) || !self.ingresses.is_empty();
        is_of_ingresses && !is_known && !is_reported() && !self.is_as_wanted(router)
    }
}
