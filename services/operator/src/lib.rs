//! Runs a discoverer in the Gimbal cluster for each Backend that names a source.
//!
//! ```text
//!  Backends, and objects with the operator's mark --watches--> +------ owner (one task) ------+
//!  Secrets that a source names, one watch for each ----------> |  gimbal-operator-core:       | --writes--> ServiceAccounts,
//!  the Secret of the authority ------------------------------> |  what is to be written next  |   NetworkPolicies, Secrets with
//!  Lease ------------------------------------------candidate-> |                              |   pairs, Deployments, conditions,
//!  Lease that names the serving namespace -------------claim-> +------------------------------+   Events
//! ```
//!
//! All decisions are made by `gimbal-operator-core`, which is pure; this crate watches, signs and writes. It has rights of its own:
//! the writer, which is the only one that changes what is mirrored, may make no pod, and this program no Service.

mod args;
mod claim;
mod known;
mod metrics;
mod notices;
mod owner;
mod pairs;
mod run;
mod secrets;
mod status;
mod writes;

pub use args::Args;
pub use run::run;

/// Describes the metrics, for the reference in the documentation.
#[must_use]
pub fn metrics_reference() -> Vec<gimbal_runtime::MetricDoc> {
    metrics::OperatorMetrics::reference()
}
