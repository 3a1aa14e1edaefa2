//! What is known when the cluster's store was restored to an older state (docs/way-back.md#rule-5).
//!
//! What was made since has vanished, and was not deleted: that is absence, and no wish. Its entries leave the stream, so that
//! openstack-writer finds what exists for them as it finds every orphan, after its grace and through its guard. Versions and
//! UIDs of before may come again, so nothing is concluded from them.
//!
//! A restored store may keep its version numbers growing (etcd with `--bump-revision`), and then no version tells. What tells is
//! an object that had our finalizer, was not being deleted, and is not in a list: it cannot have gone without us. If somebody has
//! removed the finalizer by force where no watch saw it, it is left to the search for orphans as well.

use std::collections::BTreeSet;

use gimbal_kuryr_model::Text;
use gimbal_kuryr_resource::{KuryrKind, ObjectPauses};
use gimbal_model::SourceKey;

use crate::KuryrController;
use crate::held::HeldBalancer;
use crate::item::BalancerItem;

impl<T> KuryrController<T> {
    pub(crate) fn store_went_back(&mut self) {
        for kind in KuryrKind::ALL {
            self.reading_mut(kind).must_be_read_anew();
        }
        self.routers_went_back();
        for item in self.items.values_mut() {
            (item.service_ahead, item.dead, item.dead_balancer, item.proof) = (false, None, None, None);
            // Generations come again, and so may what had a finalizer once.
            (item.ours, item.unmade) = (None, [None, None]);
            // A deletion of which the writer has not heard is decided anew.
            item.offer.take_back_deletion();
            if let Some(held) = &mut item.held {
                held.ahead = false;
            }
            item.pauses.iter_mut().for_each(ObjectPauses::void_in_flight);
        }
    }

    /// Services that cannot go without us.
    pub(crate) fn protected_services(&self) -> Vec<(SourceKey, Text)> {
        // What an answer has shown may be newer than the list.
        let is_ahead = |key: &SourceKey| self.items.get(key).is_some_and(|item| item.service_ahead);
        let uid = |key: &SourceKey| {
            Some((key.clone(), self.index.service(key).filter(|service| service.is_protected)?.uid.clone()))
        };
        self.index.services().filter(|key| !is_ahead(key)).filter_map(uid).collect()
    }

    /// Called when Services were listed. Owners that are not in that list are lost if the store went back, and those of
    /// `vanished` are lost in any case.
    pub(crate) fn note_lost_services(&mut self, went_back: bool, vanished: &BTreeSet<Text>) {
        if !went_back && vanished.is_empty() {
            return;
        }
        for (key, item) in &mut self.items {
            let service = self.index.service(key).map(|service| &service.uid);
            let is_deleting = item.offer.offered.as_ref().is_some_and(|entry| entry.is_deleting());
            let named = item.held.as_ref().filter(|_| !is_deleting);
            let named = named.and_then(HeldBalancer::named_owner);
            let owner = item.offer.wanted_owner().filter(|_| !item.offers_itself).or(named);
            let is_lost = |owner: &&Text| Some(*owner) != service && (went_back || vanished.contains(*owner));
            if let Some(owner) = owner.filter(is_lost).cloned() {
                item.lost = Some(owner);
                self.dirty.insert(key.clone());
            }
        }
    }
}

impl<T> BalancerItem<T> {
    /// Called when a KuryrLoadBalancer is not there any more, or another one is, and no watch has shown a deletion. One of its own
    /// is lost if the store went back, and if it had our finalizer.
    pub(crate) fn note_lost_balancer(&mut self, balancer: &HeldBalancer, went_back: bool) {
        let own = &balancer.uid;
        let is_undone = went_back || (balancer.has_finalizer && !balancer.is_being_deleted);
        if is_undone && self.offers_itself && self.offer.wanted_owner() == Some(own) {
            self.lost = Some(own.clone());
        }
    }
}
