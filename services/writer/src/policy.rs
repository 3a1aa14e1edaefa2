//! From the configuration file to the policy that decisions are taken under.

use std::sync::Arc;

use gimbal_model::AddressRules;
use gimbal_plan::{GuardConfig, Pattern, Strip};
use gimbal_reconcile::{Namespaces, Policy};

use crate::config::{BackendConfig, Config, Mode, NamespacePolicy};

impl Namespaces for NamespacePolicy {
    fn target(&self, source: &str) -> Result<Arc<str>, String> {
        NamespacePolicy::target(self, source).map(Into::into).map_err(|refused| refused.to_string())
    }
}

/// The policy of one backend under a configuration.
#[must_use]
pub fn policy(config: &Config, backend: &BackendConfig) -> Policy {
    let defaults = Strip::default();
    let patterns = |list: &Option<Vec<String>>, default: Vec<Pattern>| {
        list.as_ref().map_or(default, |list| list.iter().map(|pattern| Pattern::new(pattern)).collect())
    };
    Policy {
        namespaces: Arc::new(backend.namespaces.clone()),
        addresses: AddressRules {
            refused: config.refused_addresses.clone(),
            allowed: backend.addresses.allow.clone(),
        },
        strip: Strip {
            labels: patterns(&backend.strip.labels, defaults.labels),
            annotations: patterns(&backend.strip.annotations, defaults.annotations),
        },
        guard: GuardConfig {
            max_drop_percent: backend.guard.max_drop_percent,
            min_endpoints: backend.guard.min_endpoints,
            window: backend.guard.window.into(),
            quiet_time: backend.guard.quiet_time.into(),
            release_all_after: backend.guard.release_all_after.map(Into::into),
        },
        admit: backend.mode == Mode::Admit,
    }
}
