//! What the watches on the Gimbal cluster show. Only owned objects are watched; a relist is a set, and what it does
//! not name is gone at its end.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use gimbal_model::{BackendName, TargetKey};
use gimbal_objects::{EndpointSlice, Endpoints, Kind, Meta, Namespace, Object, Service, keys};

use crate::{Reconciler, Urgency};

type Name = (Arc<str>, Arc<str>);
/// Names by namespace.
type Seen = HashMap<Arc<str>, HashSet<Arc<str>>>;

/// The lists of one kind.
#[derive(Debug, Default)]
struct Relist {
    begun: bool,
    /// What came since the list that runs began, by it or as the answer to a write. Not noted of the first one, for nothing
    /// that is held can be missing from that.
    seen: Option<Seen>,
    done: bool,
}

impl Relist {
    fn begin(&mut self) {
        self.seen = std::mem::replace(&mut self.begun, true).then(Seen::new);
    }

    fn saw(&mut self, namespace: &Arc<str>, name: &Arc<str>) {
        if let Some(seen) = &mut self.seen {
            seen.entry(namespace.clone()).or_default().insert(name.clone());
        }
    }
}

/// The relists of every kind that is watched.
#[derive(Debug, Default)]
pub(crate) struct Relists {
    services: Relist,
    slices: Relist,
    endpoints: Relist,
    namespaces: Relist,
    /// Lists that began so far.
    pub(crate) begun: u64,
}

fn sees(seen: &Seen, namespace: &str, name: &str) -> bool {
    seen.get(namespace).is_some_and(|names| names.contains(name))
}

/// Whether this very version is held: the watch's echo of an answer.
pub(crate) fn is_known(target: &crate::target::Target, kind: Kind, name: Option<&str>, meta: &Meta) -> bool {
    let mut held = target.observed.held().filter(|held| held.kind == kind && held.name == name);
    held.any(|held| *held.resource_version == *meta.resource_version && *held.uid == *meta.uid)
}

/// A kind that is watched in the Gimbal cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Watched {
    /// Services with our mark.
    Services,
    /// `EndpointSlices` with our mark.
    Slices,
    /// `Endpoints` with our mark.
    Endpoints,
    /// All namespaces.
    Namespaces,
}

impl Watched {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Services, Self::Slices, Self::Endpoints, Self::Namespaces];
}

impl Reconciler {
    /// Whether every kind has been listed once: before that nothing is decided.
    #[must_use]
    pub fn has_observed(&self) -> bool {
        Watched::ALL.iter().all(|kind| self.relist(*kind).done)
    }

    fn relist(&self, kind: Watched) -> &Relist {
        match kind {
            Watched::Services => &self.relists.services,
            Watched::Slices => &self.relists.slices,
            Watched::Endpoints => &self.relists.endpoints,
            Watched::Namespaces => &self.relists.namespaces,
        }
    }

    fn relist_mut(&mut self, kind: Watched) -> &mut Relist {
        match kind {
            Watched::Services => &mut self.relists.services,
            Watched::Slices => &mut self.relists.slices,
            Watched::Endpoints => &mut self.relists.endpoints,
            Watched::Namespaces => &mut self.relists.namespaces,
        }
    }

    /// A list of a kind begins.
    pub fn list_begin(&mut self, kind: Watched) {
        self.relists.begun += 1;
        self.relist_mut(kind).begin();
    }

    /// A list of a kind is complete: what it did not name is gone.
    pub fn list_end(&mut self, kind: Watched, now: Instant) {
        let relist = self.relist_mut(kind);
        relist.done = true;
        if let Some(seen) = relist.seen.take() {
            match kind {
                Watched::Namespaces => self.namespaces.retain(|name| sees(&seen, "", name)),
                Watched::Services => self.drop_unseen(Service::KIND, &seen, now),
                Watched::Slices => self.drop_unseen(EndpointSlice::KIND, &seen, now),
                Watched::Endpoints => self.drop_unseen(Endpoints::KIND, &seen, now),
            }
        }
        if self.has_observed() {
            for backend in self.backends.values_mut() {
                backend.guard.observed(backend.endpoints, now);
            }
            self.find_unlisted(now);
            self.take_all_stock();
            self.weigh_everything(now);
            self.enqueue_everything();
        }
    }

