//! The server side of `AdminService`.

use std::sync::Arc;

use gimbal_wire::pb;
use tonic::{Request, Response, Status};

use crate::Peer;
use crate::discovery::known;

/// Does what a person decides.
#[tonic::async_trait]
pub trait Admin: Send + Sync + 'static {
    /// Whether the peer may do any of it. Asked before each call.
    fn is_admin(&self, peer: &Peer) -> bool;

    /// Lets a held removal pass.
    async fn approve(&self, request: pb::ApproveRequest) -> Result<pb::ApproveResponse, Status>;

    /// Removes everything of a backend, or tells what that would be.
    async fn decommission(&self, request: pb::DecommissionRequest) -> Result<pb::DecommissionResponse, Status>;

    /// Lets a backend name belong to another source.
    async fn confirm_incarnation(
        &self,
        request: pb::ConfirmIncarnationRequest,
    ) -> Result<pb::ConfirmIncarnationResponse, Status>;
}

pub(crate) struct AdminEdge(pub(crate) Arc<dyn Admin>);

impl AdminEdge {
    /// Every call of an admin, and every attempt at one, leaves a trace.
    fn check<T: std::fmt::Debug>(&self, call: &str, request: &Request<T>) -> Result<(), Status> {
        let peer = known(request)?.peer;
        if !self.0.is_admin(&peer) {
            // What a stranger sends is not written out: it may be megabytes.
            tracing::warn!(%peer, call, "refused a call that is for admins");
            return Err(Status::permission_denied(
                "the certificate is not one of an admin (see admins in the writer's configuration)",
            ));
        }
        tracing::info!(%peer, call, request = ?request.get_ref(), "an admin decided");
        Ok(())
    }
}

#[tonic::async_trait]
impl pb::admin_service_server::AdminService for AdminEdge {
    async fn approve(&self, request: Request<pb::ApproveRequest>) -> Result<Response<pb::ApproveResponse>, Status> {
        self.check("Approve", &request)?;
        self.0.approve(request.into_inner()).await.map(Response::new)
    }

    async fn decommission(
        &self,
        request: Request<pb::DecommissionRequest>,
    ) -> Result<Response<pb::DecommissionResponse>, Status> {
        self.check("Decommission", &request)?;
        self.0.decommission(request.into_inner()).await.map(Response::new)
    }

    async fn confirm_incarnation(
        &self,
        request: Request<pb::ConfirmIncarnationRequest>,
    ) -> Result<Response<pb::ConfirmIncarnationResponse>, Status> {
        self.check("ConfirmIncarnation", &request)?;
        self.0.confirm_incarnation(request.into_inner()).await.map(Response::new)
    }
}
