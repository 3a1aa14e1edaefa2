//! The spec that is wanted of a router.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kuryr_crd::KuryrL7Router;
use gimbal_kuryr_model::{DesiredEntry, Text};
use gimbal_kuryr_resource::{KnownServices, Purpose, fingerprint};
use gimbal_kuryr_translate::{Chosen, RouterInput, RouterTranslated, translate_router};
use gimbal_kuryr_wire::PackedEntry;
use gimbal_model::SourceKey;
use gimbal_session::KeptEntry as _;

use crate::RouterController;
use crate::item::{IngressPlace, RouterItem, WantedSpec, is_made_for_ingresses, spec_version};

impl<T> RouterController<T> {
    /// Makes the spec that is wanted of a router, if everything that it is made from is known: routes are not taken away for want of
    /// knowledge. While a write to it is on its way, that waits.
    pub(crate) fn translate(&mut self, key: &SourceKey, services: KnownServices<'_>) {
        if !self.is_wanted(key) {
            if let Some(item) = self.routers.get_mut(key) {
                (item.wanted, item.stale, item.findings) = (WantedSpec::None, true, Vec::new());
            }
            return;
        }
        if let Some(item) = self.routers.get_mut(key)
            && let WantedSpec::Held(version) = &item.wanted
        {
            // Somebody has edited it, or it is another one.
            item.stale |= item.kept.object().map(|router| spec_version(router)).as_ref() != Some(version);
        }
        let is_known =
            services.are_current && self.knows_ingresses() && self.has_asked_for_secrets() && !self.doubts(key);
        let Some(item) = self.routers.get(key) else { return };
        if !is_known {
            // What was wanted before may take something away.
            self.routers.entry(key.clone()).or_default().stale = true;
            return;
        }
        if item.stale && item.pauses.in_flight.is_none() {
            let RouterTranslated { spec, findings } = self.translated(key, item, services);
            self.tell_findings(key, &findings);
            let Some(item) = self.routers.get_mut(key) else { return };
            (item.findings, item.stale) = (findings, false);
            item.wanted = WantedSpec::Other(Box::new(spec));
        }
        if let Some(item) = self.routers.get_mut(key)
            && !item.stale
        {
            item.compare();
        }
    }

    fn translated(&self, key: &SourceKey, item: &RouterItem<T>, services: KnownServices<'_>) -> RouterTranslated {
        let is_served = |ingress: &SourceKey| item.ingresses.get(ingress) == Some(&IngressPlace::Served);
        let all = self.index.ingresses_of(key).map(|(ingress, _)| ingress);
        let without: BTreeSet<SourceKey> = all.filter(|ingress| !is_served(ingress)).cloned().collect();
        let served = item.ingresses.keys().filter(|ingress| is_served(ingress));
        let moving = served.filter(|ingress| self.index.router_of(ingress) != Some(key)).cloned().collect();
        let chosen = item.chosen();
        let certificates = item.certificates();
        translate_router(&RouterInput {
            router: key,
            ingresses: &self.index,
            without: &without,
            moving: &moving,
            services: services.index,
            nodes: services.nodes,
            facts: self.facts.as_deref(),
            chosen: chosen.as_ref(),
            secrets: &self.secrets,
            certificates: &certificates,
        })
    }
}

impl<T> RouterItem<T> {
    /// Notes whether what is wanted is what it has. A copy of that is not kept.
    fn compare(&mut self) {
        if let (WantedSpec::Other(wanted), Some(router)) = (&self.wanted, self.kept.object())
            && **wanted == router.spec
        {
            self.wanted = WantedSpec::Held(spec_version(router));
        }
    }

    /// Whether a spec is the one that is wanted now, or what the API server makes of that.
    pub(crate) fn is_as_wanted(&self, router: &KuryrL7Router) -> bool {
        match &self.wanted {
            _ if self.stale => false,
            WantedSpec::None => false,
            WantedSpec::Held(version) => *version == spec_version(router),
            WantedSpec::Other(wanted) => {
                let is_accepted = |held: u64| self.pauses.is_accepted(Purpose::Conform, fingerprint(wanted), || held);
                **wanted == router.spec || is_accepted(fingerprint(&router.spec))
            }
        }
    }

    /// The hashes of its certificates by Secret: those that it says, unless somebody has edited it.
    fn certificates(&self) -> BTreeMap<Text, Text> {
        let Some(router) = self.kept.object().filter(|router| is_made_for_ingresses(router)) else {
            return BTreeMap::new();
        };
        let entry = self.offer.offered.as_ref().map(PackedEntry::entry);
        let offered = match entry.as_deref() {
            Some(DesiredEntry::LoadBalancer(wanted)) if wanted.header.owner == router.metadata.meta.uid => {
                wanted.header.routing.as_deref()
            }
            Some(DesiredEntry::LoadBalancer(_) | DesiredEntry::Deleting { .. }) | None => None,
        };
        match offered.filter(|_| self.ours.as_ref() != Some(&spec_version(router))) {
            Some(routing) => {
                let wishes = routing.certificates.iter();
                wishes.map(|wish| (wish.secret.clone(), wish.hash.to_string().into())).collect()
            }
            None => {
                let of_spec = router.spec.tls.iter();
                of_spec.filter_map(|tls| Some((tls.secret_name.clone()?, tls.content_hash.clone()?))).collect()
            }
        }
    }

    /// What was chosen for it: what it says, unless somebody has edited it.
    fn chosen(&self) -> Option<Chosen> {
        let router = self.kept.object()?;
        let own = &router.metadata.meta.uid;
        let offered = self.offer.offered.as_ref().filter(|entry| !entry.is_alone() && entry.owner() == own);
        let offered = match offered.map(PackedEntry::entry).as_deref() {
            Some(DesiredEntry::LoadBalancer(wanted)) => Some(Chosen::of_header(&wanted.header)),
            Some(DesiredEntry::Deleting { .. }) | None => None,
        };
        let is_ours = self.ours.as_ref() == Some(&spec_version(router));
        let said = || router.spec.project_id.is_some().then(|| Chosen::of_router_spec(&router.spec));
        let chosen = if is_ours { said() } else { offered.or_else(said) }?;
        let made = router.status.as_ref().and_then(|status| status.balancer.loadbalancer.as_ref());
        Some(chosen.made_in(made.map(|made| made.subnet_id.clone())))
    }
}
