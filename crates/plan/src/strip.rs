//! Which labels and annotations of a source Service are left out: those that would let a backend steer the Gimbal
//! cluster's controllers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A key, or with `*` at its end every key that begins so: `cert-manager.io/*`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern {
    text: Arc<str>,
    open: bool,
}

impl Pattern {
    /// Any text is a pattern.
    #[must_use]
    pub fn new(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(prefix) => Self { text: prefix.into(), open: true },
            None => Self { text: text.into(), open: false },
        }
    }

    /// Whether `key` is meant.
    #[must_use]
    pub fn matches(&self, key: &str) -> bool {
        if self.open { key.starts_with(&*self.text) } else { key == &*self.text }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.text, if self.open { "*" } else { "" })
    }
}

/// What is left out of everything written. The default is DESIGN 3.1's two lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strip {
    /// Of labels.
    pub labels: Vec<Pattern>,
    /// Of annotations.
    pub annotations: Vec<Pattern>,
}

impl Default for Strip {
    fn default() -> Self {
        let patterns = |texts: &[&str]| texts.iter().map(|text| Pattern::new(text)).collect();
        Self {
            labels: patterns(&["argocd.argoproj.io/*", "service.kubernetes.io/service-proxy-name"]),
            annotations: patterns(&[
                "kubectl.kubernetes.io/last-applied-configuration",
                "endpoints.kubernetes.io/*",
                "service.kubernetes.io/*",
                "service.beta.kubernetes.io/*",
                "external-dns.alpha.kubernetes.io/*",
                "cert-manager.io/*",
                "meta.helm.sh/*",
                "argocd.argoproj.io/*",
                "gimbal.projectcontour.io/*",
            ]),
        }
    }
}

/// The entries that no pattern means.
pub(crate) fn stripped(map: &BTreeMap<Arc<str>, Arc<str>>, patterns: &[Pattern]) -> BTreeMap<Arc<str>, Arc<str>> {
    let kept = map.iter().filter(|(key, _)| !patterns.iter().any(|pattern| pattern.matches(key)));
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Whether a key is Kubernetes' own: its prefix is `kubernetes.io` or ends with `.kubernetes.io`.
pub(crate) fn is_kubernetes(key: &str) -> bool {
    key.split_once('/').is_some_and(|(prefix, _)| prefix == "kubernetes.io" || prefix.ends_with(".kubernetes.io"))
}
