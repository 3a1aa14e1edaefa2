//! Events of the source's watches in, offered Services out.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use gimbal_kubernetes_join::Join;
use gimbal_kubernetes_objects::{self as objects, keys};
use gimbal_model::{AddressInSource, Service, SourceKey};

use crate::address::explain_address;
use crate::explain::explain;
use crate::header::header;
use crate::join_output::{Offers, ServiceHeader};
use crate::omission::Omission;
use crate::pool::Pools;
use crate::selection::{Flavour, Selection};
use crate::slice_content::SliceContent;

/// The Services of a Kubernetes source.
///
/// Events may arrive in any order and more than once; the outcome depends only on the last state of each object. An event
/// costs no more than the size of the Service it belongs to.
#[derive(Debug)]
pub struct KubernetesIndex {
    selection: Selection,
    join: Join<Offers>,
    pools: Pools,
}

impl KubernetesIndex {
    /// Returns an index that has seen nothing.
    #[must_use]
    pub fn new(selection: Selection) -> Self {
        Self { selection, join: Join::new(Offers::default()), pools: Pools::new() }
    }

    /// Adds a Service or replaces it. A Service that is being deleted counts until it is gone.
    pub fn apply_service(&mut self, service: objects::Service) {
        let key = self.key(&service.metadata);
        let header = match self.selection.against_service(&service) {
            Some(skip) => ServiceHeader { header: Err(skip), bad_ports: 0, affinity: false },
            None => {
                let affinity = service.spec.session_affinity.as_deref().is_some_and(|affinity| affinity != "None");
                let (header, bad_ports) = header(service, &mut self.pools);
                ServiceHeader { header: Ok(Arc::new(header)), bad_ports, affinity }
            }
        };
        self.join.apply_service(key, header);
    }

    /// Removes a Service.
    pub fn delete_service(&mut self, namespace: &str, name: &str) {
        self.join.delete_service(&SourceKey::new(namespace, name));
    }

    /// Adds a slice or replaces it.
    pub fn apply_slice(&mut self, slice: objects::EndpointSlice) {
        if self.ignores(Flavour::Slices, &slice.metadata.namespace) {
            return;
        }
        let key = self.key(&slice.metadata);
        match slice.metadata.labels.get(keys::SERVICE_NAME) {
            None => self.join.delete_part(&key),
            Some(service) => {
                let service = SourceKey { namespace: key.namespace.clone(), name: service.clone() };
                let part = SliceContent::of_slice(slice, &mut self.pools);
                self.join.apply_part(key, service, part);
            }
        }
    }

    /// Removes a slice.
    pub fn delete_slice(&mut self, namespace: &str, name: &str) {
        self.join.delete_part(&SourceKey::new(namespace, name));
    }

    /// Adds an Endpoints object or replaces it.
    pub fn apply_endpoints(&mut self, endpoints: objects::Endpoints) {
        if self.ignores(Flavour::Endpoints, &endpoints.metadata.namespace) {
            return;
        }
        let key = self.key(&endpoints.metadata);
        let part = SliceContent::of_endpoints(endpoints, &mut self.pools);
        self.join.apply_part(key.clone(), key, part);
    }

    /// Removes an Endpoints object.
    pub fn delete_endpoints(&mut self, namespace: &str, name: &str) {
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

    /// Begins a list of slices, or of Endpoints.
    pub fn begin_slices(&mut self) {
        self.join.begin_parts();
    }

    /// Ends a complete list: removes what was not applied since [`begin_slices`](Self::begin_slices).
    pub fn end_slices(&mut self) {
        self.join.end_parts();
    }

    /// Sets whether slices are being watched. While they are not, a new Service without slices is held back: whether it
    /// really has none is unknown. Services that are already offered stay.
    pub fn set_slices_current(&mut self, current: bool) {
        self.join.set_parts_current(current);
    }

    /// Whether Services and slices have each been listed completely at least once.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.join.is_complete()
    }

    /// Returns the Services that changed since the last call, in the order of their keys, each in its newest form; `None`
    /// for one that is not offered, or no longer. Returns nothing until the index [is complete](Self::is_complete).
    pub fn drain(&mut self) -> Vec<(SourceKey, Option<Arc<Service>>)> {
        self.join.drain()
    }

    /// How much is left out now, by reason.
    #[must_use]
    pub fn skipped(&self) -> &BTreeMap<Omission, u64> {
        self.join.output().skipped()
    }

    /// Returns sentences that say why a Service is offered as it is, or why it is not.
    #[must_use]
    pub fn explain(&self, key: &SourceKey) -> Vec<String> {
        explain(&self.selection, &self.join, key)
    }

    /// Returns the objects that have an endpoint of a Service with this address, and why it is offered as it is.
    #[must_use]
    pub fn explain_address(&self, key: &SourceKey, address: IpAddr) -> AddressInSource {
        explain_address(&self.selection, &self.join, key, address)
    }

    fn ignores(&self, flavour: Flavour, namespace: &str) -> bool {
        self.selection.flavour != flavour || self.selection.against_namespace(namespace).is_some()
    }

    fn key(&mut self, meta: &objects::Meta) -> SourceKey {
        SourceKey { namespace: self.pools.text(meta.namespace.clone()), name: meta.name.clone() }
    }
}
