//! `coordination.k8s.io/v1`.

use serde::{Deserialize, Serialize};

use crate::Meta;
use crate::meta::object;

/// `Lease`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Lease {
    /// Metadata.
    pub metadata: Meta,
    /// Spec.
    pub spec: LeaseSpec,
}
object!(Lease, "Lease", "coordination.k8s.io/v1", "leases");

/// `LeaseSpec`. Times are in RFC 3339 with microseconds. They are informative: expiry is decided by a monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseSpec {
    /// The holder. Empty or unset if the lease is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder_identity: Option<String>,
    /// Seconds until the lease expires without renewal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_duration_seconds: Option<i32>,
    /// When the holder acquired the lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acquire_time: Option<String>,
    /// When the holder last renewed the lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renew_time: Option<String>,
    /// How often the holder changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_transitions: Option<i32>,
}
