//! The writer: the only process with write access to the Gimbal cluster. Discoverers stream to it what their sources
//! offer, and it makes the Gimbal cluster match.
//!
//! ```text
//!  discoverers -> discovery -+                       +-> in_flight, apply -> API server
//!                            +-> owner (Reconciler) -+-> backend_state    -> ConfigMaps
//!  API server -> watches ----+          ^            +-> discovery        -> discoverers
//!  people -> inspection_service, admin -+
//! ```

mod admin;
mod apply;
mod args;
mod backend_state;
pub mod config;
mod creating;
mod decommission;
mod discovery;
mod in_flight;
mod inspection_service;
mod listing;
mod mailbox;
mod metrics;
mod owner;
mod reach;
mod ready;
mod run;
mod supervise;
mod throttle;
mod watch_rpc;
mod watches;
mod write_size;

pub use args::Args;
pub use run::run;

/// Describes the writer's metrics, for the reference in the documentation.
#[must_use]
pub fn metrics_reference() -> Vec<gimbal_runtime::MetricDoc> {
    metrics::Metrics::reference()
}
