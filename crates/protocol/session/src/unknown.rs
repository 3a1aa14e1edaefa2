//! The parts of a source that the agent cannot read, with reasons.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Scope;

/// Largest number of namespaces that are kept apart. Beyond it the whole source counts as unknown, which deletes no
/// more and bounds the memory that an agent can use.
const MOST: usize = 1 << 14;

/// Unknown scopes with their reasons. Once the whole source is unknown, only a read of the whole source ends that.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnknownScopes {
    all: Option<String>,
    namespaces: BTreeMap<Arc<str>, String>,
}

impl UnknownScopes {
    /// Returns whether nothing is unknown.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_none() && self.namespaces.is_empty()
    }

    /// Returns why the whole source is unknown, if it is.
    #[must_use]
    pub fn all(&self) -> Option<&str> {
        self.all.as_deref()
    }

    /// Returns the namespaces that are unknown by name, with reasons.
    pub fn namespaces(&self) -> impl Iterator<Item = (&Arc<str>, &str)> {
        self.namespaces.iter().map(|(namespace, reason)| (namespace, &**reason))
    }

    /// Returns whether a namespace is unknown, by name or with the whole source.
    #[must_use]
    pub fn contains(&self, namespace: &str) -> bool {
        self.all.is_some() || self.namespaces.contains_key(namespace)
    }

    /// Returns why a namespace is unknown by name, if it is.
    pub(crate) fn reason(&self, namespace: &str) -> Option<&str> {
        self.namespaces.get(namespace).map(|reason| &**reason)
    }

    /// Returns each unknown scope with its reason.
    pub fn iter(&self) -> impl Iterator<Item = (Scope, &str)> {
        let all = self.all().map(|reason| (Scope::All, reason));
        all.into_iter()
            .chain(self.namespaces().map(|(namespace, reason)| (Scope::Namespaces(vec![namespace.clone()]), reason)))
    }

    pub(crate) fn add(&mut self, scope: &Scope, reason: &str) {
        match scope {
            Scope::All => self.all = Some(reason.into()),
            Scope::Namespaces(namespaces) => {
                for namespace in namespaces {
                    self.namespaces.insert(namespace.clone(), reason.into());
                }
                if self.namespaces.len() > MOST {
                    self.namespaces.clear();
                    self.all = Some(format!("of more than {MOST} namespaces: {reason}"));
                }
            }
        }
    }

    /// Called when everything in `scope` was read.
    pub(crate) fn clear(&mut self, scope: &Scope) {
        match scope {
            Scope::All => *self = Self::default(),
            Scope::Namespaces(namespaces) => {
                for namespace in namespaces {
                    self.namespaces.remove(namespace);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_can_be_kept_is_everything() {
        let namespaces =
            |range: std::ops::Range<usize>| Scope::Namespaces(range.map(|n| format!("n{n}").into()).collect());
        let mut unknown = UnknownScopes::default();
        unknown.add(&namespaces(0..MOST), "forbidden");
        assert_eq!((unknown.all(), unknown.namespaces().count()), (None, MOST));
        unknown.add(&namespaces(0..MOST + 1), "forbidden");
        assert_eq!(
            (unknown.all(), unknown.namespaces().count()),
            (Some("of more than 16384 namespaces: forbidden"), 0)
        );
        assert!(unknown.contains("n0") && unknown.contains("never named"));
        unknown.clear(&namespaces(0..MOST + 1));
        assert!(unknown.contains("n0"), "it ends only with everything known");
        unknown.clear(&Scope::All);
        assert!(unknown.is_empty());
    }
}
