//! The writer: the only process with the Gimbal cluster's credentials. Agents stream to it what their sources offer; it makes the
//! Gimbal cluster so.
//!
//! ```text
//!  agents -> discovery --+                       +-> apply -> API server
//!                        +-> owner (Reconciler) -+-> keep  -> ConfigMaps
//!  API server -> watches +                       +-> discovery -> agents
//!  people ----> inspect -+         ^ lease
//!               admin
//! ```

mod admin;
mod apply;
mod args;
mod backend_state;
pub mod config;
mod creating;
mod decommission;
mod discovery;
mod follow;
mod in_flight;
mod inspect;
mod listing;
mod mailbox;
mod metrics;
mod owner;
mod reach;
mod ready;
mod run;
mod supervise;
mod throttle;
mod watches;
mod write_size;

pub use args::Args;
pub use run::run;

/// Describes the writer's metrics, for the reference in the documentation.
#[must_use]
pub fn metrics_reference() -> Vec<gimbal_runtime::MetricDoc> {
    metrics::Metrics::reference()
}