    /// What is held of a kind and did not come since a list began is gone.
    fn drop_unseen(&mut self, kind: Kind, seen: &Seen, now: Instant) {
        let mut gone = Vec::new();
        for (key, target) in self.targets.iter() {
            for held in target.observed.held().filter(|held| held.kind == kind) {
                let name = held.name.unwrap_or(&key.name);
                if !sees(seen, &key.namespace, name) {
                    gone.push((key.clone(), name.to_owned(), held.uid.to_owned(), held.resource_version.to_owned()));
                }
            }
        }
        for (key, name, uid, version) in gone {
            self.gone(kind, &key, &name, &uid, &version, now);
        }
    }

    /// A Service with our mark is there.
    pub fn service_is(&mut self, service: &Service, now: Instant) {
        let meta = &service.metadata;
        self.relists.services.saw(&meta.namespace, &meta.name);
        let key = TargetKey::new(meta.namespace.clone(), meta.name.clone());
        self.look_at(&key, now, |target| {
            !is_known(target, Service::KIND, None, meta) && target.observed.set_service(service)
        });
    }

    /// A Service with our mark is gone, or bears the mark no more.
    pub fn service_gone(&mut self, service: &Service, now: Instant) {
        self.object_gone(service, now);
    }

    /// See [`Reconciler::service_is`].
    pub fn endpoints_is(&mut self, endpoints: &Endpoints, now: Instant) {
        let meta = &endpoints.metadata;
        self.relists.endpoints.saw(&meta.namespace, &meta.name);
        let key = TargetKey::new(meta.namespace.clone(), meta.name.clone());
        self.look_at(&key, now, |target| {
            !is_known(target, Endpoints::KIND, None, meta) && target.observed.set_endpoints(endpoints)
        });
    }

    /// See [`Reconciler::service_gone`].
    pub fn endpoints_gone(&mut self, endpoints: &Endpoints, now: Instant) {
        self.object_gone(endpoints, now);
    }

    fn object_gone<T: Object>(&mut self, object: &T, now: Instant) {
        let meta = object.meta();
        let key = TargetKey::new(meta.namespace.clone(), meta.name.clone());
        self.gone(T::KIND, &key, &meta.name, &meta.uid, &meta.resource_version, now);
    }

    /// A slice with our mark is there. A slice that we knew stays with its target even if a hand changed the label that
    /// names it: the label is what will be repaired.
    pub fn slice_is(&mut self, slice: &EndpointSlice, now: Instant) {
        let meta = &slice.metadata;
        self.relists.slices.saw(&meta.namespace, &meta.name);
        let name: Name = (meta.namespace.clone(), meta.name.clone());
        let key = match self.slices.get(&name) {
            Some(key) => key.clone(),
            // Its name tells whose it is even if the label was edited while nobody looked.
            None => match gimbal_plan::made_for(&meta.name) {
                Some(target) => TargetKey::new(meta.namespace.clone(), target),
                None => {
                    let service = meta.labels.get(keys::SERVICE_NAME).cloned().unwrap_or_default();
                    TargetKey::new(meta.namespace.clone(), service)
                }
            },
        };
        self.slices.insert(name, key.clone());
        self.look_at(&key, now, |target| {
            !is_known(target, EndpointSlice::KIND, Some(&meta.name), meta) && target.observed.set_slice(slice)
        });
    }

    /// See [`Reconciler::service_gone`].
    pub fn slice_gone(&mut self, slice: &EndpointSlice, now: Instant) {
        let meta = &slice.metadata;
        let Some(key) = self.slices.get(&(meta.namespace.clone(), meta.name.clone())).cloned() else { return };
        self.gone(EndpointSlice::KIND, &key, &meta.name, &meta.uid, &meta.resource_version, now);
    }

