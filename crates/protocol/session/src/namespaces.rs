//! A set of namespaces, or everything but a set: what is owed, what is known, and whose changes can be trusted.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::Scope;

/// Most namespaces that a [bounded](NamespaceSet::bound) set lists.
pub(crate) const MOST: usize = 1 << 14;

/// Starts empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NamespaceSet {
    /// Whether `listed` are the exceptions rather than the members. What is not listed has no end: it includes the
    /// namespaces that only the other end knows of.
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

    /// Whether namespaces belong to it that are not named anywhere.
    pub(crate) fn has_rest(&self) -> bool {
        self.rest
    }

    pub(crate) fn is_all(&self) -> bool {
        self.rest && self.listed.is_empty()
    }

    /// Members, or exceptions where [`Self::has_rest`].
    pub(crate) fn listed(&self) -> &BTreeSet<Arc<str>> {
        &self.listed
    }

    pub(crate) fn add(&mut self, scope: &Scope) {
        self.put(scope, true);
    }

    pub(crate) fn remove(&mut self, scope: &Scope) {
        self.put(scope, false);
    }

    /// Names that an agent makes up must not cost memory without end: with too many, nothing belongs to it any more. Whether
    /// that was so.
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
