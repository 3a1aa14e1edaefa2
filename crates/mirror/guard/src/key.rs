//! The keys that the guard counts weight by.

use std::fmt::Debug;
use std::sync::Arc;

use gimbal_model::{SourceKey, TargetKey};

/// A key that weight is counted by, for example a Service of the Gimbal cluster or a load balancer's ID.
pub trait GuardKey: Clone + Ord + Debug {
    /// Identity of the weight's origin. It stays the same when the weight moves to another key.
    type Source: Clone + Ord + Debug;
    /// A set of keys for which [`Floors`](crate::Floors) can demand a minimum, for example a namespace or a project.
    type Group: Clone + Ord + Debug;

    /// Returns the group that the key belongs to.
    fn group(&self) -> &Self::Group;

    /// Returns the bytes that the key takes in a stored [`WindowRecord`](crate::WindowRecord).
    fn record_bytes(&self) -> usize;
}

impl GuardKey for TargetKey {
    type Source = SourceKey;
    type Group = Arc<str>;

    fn group(&self) -> &Arc<str> {
        &self.namespace
    }

    fn record_bytes(&self) -> usize {
        // A separator, and a number of endpoints in decimal.
        self.namespace.len() + self.name.len() + 16
    }
}
