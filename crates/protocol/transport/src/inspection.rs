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

/// What somebody may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Viewer {
    /// Everything.
    All,
    /// One backend.
    Backend(BackendName),
}

impl Viewer {
    /// Whether this backend may be shown.
    #[must_use]
    pub fn sees(&self, backend: &str) -> bool {
        match self {
            Self::All => true,
            Self::Backend(own) => own.as_str() == backend,
        }
    }

    /// Makes a request for every backend one for the viewer's own.
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

/// Answers questions about what is known. `request.backend` is already narrowed to what the viewer may see; what a
/// request without a backend's name finds, the implementer narrows with [`Viewer::sees`].
#[tonic::async_trait]
pub trait Inspection: Send + Sync + 'static {
    /// What the peer may see.
    ///
    /// # Errors
    /// When it may see nothing.
    fn viewer(&self, peer: &Peer) -> Result<Viewer, Status>;

    /// How the writer stands that answers; a discoverer is none.
    fn writer(&self) -> Option<pb::WriterStanding> {
        None
    }

    /// The backends that the viewer sees.
    async fn list_backends(&self, viewer: &Viewer) -> Result<Vec<pb::Backend>, Status>;

    /// The first few of the Services that the request selects after a place, in order. `request.page_size` and
    /// `request.page_token` are not the implementer's: pages are put together of what it gives.
    async fn list_services(
        &self,
        viewer: &Viewer,
        request: &pb::ListServicesRequest,
        after: Option<&Place>,
    ) -> Result<Part, Status>;

    /// What is there, `SnapshotDone`, then changes. Ended by the link at shutdown.
    async fn watch(
        &self,
        viewer: &Viewer,
        request: pb::WatchRequest,
    ) -> Result<BoxStream<'static, Result<pb::WatchResponse, Status>>, Status>;

    /// Where an object comes from, or why it is missing.
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

    /// What the peer may see, and its turn to ask for it.
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
        // The turn ends with the stream.
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
