//! What the watches on the Gimbal cluster show. Apart from namespaces, only objects with our mark are watched. A list
//! is a set: what it does not name is gone at its end.

use std::sync::Arc;
use std::time::Instant;

use gimbal_kubernetes_objects::{EndpointSlice, Endpoints, Kind, Namespace, Object, Service, keys};
use gimbal_model::{BackendName, TargetKey};
use gimbal_plan::{Body, ReportOrder};

use crate::cluster::Watched;
use crate::target::Target;
use crate::{Output, Reconciler, Urgency};

impl Reconciler {
    /// Whether every kind has been listed, since the start and since the cluster's store was found to be restored to
    /// an older state. Before that, nothing is decided.
    #[must_use]
    pub fn has_observed(&self) -> bool {
        self.cluster.is_listed()
    }

    /// A list of a kind begins. Call this before the list is requested, so that the list shows everything known now.
    /// Where the two differ the list is right, whatever the versions say: the cluster's store may have been restored
    /// to an older state.
    pub fn list_begin(&mut self, kind: Watched) {
        self.cluster.list_begin(kind);
        if let Some(kind) = kind.kind() {
            self.targets.all_observed(|observed| observed.list_begins(kind));
        }
    }

    /// A list of a kind is complete: objects that were known when it began, and that it does not name, are gone.
    pub fn list_end(&mut self, kind: Watched, now: Instant) {
        self.cluster.list_end(kind);
        if let Some(kind) = kind.kind() {
            self.drop_unlisted(kind, now);
        }
        if self.cluster.is_listed() {
            self.find_unlisted(now);
            self.end_orders_of_other_figures();
            self.begin_stored_orders(now);
            self.reconsider_all();
            self.update_guard_for_all(now);
        }
    }

    /// The cluster's store was restored to an older state: nothing is decided until everything has been listed again.
    /// A watch that stays open does not report that.
    fn list_again(&mut self) {
        if self.cluster.is_listed() {
            self.cluster.forget_lists();
            self.outputs.push(Output::ListAgain);
        }
    }

    fn drop_unlisted(&mut self, kind: Kind, now: Instant) {
        let mut gone: Vec<TargetKey> = Vec::new();
        for (key, target) in self.targets.iter() {
            for held in target.observed().objects().filter(|held| held.kind == kind && held.unlisted) {
                if let Some(name) = held.name {
                    self.cluster.remove_slice(&key.namespace, name);
                }
                if gone.last() != Some(key) {
                    gone.push(key.clone());
                }
            }
        }
        for key in gone {
            self.observe(&key, now, |target| target.observed_mut().list_ended(kind));
        }
    }

    /// A watch shows a Service with our mark.
    pub fn apply_service(&mut self, service: &Service, now: Instant) {
        self.observe_service(service, ReportOrder::Unordered, now);
    }

    fn observe_service(&mut self, service: &Service, told: ReportOrder, now: Instant) {
        let key = TargetKey::new(service.metadata.namespace.clone(), service.metadata.name.clone());
        self.observe(&key, now, |target| target.observed_mut().set_service(service, told));
    }

    /// A Service with our mark is gone, or has lost the mark.
    pub fn delete_service(&mut self, service: &Service, now: Instant) {
        self.object_gone(service, now);
    }

    /// A watch shows an Endpoints object with our mark.
    pub fn apply_endpoints(&mut self, endpoints: &Endpoints, now: Instant) {
        self.observe_endpoints(endpoints, ReportOrder::Unordered, now);
    }

    fn observe_endpoints(&mut self, endpoints: &Endpoints, told: ReportOrder, now: Instant) {
        let key = TargetKey::new(endpoints.metadata.namespace.clone(), endpoints.metadata.name.clone());
        self.observe(&key, now, |target| target.observed_mut().set_endpoints(endpoints, told));
    }

    /// An Endpoints object with our mark is gone, or has lost the mark.
    pub fn delete_endpoints(&mut self, endpoints: &Endpoints, now: Instant) {
        self.object_gone(endpoints, now);
    }

    fn object_gone<T: Object>(&mut self, object: &T, now: Instant) {
        let meta = object.meta();
        let key = TargetKey::new(meta.namespace.clone(), meta.name.clone());
        self.observe_deleted(T::KIND, &key, &meta.name, &meta.uid, &meta.resource_version, now);
    }

    /// A watch shows a slice with our mark. A known slice stays with its target even if the label that names the
    /// target was edited: that label is what the next write repairs.
    pub fn apply_slice(&mut self, slice: &EndpointSlice, now: Instant) {
        self.observe_slice(slice, ReportOrder::Unordered, now);
    }