    /// An object is gone: by list, event, or a delete of ours.
    pub(crate) fn gone(&mut self, kind: Kind, key: &TargetKey, name: &str, uid: &str, version: &str, now: Instant) {
        if !self.targets.contains_key(key) {
            return;
        }
        let mut left = true;
        self.look_at(key, now, |target| {
            let observed = &mut target.observed;
            let held = observed.held().any(|h| h.kind == kind && h.name.is_none_or(|n| n == name));
            left = if kind == Service::KIND {
                observed.remove_service(uid, version)
            } else if kind == Endpoints::KIND {
                observed.remove_endpoints(uid, version)
            } else {
                observed.remove_slice(name, uid, version)
            };
            held && left
        });
        if left && kind == EndpointSlice::KIND {
            self.slices.remove(&(key.namespace.clone(), name.into()));
        }
    }

    /// A namespace is there. One that is being deleted takes nothing new, so it counts as gone.
    pub fn namespace_is(&mut self, namespace: &Namespace) {
        let name = &namespace.metadata.name;
        self.relists.namespaces.saw(&Arc::from(""), name);
        if namespace.metadata.deletion_timestamp.is_some() {
            self.namespaces.remove(name);
        } else if self.namespaces.insert(name.clone()) {
            self.creations.remove(name);
            if self.has_observed() {
                self.enqueue_namespace(name);
            }
        }
    }

    /// A namespace is gone.
    pub fn namespace_gone(&mut self, name: &str) {
        self.namespaces.remove(name);
        self.creations.remove(name);
        // It may be one that is created when it is missing.
        self.enqueue_namespace(&name.into());
    }

    pub(crate) fn enqueue_namespace(&mut self, namespace: &Arc<str>) {
        let from = TargetKey::new(namespace.clone(), "");
        let waiting: Vec<(TargetKey, BackendName)> = self
            .targets
            .range(from..)
            .take_while(|(key, _)| key.namespace == *namespace)
            .filter_map(|(key, target)| Some((key.clone(), self.backend_of(target)?)))
            .collect();
        for (target, backend) in waiting {
            self.enqueue(&target, &backend, Urgency::Fresh);
        }
    }

    /// Applies what was observed of a target; if it was news, the target is decided anew. Tells whether it was.
    pub(crate) fn look_at(
        &mut self,
        key: &TargetKey,
        now: Instant,
        apply: impl FnOnce(&mut crate::target::Target) -> bool,
    ) -> bool {
        let target = self.targets.get_or_default(key);
        if !apply(target) {
            self.drop_if_idle(key, now);
            return false;
        }
        if self.has_observed() {
            self.count_what_stands(key);
        }
        let Some(target) = self.targets.get(key) else { return true };
        // While we work on it, what it lost by us is counted when that is done.
        let ours =
            self.epoch.is_some() && !target.converged && !(target.claims.is_empty() && target.leaving.is_empty());
        if !ours && !self.queue.is_in_flight(key) {
            self.recount(key, now);
        }
        if self.has_observed() {
            self.weigh(key, now);
            if self.queue.notice(key) {
                self.stir(key, Urgency::Fresh);
            } else if let Some(backend) = self.targets.get(key).and_then(|target| self.backend_of(target)) {
                self.enqueue(key, &backend, Urgency::Fresh);
            }
        }
        self.drop_if_idle(key, now);
        true
    }

    pub(crate) fn drop_if_idle(&mut self, key: &TargetKey, now: Instant) {
        if !self.queue.contains(key) && self.targets.get(key).is_some_and(crate::target::Target::is_idle) {
            self.uncount(key, now);
            if let Some(target) = self.targets.remove(key) {
                self.forget_place(key, &target);
            }
        }
    }
}
