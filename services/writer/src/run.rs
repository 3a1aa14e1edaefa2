//! Puts the parts together, and takes them apart in order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_kube_io::Cluster;
use gimbal_link::{
    Credentials, OnRefusal, Reloaded, Reloader, ServeOptions, Services, TlsFiles, plaintext_allowed, serve,
};
use gimbal_operate::{CertificateMetrics, Exit, Health, Readiness, bind, init_logging, serve_admin, shutdown_token};
use gimbal_reconcile::{Reconciler, Settings};
use gimbal_stream::{Credit, WriterLimits};
use prometheus_client::registry::Registry;

use crate::apply::{WRITE_TIMEOUT, Writes};
use crate::args::Args;
use crate::config::{self, Config, Current, Followed};
use crate::discovery::Streams;
use crate::inspect::Answers;
use crate::keep::Keeper;
use crate::lanes::Lanes;
use crate::lease::{self, Leadership};
use crate::mailbox::Handle;
use crate::metrics::Metrics;
use crate::owner::{Owner, Parts};
use crate::pace::Pace;
use crate::pause::Pause;
use crate::watches;

/// Changes and bytes that an agent may have unacknowledged: enough to keep every write lane busy, and, when the API server
/// takes fewer changes than come, for the newest value of what waits here to take the place of the older one.
const CREDIT: Credit = Credit { changes: 4000, bytes: 8 << 20 };
/// An agent that is silent for so long is gone.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(15);
/// Beats that the owner may miss before the process counts as stuck.
const HEALTH: Duration = Duration::from_secs(10);
const AGENT: &str = concat!("gimbal-writer/", env!("CARGO_PKG_VERSION"));

/// Runs until it is told to end.
///
/// # Errors
/// What was wrong with the flags, the files or the ports.
pub async fn run(args: Args) -> Result<(), Exit> {
    init_logging(args.log_format, "info")?;
    let (config, file) = configuration(&args)?;
    tell_doubts(&config);
    let current = Arc::new(Current::new(config));
    let tls = tls(&args)?;
    let connect = || Cluster::connect(&args.access(), AGENT).map_err(|error| Exit::Usage(error.to_string()));
    // Each has its own connections: a burst of writes must not stand before a watch or the lease.
    let (watching, writing) = (connect()?, connect()?.with_timeout(WRITE_TIMEOUT));
    let (leasing, keeping) = (connect()?, connect()?);
    let listener = bind("--listen", args.listen).await?;
    let admin_listener = bind("--admin-listen", args.admin_listen).await?;

    let shutdown = shutdown_token()?;
    let (readiness, health) = (Readiness::new(), Health::new(HEALTH));
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let tls = tls.map(|(credentials, reloader)| {
        let certificate = CertificateMetrics::default();
        certificate.register(registry.sub_registry_with_prefix("gimbal_writer"));
        let show = move |files: &Reloaded| {
            certificate.show(files.not_after.as_second(), files.problem.is_none(), files.taken);
        };
        tokio::spawn(reloader.run(show, shutdown.clone()));
        credentials
    });
    let admin = tokio::spawn(serve_admin(
        admin_listener,
        Arc::new(registry),
        readiness.clone(),
        health.clone(),
        shutdown.clone(),
    ));

    // The lease is given back last, when nothing can be written any more.
    let release = tokio_util::sync::CancellationToken::new();
    let namespace = args.own_namespace();
    let (leadership, lease) = if args.leader_election {
        let identity = lease::identity(&args.listen);
        lease::start(leasing, &namespace, &identity, release.clone())
    } else {
        Leadership::unopposed()
    };

    let mut state = Reconciler::new(Settings {
        api: args.endpoints_api,
        limits: WriterLimits { credit: CREDIT, heartbeat_timeout: HEARTBEAT_TIMEOUT },
        comparison_interval: args.comparison_interval.into(),
    });
    state.configure(current.config().borrow().policies(), Instant::now());
    let (events, watch_tasks) = watches::start(&watching, &metrics);
    let (pause, pace) = (Pause::default(), Pace::new(&args.pace()));
    let writes = Writes { cluster: writing, leadership: leadership.clone(), pause, metrics: metrics.clone() };
    let lanes = Lanes::new(writes, pace, metrics.clone());
    let keeper = Keeper::start(keeping, &namespace, leadership.clone());
    let observing = readiness.block("the watches on the Gimbal cluster");
    let (owner, handle) =
        Owner::new(Parts { state, events, leadership, lanes, keeper, metrics: metrics.clone(), health });
    let owner = tokio::spawn(owner.run(shutdown.clone()));
    tokio::spawn(report_ready(handle.clone(), observing, shutdown.clone()));
    if let Some(file) = file {
        let following = follow(file, handle.clone(), current.clone(), metrics.clone());
        tokio::spawn(shutdown.clone().run_until_cancelled_owned(following));
    }

    let answers = Arc::new(Answers { config: current.config(), owner: handle.clone() });
    let services = Services {
        discovery: Some(Arc::new(Streams {
            config: current.config(),
            owner: handle,
            metrics: metrics.clone(),
            shutdown: shutdown.clone(),
        })),
        inspection: answers.clone(),
        admin: Some(answers),
    };
    let denied = Some(current.denied());
    let on_refusal: OnRefusal = Arc::new(move |refusal| metrics.connection_refused(refusal));
    let options = ServeOptions { tls, denied, on_refusal: Some(on_refusal) };
    tracing::info!(listen = %args.listen, admin = %args.admin_listen, cluster = watching.url(), namespace, "gimbal-writer runs");
    let served = serve(listener, services, options, shutdown.clone()).await;

    // Whatever ended the server ends the rest.
    shutdown.cancel();
    let owned = owner.await;
    release.cancel();
    if let Some(lease) = lease {
        lease.await.map_err(|error| Exit::Failure(format!("the lease's task failed: {error}")))?;
    }
    drop(watch_tasks);
    admin.await.map_err(|error| Exit::Failure(format!("the admin server's task failed: {error}")))??;
    owned.map_err(|error| Exit::Failure(format!("the owner's task failed: {error}")))?;
    served.map_err(|error| Exit::Failure(error.to_string()))
}