    fn observe_slice(&mut self, slice: &EndpointSlice, told: ReportOrder, now: Instant) {
        let meta = &slice.metadata;
        let key = match self.cluster.target_of_slice(&meta.namespace, &meta.name) {
            Some(key) => key.clone(),
            // A slice's name shows its target even if the label was edited while this process was down.
            None => match gimbal_plan::made_for(&meta.name) {
                Some(target) => TargetKey::new(meta.namespace.clone(), target),
                None => {
                    let service = meta.labels.get(keys::SERVICE_NAME).cloned().unwrap_or_default();
                    TargetKey::new(meta.namespace.clone(), service)
                }
            },
        };
        self.cluster.put_slice(&meta.namespace, &meta.name, &key);
        self.observe(&key, now, |target| target.observed_mut().set_slice(slice, told));
    }

    /// An answer to a write, or a watch, shows an object.
    pub(super) fn observe_body(&mut self, body: &Body, told: ReportOrder, now: Instant) {
        match body {
            Body::Service(service) => self.observe_service(service, told, now),
            Body::Endpoints(endpoints) => self.observe_endpoints(endpoints, told, now),
            Body::Slice(slice) => self.observe_slice(slice, told, now),
        }
    }

    /// A slice with our mark is gone, or has lost the mark.
    pub fn delete_slice(&mut self, slice: &EndpointSlice, now: Instant) {
        let meta = &slice.metadata;
        let Some(key) = self.cluster.target_of_slice(&meta.namespace, &meta.name).cloned() else { return };
        self.observe_deleted(EndpointSlice::KIND, &key, &meta.name, &meta.uid, &meta.resource_version, now);
    }

    /// An object is gone, as a watch event or the answer to a delete says.
    pub(super) fn observe_deleted(
        &mut self,
        kind: Kind,
        key: &TargetKey,
        name: &str,
        uid: &str,
        version: &str,
        now: Instant,
    ) {
        if !self.targets.contains_key(key) {
            if kind == EndpointSlice::KIND {
                self.cluster.remove_slice(&key.namespace, name);
            }
            return;
        }
        let mut left = true;
        self.observe(key, now, |target| {
            let observed = target.observed_mut();
            let held = observed.objects().any(|h| h.kind == kind && h.name.is_none_or(|n| n == name));
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
            self.cluster.remove_slice(&key.namespace, name);
        }
    }

    /// A watch shows a namespace. One that is being deleted accepts no new objects, so it counts as gone.
    pub fn apply_namespace(&mut self, namespace: &Namespace) {
        let name = &namespace.metadata.name;
        let being_deleted = namespace.metadata.deletion_timestamp.is_some();
        if self.cluster.apply_namespace(name, being_deleted) && self.cluster.is_listed() {
            self.enqueue_namespace(name);
        }
    }

    /// A namespace is gone.
    pub fn delete_namespace(&mut self, name: &str) {
        self.cluster.delete_namespace(name);
        // A policy may allow it to be created again.
        self.enqueue_namespace(&name.into());
    }

    /// Enqueues all targets in a namespace. Returns how many there are.
    pub(super) fn enqueue_namespace(&mut self, namespace: &Arc<str>) -> usize {
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

    /// Applies what was observed of a target. If that changed anything, the target is decided again. Returns whether
    /// anything changed.
    pub(super) fn observe(&mut self, key: &TargetKey, now: Instant, apply: impl FnOnce(&mut Target) -> bool) -> bool {
        let target = self.targets.get_or_default(key);
        let was_empty = target.observed().is_empty();
        if !apply(target) {
            self.drop_if_idle(key, now);
            return false;
        }
        // The claim that tried to create it may have failed because this object had the name, without our mark then. Its owner now
        // is who the mark names (`gimbalctl adopt`), and nothing else of the claim that had its turn exists.
        let is_of_other = was_empty && target.owner().is_some_and(|owner| !target.is_all_of(owner));
        if is_of_other && target.holder(key).is_some() {
            target.set_owner(None);
        }
        if target.observed_mut().take_went_back() {
            self.list_again();
        }
        if self.cluster.is_listed() {
            self.charge_existing(key);
        }
        let Some(target) = self.targets.get(key) else { return true };
        // While a target is being changed by us, its losses are counted when that is done. Before everything has been
        // listed, nothing is changed by us, whatever agents want already.
        let wanted = !(target.claims().is_empty() && target.leaving().is_empty());
        let ours = self.cluster.is_listed() && self.leadership.holds_lease() && !target.has_converged() && wanted;
        if !ours && !self.queue.is_in_flight(key) {
            self.recount(key, now);
        }
        if self.cluster.is_listed() {
            self.update_guard(key, now);
            if self.queue.notice(key) {
                self.mark_dirty(key, Urgency::Fresh);
            } else if let Some(backend) = self.targets.get(key).and_then(|target| self.backend_of(target)) {
                self.enqueue(key, &backend, Urgency::Fresh);
            }
        }
        self.drop_if_idle(key, now);
        true
    }

    pub(super) fn drop_if_idle(&mut self, key: &TargetKey, now: Instant) {
        if !self.queue.contains(key) && self.targets.get(key).is_some_and(Target::is_idle) {
            self.uncount(key, now);
            if let Some(target) = self.targets.remove(key) {
                self.forget_place(key, &target);
            }
        }
    }
}
