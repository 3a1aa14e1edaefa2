//! Makes the load balancers that Kubernetes clusters want in OpenStack. The only process with credentials that change it.
//!
//! ```text
//!  controllers --> streams --> +------------- owner (one task) --------------+
//!                              |  Clusters: WriterEnd + policy --> Registry  |--> calls (gimbal-openstack-client)
//!  reports, facts <----------- |                                             |<-- answers
//!                              +---------------------------------------------+
//!  look_up: subnets, quota, roles --^        ^-- inspection, administration, configuration
//! ```
//!
//! Nothing is kept on disk, and there is no election: what is wanted comes with the stream, what exists is read from
//! OpenStack, and what belongs to whom is said by tags. Without a live stream nothing is changed.

mod administration;
mod args;
mod bundle;
mod cloud_access;
mod clusters;
mod config;
mod inspection;
mod knowledge;
mod listing;
mod look_up;
mod mailbox;
mod marked;
mod metrics;
mod outages;
mod owner;
mod policy;
mod run;
mod stream_life;
mod streams;
mod watch;

pub use args::Args;
pub use run::run;

/// Describes the metrics, for the reference in the documentation.
#[must_use]
pub fn metrics_reference() -> Vec<gimbal_runtime::MetricDoc> {
    metrics::CloudWriterMetrics::reference()
}

/// Reads a configuration as the program does, and returns the names of its clusters.
///
/// # Errors
/// One line with the file, the place in it, and the problem.
pub fn read_config(path: &std::path::Path, text: &str) -> Result<Vec<String>, String> {
    use gimbal_admission::FileFormat as _;
    let config = config::ClustersConfig::parse(path, text).map_err(|error| error.to_string())?;
    Ok(config.clusters.into_iter().map(|cluster| cluster.name.to_string()).collect())
}
