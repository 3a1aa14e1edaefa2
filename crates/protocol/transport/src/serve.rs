//! The gRPC server, from the listener to the end of its last stream.

use std::sync::Arc;
use std::time::Duration;

use gimbal_error_text::one_line;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::trust::Trust;
use crate::{
    Admin, Denied, Discovery, Inspection, LinkError, Refusal, ServiceBuilder, TlsCredentials, accept, plaintext_allowed,
};

/// Time for streams to end by themselves after shutdown begins.
const GRACE: Duration = Duration::from_secs(2);

/// Called for every refused connection, including those that closed silently ([`crate::Problem::Silent`]).
pub type OnRefusal = Arc<dyn Fn(&Refusal) + Send + Sync>;

/// Options of [`serve`]. The default is plaintext, which is allowed on a loopback listener only.
#[derive(Clone, Default)]
pub struct ServeOptions {
    /// Our certificate and the authorities that we trust. New handshakes use the files that were loaded last.
    pub tls: Option<TlsCredentials>,
    /// Certificates that are refused even if a trusted authority signed them. The list is watched: when the certificate
    /// of an open connection is added, the connection ends like one whose certificate expires.
    pub denied: Option<watch::Receiver<Denied>>,
    /// Called for refused connections, to count them. They are logged anyway.
    pub on_refusal: Option<OnRefusal>,
    /// The state that `grpc.health.v1` reports. If unset, all services report SERVING until shutdown.
    pub serving: Option<watch::Receiver<Serving>>,
}

/// The state that `grpc.health.v1` reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Serving {
    /// Whether the process is ready. Sets the status of the whole server and of inspection.
    pub ready: bool,
    /// Whether this process leads. With `ready`, it sets the status of the discovery and admin services.
    pub leading: bool,
}

/// The services of a server.
#[derive(Clone)]
pub struct ServedServices {
    /// `DiscoveryService`, which only the writer serves.
    pub discovery: Option<Arc<dyn Discovery>>,
    /// `InspectionService`, which the writer and every discoverer serve.
    pub inspection: Arc<dyn Inspection>,
    /// `AdminService`, which only the writer serves.
    pub admin: Option<Arc<dyn Admin>>,
}

/// Serves until `shutdown`, then ends within two seconds: the listener closes at once, incoming messages and watches
/// end, `Discovery::sync` may still send a goodbye, and streams that are still open after that are cut.
///
/// # Errors
/// Returns an error when the listener is plaintext and not on loopback, or when the server cannot be built.
pub async fn serve(
    listener: TcpListener,
    services: ServedServices,
    options: ServeOptions,
    shutdown: CancellationToken,
) -> Result<(), LinkError> {
    serve_services(listener, |builder| builder.add_discovery(services), options, shutdown).await
}

/// Serves the services that `register` adds, as [`serve`] does.
///
/// # Errors
/// Returns an error in the same cases as [`serve`].
pub async fn serve_services(
    listener: TcpListener,
    register: impl FnOnce(&mut ServiceBuilder) + Send,
    options: ServeOptions,
    shutdown: CancellationToken,
) -> Result<(), LinkError> {
    let address = listener.local_addr().map_err(|error| LinkError::Serve(error.to_string()))?;
    if options.tls.is_none() && !plaintext_allowed(&address) {
        return Err(LinkError::Plaintext(address));
    }
    // Cancelled when this future is dropped, so that no connection outlives the server.
    let abort = CancellationToken::new();
    let _aborts = abort.clone().drop_guard();
    let denied = options.denied;
    let trust = options.tls.map(|credentials| Trust { credentials, denied });
    let incoming = accept::connections(listener, trust, options.on_refusal, abort.clone());
    // Streams run in tasks of their own; the server has ended when both they and the connections have.
    let streams = TaskTracker::new();
    let mut builder = ServiceBuilder::new(shutdown.clone(), abort, streams.clone());
    register(&mut builder);
    let (router, health) = builder.finish()?;
    let health = health.follow(options.serving, shutdown.clone());
    let server = async {
        router.serve_with_incoming_shutdown(incoming, shutdown.clone().cancelled_owned()).await?;
        streams.close();
        streams.wait().await;
        Ok::<_, tonic::transport::Error>(())
    };
    let deadline = async {
        shutdown.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        ended = server => ended.map_err(|error| LinkError::Serve(one_line(&error))),
        never = health => match never {},
        () = deadline => {
            tracing::warn!(%address, "streams were cut at shutdown");
            Ok(())
        }
    }
}
