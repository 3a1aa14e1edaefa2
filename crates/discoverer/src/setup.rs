//! Prepares a discoverer: checks flags, loads files and binds listeners.

use std::sync::Arc;
use std::time::Duration;

use gimbal_runtime::{CertificateMetrics, Exit, Liveness, Readiness, bind, register_process_metrics};
use gimbal_session::AgentConfig;
use gimbal_traces::{TraceArgs, Traces};
use gimbal_transport::{Reloader, RightsReview, ServeOptions, TlsCredentials, plaintext_allowed};
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;

use crate::args::AgentArgs;
use crate::dialling::WriterAddress;
use crate::discoverer::Discoverer;
use crate::health_log::HealthLog;
use crate::inspection_service::Inspector;
use crate::jittered_backoff::random;
use crate::metrics::{DiscovererMetrics, SourceMetrics};
use crate::own_names::OwnNames;
use crate::owner_task::{OwnerParts, OwnerTask};
use crate::payload::OfferedPayload;
use crate::source::{Source, SourceStatus as _};

/// The process counts as live if the owner's loop turned within this time. It turns at least once a second, but a
/// relist of a huge source takes a few seconds.
const LIVENESS: Duration = Duration::from_secs(30);
/// Number of inspection calls that may wait for the owner.
const MAILBOX: usize = 64;

/// The name and version of the program, as the writer and inspection clients see them.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// The name of the binary, such as `gimbal-kubernetes-discoverer`.
    pub name: &'static str,
    /// The version of the binary, from `env!("CARGO_PKG_VERSION")`.
    pub version: &'static str,
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.name, self.version)
    }
}

/// Validated flags and files, the first half of a start. The source is created between the two halves.
pub struct Setup {
    args: AgentArgs,
    program: Program,
    tls: Option<(TlsCredentials, Reloader)>,
    metrics: Arc<DiscovererMetrics>,
    registry: Registry,
    traces: TraceArgs,
    rights: Option<RightsReview>,
}

impl Setup {
    /// Validates the common flags and the files that they name.
    ///
    /// # Errors
    /// Returns [`Exit::Usage`], in one line, when a flag or a file it names is wrong.
    pub fn new(args: AgentArgs, program: Program) -> Result<Self, Exit> {
        let tls = args.check().map_err(Exit::Usage)?.map(TlsCredentials::load);
        let tls = tls.transpose().map_err(|error| Exit::Usage(error.to_string()))?;
        let mut registry = Registry::default();
        register_process_metrics(&mut registry);
        let metrics = DiscovererMetrics::of(args.backend_name.as_str(), program.version, &mut registry);
        Ok(Self { args, program, tls, metrics, registry, traces: TraceArgs::default(), rights: None })
    }

    /// Sends traces of changes, as the flags say. Without this call, or without a collector in the flags, none are.
    pub fn trace(&mut self, args: TraceArgs) {
        self.traces = args;
    }

    /// Lets whoever inspects this discoverer know which rights in its source are missing (`gimbalctl check`). The review is made
    /// when somebody asks.
    pub fn review_rights(&mut self, review: RightsReview) {
        self.rights = Some(review);
    }

    /// Returns the metrics that all sources have in common.
    #[must_use]
    pub fn source_metrics(&self) -> SourceMetrics {
        self.metrics.source()
    }

    /// Returns the registry for metrics of this source only. Their names have to begin with `gimbal_discoverer_`.
    pub fn registry(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// Binds the listeners, and returns a discoverer of this source.
    ///
    /// # Errors
    /// Returns [`Exit::Failure`] when an address cannot be bound, for example because it is in use, and [`Exit::Usage`] when
    /// traces cannot be sent as they should be.
    pub async fn discover<S, P>(mut self, source: S) -> Result<Discoverer<S, P>, Exit>
    where
        S: Source<P>,
        P: OfferedPayload,
    {
        let (tls, reloader) = self.tls.take().unzip();
        let listen = self.args.listen;
        // A loopback listener is plaintext: any process on this machine may inspect without a certificate.
        let serving = tls.clone().filter(|_| !plaintext_allowed(&listen));
        let options = ServeOptions { tls: serving, ..ServeOptions::default() };
        let listener = bind("--listen", listen).await?;
        let admin = bind("--admin-listen", self.args.admin_listen).await?;
        let (status_page, status_page_hosts) = (self.args.status_page, self.args.status_page_hosts.clone());
        let writer = self.writer(tls.as_ref())?;
        let traces = Traces::start(&self.traces, (self.program.name, self.program.version))?;
        self.metrics.dry_run.set(writer.is_none().into());
        if writer.is_none() {
            tracing::info!("no --writer: a dry run, nothing is sent");
        }

        let certificate = reloader.map(|reloader| {
            let registry = self.registry.sub_registry_with_prefix("gimbal_discoverer");
            (reloader, CertificateMetrics::register(registry))
        });
        let health = Liveness::new(LIVENESS);
        let readiness = Readiness::new();
        let (mailbox, calls) = mpsc::channel(MAILBOX);
        let own_names = tls.map_or_else(OwnNames::default, |tls| OwnNames::of(&tls.own()));
        let backend = self.args.backend_name;
        let (program, rights) = (self.program, self.rights.take());
        let inspector = Inspector { program, rights, backend: backend.clone(), own_names, owner: mailbox };
        let config = AgentConfig {
            backend: backend.to_string(),
            instance: format!("{:016x}", random()),
            version: self.program.to_string(),
        };
        let health_log = HealthLog::new(health.clone(), &readiness, source.status().identified_by());
        let metrics = self.metrics;
        let parts = OwnerParts { backend, config, source, writer, calls, metrics, health_log, traces: traces.clone() };
        let owner = OwnerTask::new(parts);
        let registry = self.registry;
        Ok(Discoverer {
            owner,
            inspector,
            status_page,
            status_page_hosts,
            options,
            registry,
            health,
            readiness,
            listener,
            admin,
            certificate,
            traces,
        })
    }

    fn writer(&self, tls: Option<&TlsCredentials>) -> Result<Option<WriterAddress>, Exit> {
        let targets = self.args.targets(tls.is_some()).map_err(Exit::Usage)?;
        let tls = tls.map(TlsCredentials::client);
        Ok((!targets.is_empty()).then_some(WriterAddress { targets, tls }))
    }
}
