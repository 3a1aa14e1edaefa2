//! The server side of `AdminService`.

use std::sync::Arc;
use std::time::Instant;

use gimbal_wire::pb;
use tonic::{Request, Response, Status};

use crate::discovery::known;
use crate::{Peer, Quiet};

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

pub(crate) struct AdminEdge {
    admin: Arc<dyn Admin>,
    /// Attempts by peer and call that the log holds already.
    refused: Quiet<(String, &'static str)>,
}

impl AdminEdge {
    pub(crate) fn new(admin: Arc<dyn Admin>) -> Self {
        Self { admin, refused: Quiet::default() }
    }

    /// Every call of an admin leaves a trace, and so does who tries to be one: a line a minute, however often it tries.
    fn check<T: std::fmt::Debug>(&self, call: &'static str, request: &Request<T>) -> Result<(), Status> {
        let peer = known(request)?.peer;
        if !self.admin.is_admin(&peer) {
            if let Some(untold) = self.refused.tell((peer.key().to_owned(), call), Instant::now()) {
                // What a stranger sends is not written out: it may be megabytes.
                tracing::warn!(%peer, call, untold, "refused a call that is for admins");
            }
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
        self.admin.approve(request.into_inner()).await.map(Response::new)
    }

    async fn decommission(
        &self,
        request: Request<pb::DecommissionRequest>,
    ) -> Result<Response<pb::DecommissionResponse>, Status> {
        self.check("Decommission", &request)?;
        self.admin.decommission(request.into_inner()).await.map(Response::new)
    }

    async fn confirm_incarnation(
        &self,
        request: Request<pb::ConfirmIncarnationRequest>,
    ) -> Result<Response<pb::ConfirmIncarnationResponse>, Status> {
        self.check("ConfirmIncarnation", &request)?;
        self.admin.confirm_incarnation(request.into_inner()).await.map(Response::new)
    }
}
