//! What agents with a Kubernetes cluster as their source have in common: who the cluster is, and what a failed watch means.

mod failure;
mod identity;

pub use failure::{failure_label, kind_failure};
pub use identity::{FoundIdentity, identify};
