//! From the configuration file to the policy that decisions are taken under.

use std::sync::Arc;

use gimbal_plan::GuardConfig;
use gimbal_reconcile::{Namespaces, Policy};

use crate::config::{BackendConfig, NamespacePolicy};

impl Namespaces for NamespacePolicy {
    fn target(&self, source: &str) -> Result<Arc<str>, String> {
        NamespacePolicy::target(self, source).map(Into::into).map_err(|refused| refused.to_string())
    }
}

/// The policy of one backend.
#[must_use]
pub fn policy(backend: &BackendConfig) -> Policy {
    let guard = &backend.guard;
    Policy {
        namespaces: Arc::new(backend.namespaces.clone()),
        addresses: backend.addresses.clone(),
        strip: backend.strip.clone(),
        guard: GuardConfig {
            max_drop_percent: guard.max_drop_percent,
            min_endpoints: guard.min_endpoints,
            window: guard.window,
            quiet_time: guard.quiet_time,
            release_all_after: guard.release_all_after,
        },
    }
}
