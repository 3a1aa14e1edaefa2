//! What the operator has set.

use std::time::Duration;

use gimbal_kuryr_model::Text;

/// Settings of the ports of one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSettings {
    /// UID of the cluster's namespace `kube-system`.
    pub cluster_uid: Text,
    /// The cluster's name.
    pub cluster: Text,
    /// Projects in which ports of the cluster may be.
    pub projects: Vec<Text>,
    /// Ports that a pool in use has at least (`ports_pool_min`).
    pub pool_min: u32,
    /// Ports that a pool has at most; 0: no limit (`ports_pool_max`).
    pub pool_max: u32,
    /// Ports that one request makes at most (`ports_pool_batch`).
    pub pool_batch: u32,
    /// Ports that the cluster may have; unset: as many as Neutron lets it.
    pub most_ports: Option<u32>,
    /// Ports that are made, changed or removed in a second, at most. Prepopulated pools have brought Neutron down.
    pub ports_per_second: u32,
    /// Calls under way at a time, at most.
    pub most_calls: usize,
    /// The time between two lists of all ports.
    pub list_interval: Duration,
    /// For this long an owner must have been missing before its port is removed.
    pub orphan_grace: Duration,
}

impl PortSettings {
    /// Returns settings with the defaults.
    #[must_use]
    pub fn new(cluster_uid: impl Into<Text>, cluster: impl Into<Text>, project: impl Into<Text>) -> Self {
        Self {
            cluster_uid: cluster_uid.into(),
            cluster: cluster.into(),
            projects: vec![project.into()],
            pool_min: 5,
            pool_max: 0,
            pool_batch: 10,
            most_ports: None,
            ports_per_second: 20,
            most_calls: 16,
            list_interval: Duration::from_secs(600),
            orphan_grace: Duration::from_secs(600),
        }
    }
}
