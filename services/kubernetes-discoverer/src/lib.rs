//! Offers the Services of one Kubernetes cluster to a Gimbal writer. It only reads its source, unless
//! `--write-events` lets it write Events.
//!
//! ```text
//!  Services, EndpointSlices --watches--+
//!                                      +--> Kubernetes --> gimbal-discoverer (owner, stream, inspection, metrics)
//!  namespace kube-system ---identify---+        |    |
//!                                               |    +---events---> Events on its Services
//!                                         SourceState: KubernetesIndex
//! ```

mod args;
mod events;
mod rights;
mod source;
mod source_state;

use gimbal_discoverer::{Discoverer, Program, Setup, Source};
use gimbal_kubernetes_client::{Access, Cluster};
use gimbal_runtime::{Exit, MetricDoc};

pub use crate::args::Args;
use crate::events::{EventMetrics, EventWriter};
use crate::source::Kubernetes;

const PROGRAM: Program = Program { name: "gimbal-kubernetes-discoverer", version: env!("CARGO_PKG_VERSION") };

/// Checks everything that can be wrong before anything runs, and binds the listeners.
///
/// # Errors
/// [`Exit::Usage`], in one line, when a flag or a file it names is wrong; [`Exit::Failure`] when an address is taken.
pub async fn discoverer(args: Args) -> Result<Discoverer<impl Source>, Exit> {
    args.check().map_err(Exit::Usage)?;
    let warnings = args.warnings();
    let selection = args.selection();
    let backend = args.agent.backend_name.clone();
    let mut setup = Setup::new(args.agent, PROGRAM)?;
    setup.trace(args.traces);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let access = args.kubeconfig.map_or(Access::Default, Access::Kubeconfig);
    let cluster = Cluster::connect(&access, &PROGRAM.to_string())
        .map_err(|error| Exit::Usage(format!("--kubeconfig: {error}")))?;
    setup.review_rights(rights::review(&cluster));
    let events =
        args.write_events.then(|| EventWriter::start(&cluster, backend, EventMetrics::register(setup.registry())));
    let source = Kubernetes::new(cluster, selection, setup.source_metrics(), events);
    setup.discover(source).await
}

/// Describes the metrics that only this discoverer has, and only with `--write-events`.
#[must_use]
pub fn metrics_reference() -> Vec<MetricDoc> {
    EventMetrics::reference()
}
