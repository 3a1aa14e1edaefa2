//! Servers for tests and the demo, real and scripted ones: clusters, clouds, certificates, Gimbal's binaries, and
//! helpers that wait for results.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! let cluster = gimbal_testkit::TestCluster::start().await?;
//! let writer = cluster.user("writer")?;
//! cluster.grant(&writer, &[gimbal_testkit::Rule::read("", &["services"])]).await?;
//! println!("kubectl --kubeconfig {} get services -A", writer.kubeconfig().display());
//! # Ok(())
//! # }
//! ```
//!
//! Everything is kept in a temporary folder and ends with the value that started it, or with the test process.

pub mod answering;
pub mod api_proxy;
pub mod captured_log;
pub mod cluster;
pub mod contour;
pub mod exposition;
pub mod fake_openstack;
pub mod openstack;
#[cfg(feature = "otlp-receiver")]
pub mod otlp_receiver;
pub mod pki;
pub mod process;
pub mod promtool;
pub mod scripted_cluster;
#[cfg(feature = "scripted-openstack")]
pub mod scripted_openstack;
#[cfg(feature = "scripted-writer")]
pub mod scripted_writer;
pub mod tls_front;
pub mod wait;
pub mod without_network;

pub use gimbal_assets as assets;

pub use answering::Answering;
pub use api_proxy::ApiProxy;
pub use captured_log::CapturedLog;
pub use cluster::{AuditEntry, PooledCluster, Rights, Rule, TestCluster, UserAccess};
pub use contour::{Contour, EnvoyAnswer, EnvoyClient};
#[cfg(feature = "otlp-receiver")]
pub use otlp_receiver::{OtlpReceiver, ReceivedSpan};
pub use pki::{Pair, Pki, San, fingerprint};
pub use process::{Exit, Process};
pub use scripted_cluster::ScriptedCluster;
pub use tls_front::terminate_tls;
pub use wait::eventually;
pub use without_network::{again_without_network, is_without_network};
