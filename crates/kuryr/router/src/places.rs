//! Which Ingresses a router serves, and which ones leave it.

use std::collections::BTreeSet;

use gimbal_kuryr_crd::KuryrL7Router;
use gimbal_kuryr_model::{LoadBalancerHeader, LoadBalancerReport, Text};
use gimbal_kuryr_resource::KuryrKind;
use gimbal_model::SourceKey;

use crate::RouterController;
use crate::item::{IngressItem, IngressPlace, IngressProof, RouterItem, has_ingress_finalizer, spec_version};

impl<T> RouterController<T> {
    /// Decides which Ingresses a router serves. One that it does not serve yet has its finalizer first.
    pub(crate) fn place_ingresses(&mut self, key: &SourceKey) {
        let served = self.to_be_served(key);
        let Some(item) = self.routers.get_mut(key) else { return };
        let named = item.named_ingresses(&self.settings.ingresses.shared);
        let before: BTreeSet<SourceKey> = item.ingresses.keys().cloned().collect();
        for ingress in before.iter().chain(&named).filter(|ingress| !served.contains(*ingress)) {
            match item.ingresses.get(ingress) {
                Some(IngressPlace::Leaving(_)) => {}
                Some(IngressPlace::MayLeave(_)) if !named.contains(ingress) => {}
                _ => {
                    item.stale = true;
                    item.ingresses.insert(ingress.clone(), IngressPlace::Leaving(None));
                }
            }
        }
        for ingress in served {
            let was = item.ingresses.insert(ingress, IngressPlace::Served);
            item.stale |= was != Some(IngressPlace::Served);
        }
        for ingress in item.ingresses.keys() {
            let is_new = self.ingresses.entry(ingress.clone()).or_default().on.insert(key.clone());
            if is_new || !before.contains(ingress) {
                self.dirty_ingresses.insert(ingress.clone());
            }
        }
    }

    /// Which routers an Ingress was leaving when this process began is not known: one that is not to be served, and has its finalizer,
    /// may have routes at each router that may have served it, until that has reported. One that it does not ask for is not awaited
    /// where something is in the way there: what it never had to do with must not keep it (docs/way-back.md#rule-11).
    pub(crate) fn place_former(&mut self) {
        if self.facts.is_none() || !self.knows_ingresses() {
            return;
        }
        for key in &self.dirty_ingresses {
            let Some(item) = self.ingresses.get(key).filter(|item| !item.is_placed) else { continue };
            let leaves = item.kept.object().is_some_and(|ingress| has_ingress_finalizer(&ingress.metadata));
            let (asked, on) = if leaves && self.router_for(key).is_none() {
                let asked = self.index.asked_router(key);
                let on = self.may_have_served_it(key, asked.as_ref());
                (asked, on)
            } else {
                (None, Vec::new())
            };
            for router in &on {
                let is_asked = asked.as_ref().is_none_or(|asked| asked == router);
                let place = if is_asked { IngressPlace::Leaving(None) } else { IngressPlace::MayLeave(None) };
                if let Some(item) = self.routers.get_mut(router) {
                    item.ingresses.entry(key.clone()).or_insert(place);
                }
            }
            self.dirty.extend(on.iter().cloned());
            if let Some(item) = self.ingresses.get_mut(key) {
                item.is_placed = true;
                item.on.extend(on);
            }
        }
    }

    fn may_have_served_it(&self, ingress: &SourceKey, asked: Option<&SourceKey>) -> Vec<SourceKey> {
        let is_it = |key: &SourceKey, router: &KuryrL7Router| self.may_have_served(key, router, ingress, asked);
        let served =
            self.routers.iter().filter(|(key, item)| item.kept.object().is_some_and(|router| is_it(key, router)));
        served.map(|(key, _)| key.clone()).collect()
    }

