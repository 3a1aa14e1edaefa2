//! What the watches on the Gimbal cluster show. Only owned objects are watched; a relist is a set, and what it does
//! not name is gone at its end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use gimbal_kubernetes_objects::{EndpointSlice, Endpoints, Kind, Meta, Namespace, Object, Service, keys};
use gimbal_model::{BackendName, TargetKey};
use gimbal_plan::{Body, Told};

use crate::{Output, Reconciler, Urgency};

type Name = (Arc<str>, Arc<str>);

/// The lists of every kind that is watched.
#[derive(Debug, Clone, Default)]
pub(crate) struct Relists {
    /// How many began of each kind.
    begun: Begun,
    /// Which kinds have a list that began, and one that is complete, since the process started or everything was to be listed
    /// again.
    asked: [bool; Watched::ALL.len()],
    done: [bool; Watched::ALL.len()],
    /// Namespaces that came neither by the list that began last nor since.
    unlisted: BTreeSet<Arc<str>>,
}

/// How many lists of each kind had begun at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Begun([u64; Watched::ALL.len()]);

impl Relists {
    pub(crate) fn begun(&self) -> Begun {
        self.begun
    }

    /// Whether a list of a kind began since then.
    pub(crate) fn began_since(&self, then: Begun, kind: Kind) -> bool {
        let kind = Watched::of(kind) as usize;
        self.begun.0[kind] != then.0[kind]
    }
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

    fn of(kind: Kind) -> Self {
        match kind {
            Service::KIND => Self::Services,
            EndpointSlice::KIND => Self::Slices,
            Endpoints::KIND => Self::Endpoints,
            _ => Self::Namespaces,
        }
    }

    /// `None`: namespaces, which belong to no target.
    fn kind(self) -> Option<Kind> {
        match self {
            Self::Services => Some(Service::KIND),
            Self::Slices => Some(EndpointSlice::KIND),
            Self::Endpoints => Some(Endpoints::KIND),
            Self::Namespaces => None,
        }
    }
}

impl Reconciler {
    /// Whether every kind has been listed, since the start and since the cluster's store was found to be put back to an older
    /// state: before that nothing is decided.
    #[must_use]
    pub fn has_observed(&self) -> bool {
        self.relists.done.iter().all(|done| *done)
    }

    /// A list of a kind begins: whoever calls asks for it once this returned, so that it shows all that is known now. Of
    /// that it is the truth, whatever versions say: the cluster's store may have been put back to an older state.
    pub fn list_begin(&mut self, kind: Watched) {
        self.relists.begun.0[kind as usize] += 1;
        self.relists.asked[kind as usize] = true;
        match kind.kind() {
            Some(kind) => self.targets.all_observed(|observed| observed.list_begins(kind)),
            None => self.relists.unlisted.clone_from(&self.namespaces),
        }
    }

    /// A list of a kind is complete: what was known when it began, and is not named by it, is gone.
    pub fn list_end(&mut self, kind: Watched, now: Instant) {
        self.relists.done[kind as usize] |= self.relists.asked[kind as usize];
        match kind.kind() {
            Some(kind) => self.drop_unlisted(kind, now),
            None => {
                let gone = std::mem::take(&mut self.relists.unlisted);
                self.namespaces.retain(|name| !gone.contains(name));
            }
        }
        if self.has_observed() {
            self.find_unlisted(now);
            self.look_at_everything();
            self.weigh_everything(now);
        }
    }

    /// The store of the cluster was put back to an older state: nothing is decided until everything was listed anew. A watch
    /// that goes on over it tells nothing of that.
    fn list_again(&mut self) {
        if self.has_observed() {
            (self.relists.asked, self.relists.done) = Default::default();
            self.outputs.push(Output::ListAgain);
        }
    }

    fn drop_unlisted(&mut self, kind: Kind, now: Instant) {
        let mut gone: Vec<TargetKey> = Vec::new();
        for (key, target) in self.targets.iter() {
            for held in target.observed.held().filter(|held| held.kind == kind && held.unlisted) {
                if let Some(name) = held.name {
                    self.slices.remove(&(key.namespace.clone(), name.into()));
                }
                if gone.last() != Some(key) {
                    gone.push(key.clone());
                }
            }
        }
        for key in gone {
            self.look_at(&key, now, |target| target.observed.list_ended(kind));
        }
    }

    /// A Service with our mark is there.
    pub fn service_is(&mut self, service: &Service, now: Instant) {
        self.service_told(service, Told::InAnyOrder, now);
    }

    fn service_told(&mut self, service: &Service, told: Told, now: Instant) {
        let key = TargetKey::new(service.metadata.namespace.clone(), service.metadata.name.clone());
        self.look_at(&key, now, |target| target.observed.set_service(service, told));
    }

    /// A Service with our mark is gone, or bears the mark no more.
    pub fn service_gone(&mut self, service: &Service, now: Instant) {
        self.object_gone(service, now);
    }

    /// See [`Reconciler::service_is`].
    pub fn endpoints_is(&mut self, endpoints: &Endpoints, now: Instant) {
        self.endpoints_told(endpoints, Told::InAnyOrder, now);
    }

    fn endpoints_told(&mut self, endpoints: &Endpoints, told: Told, now: Instant) {
        let key = TargetKey::new(endpoints.metadata.namespace.clone(), endpoints.metadata.name.clone());
        self.look_at(&key, now, |target| target.observed.set_endpoints(endpoints, told));
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
        self.slice_told(slice, Told::InAnyOrder, now);
    }

    fn slice_told(&mut self, slice: &EndpointSlice, told: Told, now: Instant) {
        let meta = &slice.metadata;
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
        self.look_at(&key, now, |target| target.observed.set_slice(slice, told));
    }

    /// An object is there, as an answer says.
    pub(crate) fn told(&mut self, body: &Body, told: Told, now: Instant) {
        match body {
            Body::Service(service) => self.service_told(service, told, now),
            Body::Endpoints(endpoints) => self.endpoints_told(endpoints, told, now),
            Body::Slice(slice) => self.slice_told(slice, told, now),
        }
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
            if kind == EndpointSlice::KIND {
                self.slices.remove(&(key.namespace.clone(), name.into()));
            }
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
        self.relists.unlisted.remove(name);
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

    /// Looks again at all that is or is to be in a namespace. Tells how much that is.
    pub(crate) fn enqueue_namespace(&mut self, namespace: &Arc<str>) -> usize {
        let from = TargetKey::new(namespace.clone(), "");
        let waiting: Vec<(TargetKey, BackendName)> = self
            .targets
            .range(from..)
            .take_while(|(key, _)| key.namespace == *namespace)
            .filter_map(|(key, target)| Some((key.clone(), self.backend_of(target)?)))
            .collect();
        for (target, backend) in &waiting {
            self.enqueue(target, backend, Urgency::Fresh);
        }
        waiting.len()
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
        if target.observed.take_went_back() {
            self.list_again();
        }
        if self.has_observed() {
            self.count_what_stands(key);
        }
        let Some(target) = self.targets.get(key) else { return true };
        // While we work on it, what it lost by us is counted when that is done. Before all is known we do nothing, whatever agents
        // want already: what is found then was there before us.
        let wanted = !(target.claims.is_empty() && target.leaving.is_empty());
        let ours = self.has_observed() && self.epoch.is_some() && !target.converged && wanted;
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
