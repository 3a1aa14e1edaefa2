//! The configuration: the clusters with their identities, and what each may have in OpenStack. Read again when the file
//! changes, and replaced as a whole.

mod file;
mod keys;
mod kuryr_conf;
mod sections;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io;
use std::path::Path;

use gimbal_admission::{AdminPrincipal, FileFormat, Identity, Tenant, identify};
use gimbal_kuryr_model::Text;
use gimbal_model::BackendName;
use gimbal_octavia_registry::ClusterGuards;
use gimbal_transport::{Denied, Peer};

use crate::policy::ClusterPolicy;

/// The whole configuration.
#[derive(Debug, Clone, Default)]
pub struct ClustersConfig {
    /// Identities that may use the AdminService.
    pub admins: Vec<AdminPrincipal>,
    /// Certificates that are refused, whatever names they have.
    pub denied: Denied,
    /// Clusters in the order of the file.
    pub clusters: Vec<ClusterConfig>,
}

/// One cluster.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    /// The cluster's name, which its load balancers are tagged with.
    pub name: BackendName,
    /// The URI or DNS SAN of its client certificate.
    pub identity: String,
    /// The UID of its namespace `kube-system`; unset: that of the first controller that comes.
    pub uid: Option<Text>,
    /// UIDs of clusters that had the name before. What they left stays, and blocks nothing.
    pub former_uids: BTreeSet<Text>,
    /// What it may have.
    pub policy: ClusterPolicy,
    /// Limits of removals.
    pub guards: ClusterGuards,
    /// Whether load balancers are planned and shown only.
    pub quarantine: bool,
}

/// Why a file cannot be used, on one line: the file, the line, and the problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ClustersConfigError {
    place: String,
    problem: String,
}

impl ClustersConfig {
    /// Returns who a peer is under this configuration.
    #[must_use]
    pub fn identify(&self, peer: &Peer) -> Identity<'_, ClusterConfig> {
        identify(peer, &self.admins, &self.clusters)
    }

    /// Returns the cluster of this name.
    #[must_use]
    pub fn cluster(&self, name: &str) -> Option<&ClusterConfig> {
        self.clusters.iter().find(|cluster| cluster.name.as_str() == name)
    }
}

impl Tenant for ClusterConfig {
    const NOUN: &str = "cluster";

    fn name(&self) -> &dyn Display {
        &self.name
    }

    fn identity(&self) -> Option<&str> {
        Some(&self.identity)
    }
}

impl FileFormat for ClustersConfig {
    type Error = ClustersConfigError;

    fn parse(path: &Path, text: &str) -> Result<Self, ClustersConfigError> {
        file::read(path, text)
    }

    fn unreadable(path: &Path, error: &io::Error) -> ClustersConfigError {
        ClustersConfigError::at(path, None, format!("cannot be read: {error}"))
    }
}

impl ClustersConfigError {
    fn at(path: &Path, position: Option<(u64, u64)>, problem: impl Into<String>) -> Self {
        let place = match position {
            Some((line, column)) => format!("{}:{line}:{column}", path.display()),
            None => path.display().to_string(),
        };
        Self { place, problem: problem.into() }
    }
}
