//! Puts the services of a server together, with health and reflection.

use std::sync::Arc;

use gimbal_error_text::one_line;
use gimbal_wire::pb::admin_service_server::AdminServiceServer;
use gimbal_wire::pb::inspection_service_server::InspectionServiceServer;
use gimbal_wire::{FILE_DESCRIPTOR_SET, WirePayload};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::server::NamedService;
use tonic::service::RoutesBuilder;
use tonic::transport::Server;
use tonic_health::server::HealthReporter;
use tower::util::MapResponseLayer;

use crate::admin::AdminEdge;
use crate::discovery::DiscoveryEdge;
use crate::health::HealthStatus;
use crate::inspection::InspectionEdge;
use crate::sync::SyncServer;
use crate::unread::until_read;
use crate::{
    CONNECTION_WINDOW, Discovery, InspectionGate, KEEPALIVE, KEEPALIVE_TIMEOUT, LinkError, STREAM_WINDOW,
    ServedServices,
};

/// Largest inspection request in bytes, and admin request that holds no configuration. Requests hold only names and a page token.
pub const MAX_QUESTION: usize = 16 << 10;
/// Largest admin request of the writer in bytes: one may hold a configuration of a few hundred backends.
const MAX_ADMIN_REQUEST: usize = 256 << 10;
/// Largest number of concurrent calls on one connection.
const STREAMS: u32 = 128;

/// When `grpc.health.v1` reports a service as SERVING.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// While the process is ready.
    Ready,
    /// While the process is ready and leads.
    Leading,
}

/// The services of a server that is being built.
pub struct ServiceBuilder {
    routes: RoutesBuilder,
    services: Vec<(&'static str, Availability)>,
    descriptors: Vec<&'static [u8]>,
    reporter: HealthReporter,
    shutdown: CancellationToken,
    abort: CancellationToken,
    streams: TaskTracker,
}

impl ServiceBuilder {
    pub(crate) fn new(shutdown: CancellationToken, abort: CancellationToken, streams: TaskTracker) -> Self {
        let (reporter, health_server) = tonic_health::server::health_reporter();
        let (routes, services, descriptors) = (RoutesBuilder::default(), Vec::new(), Vec::new());
        let mut builder = Self { routes, services, descriptors, reporter, shutdown, abort, streams };
        builder.add(health_server, Availability::Ready, tonic_health::pb::FILE_DESCRIPTOR_SET);
        builder
    }

    /// Adds a generated service, and the descriptors of its package. Its requests should be limited to
    /// [`MAX_QUESTION`].
    pub fn add<S>(&mut self, service: S, availability: Availability, descriptors: &'static [u8])
    where
        S: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<tonic::body::Body>,
                Error = std::convert::Infallible,
            > + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        self.services.push((S::NAME, availability));
        if !self.descriptors.contains(&descriptors) {
            self.descriptors.push(descriptors);
        }
        self.routes.add_service(service);
    }

    /// Adds the service of a payload's streams, which the leader alone serves.
    pub fn add_sync<P: WirePayload>(&mut self, discovery: Arc<dyn Discovery<P>>, descriptors: &'static [u8]) {
        let (shutdown, abort, streams) = (self.shutdown.clone(), self.abort.clone(), self.streams.clone());
        let edge = DiscoveryEdge { discovery, shutdown, abort, streams };
        self.add(SyncServer(Arc::new(edge)), Availability::Leading, descriptors);
    }

    /// Returns a gate for an inspection service of this server.
    #[must_use]
    pub fn inspection_gate(&self) -> InspectionGate {
        InspectionGate::new(self.shutdown.clone())
    }

    /// Adds the services of `gimbal.discovery.v1`.
    pub fn add_discovery(&mut self, services: ServedServices) {
        let ServedServices { discovery, inspection, admin } = services;
        let inspection = InspectionServiceServer::new(InspectionEdge::new(inspection, self.inspection_gate()));
        self.add(inspection.max_decoding_message_size(MAX_QUESTION), Availability::Ready, FILE_DESCRIPTOR_SET);
        if let Some(discovery) = discovery {
            self.add_sync(discovery, FILE_DESCRIPTOR_SET);
        }
        if let Some(admin) = admin {
            let admin = AdminServiceServer::new(AdminEdge::new(admin)).max_decoding_message_size(MAX_ADMIN_REQUEST);
            self.add(admin, Availability::Leading, FILE_DESCRIPTOR_SET);
        }
    }

    pub(crate) fn finish(mut self) -> Result<(tonic::transport::server::Router, HealthStatus), LinkError> {
        let failed = |error: tonic_reflection::server::Error| LinkError::Serve(one_line(&error));
        let (v1, v1alpha) = (self.reflection().build_v1(), self.reflection().build_v1alpha());
        self.routes.add_service(v1.map_err(failed)?);
        self.routes.add_service(v1alpha.map_err(failed)?);
        let Self { routes, services, reporter, .. } = self;
        let mut server = Server::builder()
            .http2_keepalive_interval(Some(KEEPALIVE))
            .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_concurrent_streams(STREAMS);
        let routes = routes.routes().into_axum_router().layer(MapResponseLayer::new(until_read));
        Ok((server.add_routes(routes.into()), HealthStatus { reporter, services }))
    }

    /// Builds reflection for the services of this process only, because tools try to call every service that is listed.
    fn reflection(&self) -> tonic_reflection::server::Builder<'static> {
        let own = ["grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"];
        let names = self.services.iter().map(|(name, _)| *name).chain(own);
        let descriptors = self.descriptors.iter().copied();
        let builder = tonic_reflection::server::Builder::configure();
        let builder = descriptors.fold(builder, |builder, set| builder.register_encoded_file_descriptor_set(set));
        names.fold(builder, |builder, name| builder.with_service_name(name))
    }
}
