//! The index of where a backend's source Services are: the target that each leads to, and the targets that it leaves.
//!
//! Three other relations between Services and targets are not in this index, because each may differ from it:
//!
//! - A target's `leaving` claims are the part of `old` whose Services are gone; the rest are moving. The target needs
//!   them by itself: they are acknowledged in the order in which they left, when its last object is gone.
//! - [`Usage`](crate::Usage) charges a Service at the targets where it may take room. Objects from before this process
//!   are charged before any agent sends their Service, and a move keeps its charge until the old target is decided.
//!   A target's `charged` claim is the way back from there: whose charge ends when the target gets another owner.
//! - A target's endpoints are counted for the backend that has them (`counted_for`), whoever wants the target next:
//!   that backend's guard judges their removal.
//!
//! [`Reconciler::audit`](crate::Reconciler::audit) checks that they agree where they have to.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_model::{SourceKey, TargetKey};

/// Where the source Services of one backend are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Routes {
    /// The target that the policy chose for each Service.
    current: BTreeMap<SourceKey, TargetKey>,
    /// The targets that a Service leaves because it is gone, or moves away from because the policy chooses another
    /// now. Empty for almost all Services.
    old: BTreeMap<SourceKey, BTreeSet<TargetKey>>,
}

impl Routes {
    /// Returns the target that a Service leads to.
    pub(crate) fn current(&self, key: &SourceKey) -> Option<&TargetKey> {
        self.current.get(key)
    }

    /// Sets the target that a Service leads to, which it no longer leaves, if it did.
    pub(crate) fn set_current(&mut self, key: &SourceKey, target: &TargetKey) {
        self.current.insert(key.clone(), target.clone());
        self.remove_old(key, target);
    }

    /// A Service leads nowhere from now on. Returns the target that it led to.
    pub(crate) fn remove_current(&mut self, key: &SourceKey) -> Option<TargetKey> {
        self.current.remove(key)
    }

    /// Returns the targets that a Service leaves or moves away from.
    pub(crate) fn old(&self, key: &SourceKey) -> impl Iterator<Item = &TargetKey> {
        self.old.get(key).into_iter().flatten()
    }

    /// Returns the targets that any Service leaves or moves away from, in the order of the Services.
    pub(crate) fn all_old(&self) -> impl Iterator<Item = &TargetKey> {
        self.old.values().flatten()
    }

    /// Records that a Service leaves a target or moves away from it.
    pub(crate) fn add_old(&mut self, key: &SourceKey, target: &TargetKey) {
        self.old.entry(key.clone()).or_default().insert(target.clone());
    }

    /// Records that a Service has left a target.
    pub(crate) fn remove_old(&mut self, key: &SourceKey, target: &TargetKey) {
        let Some(targets) = self.old.get_mut(key) else { return };
        targets.remove(target);
        if targets.is_empty() {
            self.old.remove(key);
        }
    }

    /// Records that a Service has left all targets but the current one, and returns the targets that it left.
    pub(crate) fn take_old(&mut self, key: &SourceKey) -> BTreeSet<TargetKey> {
        self.old.remove(key).unwrap_or_default()
    }

    /// Records that all Services have left all targets but their current ones.
    pub(crate) fn clear_old(&mut self) {
        self.old.clear();
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.current.clear();
        self.old.clear();
    }
}
