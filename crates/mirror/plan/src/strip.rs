//! Selects the labels and annotations of a source Service that are written. By default, keys with which a backend could
//! steer the Gimbal cluster's controllers are left out. If a policy lists the keys to keep, all others are left out as
//! well.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A pattern for keys: either a whole key or, with `*` at its end, a prefix, as in `cert-manager.io/*`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern {
    text: Arc<str>,
    open: bool,
}

impl Pattern {
    /// Parses a pattern. Every text is a valid pattern.
    #[must_use]
    pub fn new(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(prefix) => Self { text: prefix.into(), open: true },
            None => Self { text: text.into(), open: false },
        }
    }

    /// Whether `key` matches.
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

/// The labels and annotations that are left out of everything written. The default leaves out those that steer
/// controllers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strip {
    /// Patterns for labels.
    pub labels: Vec<Pattern>,
    /// Patterns for annotations.
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

/// The only keys to keep. `None` keeps every key, an empty list keeps none. `Strip` has precedence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Keep {
    /// Patterns for labels.
    pub labels: Option<Vec<Pattern>>,
    /// Patterns for annotations.
    pub annotations: Option<Vec<Pattern>>,
}

/// The strip and keep lists for the labels or the annotations of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sieve<'a> {
    strip: &'a [Pattern],
    keep: Option<&'a [Pattern]>,
}

/// The maximum number of keys that a sentence lists by name.
const NAMED: usize = 10;

impl<'a> Sieve<'a> {
    pub(crate) fn of_labels(strip: &'a Strip, keep: &'a Keep) -> Self {
        Self { strip: &strip.labels, keep: keep.labels.as_deref() }
    }

    pub(crate) fn of_annotations(strip: &'a Strip, keep: &'a Keep) -> Self {
        Self { strip: &strip.annotations, keep: keep.annotations.as_deref() }
    }

    fn is_stripped(&self, key: &str) -> bool {
        self.strip.iter().any(|pattern| pattern.matches(key))
    }

    fn is_unkept(&self, key: &str) -> bool {
        self.keep.is_some_and(|keep| !keep.iter().any(|pattern| pattern.matches(key)))
    }

    /// Returns the entries that are kept.
    pub(crate) fn sieve(&self, map: &BTreeMap<Arc<str>, Arc<str>>) -> BTreeMap<Arc<str>, Arc<str>> {
        let kept = map.iter().filter(|(key, _)| !self.is_stripped(key) && !self.is_unkept(key));
        kept.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Describes the keys that are left out, one sentence for each reason. `what` is the name of the lists in the
    /// policy: "labels" or "annotations".
    pub(crate) fn told(&self, what: &str, map: &BTreeMap<Arc<str>, Arc<str>>) -> Vec<String> {
        let keys = || map.keys().map(|key| &**key);
        let stripped: Vec<&str> = keys().filter(|key| self.is_stripped(key)).collect();
        let unkept: Vec<&str> = keys().filter(|key| !self.is_stripped(key) && self.is_unkept(key)).collect();
        let sentence = |keys: Vec<&str>, why: &str| {
            let more = match keys.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let named: Vec<String> = keys.iter().take(NAMED).map(|key| crate::valid::brief(key)).collect();
            (!keys.is_empty()).then(|| format!("{what} that are left out, {why}: {}{more}", named.join(", ")))
        };
        let of_strip = sentence(stripped, &format!("for strip.{what} names them"));
        let of_keep = sentence(unkept, &format!("for keep.{what} does not name them"));
        of_strip.into_iter().chain(of_keep).collect()
    }
}

/// Whether a key is Kubernetes' own: its prefix is `kubernetes.io` or ends with `.kubernetes.io`.
pub(crate) fn is_kubernetes(key: &str) -> bool {
    key.split_once('/').is_some_and(|(prefix, _)| prefix == "kubernetes.io" || prefix.ends_with(".kubernetes.io"))
}
