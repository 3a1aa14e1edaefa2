//! Builds the parts of openstack-writer, and ends them in order.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gimbal_admission::{FileFormat as _, FollowedFile, read_when_stable};
use gimbal_kuryr_wire::FILE_DESCRIPTOR_SET;
use gimbal_kuryr_wire::pb::admin_service_server::AdminServiceServer;
use gimbal_kuryr_wire::pb::inspection_service_server::InspectionServiceServer;
use gimbal_octavia_registry::RegistrySettings;
use gimbal_openstack_client::{ClientOptions, Error};
use gimbal_runtime::{
    CertificateMetrics, Exit, Liveness, Readiness, Tasks, bind, forbid_core_dumps, init_logging,
    register_process_metrics, serve_admin, shutdown_token,
};
use gimbal_traces::Traces;
use gimbal_transport::{
    AdminGate, Availability, MAX_QUESTION, OnRefusal, Reloaded, ServeOptions, ServiceBuilder, Serving, listener_tls,
    serve_services,
};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::administration::ClusterAdministration;
use crate::args::Args;
use crate::cloud_access::CloudAccess;
use crate::clusters::{Clusters, SharedConfig};
use crate::config::ClustersConfig;
use crate::inspection::ClusterInspection;
use crate::look_up::LookUps;
use crate::mailbox::OwnerHandle;
use crate::metrics::CloudWriterMetrics;
use crate::owner::ClustersOwner;
use crate::streams::ControllerStreams;

/// The process counts as stuck when the owner task has not reported for this long.
const HEALTH: Duration = Duration::from_secs(10);
/// Program and version.
pub(crate) const AGENT: &str = concat!("gimbal-openstack-writer/", env!("CARGO_PKG_VERSION"));

/// Runs until a signal asks it to end.
///
/// # Errors
/// Returns an error if the flags, the files, the credentials or the ports are not usable, or if a task fails.
pub async fn run(args: Args) -> Result<(), Exit> {
    init_logging(args.log_format, "info")?;
    forbid_core_dumps()?;
    args.check().map_err(Exit::Usage)?;
    let text = read_when_stable::<ClustersConfig>(&args.config).await;
    let text = text.map_err(|error| Exit::Usage(error.to_string()))?;
    let config = ClustersConfig::parse(&args.config, &text).map_err(|error| Exit::Usage(error.to_string()))?;
    let file = FollowedFile::new(args.config.clone(), &text);
    let tls = listener_tls(args.tls.files(), args.plaintext, &args.listen).map_err(Exit::Usage)?;
    let traces = Traces::follow(&args.otlp, ("gimbal-openstack-writer", env!("CARGO_PKG_VERSION")))?;
    let cloud = connect(&args).await?;
    let listener = bind("--listen", args.listen).await?;
    let admin_listener = bind("--admin-listen", args.admin_listen).await?;

    let shutdown = shutdown_token()?;
    let mut tasks = Tasks::new(shutdown.clone());
    let (readiness, health) = (Readiness::new(), Liveness::new(HEALTH));
    let mut registry = Registry::default();
    register_process_metrics(&mut registry);
    let metrics = CloudWriterMetrics::register(&mut registry);
    let tls = tls.map(|(credentials, reloader)| {
        let certificate = CertificateMetrics::register(registry.sub_registry_with_prefix("gimbal_openstack_writer"));
        let show = move |files: &Reloaded| {
            certificate.show(files.not_after.as_second(), files.problem.is_none(), files.taken);
        };
        let reloading = reloader.run(show, shutdown.clone());
        tasks.spawn("the look at the TLS files", until(shutdown.clone(), reloading));
        credentials
    });
    let admin = serve_admin(admin_listener, Arc::new(registry), readiness.clone(), health.clone(), shutdown.clone());
    tasks.spawn("the admin server", admin);

    let (denied, denied_now) = watch::channel(config.denied.clone());
    let (current, config_now) = watch::channel::<SharedConfig>(Arc::new(config));
    // Streams of a later process have larger numbers.
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let generation = u64::try_from(started.as_micros()).unwrap_or_default();
    let clusters = Clusters::new(settings(&args), &config_now.borrow(), generation, Instant::now());
    let (handle, mail, changed) = OwnerHandle::new();
    let owner = ClustersOwner {
        clusters,
        traces: traces.clone(),
        cloud: cloud.clone(),
        mail,
        changed,
        metrics: metrics.clone(),
        health,
        calls: JoinSet::new(),
        shown: None,
    };
    tasks.spawn("the owner", owner.run(shutdown.clone()));
    let look_ups = LookUps {
        args: args.clone(),
        cloud: cloud.clone(),
        owner: handle.clone(),
        config: config_now.clone(),
        first: Some(readiness.block("the cloud")),
    };
    tasks.spawn("the look at the cloud", until(shutdown.clone(), look_ups.run()));
    let following = follow(file, handle.clone(), current, denied, metrics.clone());
    tasks.spawn("the look at the configuration", until(shutdown.clone(), following));

    let streams = ControllerStreams {
        config: config_now.clone(),
        owner: handle.clone(),
        metrics: metrics.clone(),
        shutdown: shutdown.clone(),
        refusals: gimbal_transport::Quiet::default(),
        ends: gimbal_transport::Quiet::default(),
    };
    let (serving, served_now) = watch::channel(Serving { ready: false, leading: false });
    tasks.spawn("the look at readiness", until(shutdown.clone(), show_readiness(readiness, serving)));
    let on_refusal: OnRefusal = Arc::new(move |refusal| metrics.connection_refused(refusal));
    let options =
        ServeOptions { tls, denied: Some(denied_now), on_refusal: Some(on_refusal), serving: Some(served_now) };
    let (dry_run, ending) = (args.dry_run, shutdown.clone());
    tracing::info!(listen = %args.listen, admin = %args.admin_listen, dry_run, "gimbal-openstack-writer started");
    let register = move |builder: &mut ServiceBuilder| {
        builder.add_sync(Arc::new(streams), FILE_DESCRIPTOR_SET);
        let gate = builder.inspection_gate();
        let inspection = ClusterInspection { config: config_now.clone(), owner: handle.clone(), gate };
        let inspection = InspectionServiceServer::new(inspection).max_decoding_message_size(MAX_QUESTION);
        builder.add(inspection, Availability::Ready, FILE_DESCRIPTOR_SET);
        let admin = ClusterAdministration {
            config: config_now,
            owner: handle,
            cloud,
            dry_run,
            shutdown: ending,
            gate: AdminGate::default(),
        };
        let admin = AdminServiceServer::new(admin).max_decoding_message_size(MAX_QUESTION);
        builder.add(admin, Availability::Leading, FILE_DESCRIPTOR_SET);
    };
    let serving = serve_services(listener, register, options, shutdown.clone());
    tasks.spawn("the server", async { serving.await.map_err(|error| Exit::Failure(error.to_string())) });
    let ended = tasks.run().await;
    shutdown.cancel();
    let ended = ended.and(tasks.ended().await);
    traces.end().await;
    ended
}

