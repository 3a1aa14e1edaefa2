//! A set of namespaces, or all namespaces except a set.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::Scope;

/// Largest number of namespaces that a [bounded](NamespaceSet::bound) set lists.
pub(crate) const MOST: usize = 1 << 14;

/// Namespaces, listed or excepted. The default is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NamespaceSet {
    /// Whether `listed` holds the exceptions instead of the members. The rest then includes namespaces that only the
    /// other end knows.
    rest: bool,
    listed: BTreeSet<Arc<str>>,
}

impl NamespaceSet {
    pub(crate) fn of(scope: &Scope) -> Self {
        let mut set = Self::default();
        set.add(scope);
        set
    }

    pub(crate) fn contains(&self, namespace: &str) -> bool {
        self.rest != self.listed.contains(namespace)
    }

    /// Returns whether unlisted namespaces are members.
    pub(crate) fn has_rest(&self) -> bool {
        self.rest
    }

    pub(crate) fn is_all(&self) -> bool {
        self.rest && self.listed.is_empty()
    }

    /// Returns the members, or the exceptions if [`Self::has_rest`].
    pub(crate) fn listed(&self) -> &BTreeSet<Arc<str>> {
        &self.listed
    }

    pub(crate) fn add(&mut self, scope: &Scope) {
        self.put(scope, true);
    }

    pub(crate) fn remove(&mut self, scope: &Scope) {
        self.put(scope, false);
    }

    /// Empties the set if it lists too many namespaces, and returns whether it did. An agent that invents names must
    /// not grow the writer's memory without limit.
    pub(crate) fn bound(&mut self) -> bool {
        let over = self.listed.len() > MOST;
        if over {
            *self = Self::default();
        }
        over
    }

    fn put(&mut self, scope: &Scope, member: bool) {
        match scope {
            Scope::All => *self = Self { rest: member, listed: BTreeSet::new() },
            Scope::Namespaces(namespaces) => {
                for namespace in namespaces {
                    if self.rest == member {
                        self.listed.remove(namespace);
                    } else {
                        self.listed.insert(namespace.clone());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(names: &[&str]) -> Scope {
        Scope::Namespaces(names.iter().map(|name| (*name).into()).collect())
    }

    #[test]
    fn all_but_some() {
        let mut set = NamespaceSet::of(&Scope::All);
        set.remove(&some(&["a", "b"]));
        set.add(&some(&["b"]));
        assert!(!set.contains("a") && set.contains("b") && set.contains("c"));
        assert!(set.has_rest() && !set.is_all());
        set.add(&some(&["a"]));
        assert!(set.is_all());
        set.remove(&Scope::All);
        assert_eq!(set, NamespaceSet::default());
    }

    #[test]
    fn only_some() {
        let mut set = NamespaceSet::of(&some(&["a", "b"]));
        set.remove(&some(&["a", "c"]));
        assert!(!set.contains("a") && set.contains("b") && !set.contains("c"));
        assert!(!set.has_rest());
    }
}
