//! Makes a KuryrLoadBalancer for each Service of one cluster, and streams it to gimbal-openstack-writer.
//!
//! ```text
//!  Services, EndpointSlices,                           +--> gimbal-discoverer (owner, stream, inspection, metrics)
//!  KuryrLoadBalancers, Nodes --watches--> KuryrSource -+
//!  Ingresses, KuryrL7Routers -----^           |  |     +--> Events on Services and Ingresses
//!  Secrets: hashes, names of hosts ^          |  |
//!  namespace kube-system -----identify-->     |  |
//!  Lease ---------------------candidate->     |  |
//!                                cores: KuryrController --writes--> finalizers, KuryrLoadBalancers, statuses
//!                                       RouterController --writes-> finalizers, KuryrL7Routers, statuses
//! ```
//!
//! All decisions are made by `gimbal-kuryr-controller-core` and, with `--ingress`, `gimbal-kuryr-router-core`, which are pure.
//! What must always be true is in docs/way-back.md#rules.

mod args;
mod certificate;
mod contents;
mod election;
mod kinds;
mod kuryr_metrics;
mod metrics;
mod notice;
mod rights;
mod source;
mod state;
mod writes;

use std::net::SocketAddr;
use std::time::Duration;

use gimbal_discoverer::{Discoverer, Program, Setup};
use gimbal_kubernetes_client::Cluster;
use gimbal_kuryr_wire::Kuryr;
use gimbal_lease::Moment;
use gimbal_runtime::{Exit, Liveness};
use tokio_util::sync::CancellationToken;

pub use crate::args::Args;
use crate::election::LeaseTask;
use crate::kuryr_metrics::KuryrMetrics;
use crate::metrics::ControllerMetrics;
pub use crate::metrics::metrics_reference;
use crate::source::{KuryrSource, SourceParts};

const PROGRAM: Program = Program { name: "gimbal-kuryr-controller", version: env!("CARGO_PKG_VERSION") };

/// How long a write may take. Whether one without an answer by then took effect is unknown.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// The lease is renewed while the owner's loop turned within this time. It turns at least once a second.
const WORKS: Duration = Duration::from_secs(10);

/// A controller that is ready to run, with its listeners bound.
pub struct Controller {
    discoverer: Discoverer<KuryrSource, Kuryr>,
    lease: LeaseTask,
}

/// Checks everything that can be wrong before anything runs, and binds the listeners.
///
/// # Errors
/// [`Exit::Usage`], in one line, when a flag or a file it names is wrong; [`Exit::Failure`] when an address is taken.
pub async fn controller(args: Args) -> Result<Controller, Exit> {
    args.lease_times().map_err(Exit::Usage)?;
    let mut setup = Setup::new(args.agent(), PROGRAM)?;
    setup.trace(args.traces.clone());
    let metrics = ControllerMetrics::register(setup.registry());
    metrics.set_dry_run(args.writer.is_empty());
    let kuryr_metrics = KuryrMetrics::register(setup.registry());
    let cluster = Cluster::connect(&args.access(), &PROGRAM.to_string())
        .map_err(|error| Exit::Usage(format!("--kubeconfig: {error}")))?;
    setup.review_rights(rights::review(&args, &cluster));
    let works = Liveness::new(WORKS);
    let (lease, leadership) = LeaseTask::start(&args, &cluster, works.clone(), &metrics)?;
    // The lease, the watches and the writes each have their own connections, because a burst of writes must not delay a watch
    // or the lease. A write is sent only while the lease lasts, however long it takes to connect.
    let leads = leadership.clone();
    let permitted = cluster.apart().only_while(move || leads.borrow().may_write(Moment::now()));
    let source = KuryrSource::new(SourceParts {
        cluster_name: args.cluster_name.clone(),
        cluster,
        permitted: permitted.with_timeout(WRITE_TIMEOUT),
        write_concurrency: args.write_concurrency.into(),
        settings: args.settings(),
        router_settings: args.router_settings(),
        leadership,
        works,
        source_metrics: setup.source_metrics(),
        metrics,
        kuryr_metrics,
    });
    Ok(Controller { discoverer: setup.discover(source).await?, lease })
}

impl Controller {
    /// Returns the address where inspection is served.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn listen_address(&self) -> std::io::Result<SocketAddr> {
        self.discoverer.listen_address()
    }

    /// Runs until `shutdown`, then ends within a few seconds and releases the lease last.
    ///
    /// # Errors
    /// Returns an error when a part of the process fails, but not when the cluster or the writer does.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Exit> {
        let work = Box::pin(self.discoverer.run(shutdown.clone()));
        self.lease.around(work, shutdown).await
    }
}