fn settings(args: &Args) -> RegistrySettings {
    RegistrySettings {
        write_concurrency: args.write_concurrency,
        drift_interval: args.drift_interval.into(),
        orphan_grace: args.orphan_grace.into(),
        dry_run: args.dry_run,
        ..RegistrySettings::default()
    }
}

/// Connects to the cloud. Credentials that Keystone refuses end the start; a Keystone that does not answer does not.
async fn connect(args: &Args) -> Result<CloudAccess, Exit> {
    let credentials = args.read_credentials().map_err(Exit::Usage)?;
    let options = ClientOptions {
        list_timeout: args.list_timeout.into(),
        timeout: args.call_timeout.into(),
        user_agent: AGENT.to_owned(),
        ..ClientOptions::default()
    };
    let cloud = CloudAccess::new(credentials, options).map_err(|error| Exit::Usage(error.to_string()))?;
    match cloud.cloud().projects().await {
        Ok(_) => {}
        Err(error @ Error::InvalidCredentials { .. }) => return Err(Exit::Usage(error.to_string())),
        Err(error) => tracing::warn!(%error, "Keystone does not answer yet"),
    }
    Ok(cloud)
}

/// Runs `work` until it ends or `shutdown`.
async fn until(shutdown: CancellationToken, work: impl Future<Output = ()>) -> Result<(), Exit> {
    shutdown.run_until_cancelled(work).await;
    Ok(())
}

async fn show_readiness(readiness: Readiness, serving: watch::Sender<Serving>) {
    loop {
        readiness.becomes(true).await;
        serving.send_replace(Serving { ready: true, leading: true });
        readiness.becomes(false).await;
        serving.send_replace(Serving { ready: false, leading: false });
    }
}

/// Puts each new configuration in force. One that is not valid is logged, and the previous one stays.
async fn follow(
    mut file: FollowedFile,
    owner: OwnerHandle,
    current: watch::Sender<SharedConfig>,
    denied: watch::Sender<gimbal_transport::Denied>,
    metrics: CloudWriterMetrics,
) {
    loop {
        match file.changed::<ClustersConfig>().await {
            Ok(config) => {
                let config = Arc::new(config);
                let taken = config.clone();
                // The state first: a controller of a new cluster that is admitted must find its cluster known.
                if owner.ask(move |clusters| clusters.configure(&taken, Instant::now())).await.is_err() {
                    // The process ends.
                    return std::future::pending().await;
                }
                denied.send_if_modified(|denied| {
                    let changed = *denied != config.denied;
                    denied.clone_from(&config.denied);
                    changed
                });
                let clusters = config.clusters.len();
                current.send_replace(config);
                metrics.config_read(true);
                tracing::info!(clusters, "the configuration file changed, and is in force");
            }
            Err(error) => {
                metrics.config_read(false);
                tracing::error!(%error, "the configuration file changed and is wrong; the one before stays in force");
            }
        }
    }
}
