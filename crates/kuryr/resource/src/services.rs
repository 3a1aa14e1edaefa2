//! The Services of a cluster, which one controller reads and another one uses as well.

use std::collections::BTreeSet;

use gimbal_kuryr_translate::{Nodes, ServiceIndex};
use gimbal_model::SourceKey;

/// The Services of a cluster, as far as they are known.
#[derive(Debug, Clone, Copy)]
pub struct KnownServices<'a> {
    /// Services with their slices.
    pub index: &'a ServiceIndex,
    /// Nodes, where members are nodes.
    pub nodes: &'a Nodes,
    /// Whether all of that may be acted upon. What cannot be read is unknown, never empty.
    pub are_current: bool,
}

/// What has changed of the Services.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedServices {
    /// Whether any of them may have.
    pub all: bool,
    /// These, or their slices.
    pub keys: BTreeSet<SourceKey>,
}
