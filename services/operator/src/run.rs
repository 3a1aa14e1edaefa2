//! Builds the parts of the operator, and ends them in order.

use std::sync::Arc;
use std::time::Duration;

use gimbal_kubernetes_client::Cluster;
use gimbal_lease::{Candidate, Fitness, Leadership, Moment, Times, identity};
use gimbal_runtime::{
    Exit, Liveness, Readiness, Tasks, bind, forbid_core_dumps, init_logging, register_process_metrics, serve_admin,
    shutdown_token,
};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::args::Args;
use crate::metrics::OperatorMetrics;
use crate::owner::{Operator, OperatorParts};

/// Name of the Lease.
const LEASE_NAME: &str = "gimbal-operator";
/// The process counts as stuck when the owner has not reported for this long: longer than a write may take.
const HEALTH: Duration = Duration::from_secs(30);
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
const AGENT: &str = concat!("gimbal-operator/", env!("CARGO_PKG_VERSION"));

/// Runs until a signal asks it to end.
///
/// # Errors
/// Returns an error if the flags, the credentials or the port are not usable, or if a task fails.
pub async fn run(args: Args) -> Result<(), Exit> {
    init_logging(args.log_format, "info")?;
    forbid_core_dumps()?;
    let times = args.check()?;
    let cluster =
        Cluster::connect(&args.access(), AGENT).map_err(|error| Exit::Usage(format!("--kubeconfig: {error}")))?;
    let admin_listener = bind("--admin-listen", args.admin_listen).await?;

    let shutdown = shutdown_token()?;
    let mut tasks = Tasks::new(shutdown.clone());
    let (readiness, health) = (Readiness::new(), Liveness::new(HEALTH));
    let listing = readiness.block("the watches on the Gimbal cluster");
    let mut registry = Registry::default();
    register_process_metrics(&mut registry);
    let metrics = OperatorMetrics::register(&mut registry);
    metrics.set_version();
    let admin = serve_admin(admin_listener, Arc::new(registry), readiness, health.clone(), shutdown.clone());
    tasks.spawn("the admin server", admin);

    // The lease is released last, when nothing can be written any more.
    let release = CancellationToken::new();
    let (leadership, lease) = compete(&args, times, &cluster, &metrics, &health, &release);
    let leads = leadership.clone();
    let permitted = cluster.apart().only_while(move || leads.borrow().may_write(Moment::now()));
    let owner = Operator::new(OperatorParts {
        cluster,
        permitted: permitted.with_timeout(WRITE_TIMEOUT),
        leadership,
        identity: own_identity(&args),
        settings: args.settings(),
        lifetime: args.certificate_duration.into(),
        metrics,
        health,
        listing,
    });
    tasks.spawn("the owner", owner.run(shutdown.clone()));
    tracing::info!(admin = %args.admin_listen, namespace = %args.own_namespace(), "gimbal-operator started");

    let Some(mut lease) = lease else {
        tasks.run().await?;
        return tasks.ended().await;
    };
    let ended = tokio::select! {
        ended = tasks.run() => ended,
        failed = &mut lease => {
            shutdown.cancel();
            tasks.ended().await?;
            return Err(Exit::Failure(format!("the lease's task ended: {failed:?}")));
        }
    };
    let ended = ended.and(tasks.ended().await);
    release.cancel();
    let released = lease.await.map_err(|error| Exit::Failure(format!("the lease's task failed: {error}")));
    ended.and(released)
}

/// Returns what this process is called in the Lease and in Events.
fn own_identity(args: &Args) -> String {
    let identity = identity(&args.admin_listen);
    // With any free port, the address is that of every such process.
    if args.admin_listen.port() == 0 { format!("{identity}_{}", std::process::id()) } else { identity }
}

/// Begins to compete for the Lease, unless `--leader-election false`.
fn compete(
    args: &Args,
    times: Times,
    cluster: &Cluster,
    metrics: &OperatorMetrics,
    health: &Liveness,
    release: &CancellationToken,
) -> (watch::Receiver<Leadership>, Option<JoinHandle<()>>) {
    if !args.leader_election {
        return (Leadership::unopposed(), None);
    }
    let (works, called) = (health.clone(), metrics.clone());
    let candidate = Candidate {
        cluster: cluster.apart(),
        namespace: args.own_namespace(),
        name: LEASE_NAME.into(),
        identity: own_identity(args),
        times,
        fitness: Box::new(move || if works.is_alive() { Fitness::Working } else { Fitness::Hanging }),
        called: Box::new(move |verb, error| called.lease_called(verb, error)),
    };
    let (leadership, task) = candidate.start(release.clone());
    (leadership, Some(task))
}
