//! The gRPC server, from the listener to the end of its last stream.

use std::sync::Arc;
use std::time::Duration;

use gimbal_error_text::one_line;
use gimbal_wire::{FILE_DESCRIPTOR_SET, pb};
use pb::admin_service_server::AdminServiceServer;
use pb::discovery_service_server::DiscoveryServiceServer;
use pb::inspection_service_server::InspectionServiceServer;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::codec::CompressionEncoding;
use tonic::server::NamedService;
use tonic::transport::Server;
use tower::util::MapResponseLayer;

use crate::admin::AdminEdge;
use crate::discovery::DiscoveryEdge;
use crate::health::Health;
use crate::inspection::InspectionEdge;
use crate::trust::Trust;
use crate::unread::until_read;
use crate::{
    Admin, CONNECTION_WINDOW, Credentials, Denied, Discovery, Inspection, KEEPALIVE, KEEPALIVE_TIMEOUT, LinkError,
    MAX_MESSAGE, Refusal, STREAM_WINDOW, accept, plaintext_allowed,
};

/// Time for streams to end by themselves after shutdown begins.
const GRACE: Duration = Duration::from_secs(2);
/// Largest inspection or admin request in bytes. Requests hold only names and a page token.
const MAX_QUESTION: usize = 16 << 10;
/// Largest number of concurrent calls on one connection.
const STREAMS: u32 = 128;

/// Called for every refused connection, including those that closed silently ([`crate::Problem::Silent`]).
pub type OnRefusal = Arc<dyn Fn(&Refusal) + Send + Sync>;

/// Options of [`serve`]. The default is plaintext, which is allowed on a loopback listener only.
#[derive(Clone, Default)]
pub struct ServeOptions {
    /// Our certificate and the authorities that we trust. New handshakes use the files that were loaded last.
    pub tls: Option<Credentials>,
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
pub struct Services {
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
    services: Services,
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
    let (router, health) = router(services, &shutdown, &abort, &streams)?;
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

fn router(
    services: Services,
    shutdown: &CancellationToken,
    abort: &CancellationToken,
    streams: &TaskTracker,
) -> Result<(tonic::transport::server::Router, Health), LinkError> {
    let (reporter, health_server) = tonic_health::server::health_reporter();
    let mut names = vec![name_of(&health_server)];
    let mut routes = tonic::service::Routes::builder();
    routes.add_service(health_server);

    let inspection = InspectionEdge::new(services.inspection, shutdown.clone());
    let inspection = InspectionServiceServer::new(inspection).max_decoding_message_size(MAX_QUESTION);
    names.push(name_of(&inspection));
    routes.add_service(inspection);
    if let Some(discovery) = services.discovery {
        let (shutdown, abort, streams) = (shutdown.clone(), abort.clone(), streams.clone());
        let discovery = DiscoveryEdge { discovery, shutdown, abort, streams };
        let discovery = DiscoveryServiceServer::new(discovery)
            // Responses are not compressed, because they are short.
            .accept_compressed(CompressionEncoding::Zstd)
            .max_decoding_message_size(MAX_MESSAGE);
        names.push(name_of(&discovery));
        routes.add_service(discovery);
    }
    if let Some(admin) = services.admin {
        let admin = AdminServiceServer::new(AdminEdge::new(admin)).max_decoding_message_size(MAX_QUESTION);
        names.push(name_of(&admin));
        routes.add_service(admin);
    }
    let failed = |error: tonic_reflection::server::Error| LinkError::Serve(one_line(&error));
    routes.add_service(reflection(&names).build_v1().map_err(failed)?);
    routes.add_service(reflection(&names).build_v1alpha().map_err(failed)?);
    let mut server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(STREAMS);
    let routes = routes.routes().into_axum_router().layer(MapResponseLayer::new(until_read));
    Ok((server.add_routes(routes.into()), Health { reporter, names }))
}

/// Builds reflection for the services of this process only, because tools try to call every service that is listed.
fn reflection(names: &[&'static str]) -> tonic_reflection::server::Builder<'static> {
    let builder = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .with_service_name("grpc.reflection.v1.ServerReflection")
        .with_service_name("grpc.reflection.v1alpha.ServerReflection");
    names.iter().fold(builder, |builder, name| builder.with_service_name(*name))
}

fn name_of<S: NamedService>(_: &S) -> &'static str {
    S::NAME
}