    fn to_be_served(&self, key: &SourceKey) -> BTreeSet<SourceKey> {
        if (self.facts.is_some() && !self.is_enabled()) || self.is_taken(key) {
            return BTreeSet::new();
        }
        let item = self.routers.get(key);
        let named = item.map(|item| item.named_ingresses(&self.settings.ingresses.shared));
        let is_served = |ingress: &SourceKey| {
            let of_ingress = self.ingresses.get(ingress);
            let is_protected = || of_ingress.is_some_and(|item| item.is_protected());
            // The answer to a write may be newer than what the watch has shown. Without the finalizer it was placed here before the
            // writer said anything, as every Ingress is then.
            let has_finalizer = || {
                let known = of_ingress.and_then(|item| item.kept.object());
                known.is_some_and(|ingress| has_ingress_finalizer(&ingress.metadata))
            };
            let is_placed = || item.is_some_and(|item| item.ingresses.get(ingress) == Some(&IngressPlace::Served));
            let was_served = || is_placed() && has_finalizer();
            let is_named = || named.as_ref().is_some_and(|named| named.contains(ingress));
            self.may_be_served(ingress) && (self.facts.is_none() || is_protected() || was_served() || is_named())
        };
        let all = self.index.ingresses_of(key).map(|(ingress, _)| ingress);
        let mut served: BTreeSet<SourceKey> = all.filter(|ingress| is_served(ingress)).cloned().collect();
        served.extend(self.moving_from(key));
        // What was written before the facts needs no finalizer, and nothing was made of it: one that does not get its own must not
        // hold up the others.
        if self.facts.is_some() && item.is_some_and(RouterItem::is_new) {
            let lacks_it = |item: &IngressItem| !item.is_protected() && item.pauses.is_failing();
            served.retain(|ingress| !self.ingresses.get(ingress).is_some_and(lacks_it));
        }
        served
    }

    /// The Ingresses that have routes here, and are to be served by another router that does not have them yet: new comes before
    /// old.
    fn moving_from(&self, key: &SourceKey) -> Vec<SourceKey> {
        let Some(item) = self.routers.get(key) else { return Vec::new() };
        let named = item.named_ingresses(&self.settings.ingresses.shared);
        let waits = |ingress: &&SourceKey| {
            let is_here = item.ingresses.get(*ingress).is_none_or(|place| *place == IngressPlace::Served);
            let other = self.router_for(ingress).filter(|other| *other != key);
            is_here && other.is_some_and(|other| !self.has_routes_of(other, ingress))
        };
        named.iter().filter(waits).cloned().collect()
    }

    /// Whether the routes of an Ingress are in Octavia, as far as the writer has said.
    fn has_routes_of(&self, router: &SourceKey, ingress: &SourceKey) -> bool {
        let Some(item) = self.routers.get(router) else { return false };
        item.kept.object().is_some_and(|held| {
            let report = item.offer.report_of(&held.metadata.meta.uid);
            let routes = report.as_ref().and_then(|report| report.objects.routes.as_ref());
            let is_there = routes.is_some_and(|routes| routes.serve(&route_name(ingress), held.metadata.generation));
            is_there && item.named_ingresses(&self.settings.ingresses.shared).contains(ingress)
        })
    }

    /// Whether an Ingress that is not to be served any more still shows an address of a router.
    fn shows_address(&self, ingress: &SourceKey) -> bool {
        let object = self.ingresses.get(ingress).and_then(|item| item.kept.object());
        object.filter(|object| !object.metadata.is_being_deleted()).is_some_and(|object| {
            let shown = &object.status.load_balancer;
            self.router_for(ingress).is_none() && self.without_ours(ingress, shown) != *shown
        })
    }

