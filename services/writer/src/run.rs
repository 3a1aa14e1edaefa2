//! Builds the writer's parts, and ends them in order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use gimbal_kubernetes_client::Cluster;
use gimbal_reconcile::{Reconciler, Settings};
use gimbal_runtime::{
    CertificateMetrics, Exit, Liveness, Readiness, Tasks, bind, init_logging, register_process_metrics,
    serve_admin_with, shutdown_token,
};
use gimbal_session::{Credit, WriterLimits};
use gimbal_status_page::StatusPage;
use gimbal_traces::Traces;
use gimbal_transport::{
    OnRefusal, Reloaded, RightsReview, ServeOptions, ServedServices, Serving, listener_tls, rights, serve,
};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::agent_streams::Streams;
use crate::apply::{WRITE_TIMEOUT, Writes, code};
use crate::args::{Args, BackendsIn};
use crate::backend_events::BackendEvents;
use crate::backend_state::StateKeeper;
use crate::backend_status::{Said, StatusWriter, status_targets};
use crate::backend_watch::BackendWatch;
use crate::cluster_watches;
use crate::config::{Config, ConfigError, Current};
use crate::following::{ConfigSources, Following, Logged};
use crate::inspection_service::{Answers, PROGRAM};
use crate::jobs_in_flight::JobsInFlight;
use crate::metrics::Metrics;
use crate::misnamed::MisnamedAgents;
use crate::owner::{StateOwner, StateOwnerParts};
use crate::publish::LeaderPublisher;
use crate::ready::{ReadinessReport, UNREACHABLE};
use crate::rights::RightsScope;
use crate::supervise::supervise;
use crate::throttle::Throttle;
use crate::watch_liveness::WatchLiveness;
use gimbal_admission::{FollowedFile, read_when_stable};
use gimbal_lease::{Candidate, Fitness, Leadership, Moment};
use gimbal_schedule::WriteLimiter;

/// Name of the Lease that replicas compete for.
const LEASE_NAME: &str = "gimbal-writer";
/// Changes and bytes that a discoverer may have unacknowledged. Enough to keep every write slot busy. When changes come
/// faster than the API server takes them, a newer value replaces the older one here.
const CREDIT: Credit = Credit { changes: 4000, bytes: 8 << 20 };
/// A stream on which the discoverer is silent for this long is closed.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(15);
/// The process counts as stuck when the owner task has not reported for this long.
const HEALTH: Duration = Duration::from_secs(10);

