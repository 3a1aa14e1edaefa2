//! The frame of a process: arguments, logging, signals, exit codes, and the admin endpoint. What all services have in
//! common, so that an operator learns it once.
//!
//! ```no_run
//! # #[derive(clap::Parser)] struct Args {}
//! # async fn work(_: Args) -> Result<(), gimbal_runtime::Exit> { Ok(()) }
//! fn main() -> std::process::ExitCode {
//!     match gimbal_runtime::parse::<Args>() {
//!         Ok(args) => gimbal_runtime::run("gimbal-example", std::num::NonZeroUsize::MIN, work(args)),
//!         Err(code) => code,
//!     }
//! }
//! ```

mod admin;
mod args;
mod certificate;
mod core_dumps;
mod exit;
mod flags;
mod gauge_set;
mod json_lines;
mod listen;
mod liveness;
mod log_lines;
mod logging;
mod metrics;
mod process;
mod readiness;
mod shutdown;
mod tasks;

pub use admin::{serve_admin, serve_admin_with};
pub use args::parse;
pub use certificate::CertificateMetrics;
pub use core_dumps::forbid_core_dumps;
pub use exit::{Exit, run};
pub use flags::{TlsArgs, at_least};
pub use gauge_set::GaugeSet;
pub use gimbal_duration::{HumanDuration, InvalidDuration};
pub use listen::bind;
pub use liveness::Liveness;
pub use logging::{LogFormat, init_logging};
pub use metrics::{InfoMetric, MetricDoc, TableMetric, describe_row, register_row};
pub use process::{process_metrics_reference, register_process_metrics};
/// For [`metrics_table`].
#[doc(hidden)]
pub use prometheus_client;
pub use readiness::{Readiness, ReadinessGuard};
pub use shutdown::shutdown_token;
pub use tasks::Tasks;
