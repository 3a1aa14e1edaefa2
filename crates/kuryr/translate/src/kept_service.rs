//! What is kept of a Service.

use std::sync::Arc;

use gimbal_kubernetes_objects::BalancedService;
use gimbal_kuryr_crd::names::{annotations, finalizers};
use gimbal_kuryr_model::Text;
use gimbal_kuryr_packed::PackedValue;

/// A Service, packed, and beside that what is asked of all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptService {
    /// Its UID.
    pub uid: Text,
    /// Its version.
    pub version: Text,
    /// Whether it goes only after we have let it go: it has our finalizer, and is not being deleted.
    pub is_protected: bool,
    /// Whether its members depend on the labels of nodes.
    pub selects_nodes: bool,
    service: PackedValue<BalancedService>,
}

impl KeptService {
    pub(crate) fn new(service: BalancedService) -> Self {
        let metadata = &service.metadata;
        Self {
            uid: metadata.meta.uid.clone(),
            version: metadata.meta.resource_version.clone(),
            is_protected: metadata.has_finalizer(finalizers::SERVICE) && !metadata.is_being_deleted(),
            selects_nodes: service.annotations().contains_key(annotations::NODE_SELECTOR),
            service: PackedValue::new(Arc::new(service)),
        }
    }

    /// Returns it, unpacked.
    #[must_use]
    pub fn service(&self) -> Arc<BalancedService> {
        self.service.get()
    }
}