/// Runs until a signal asks it to end.
///
/// # Errors
/// Returns an error if the flags, the files or the ports are not usable, or if a task fails.
pub async fn run(args: Args) -> Result<(), Exit> {
    init_logging(args.log_format, "info")?;
    args.check()?;
    let times = args.lease_times()?;
    let (base, file) = configuration(&args).await?;
    let tls = listener_tls(args.tls.files(), args.plaintext, &args.listen).map_err(Exit::Usage)?;
    let watching = Cluster::connect(&args.access(), PROGRAM).map_err(|error| Exit::Usage(error.to_string()))?;
    let listener = bind("--listen", args.listen).await?;
    let admin_listener = bind("--admin-listen", args.admin_listen).await?;

    let shutdown = shutdown_token()?;
    let mut tasks = Tasks::new(shutdown.clone());
    let (readiness, health, watch_liveness) =
        (Readiness::new(), Liveness::new(HEALTH), WatchLiveness::new(UNREACHABLE));
    let observing = readiness.block("the watches on the Gimbal cluster");
    let mut registry = Registry::default();
    register_process_metrics(&mut registry);
    let metrics = Metrics::register(&mut registry);
    let tls = tls.map(|(credentials, reloader)| {
        let certificate = CertificateMetrics::register(registry.sub_registry_with_prefix("gimbal_writer"));
        let show = move |files: &Reloaded| {
            certificate.show(files.not_after.as_second(), files.problem.is_none(), files.taken);
        };
        let reloading = reloader.run(show, shutdown.clone());
        // A file system that hangs must not delay the end of the process.
        tasks.spawn("the look at the TLS files", until(shutdown.clone(), reloading));
        credentials
    });
    let registry = Arc::new(registry);
    let page = StatusPage::default();
    let here = args.admin_listen.ip().is_loopback();
    let routes = if here || args.status_page { page.router(&args.status_page_hosts) } else { Router::new() };
    let admin = serve_admin_with(routes, admin_listener, registry, readiness.clone(), health.clone(), shutdown.clone());
    tasks.spawn("the admin server", admin);

    // Before agents are accepted: none must be refused because its backend is not known yet.
    let watch = match args.backends {
        BackendsIn::File => None,
        BackendsIn::Objects => {
            let listing = readiness.block("the Backends of the Gimbal cluster");
            let started = awaited(&health, &shutdown, BackendWatch::start(&watching, metrics.clone())).await;
            let Some(watch) = started.transpose()? else { return supervise(tasks, shutdown, None).await };
            listing.done();
            Some(watch)
        }
    };
    let sources = ConfigSources { base, file, watch };
    let config = sources.config();
    let mut logged = Logged::default();
    logged.log(&config, sources.watch.as_ref());
    metrics.backend_objects(sources.watch.as_ref().map(BackendWatch::objects));
    let current = Arc::new(Current::new(config));

    // The lease is released last, when nothing can be written any more.
    let release = CancellationToken::new();
    let namespace = args.own_namespace();
    let address = listener.local_addr();
    let address = address.map_err(|error| Exit::Failure(format!("--listen {}: {error}", args.listen)))?;
    let identity = gimbal_lease::identity(&address);
    let (able, is_able) = watch::channel(true);
    let (leadership, lease) = if args.leader_election {
        let (work_goes, counts) = (health.clone(), metrics.clone());
        let candidate = Candidate {
            cluster: watching.apart(),
            namespace: namespace.clone(),
            name: LEASE_NAME.into(),
            identity: identity.clone(),
            times,
            fitness: Box::new(move || match (work_goes.is_alive(), *is_able.borrow()) {
                (false, _) => Fitness::Hanging,
                (true, false) => Fitness::Unable,
                (true, true) => Fitness::Working,
            }),
            called: Box::new(move |verb, error| counts.lease_called(verb, error.map_or("ok", code))),
        };
        let (leadership, task) = candidate.start(release.clone());
        (leadership, Some(task))
    } else {
        (Leadership::unopposed(), None)
    };

    let mut state = Reconciler::new(Settings {
        api: args.endpoints_api,
        limits: WriterLimits { credit: CREDIT, heartbeat_timeout: HEARTBEAT_TIMEOUT },
        comparison_interval: args.comparison_interval.into(),
    })
    .with_grace(args.loss_grace.into())
    .with_batch_period(args.endpointslice_updates_batch_period.into());
    let (objects, now) = (sources.objects(), Instant::now());
    state.configure(current.config().borrow().policies(), now);
    state.set_objects(objects.clone(), now);
    // The lease, the watches, the writes and the stored state each have their own connections, because a burst of
    // writes must not delay a watch or the lease. Writes are sent only while the lease lasts, however long it takes to
    // connect.
    let (events, relist, mut watch_tasks) = cluster_watches::start(&watching, &metrics, &watch_liveness);
    tasks.spawn("a watch on the Gimbal cluster", {
        let shutdown = shutdown.clone();
        async move {
            tokio::select! {
                // The watches end when the owner drops their receiver.
                biased;
                () = shutdown.cancelled() => Ok(()),
                ended = watch_tasks.join_next() => Err(Exit::Failure(format!("a watch on the Gimbal cluster ended: {ended:?}"))),
            }
        }
    });
    let leads = leadership.clone();
    let permitted = watching.apart().only_while(move || leads.borrow().may_write(Moment::now()));
    let (throttle, limiter) = (Throttle::default(), WriteLimiter::new(&args.limits()));
    let writes = Writes {
        cluster: permitted.clone().with_timeout(WRITE_TIMEOUT),
        leadership: leadership.clone(),
        throttle,
        metrics: metrics.clone(),
        failures: Arc::default(),
    };
    let jobs = JobsInFlight::new(writes, limiter, metrics.clone());
    let traces = Traces::follow(&args.otlp, ("gimbal-writer", env!("CARGO_PKG_VERSION")))?;
    let (keeper, keeping) = StateKeeper::new(permitted.apart(), &namespace, leadership.clone());
    tasks.spawn("the task that keeps the state of backends", async move {
        keeping.await;
        Ok(())
    });
    let (owner, handle) = StateOwner::new(StateOwnerParts {
        state,
        events,
        relist,
        leadership: leadership.clone(),
        able,
        jobs,
        keeper,
        metrics: metrics.clone(),
        traces: traces.clone(),
        health,
    });
    tasks.spawn("the owner", owner.run(shutdown.clone()));
    if let (Some(service), Some(advertised)) = (args.publish.clone(), args.advertise) {
        let publisher = LeaderPublisher {
            cluster: permitted.apart().with_timeout(WRITE_TIMEOUT),
            leadership: leadership.clone(),
            service,
            address: advertised.at(address),
            metrics: metrics.clone(),
        };
        tasks.spawn("the task that publishes the leader", until(shutdown.clone(), publisher.run()));
    }
    let calls = watching.clone();
    let report = ReadinessReport {
        owner: handle.clone(),
        readiness,
        watch_liveness,
        failing: Box::new(move || calls.failing_for()),
        leadership: leadership.clone(),
        identity: identity.clone(),
        metrics: metrics.clone(),
    };
    let (serving, served_now) = watch::channel(Serving { ready: false, leading: false });
    let ready = report.run(observing, serving, shutdown.clone());
    tasks.spawn("the look at readiness", async {
        ready.await;
        Ok(())
    });
    let targets =
        watch::Sender::new(sources.watch.as_ref().map(|watch| status_targets(watch.objects())).unwrap_or_default());
    if sources.watch.is_some() {
        let statuses = StatusWriter {
            cluster: permitted.apart().with_timeout(WRITE_TIMEOUT),
            leadership: leadership.clone(),
            owner: handle.clone(),
            targets: targets.subscribe(),
            events: BackendEvents::new(&permitted.apart(), metrics.clone(), identity.clone()),
            said: Said::default(),
        };
        tasks.spawn("the task that writes the status of Backends", until(shutdown.clone(), statuses.run()));
    }
    let following = Following {
        sources,
        targets,
        objects,
        owner: handle.clone(),
        current: current.clone(),
        metrics: metrics.clone(),
        logged,
    };
    tasks.spawn("the look at the configuration", until(shutdown.clone(), following.run()));

    let misnamed = MisnamedAgents::default();
    let answers = Arc::new(Answers {
        config: current.config(),
        backends: args.backends,
        owner: handle.clone(),
        identity,
        leadership: leadership.clone(),
        misnamed: misnamed.clone(),
        rights: Some(review(&args, &watching, &namespace, current.config())),
    });
    page.show(answers.clone());
    let services = ServedServices {
        discovery: Some(Arc::new(Streams {
            config: current.config(),
            owner: handle,
            metrics: metrics.clone(),
            misnamed,
            shutdown: shutdown.clone(),
            refusals: gimbal_transport::Quiet::default(),
            ends: gimbal_transport::Quiet::default(),
        })),
        inspection: answers.clone(),
        admin: Some(answers),
    };
    let denied = Some(current.denied());
    let on_refusal: OnRefusal = Arc::new(move |refusal| metrics.connection_refused(refusal));
    let options = ServeOptions { tls, denied, on_refusal: Some(on_refusal), serving: Some(served_now) };
    tracing::info!(listen = %args.listen, admin = %args.admin_listen, cluster = watching.url(), namespace, "gimbal-writer started");
    let serving = serve(listener, services, options, shutdown.clone());
    tasks.spawn("the server", async { serving.await.map_err(|error| Exit::Failure(error.to_string())) });
    let ended = supervise(tasks, shutdown, lease.map(|task| (task, release))).await;
    traces.end().await;
    ended
}

