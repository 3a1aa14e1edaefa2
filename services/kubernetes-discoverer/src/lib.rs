//! Offers the Services of one Kubernetes cluster to a Gimbal writer.
//!
//! ```text
//!                    +-------------------------- owner (one task) --------------------------+
//!  watches --------> |  session: KubernetesIndex --> AgentEnd   <---- link (dial, stream) --|--> writer
//!  kube-system UID ->|     |                                                                |
//!  questions ------> |     +--> status, watchers, metrics, readiness                        |
//!                    +----------------------------------------------------------------------+
//! ```
//!
//! It reads its source and changes nothing. The source's watches are always drained, whatever the stream does: the
//! index holds the newest state of each object, and the stream's end takes it when there is room.

mod args;
mod backoff;
mod dial;
mod health;
mod identity;
mod inspect;
mod metrics;
mod owner;
mod session;
mod signs;
mod source;
mod speak;
mod status;
mod watchers;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gimbal_kube_io::{Access, Cluster};
use gimbal_link::{Credentials, ServeOptions, Services, TlsFiles, client_tls, serve};
use gimbal_operate::{Exit, Health, Readiness, bind, serve_admin};
use gimbal_translate::{Flavour, Selection};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use crate::args::Args;
use crate::dial::WriterAddress;
use crate::identity::Identity;
use crate::inspect::Inspector;
use crate::metrics::Metrics;
use crate::owner::{Owner, Parts};
use crate::signs::Signs;

/// The owner's loop turns at least once a second; a relist of a huge source takes it a few.
const LIVENESS: Duration = Duration::from_secs(30);
/// Questions that may wait.
const MAILBOX: usize = 64;

/// A discoverer that has its listeners, and can run.
pub struct Discoverer {
    owner: Owner,
    inspector: Inspector,
    options: ServeOptions,
    registry: Registry,
    health: Health,
    readiness: Readiness,
    listener: TcpListener,
    admin: TcpListener,
}

impl Discoverer {
    /// Checks everything that can be wrong before anything runs, and binds the listeners.
    ///
    /// # Errors
    /// [`Exit::Usage`], in one line, when a flag or a file it names is wrong; [`Exit::Failure`] when an address is taken.
    pub async fn new(args: Args) -> Result<Self, Exit> {
        args.check().map_err(Exit::Usage)?;
        for warning in args.warnings() {
            tracing::warn!("{warning}");
        }
        let tls = args.tls().map_err(Exit::Usage)?;
        let writer = writer(&args, tls.as_ref())?;
        let access = args.kubeconfig.clone().map_or(Access::Default, Access::Kubeconfig);
        let cluster = Cluster::connect(&access, status::VERSION)
            .map_err(|error| Exit::Usage(format!("--kubeconfig: {error}")))?;
        let options = ServeOptions { tls: serving_tls(&args, tls.as_ref())?, ..ServeOptions::default() };
        let listener = bind("--listen", args.listen).await?;
        let admin = bind("--admin-listen", args.admin_listen).await?;
        if writer.is_none() {
            tracing::info!("no --writer: a dry run, nothing is sent");
        }

        let metrics = Arc::new(Metrics::default());
        let mut registry = Registry::default();
        metrics.register(args.backend_name.as_str(), &mut registry);
        let health = Health::new(LIVENESS);
        let readiness = Readiness::new();
        let (mailbox, questions) = mpsc::channel(MAILBOX);
        let identity = tls.map_or_else(Identity::default, |files| Identity::of_file(&files.cert));
        let inspector = Inspector { backend: args.backend_name.clone(), identity, owner: mailbox };
        let owner = Owner::new(Parts {
            backend: args.backend_name,
            cluster,
            selection: Selection {
                namespaces: args.namespaces,
                exclude: args.exclude_namespaces,
                flavour: Flavour::Slices,
            },
            writer,
            instance: format!("{:016x}", backoff::random()),
            questions,
            metrics,
            signs: Signs::new(health.clone(), &readiness),
        });
        Ok(Self { owner, inspector, options, registry, health, readiness, listener, admin })
    }

    /// Where inspection is served.
    ///
    /// # Errors
    /// When the system does not know.
    pub fn listen_address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Where metrics, liveness and readiness are served.
    ///
    /// # Errors
    /// When the system does not know.
    pub fn admin_address(&self) -> std::io::Result<SocketAddr> {
        self.admin.local_addr()
    }

    /// Runs until `shutdown`, then ends within five seconds.
    ///
    /// # Errors
    /// When a server fails. Trouble with the source or the writer is none.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Exit> {
        let services = Services { discovery: None, inspection: Arc::new(self.inspector), admin: None };
        // Whoever ends first ends all.
        let ends = shutdown.clone();
        let inspection = async {
            let served = serve(self.listener, services, self.options, shutdown.clone()).await;
            ends.cancel();
            served.map_err(|error| Exit::Failure(format!("--listen: {error}")))
        };
        let admin = async {
            let registry = Arc::new(self.registry);
            let served = serve_admin(self.admin, registry, self.readiness, self.health, shutdown.clone()).await;
            ends.cancel();
            served
        };
        // On a task of its own, so that no server's work delays it.
        let owner = tokio::spawn(self.owner.run(shutdown.clone()));
        let owner = async {
            let ended = owner.await;
            ends.cancel();
            ended.map_err(|error| Exit::Failure(format!("the main task failed: {error}")))
        };
        let (inspection, admin, owner) = tokio::join!(inspection, admin, owner);
        owner.and(inspection).and(admin)
    }
}

fn writer(args: &Args, tls: Option<&TlsFiles>) -> Result<Option<WriterAddress>, Exit> {
    let Some(url) = args.writer.clone() else { return Ok(None) };
    let tls = match tls {
        Some(files) if url.starts_with("https:") => {
            Some(client_tls(files).map_err(|error| Exit::Usage(error.to_string()))?)
        }
        _ => None,
    };
    Ok(Some(WriterAddress { url, tls }))
}

/// Loopback stays plaintext: whoever is on this machine may look without a certificate.
fn serving_tls(args: &Args, tls: Option<&TlsFiles>) -> Result<Option<Credentials>, Exit> {
    match tls {
        Some(files) if !gimbal_link::plaintext_allowed(&args.listen) => {
            let loaded = Credentials::load(files.clone()).map_err(|error| Exit::Usage(error.to_string()))?;
            Ok(Some(loaded.0))
        }
        _ => Ok(None),
    }
}
