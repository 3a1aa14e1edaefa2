//! What a backend may publish, as far as a decision needs it. The configuration file is the writer's.

use std::fmt;
use std::sync::Arc;

use gimbal_model::{AddressRules, BackendName, SourceKey, TargetKey, service_name};
use gimbal_plan::{GuardConfig, Strip};

/// Where a backend's namespaces lead.
pub trait Namespaces: fmt::Debug + Send + Sync {
    /// The namespace in the Gimbal cluster for one of the source.
    ///
    /// # Errors
    /// A sentence that says why the backend may not publish there.
    fn target(&self, source: &str) -> Result<Arc<str>, String>;
}

/// The policy for one backend.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Namespaces.
    pub namespaces: Arc<dyn Namespaces>,
    /// Addresses.
    pub addresses: AddressRules,
    /// Labels and annotations that are left out.
    pub strip: Strip,
    /// Mass-change guard.
    pub guard: GuardConfig,
}

impl Policy {
    /// The object that stands for a source Service.
    ///
    /// # Errors
    /// A sentence that says why there can be none.
    pub fn target(&self, backend: &BackendName, key: &SourceKey) -> Result<TargetKey, String> {
        let namespace = self.namespaces.target(&key.namespace)?;
        Ok(TargetKey::new(namespace, service_name(backend, &key.name)))
    }
}