/// Returns how missing rights are found: over connections of their own, when somebody asks.
fn review(args: &Args, watching: &Cluster, namespace: &str, config: watch::Receiver<Arc<Config>>) -> RightsReview {
    let scope = RightsScope {
        namespace: namespace.to_owned(),
        elects: args.leader_election,
        objects: args.backends == BackendsIn::Objects,
    };
    let cluster = watching.apart();
    Arc::new(move || {
        let creates = config.borrow().backends.iter().any(|backend| backend.policy.namespaces.create);
        let (needed, cluster) = (scope.needed(creates), cluster.clone());
        Box::pin(async move { rights(cluster.missing_rights(&needed)).await })
    })
}

/// Runs `work` until it ends or `shutdown`.
async fn until(shutdown: CancellationToken, work: impl Future<Output = ()>) -> Result<(), Exit> {
    shutdown.run_until_cancelled(work).await;
    Ok(())
}

/// Reads the file, if there is one.
async fn configuration(args: &Args) -> Result<(Config, Option<FollowedFile>), Exit> {
    let wrong = |error: ConfigError| Exit::Usage(error.to_string());
    match (&args.config, args.backends) {
        (Some(path), backends) => {
            let text = read_when_stable::<Config>(path).await.map_err(wrong)?;
            let config = Config::parse(path, &text).map_err(wrong)?;
            let config = match backends {
                BackendsIn::File => config,
                BackendsIn::Objects => config.without_backends().map_err(wrong)?,
            };
            Ok((config, Some(FollowedFile::new(path.clone(), &text))))
        }
        (None, BackendsIn::Objects) => Ok((Config::default(), None)),
        (None, BackendsIn::File) if args.plaintext => Ok((Config::first_look(), None)),
        (None, BackendsIn::File) => {
            let message = "--config is required: it names the backends and their identities (only --plaintext does without, for a first look)";
            Err(Exit::Usage(message.into()))
        }
    }
}

/// Does `work`, and counts as alive meanwhile. Returns `None` if the process is to end before.
async fn awaited<T>(health: &Liveness, shutdown: &CancellationToken, work: impl Future<Output = T>) -> Option<T> {
    let mut work = std::pin::pin!(work);
    let mut beat = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            done = &mut work => return Some(done),
            () = shutdown.cancelled() => return None,
            _ = beat.tick() => health.beat(),
        }
    }
}
