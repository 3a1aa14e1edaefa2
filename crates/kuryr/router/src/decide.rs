//! Decides everything that changed.

use std::collections::BTreeSet;

use gimbal_kuryr_crd::KuryrL7Router;
use gimbal_kuryr_resource::{KnownServices, KuryrKind};
use gimbal_model::SourceKey;

use crate::RouterController;
use crate::item::{IngressPlace, WantedSpec, has_ingress_finalizer, ingresses_in, is_made_for_ingresses};

impl<T> RouterController<T> {
    /// Decides everything that changed.
    pub(crate) fn settle(&mut self, services: KnownServices<'_>) {
        if !self.leads {
            return self.stand_by();
        }
        if !self.may_act() {
            return;
        }
        self.note_changed();
        if self.index.has_unclear() {
            self.keep_ingresses();
            self.note_changed();
        }
        self.place_former();
        while let Some(key) = self.dirty.pop_first() {
            let needs_item = self.routers.contains_key(&key) || self.is_wanted(&key);
            if !needs_item {
                continue;
            }
            self.routers.entry(key.clone()).or_default();
            self.place_ingresses(&key);
            self.translate(&key, services);
            self.offer(&key);
            self.withhold(&key);
            self.let_go(&key);
            self.enqueue(&key, KuryrKind::Router);
            self.forget_idle(&key);
        }
        for key in std::mem::take(&mut self.dirty_ingresses) {
            self.tell_not_served(&key);
            self.enqueue(&key, KuryrKind::Ingress);
            self.forget_idle_ingress(&key);
        }
    }

    fn note_changed(&mut self) {
        for key in self.index.drain() {
            self.routers.entry(key.clone()).or_default().stale = true;
            self.dirty.insert(key);
        }
    }

    /// Lets Ingresses stay where they have routes, where it is not clear which router they ask for.
    fn keep_ingresses(&mut self) {
        for key in self.dirty.iter().filter(|key| **key != self.settings.ingresses.shared) {
            if let Some(item) = self.routers.get(key) {
                self.index.keep_at(key, &item.named_ingresses(&self.settings.ingresses.shared));
            }
        }
    }

    /// Keeps nothing of what is gone. When leadership begins, everything is decided anew.
    fn stand_by(&mut self) {
        self.index.drain();
        for key in std::mem::take(&mut self.dirty) {
            if let Some(item) = self.routers.get_mut(&key) {
                for ingress in std::mem::take(&mut item.ingresses).into_keys() {
                    if let Some(item) = self.ingresses.get_mut(&ingress) {
                        item.on.remove(&key);
                    }
                    self.dirty_ingresses.insert(ingress);
                }
                item.wanted = WantedSpec::None;
            }
            self.forget_idle(&key);
        }
        for key in std::mem::take(&mut self.dirty_ingresses) {
            if let Some(item) = self.ingresses.get_mut(&key) {
                (item.told, item.is_placed) = (None, false);
            }
            self.forget_idle_ingress(&key);
        }
    }

    /// Whether a router that an Ingress asks for is somebody's own. Only the shared one is taken over.
    pub(crate) fn is_taken(&self, key: &SourceKey) -> bool {
        let object = self.routers.get(key).and_then(|item| item.kept.object());
        *key != self.settings.ingresses.shared && object.is_some_and(|router| self.is_of_somebody(router))
    }

    /// Whether somebody has made a router, and the controller has never touched it. Without its label it is ours if it has routes of an
    /// Ingress that has our finalizer: anybody can write a name there.
    fn is_of_somebody(&self, router: &KuryrL7Router) -> bool {
        let is_ours = |ingress: &SourceKey| {
            let known = self.ingresses.get(ingress).and_then(|item| item.kept.object());
            known.is_some_and(|ingress| has_ingress_finalizer(&ingress.metadata)) || !self.knows_ingresses()
        };
        !is_made_for_ingresses(router) && !ingresses_in(&router.spec).any(|ingress| is_ours(&ingress))
    }

    /// Whether somebody has taken the label off a router of ours: it has routes of an Ingress that has our finalizer, and that asks for
    /// it or has the name of one of its own, for which it may have asked before. One that was copied by hand, routes and all, is not
    /// what its Ingresses ask for.
    pub(crate) fn lost_its_label(&self, key: &SourceKey, router: &KuryrL7Router) -> bool {
        let is_of = |ingress: &SourceKey| {
            let known = self.ingresses.get(ingress).and_then(|item| item.kept.object());
            known.is_some_and(|ingress| has_ingress_finalizer(&ingress.metadata))
                && (ingress == key || self.index.asked_router(ingress).as_ref() == Some(key))
        };
        !is_made_for_ingresses(router) && ingresses_in(&router.spec).any(|ingress| is_of(&ingress))
    }

    /// Whether a router is to be there.
    pub(crate) fn is_wanted(&self, key: &SourceKey) -> bool {
        if self.is_taken(key) {
            return false;
        }
        let has_ingress = || {
            let is_served = |key: &SourceKey| self.may_be_served(key);
            self.index.ingresses_of(key).any(|(ingress, _)| is_served(ingress))
        };
        match &self.facts {
            None => has_ingress(),
            Some(facts) if facts.enable_ingress => {
                *key == self.settings.ingresses.shared || {
                    let item = self.routers.get(key);
                    item.is_some_and(|item| item.ingresses.values().any(|place| *place == IngressPlace::Served))
                        || has_ingress()
                }
            }
            Some(_) => false,
        }
    }

    /// Whether an Ingress may be served: it is in one of the namespaces, or was served before.
    pub(crate) fn may_be_served(&self, key: &SourceKey) -> bool {
        self.settings.namespaces.contains(&key.namespace)
            || self.ingresses.get(key).is_some_and(|item| item.is_protected() || !item.on.is_empty())
    }

    /// The Ingresses that are served by a router, by key.
    pub(crate) fn served_by(&self, key: &SourceKey) -> BTreeSet<SourceKey> {
        let places = self.routers.get(key).into_iter().flat_map(|item| &item.ingresses);
        places.filter(|(_, place)| **place == IngressPlace::Served).map(|(key, _)| key.clone()).collect()
    }
}
