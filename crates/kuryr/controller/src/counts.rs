//! What is known, and how much there is.

use gimbal_kuryr_model::Text;

/// How much of the cluster is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterKnowledge {
    /// Nothing can be offered yet, for this reason: something has not been read, the writer has not said anything about the
    /// cloud, or another process leads. A stream carries no data then, and facts come nevertheless.
    Waiting(String),
    /// Everything is known.
    Complete,
    /// Something was known and cannot be read any more. What is offered stays; what is absent means nothing.
    Unreadable(String),
    /// Everything is known but what may exist for owners in these namespaces, of which nothing can be offered now: they live, and
    /// have their finalizers. What is offered stays; what is absent from these namespaces means nothing.
    Partial(Vec<Text>),
}

/// What there is, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KuryrCounts {
    /// Services that are known.
    pub services: usize,
    /// KuryrLoadBalancers that are known.
    pub load_balancers: usize,
    /// Entries that are offered and wanted.
    pub offered: usize,
    /// Entries that are offered as being deleted.
    pub deleting: usize,
    /// Load balancers whose latest report says that they are as they should be.
    pub ready: usize,
    /// KuryrLoadBalancers that are not offered because the writer has not said where they are made.
    pub waiting_for_writer: usize,
    /// KuryrLoadBalancers that are not offered because they contradict themselves.
    pub not_offered: usize,
    /// KuryrLoadBalancers that are offered, and that the writer does not try.
    pub rejected: usize,
    /// Objects that wait for a write, or for the end of a pause.
    pub queued: usize,
    /// Objects with a write in flight.
    pub in_flight: usize,
    /// Objects whose last write failed.
    pub failing: usize,
}
