//! The server side of `AdminService`.

use std::sync::Arc;
use std::time::Instant;

use gimbal_wire::pb;
use tonic::{Request, Response, Status};

use crate::discovery::known;
use crate::{Peer, Quiet};

/// Carries out the decisions of an administrator.
#[tonic::async_trait]
pub trait Admin: Send + Sync + 'static {
    /// Returns whether the peer is an administrator. Checked before each call.
    fn is_admin(&self, peer: &Peer) -> bool;

    /// Approves a held removal.
    async fn approve(&self, request: pb::ApproveRequest) -> Result<pb::ApproveResponse, Status>;

    /// Removes everything of a backend, or previews what would be removed.
    async fn decommission(&self, request: pb::DecommissionRequest) -> Result<pb::DecommissionResponse, Status>;

    /// Assigns a backend name to another source.
    async fn confirm_incarnation(
        &self,
        request: pb::ConfirmIncarnationRequest,
    ) -> Result<pb::ConfirmIncarnationResponse, Status>;
}

pub(crate) struct AdminEdge {
    admin: Arc<dyn Admin>,
    /// Limits the log lines about refused calls, by peer and call.
    refused: Quiet<(String, &'static str)>,
}

impl AdminEdge {
    pub(crate) fn new(admin: Arc<dyn Admin>) -> Self {
        Self { admin, refused: Quiet::default() }
    }

    /// Refuses peers that are not administrators. Every call of an administrator is logged; refused calls are logged
    /// once a minute for each peer and call.
    fn check<T: std::fmt::Debug>(&self, call: &'static str, request: &Request<T>) -> Result<(), Status> {
        let peer = known(request)?.peer;
        if !self.admin.is_admin(&peer) {
            if let Some(untold) = self.refused.tell((peer.key().to_owned(), call), Instant::now()) {
                // The request is not logged: it may be large, and its sender is not trusted.
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
