//! Services and slices, joined in whatever order they arrive.

use std::sync::Arc;

use gimbal_kubernetes_join::{Join, JoinOutput};
use gimbal_kubernetes_objects::{BalancedService, BalancedSlice, keys};
use gimbal_model::SourceKey;

use crate::{KeptService, SlicePart};

/// A Service with its slices, in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// The Service.
    pub service: Arc<BalancedService>,
    /// Its slices.
    pub slices: Vec<Arc<SlicePart>>,
}

/// The Services of a cluster with their slices. Events may arrive in any order and more than once; the outcome depends only
/// on the last state of each object.
#[derive(Debug)]
pub struct ServiceIndex {
    join: Join<Services>,
}

#[derive(Debug, Default)]
struct Services;

impl JoinOutput for Services {
    type Header = KeptService;
    type Part = Arc<SlicePart>;
    type Value = Joined;

    fn join<'a>(service: &Self::Header, parts: impl Iterator<Item = &'a Self::Part>) -> Option<Joined>
    where
        Self::Part: 'a,
    {
        Some(Joined { service: service.service(), slices: parts.cloned().collect() })
    }
}

impl Default for ServiceIndex {
    fn default() -> Self {
        Self { join: Join::new(Services) }
    }
}

impl ServiceIndex {
    /// Adds a Service or replaces it. Its version and status are kept: finalizers and status are written against them.
    pub fn apply_service(&mut self, mut service: BalancedService) {
        let meta = &service.metadata.meta;
        let key = SourceKey { namespace: meta.namespace.clone(), name: meta.name.clone() };
        service.metadata.meta.labels.clear();
        self.join.apply_service(key, KeptService::new(service));
    }

    /// Removes a Service.
    pub fn delete_service(&mut self, namespace: &str, name: &str) {
        self.join.delete_service(&SourceKey::new(namespace, name));
    }

    /// Adds a slice or replaces it.
    pub fn apply_slice(&mut self, slice: BalancedSlice) {
        let key = SourceKey { namespace: slice.metadata.namespace.clone(), name: slice.metadata.name.clone() };
        let service = slice.metadata.labels.get(keys::SERVICE_NAME).cloned();
        match (service, SlicePart::of(slice)) {
            (Some(service), Some(part)) => {
                let service = SourceKey { namespace: key.namespace.clone(), name: service };
                self.join.apply_part(key, service, Arc::new(part));
            }
            _ => self.join.delete_part(&key),
        }
    }

    /// Removes a slice.
    pub fn delete_slice(&mut self, namespace: &str, name: &str) {
        self.join.delete_part(&SourceKey::new(namespace, name));
    }

    /// Begins a list of Services. Apply its objects as any others. To start over after a failure, call this again.
    pub fn begin_services(&mut self) {
        self.join.begin_services();
    }

    /// Ends a complete list: removes the Services that were not applied since [`begin_services`](Self::begin_services).
    pub fn end_services(&mut self) {
        self.join.end_services();
    }

    /// Begins a list of slices.
    pub fn begin_slices(&mut self) {
        self.join.begin_parts();
    }

    /// Ends a complete list: removes the slices that were not applied since [`begin_slices`](Self::begin_slices).
    pub fn end_slices(&mut self) {
        self.join.end_parts();
    }

    /// Whether Services and slices have each been listed completely at least once.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.join.is_complete()
    }

    /// Returns a Service as it is known now, with its slices.
    #[must_use]
    pub fn get(&self, key: &SourceKey) -> Option<Joined> {
        let entry = self.join.entry(key)?;
        Services::join(entry.header()?, entry.parts().map(|(_, part)| part))
    }

    /// Returns a Service as it is known now, without its slices.
    #[must_use]
    pub fn service(&self, key: &SourceKey) -> Option<&KeptService> {
        self.join.entry(key)?.header()
    }

    /// The Services that are known, in no order.
    pub fn services(&self) -> impl Iterator<Item = &SourceKey> {
        self.join.services()
    }

    /// Returns the Services that changed since the last call, in the order of their keys; `None` for one that is gone.
    /// Returns nothing until the index [is complete](Self::is_complete).
    pub fn drain(&mut self) -> Vec<(SourceKey, Option<Joined>)> {
        self.join.drain()
    }
}
