//! The server side of `AdminService`.

use std::sync::Arc;

use gimbal_wire::pb;
use tonic::{Request, Response, Status};

use crate::{AdminGate, Peer};

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

    /// Returns what another configuration would change.
    async fn preview_configuration(
        &self,
        request: pb::PreviewConfigurationRequest,
    ) -> Result<pb::PreviewConfigurationResponse, Status>;
}

pub(crate) struct AdminEdge {
    admin: Arc<dyn Admin>,
    gate: AdminGate,
}

impl AdminEdge {
    pub(crate) fn new(admin: Arc<dyn Admin>) -> Self {
        Self { admin, gate: AdminGate::default() }
    }

    fn check<T: std::fmt::Debug>(&self, call: &'static str, request: &Request<T>) -> Result<(), Status> {
        self.gate.check(call, request, |peer| self.admin.is_admin(peer))
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

    async fn preview_configuration(
        &self,
        request: Request<pb::PreviewConfigurationRequest>,
    ) -> Result<Response<pb::PreviewConfigurationResponse>, Status> {
        self.check("PreviewConfiguration", &request)?;
        self.admin.preview_configuration(request.into_inner()).await.map(Response::new)
    }
}
