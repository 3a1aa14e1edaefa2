//! The server side of `InspectionService`.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use gimbal_model::BackendName;
use gimbal_wire::pb;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use crate::connection::Known;
use crate::discovery::known;
use crate::standing::refused;
use crate::turns::{Turn, Turns};
use crate::unread::taking;
use crate::{Part, Peer, Place, page};

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

    /// Replaces an empty backend, which means all, by the viewer's own. Refuses a backend that the viewer may not see.
    fn narrow(&self, backend: &mut String) -> Result<(), Status> {
        match self {
            Self::Backend(own) if backend.is_empty() => own.as_str().clone_into(backend),
            _ if !backend.is_empty() && !self.sees(backend) => {
                return Err(Status::permission_denied(format!("the certificate does not see backend {backend:?}")));
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

    /// Explains where an object comes from, or why it is missing.
    async fn explain(&self, viewer: &Viewer, request: pb::ExplainRequest) -> Result<pb::ExplainResponse, Status>;
}

pub(crate) struct InspectionEdge {
    inspection: Arc<dyn Inspection>,
    shutdown: CancellationToken,
    turns: Turns,
}

impl InspectionEdge {
    pub(crate) fn new(inspection: Arc<dyn Inspection>, shutdown: CancellationToken) -> Self {
        Self { inspection, shutdown, turns: Turns::default() }
    }

    /// Returns what the peer may see, after waiting for one of its call slots.
    async fn viewer<T>(&self, request: &Request<T>) -> Result<(Viewer, Turn), Status> {
        let peer = known(request)?.peer;
        let viewer = self.inspection.viewer(&peer)?;
        Ok((viewer, self.turns.ask(&peer).await?))
    }
}

#[tonic::async_trait]
impl pb::inspection_service_server::InspectionService for InspectionEdge {
    type WatchStream = BoxStream<'static, Result<pb::WatchResponse, Status>>;

    async fn list_backends(
        &self,
        request: Request<pb::ListBackendsRequest>,
    ) -> Result<Response<pb::ListBackendsResponse>, Status> {
        let (viewer, turn) = self.viewer(&request).await?;
        let backends = self.inspection.list_backends(&viewer).await?;
        Ok(taking(turn, pb::ListBackendsResponse { backends, writer: self.inspection.writer() }))
    }

    async fn list_services(
        &self,
        request: Request<pb::ListServicesRequest>,
    ) -> Result<Response<pb::ListServicesResponse>, Status> {
        let (viewer, turn) = self.viewer(&request).await?;
        let mut request = request.into_inner();
        viewer.narrow(&mut request.backend)?;
        page::page(&*self.inspection, &viewer, &request).await.map(|page| taking(turn, page))
    }

    async fn watch(&self, request: Request<pb::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let Known { peer, standing } = known(&request)?;
        let viewer = self.inspection.viewer(&peer)?;
        let turn = self.turns.watch(&peer)?;
        let mut request = request.into_inner();
        viewer.narrow(&mut request.backend)?;
        let events = self.inspection.watch(&viewer, request).await?;
        let events = events.take_until(Box::pin(standing.clone().lost()));
        let refusal = async move { standing.problem().map(|problem| Err(refused(problem))) };
        let events = events.chain(futures::stream::once(refusal).filter_map(std::future::ready));
        let events = events.take_until(self.shutdown.clone().cancelled_owned());
        // The watch slot is released when the stream is dropped.
        let events = events.map(move |event| {
            let _held = &turn;
            event
        });
        Ok(Response::new(events.boxed()))
    }

    async fn explain(&self, request: Request<pb::ExplainRequest>) -> Result<Response<pb::ExplainResponse>, Status> {
        let (viewer, turn) = self.viewer(&request).await?;
        let mut request = request.into_inner();
        if let Some(pb::explain_request::Object::Source(source)) = &mut request.object {
            viewer.narrow(&mut source.backend)?;
        }
        self.inspection.explain(&viewer, request).await.map(|answer| taking(turn, answer))
    }
}
