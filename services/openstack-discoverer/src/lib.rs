//! Streams the load balancers of one OpenStack cloud, as Services, to a Gimbal writer.
//!
//! ```text
//!                    +--------------- owner (gimbal-discoverer, one task) ----------------+
//!  replies --------> |  CloudSource --> PollState: CloudPoller --> changes, Coverage      |--> stream
//!  a poll is due --> |     |  next_query                                                  |
//!                    +-----|--------------------------------------------------------------+
//!                          v
//!                    fetch (gimbal-openstack-client), some at a time
//! ```
//!
//! `CloudSource` does the I/O: it keeps time, executes queries and returns the replies. The pure crate
//! `gimbal-openstack-source` decides what to query and when an object is gone; `gimbal-discoverer` has what all
//! discoverers share.

mod args;
mod credentials_source;
mod entry;
mod fetch;
mod metrics;
mod poll_state;
mod source;

use gimbal_discoverer::{Discoverer, Program, Setup, Source};
use gimbal_runtime::{Exit, MetricDoc};

pub use crate::args::{Args, ModeWanted, Naming};
use crate::metrics::CloudSourceMetrics;
use crate::source::{CloudSource, Pace};

const PROGRAM: Program = Program { name: "gimbal-openstack-discoverer", version: env!("CARGO_PKG_VERSION") };

/// Checks the configuration before anything runs, including the credentials at Keystone, and binds the listeners. A
/// Keystone that does not answer is not an error: the discoverer retries until it does.
///
/// # Errors
/// [`Exit::Usage`], in one line, when a flag, a file it names or the credentials are wrong; [`Exit::Failure`] when an
/// address is taken.
pub async fn discoverer(args: Args) -> Result<Discoverer<impl Source>, Exit> {
    args.check().map_err(Exit::Usage)?;
    for warning in args.warnings() {
        tracing::warn!("{warning}");
    }
    let mut setup = Setup::new(args.agent.clone(), PROGRAM)?;
    setup.trace(args.traces.clone());
    let metrics = CloudSourceMetrics::new(setup.source_metrics(), setup.registry());
    let mut source = CloudSource::new(&args, Pace::of(&args), metrics)?;
    source.first_entry().await?;
    setup.discover(source).await
}

/// Describes the metrics that only this discoverer has.
#[must_use]
pub fn metrics_reference() -> Vec<MetricDoc> {
    metrics::reference()
}