fn configuration(args: &Args) -> Result<(Config, Option<Followed>), Exit> {
    match &args.config {
        Some(path) => {
            let text = config::text(path).map_err(|error| Exit::Usage(error.to_string()))?;
            let config = Config::parse(path, &text).map_err(|error| Exit::Usage(error.to_string()))?;
            Ok((config, Some(Followed::new(path.clone(), text))))
        }
        None if args.plaintext => Ok((Config::first_look(), None)),
        None => {
            let message = "--config is required: it names the backends and their identities (only --plaintext does without, for a first look)";
            Err(Exit::Usage(message.into()))
        }
    }
}

fn tell_doubts(config: &Config) {
    for doubt in config.doubts() {
        tracing::warn!("{doubt}");
    }
}

/// Puts each new configuration in force. One that is wrong is told, and the one before stays.
async fn follow(mut file: Followed, owner: Handle, current: Arc<Current>, metrics: Metrics) {
    loop {
        match file.changed().await {
            Ok(config) => {
                tell_doubts(&config);
                let policies = config.policies();
                let backends = policies.len();
                // The state goes first: an agent of a new backend that is let in finds its backend known.
                if owner.ask(move |state| state.configure(policies, Instant::now())).await.is_err() {
                    return;
                }
                current.replace(config);
                metrics.config_read(true);
                tracing::info!(backends, "the configuration file changed, and is in force");
            }
            Err(error) => {
                metrics.config_read(false);
                tracing::error!(%error, "the configuration file changed and is wrong; the one before stays in force");
            }
        }
    }
}

fn tls(args: &Args) -> Result<Option<(Credentials, Reloader)>, Exit> {
    match (args.tls.files(), args.plaintext) {
        (Ok(Some((cert, key, ca))), false) => {
            Credentials::load(TlsFiles { cert, key, ca }).map(Some).map_err(|error| Exit::Usage(error.to_string()))
        }
        (Ok(None), true) if plaintext_allowed(&args.listen) => Ok(None),
        (Ok(None), true) => {
            Err(Exit::Usage(format!("--plaintext: --listen {} is not a loopback address; use TLS there", args.listen)))
        }
        (Ok(None), false) => Err(Exit::Usage(
            "--tls-cert, --tls-key and --tls-ca are required (or --plaintext on a loopback address)".into(),
        )),
        (_, true) => Err(Exit::Usage("--plaintext and --tls-cert, --tls-key, --tls-ca exclude each other".into())),
        (Err(missing), false) => Err(Exit::Usage(missing)),
    }
}

/// Ready is who has seen the Gimbal cluster, whether it leads or not: a follower takes over at once.
async fn report_ready(owner: Handle, observing: gimbal_operate::Guard, shutdown: tokio_util::sync::CancellationToken) {
    let mut poll = tokio::time::interval(Duration::from_millis(50));
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = poll.tick() => match owner.ask(|state| state.has_observed()).await {
                Ok(true) => break,
                Ok(false) => {}
                Err(_) => return,
            },
        }
    }
    observing.done();
    tracing::info!("the Gimbal cluster is observed");
}
