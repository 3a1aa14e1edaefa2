//! Which namespace of the Gimbal cluster a backend's namespace leads to.

use std::collections::BTreeMap;

use gimbal_model::NamespacePattern;

use super::values::is_namespace;

/// The rules for one backend's namespaces. The default admits every one under its own name, but `kube-*`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamespacePolicy {
    /// What the target must match; `None` allows all.
    pub allow: Option<Vec<NamespacePattern>>,
    /// What the target must not match, allowed or not.
    pub deny: Vec<NamespacePattern>,
    /// From a source namespace (or an OpenStack project's ID) to its target.
    pub map: BTreeMap<String, String>,
    /// Whether a missing target is created.
    pub create: bool,
}

/// Why a source namespace leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceRefused {
    /// It is no name that a namespace can have.
    #[error("{0:?} cannot be the name of a namespace; map it to one that can (namespaces.map)")]
    Invalid(String),
    /// The cluster's own.
    #[error("namespace {0:?} is the Gimbal cluster's own (kube-*)")]
    System(String),
    /// Denied to this backend.
    #[error("namespace {0:?} is denied to this backend (namespaces.deny)")]
    Denied(String),
    /// Not allowed to this backend.
    #[error("namespace {0:?} is not allowed to this backend (namespaces.allow)")]
    NotAllowed(String),
}

impl NamespacePolicy {
    /// The namespace in the Gimbal cluster for a namespace of the source.
    ///
    /// # Errors
    /// When there is none; the reason names the target.
    pub fn target(&self, source_namespace: &str) -> Result<String, NamespaceRefused> {
        let target = self.map.get(source_namespace).map_or(source_namespace, String::as_str);
        let matches = |patterns: &[NamespacePattern]| patterns.iter().any(|pattern| pattern.matches(target));
        let refusal = if !is_namespace(target) {
            NamespaceRefused::Invalid
        } else if target.starts_with("kube-") {
            NamespaceRefused::System
        } else if matches(&self.deny) {
            NamespaceRefused::Denied
        } else if self.allow.as_ref().is_some_and(|allow| !matches(allow)) {
            NamespaceRefused::NotAllowed
        } else {
            return Ok(target.to_owned());
        };
        Err(refusal(target.to_owned()))
    }
}
