//! The next write to an Ingress.

use std::time::Instant;

use gimbal_kubernetes_objects::{Ingress, LoadBalancerStatus};
use gimbal_kuryr_crd::names::finalizers;
use gimbal_kuryr_resource::{
    InFlightWrite, KuryrKind, PlannedWrite, Purpose, WriteBody, difference, fingerprint, protect, release, target,
};
use gimbal_kuryr_translate::{ingress_status, without_addresses};
use gimbal_model::SourceKey;

use crate::RouterController;
use crate::item::{IngressPlace, has_ingress_finalizer};

impl<T> RouterController<T> {
    pub(crate) fn plan_ingress(&mut self, key: &SourceKey, now: Instant) -> Option<PlannedWrite> {
        let item = self.ingresses.get(key)?;
        if item.needs_proof {
            let in_flight = InFlightWrite::new(Purpose::Read);
            return self.may_go(key, KuryrKind::Ingress, Purpose::Read, now).then_some((WriteBody::Read, in_flight));
        }
        let ingress = item.kept.object()?.clone();
        // What the writer has not said is unknown, and classes that cannot be read are no other ones.
        if self.facts.is_none() || !self.knows_ingresses() || !self.reading(KuryrKind::Router).is_current() {
            return None;
        }
        let router = self.router_for(key).cloned();
        if !has_ingress_finalizer(&ingress.metadata) {
            router.filter(|_| !ingress.metadata.is_being_deleted())?;
            let may_go = self.may_go(key, KuryrKind::Ingress, Purpose::Protect, now);
            return may_go.then(|| protect(&ingress.metadata, finalizers::INGRESS));
        }
        if let Some(write) = self.ingress_status(key, router.as_ref(), &ingress)
            && self.may_go(key, KuryrKind::Ingress, Purpose::Status, now)
        {
            return Some(write);
        }
        let may_release = router.is_none() && self.ingresses.get(key).is_some_and(|item| item.on.is_empty());
        (may_release && self.may_go(key, KuryrKind::Ingress, Purpose::Release, now))
            .then(|| release(&ingress.metadata, finalizers::INGRESS))
    }

    /// The router that is to serve an Ingress.
    pub(crate) fn router_for(&self, key: &SourceKey) -> Option<&SourceKey> {
        self.index.router_of(key).filter(|_| self.is_enabled() && self.may_be_served(key))
    }

    fn ingress_status(&self, key: &SourceKey, router: Option<&SourceKey>, ingress: &Ingress) -> Option<PlannedWrite> {
        let old = &ingress.status.load_balancer;
        let new = match router {
            Some(router) => {
                let item = self.routers.get(router)?;
                item.ingresses.get(key).filter(|place| **place == IngressPlace::Served)?;
                let held = item.kept.object()?;
                let report = item.offer.report_of(&held.metadata.meta.uid);
                // Its routes may not be in the spec yet, or not fit in.
                let named = item.named_ingresses(&self.settings.ingresses.shared);
                let serves = named.contains(key).then_some(held.metadata.generation);
                if serves.is_none() && item.is_as_wanted(held) {
                    self.without_ours(key, old)
                } else {
                    ingress_status(ingress, serves, report.as_deref())
                }
            }
            // One that is being deleted shows nothing to anybody any more.
            None if ingress.metadata.is_being_deleted() => return None,
            None => self.without_ours(key, old),
        };
        if new == *old {
            return None;
        }
        let pauses = &self.ingresses.get(key)?.pauses;
        let wanted = fingerprint(&new);
        if pauses.is_accepted(Purpose::Status, wanted, || fingerprint(old)) {
            return None;
        }
        let status = difference(&ingress.status, &gimbal_kubernetes_objects::IngressStatus { load_balancer: new })?;
        let in_flight = InFlightWrite { wanted, ..InFlightWrite::new(Purpose::Status) };
        Some((WriteBody::PatchStatus { meta: target(&ingress.metadata), status }, in_flight))
    }

    /// What an Ingress shows without the addresses of our routers: another controller may show its own already.
    pub(crate) fn without_ours(&self, key: &SourceKey, shown: &LoadBalancerStatus) -> LoadBalancerStatus {
        let on = self.ingresses.get(key).into_iter().flat_map(|item| &item.on);
        let statuses = on.filter_map(|router| self.routers.get(router)?.kept.object()?.status.as_ref());
        without_addresses(shown, statuses.map(|status| &status.balancer))
    }
}
