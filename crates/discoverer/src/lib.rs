//! The framework of a discoverer: everything but its source.
//!
//! ```text
//!                  +---------------------- owner (one task) -----------------------+
//!  watches, polls  |                                                               |
//!  and timers ---->| Source -> changed, Coverage -> AgentEnd <---------- link <--|--> writer
//!                  |   |                                                           |
//!  calls ---------->|   +-> SourceStatus -> inspection, metrics, readiness, log     |
//!                  +---------------------------------------------------------------+
//! ```
//!
//! A service supplies a [`Source`] and its own flags. This crate adds the stream to the writer with reconnects,
//! `InspectionService`, metrics, liveness and readiness, reloaded certificates, log lines that are written once for
//! each change, and a goodbye at shutdown. All of it is generic over what is offered, an [`OfferedPayload`], with
//! Services as the default:
//!
//! ```no_run
//! # use std::time::Instant;
//! # use gimbal_discoverer::{AgentArgs, Changed, SourceStatus, Program, Setup, Source, Coverage, EventEffect};
//! # use gimbal_runtime::{Exit, init_logging, shutdown_token};
//! # struct Cloud; struct Poll;
//! # impl SourceStatus for Cloud {
//! #     fn incarnation(&self) -> Option<&str> { None }
//! #     fn identified_by(&self) -> &'static str { "Keystone's URL and the region" }
//! #     fn coverage(&self) -> Coverage { Coverage::Nothing }
//! #     fn freshness(&self, _: Instant) -> Vec<gimbal_session::Freshness> { Vec::new() }
//! #     fn trouble(&self) -> Option<String> { None }
//! #     fn skipped(&self) -> Vec<(&'static str, u64)> { Vec::new() }
//! #     fn explain(&self, _: &gimbal_model::SourceKey) -> Vec<String> { Vec::new() }
//! # }
//! # impl Source for Cloud {
//! #     type Event = Poll; type Status = Self;
//! #     async fn event(&mut self) -> Poll { std::future::pending().await }
//! #     fn apply(&mut self, _: Poll, _: Instant) -> EventEffect { EventEffect::Continues }
//! #     fn drain(&mut self, _: Instant) -> Changed { Vec::new() }
//! #     fn status(&self) -> &Self { self }
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
//! channel. `apply` replaces the previous result, and records in a [`KindHealth`] for each kind how it went. `drain`
//! returns the keys that differ. If a part failed (a project), its offered entries stay as they were, and its namespace
//! is listed in [`Coverage::Unknown`] until a poll sees it again; if everything failed, that is
//! [`gimbal_session::Scope::All`]. The incarnation is known once the source is read, so the source never returns
//! [`EventEffect::Replaced`]. [`SourceStatus::rest_is_known`] says whether the parts that it does not list are gone, or
//! may only not have been found yet.
//!
//! # What a source can rely on
//!
//! - Its events are applied whatever the state of the stream: a writer that is slow or away delays nothing.
//! - What it does not return from `drain` stays offered. Nothing is deleted because it is unknown
//!   (docs/design.md#rule-4), and a stream carries data only once something was read and the incarnation is known.
//! - [`Source::rejected`] and [`Source::resolved`] are called once for each change of the writer's answer to an entry.
//! - A report of the writer is acknowledged when the source replies [`SourceReply::Handled`], and not before. Until then
//!   the writer sends it again on every new stream.

mod args;
mod dial_order;
mod dial_pauses;
mod dialling;
mod discoverer;
mod from_writer;
mod health_log;
mod inspection_service;
mod inspection_view;
mod jittered_backoff;
mod kind_health;
mod link;
mod metrics;
pub mod original_flags;
mod own_names;
mod owner_stream;
mod owner_task;
mod payload;
mod publisher;
mod setup;
mod source;
mod watchers;

pub use args::AgentArgs;
pub use discoverer::Discoverer;
pub use from_writer::{ContentRequest, SourceReply, UnhandledReport};
pub use gimbal_traces::TraceArgs;
pub use gimbal_transport::{RightsReview, rights};
pub use jittered_backoff::JitteredBackoff;
pub use kind_health::{KindFailure, KindHealth, PATIENCE};
pub use metrics::{SourceMetrics, metrics_reference};
pub use payload::OfferedPayload;
pub use setup::{Program, Setup};
pub use source::{Changed, Coverage, EventEffect, MaySpeak, Source, SourceStatus};