    /// Whether it is not certain that an Ingress leaves: the watches of two kinds do not wait for each other, so a KuryrL7Router
    /// may be newer than what is known of its Ingresses. What the writer says is final.
    pub(crate) fn doubts(&mut self, key: &SourceKey) -> bool {
        if self.facts.is_some() && !self.is_enabled() {
            return false;
        }
        let Some(item) = self.routers.get(key) else { return false };
        let named = item.named_ingresses(&self.settings.ingresses.shared);
        let leaving = item
            .ingresses
            .iter()
            .filter(|(ingress, place)| **place != IngressPlace::Served && named.contains(*ingress));
        let doubtful: Vec<SourceKey> =
            leaving.map(|(ingress, _)| ingress).filter(|ingress| self.is_doubtful(ingress)).cloned().collect();
        for ingress in &doubtful {
            self.ingresses.entry(ingress.clone()).or_default().needs_proof = true;
            self.enqueue(ingress, KuryrKind::Ingress);
        }
        !doubtful.is_empty()
    }

    fn is_doubtful(&self, ingress: &SourceKey) -> bool {
        let Some(item) = self.ingresses.get(ingress) else { return true };
        match item.kept.object() {
            // One that was seen to be deleted may have had a successor of its name, which has the routes by now.
            None => item.proof != Some(IngressProof::Absent),
            // One that is shown to go may have gone long ago, too.
            Some(object) => match &item.proof {
                Some(IngressProof::Version(known)) => *known != object.metadata.meta.resource_version,
                Some(IngressProof::Absent) => !object.metadata.is_being_deleted(),
                None => true,
            },
        }
    }

    /// Lets go of the Ingresses whose routes are not in Octavia any more.
    pub(crate) fn let_go(&mut self, key: &SourceKey) {
        let Some(item) = self.routers.get_mut(key) else { return };
        let since = item.kept.object().filter(|router| item.is_as_wanted(router)).map(|router| spec_version(router));
        let owner = item.kept.object().map(|router| router.metadata.meta.uid.clone());
        let report = owner.as_ref().and_then(|owner| item.offer.report_of(owner));
        let is_gone = item.kept.object().is_none() && item.offer.offered.is_none();
        let was_never_made = owner.is_some() && item.unmade == owner && item.offer.offered.is_none();
        let named = item.named_ingresses(&self.settings.ingresses.shared);
        let is_impeded = item.is_impeded(report.as_deref());
        let mut left = Vec::new();
        for (ingress, place) in &mut item.ingresses {
            let (from, is_awaited) = match place {
                IngressPlace::Served => continue,
                IngressPlace::Leaving(from) => (from, true),
                IngressPlace::MayLeave(from) => (from, !is_impeded),
            };
            // Another one of its name may have its routes.
            from.take_if(|(uid, _)| owner.as_ref() != Some(uid));
            if from.is_none() && !named.contains(ingress) {
                from.clone_from(&since);
            }
            let shows =
                |(_, from): &(Text, i64)| report.as_ref().is_some_and(|report| is_applied(report, ingress, *from));
            let may_go = is_gone || (was_never_made && !named.contains(ingress)) || from.as_ref().is_some_and(shows);
            if may_go || !is_awaited {
                left.push(ingress.clone());
            }
        }
        for ingress in left {
            // Whose address it is would be forgotten.
            if self.shows_address(&ingress) {
                self.dirty_ingresses.insert(ingress);
                continue;
            }
            if let Some(item) = self.routers.get_mut(key) {
                item.ingresses.remove(&ingress);
            }
            if let Some(item) = self.ingresses.get_mut(&ingress) {
                item.on.remove(key);
            }
            self.dirty_ingresses.insert(ingress);
        }
    }
}

/// Whether a report says that no route of an Ingress is left that this generation, or a later one, does not have. The phase says
/// how the router is, and the report's generation which one it was asked for: neither says that anything was done.
fn is_applied(report: &LoadBalancerReport, ingress: &SourceKey, generation: i64) -> bool {
    report.objects.routes.as_ref().is_some_and(|routes| routes.have_left(&route_name(ingress), generation))
}

/// The name of the routes of an Ingress, as the writer has it.
fn route_name(ingress: &SourceKey) -> Text {
    LoadBalancerHeader::clean_name(&ingress.to_string())
}
