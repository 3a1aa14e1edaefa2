//! The server side of `InspectionService`.

use std::net::IpAddr;
use std::sync::Arc;

use futures::stream::BoxStream;
use gimbal_model::BackendName;
use gimbal_wire::{asked_address, pb};
use tonic::{Request, Response, Status};

use crate::{CallSlot, InspectionGate, Part, Peer, Place, caller, clock_ms, page};

/// The backends that a peer may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Viewer {
    /// All backends.
    All,
    /// Only this backend.
    Backend(BackendName),
}

impl Viewer {
    /// Returns whether the viewer may see this backend.
    #[must_use]
    pub fn sees(&self, backend: &str) -> bool {
        match self {
            Self::All => true,
            Self::Backend(own) => own.as_str() == backend,
        }
    }

    /// Replaces an empty backend, which means all, by the viewer's own.
    ///
    /// # Errors
    /// Returns an error when the viewer may not see the backend.
    pub fn narrow(&self, backend: &mut String) -> Result<(), Status> {
        match self {
            Self::Backend(own) if backend.is_empty() => own.as_str().clone_into(backend),
            _ if !backend.is_empty() && !self.sees(backend) => {
                return Err(Status::permission_denied(format!("the certificate does not see {backend:?}")));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Answers inspection calls. The backend of a request is already narrowed to one that the viewer may see. Results of a
/// request without a backend are filtered by the implementation, with [`Viewer::sees`].
#[tonic::async_trait]
pub trait Inspection: Send + Sync + 'static {
    /// Returns what the peer may see.
    ///
    /// # Errors
    /// Returns an error when the peer may see nothing.
    fn viewer(&self, peer: &Peer) -> Result<Viewer, Status>;

    /// Returns the leadership of this writer; `None` for a discoverer.
    fn writer(&self) -> Option<pb::WriterStanding> {
        None
    }

    /// Returns program and version of this process, and whether it has its rights. Who asks, and the clock, are added by the
    /// caller of this.
    async fn server(&self, viewer: &Viewer) -> Result<pb::Server, Status>;

    /// Returns the backends that the viewer may see.
    async fn list_backends(&self, viewer: &Viewer) -> Result<Vec<pb::Backend>, Status>;

    /// Returns the next batch of matching Services after a position, in order. The implementation ignores
    /// `request.page_size` and `request.page_token`: the caller builds pages from the batches.
    async fn list_services(
        &self,
        viewer: &Viewer,
        request: &pb::ListServicesRequest,
        after: Option<&Place>,
    ) -> Result<Part, Status>;

    /// Streams the present Services, `SnapshotDone`, and then changes. The server ends the stream at shutdown.
    async fn watch(
        &self,
        viewer: &Viewer,
        request: pb::WatchRequest,
    ) -> Result<BoxStream<'static, Result<pb::WatchResponse, Status>>, Status>;

    /// Explains where an object comes from, or why it is missing. `address` is that of the request, if it names one.
    async fn explain(
        &self,
        viewer: &Viewer,
        request: pb::ExplainRequest,
        address: Option<IpAddr>,
    ) -> Result<pb::ExplainResponse, Status>;
}

pub(crate) struct InspectionEdge {
    inspection: Arc<dyn Inspection>,
    gate: InspectionGate,
}

impl InspectionEdge {
    pub(crate) fn new(inspection: Arc<dyn Inspection>, gate: InspectionGate) -> Self {
        Self { inspection, gate }
    }

    async fn call<T>(&self, request: &Request<T>) -> Result<(Viewer, CallSlot), Status> {
        self.gate.call(request, |peer| self.inspection.viewer(peer)).await
    }
}

#[tonic::async_trait]
impl pb::inspection_service_server::InspectionService for InspectionEdge {
    type WatchStream = BoxStream<'static, Result<pb::WatchResponse, Status>>;

    async fn get_server(
        &self,
        request: Request<pb::GetServerRequest>,
    ) -> Result<Response<pb::GetServerResponse>, Status> {
        let mut asks = None;
        let admit = |peer: &Peer| {
            let viewer = self.inspection.viewer(peer)?;
            asks = Some(caller(peer, &viewer));
            Ok(viewer)
        };
        let (viewer, slot) = self.gate.call(&request, admit).await?;
        let server = self.inspection.server(&viewer).await?;
        // The clock last: its rights take time.
        let server = pb::Server { caller: asks, clock_ms: clock_ms(), ..server };
        Ok(slot.answer(pb::GetServerResponse { server: Some(server) }))
    }

    async fn list_backends(
        &self,
        request: Request<pb::ListBackendsRequest>,
    ) -> Result<Response<pb::ListBackendsResponse>, Status> {
        let (viewer, slot) = self.call(&request).await?;
        let backends = self.inspection.list_backends(&viewer).await?;
        Ok(slot.answer(pb::ListBackendsResponse { backends, writer: self.inspection.writer() }))
    }

    async fn list_services(
        &self,
        request: Request<pb::ListServicesRequest>,
    ) -> Result<Response<pb::ListServicesResponse>, Status> {
        let (viewer, slot) = self.call(&request).await?;
        let mut request = request.into_inner();
        viewer.narrow(&mut request.backend)?;
        page::page(&*self.inspection, &viewer, &request).await.map(|page| slot.answer(page))
    }

    async fn watch(&self, request: Request<pb::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let (viewer, slot) = self.gate.watch(&request, |peer| self.inspection.viewer(peer))?;
        let mut request = request.into_inner();
        viewer.narrow(&mut request.backend)?;
        Ok(slot.answer(self.inspection.watch(&viewer, request).await?))
    }

    async fn explain(&self, request: Request<pb::ExplainRequest>) -> Result<Response<pb::ExplainResponse>, Status> {
        let (viewer, slot) = self.call(&request).await?;
        let mut request = request.into_inner();
        if let Some(pb::explain_request::Object::Source(source)) = &mut request.object {
            viewer.narrow(&mut source.backend)?;
        }
        let address = asked_address(&request.address).map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.inspection.explain(&viewer, request, address).await.map(|answer| slot.answer(answer))
    }
}
