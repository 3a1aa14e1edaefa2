//! The writer: the only process with write access to the Gimbal cluster. Discoverers stream to it what their sources
//! offer, and it makes the Gimbal cluster match.
//!
//! ```text
//!  discoverers -> agent_streams -+                       +-> jobs_in_flight, apply -> API server
//!                                +-> owner (Reconciler) -+-> backend_state         -> ConfigMaps
//!  API server -> cluster_watches +          ^            +-> agent_streams         -> discoverers
//!  people -> inspection_service, admin -----+
//!
//!  lease -> publish -> API server: the slice of the Service that leads to the leader
//! ```

mod admin;
mod agent_streams;
mod apply;
mod args;
mod backend_events;
mod backend_look;
mod backend_state;
mod backend_status;
mod backend_watch;
mod cluster_watches;
pub mod config;
mod creating;
mod decommission;
mod following;
mod inspection_service;
mod jobs_in_flight;
mod lag;
mod links;
mod listing;
mod mailbox;
mod metrics;
mod misnamed;
mod owner;
mod publish;
mod ready;
mod rehearsal;
mod reject_lines;
mod rights;
mod run;
mod status_page;
mod supervise;
mod throttle;
mod watch_liveness;
mod watch_rpc;
mod write_size;

pub use args::Args;
pub use run::run;

/// Describes the writer's metrics, for the reference in the documentation.
#[must_use]
pub fn metrics_reference() -> Vec<gimbal_runtime::MetricDoc> {
    metrics::Metrics::reference()
}
