//! The framework of a discoverer: everything but its source.
//!
//! ```text
//!                  +---------------------- owner (one task) -----------------------+
//!  watches, polls  |                                                               |
//!  and timers ---->| Source -> changed, Standing -> Offer: AgentEnd <--- link <--|--> writer
//!                  |   |                                                           |
//!  questions ----->|   +-> Known -> view -> inspection, metrics, readiness, log    |
//!                  +---------------------------------------------------------------+
//! ```
//!
//! A service supplies a [`Source`] and its own flags. This crate adds the stream to the writer with reconnects,
//! `InspectionService`, metrics, liveness and readiness, reloaded certificates, log lines that are written once for
//! each change, and a goodbye at shutdown:
//!
//! ```no_run
//! # use std::time::Instant;
//! # use gimbal_discoverer::{AgentArgs, Changed, Known, Program, Setup, Source, Standing, Taken};
//! # use gimbal_runtime::{Exit, init_logging, shutdown_token};
//! # struct Cloud; struct Poll;
//! # impl Known for Cloud {
//! #     fn incarnation(&self) -> Option<&str> { None }
//! #     fn identified_by(&self) -> &'static str { "Keystone's URL and the region" }
//! #     fn standing(&self) -> Standing { Standing::Nothing }
//! #     fn freshness(&self, _: Instant) -> Vec<gimbal_session::Freshness> { Vec::new() }
//! #     fn trouble(&self) -> Option<String> { None }
//! #     fn skipped(&self) -> Vec<(&'static str, u64)> { Vec::new() }
//! #     fn explain(&self, _: &gimbal_model::SourceKey) -> Vec<String> { Vec::new() }
//! # }
//! # impl Source for Cloud {
//! #     type Event = Poll; type Known = Self;
//! #     async fn event(&mut self) -> Poll { std::future::pending().await }
//! #     fn take(&mut self, _: Poll, _: Instant) -> Taken { Taken::Told }
//! #     fn settle(&mut self, _: Instant) -> Changed { Vec::new() }
//! #     fn known(&self) -> &Self { self }
//! # }
//! # async fn connect() -> Result<Cloud, Exit> { Ok(Cloud) }
//! #[derive(clap::Parser)]
//! struct Args {
//!     #[command(flatten)]
//!     agent: AgentArgs,
//!     // its own flags
//! }
//!
//! async fn work(args: Args) -> Result<(), Exit> {
//!     init_logging(args.agent.log_format, "info")?;
//!     let shutdown = shutdown_token()?;
//!     let program = Program { name: "gimbal-openstack-discoverer", version: env!("CARGO_PKG_VERSION") };
//!     let setup = Setup::new(args.agent, program)?;
//!     let source = connect().await?; // with setup.source_metrics() and setup.registry()
//!     setup.discover(source).await?.run(shutdown).await
//! }
//! ```
//!
//! # A source that polls
//!
//! It polls in a task of its own that sends whole results into a bounded channel; [`Source::event`] is `recv` on that
//! channel. `take` replaces the previous result, and records in a [`KindHealth`] for each kind how it went. `settle`
//! returns the keys that differ. If a part failed (a project), its offered entries stay as they were, and its namespace
//! is listed in [`Standing::Unknown`] until a poll sees it again; if everything failed, that is
//! [`gimbal_session::Scope::All`]. The incarnation is known once the source is read, so the source never returns
//! [`Taken::Replaced`]. [`Known::rest_is_known`] says whether the parts that it does not list are gone, or may only not
//! have been found yet.
//!
//! # What a source can rely on
//!
//! - Its events are applied whatever the state of the stream: a writer that is slow or away delays nothing.
//! - What it does not return from `settle` stays offered. Nothing is deleted because it is unknown
//!   (docs/design.md#rule-4), and a stream carries data only once something was read and the incarnation is known.
//! - [`Source::rejected`] and [`Source::resolved`] are called once for each change of the writer's answer to a Service.

mod args;
mod backoff;
mod connect;
mod discoverer;
mod health_log;
mod identity;
mod inspect;
mod inspection_view;
mod kind_health;
mod metrics;
mod offer;
pub mod original_flags;
mod owner;
mod places;
mod route;
mod setup;
mod source;
mod stream_io;
mod watchers;

pub use args::AgentArgs;
pub use backoff::Backoff;
pub use discoverer::Discoverer;
pub use kind_health::{Failure, KindHealth, PATIENCE};
pub use metrics::SourceMetrics;
pub use setup::{Program, Setup};
pub use source::{Changed, Known, Source, Standing, Taken};
