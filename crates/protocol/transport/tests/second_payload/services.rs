//! Inspection and administration, as far as these tests ask.

use futures::StreamExt as _;
use futures::stream::BoxStream;
use gimbal_kuryr_wire::pb;
use gimbal_kuryr_wire::pb::admin_service_server::AdminService;
use gimbal_kuryr_wire::pb::inspection_service_server::InspectionService;
use gimbal_transport::{AdminGate, InspectionGate, Peer, Status, Viewer};
use tonic::{Request, Response};

pub const CLUSTER: &str = "spiffe://test/cluster/prod1";
pub const ADMIN: &str = "spiffe://test/admin";

pub struct Inspected(pub InspectionGate);

#[tonic::async_trait]
impl InspectionService for Inspected {
    type WatchStream = BoxStream<'static, Result<pb::WatchResponse, Status>>;

    async fn get_server(&self, _: Request<pb::GetServerRequest>) -> Result<Response<pb::GetServerResponse>, Status> {
        Ok(Response::new(Default::default()))
    }

    async fn list_clusters(
        &self,
        request: Request<pb::ListClustersRequest>,
    ) -> Result<Response<pb::ListClustersResponse>, Status> {
        let (viewer, slot) = self.0.call(&request, viewer).await?;
        let names = ["prod1", "prod2"].into_iter().filter(|name| viewer.sees(name));
        let clusters = names.map(|name| pb::Cluster { name: name.into(), ..Default::default() }).collect();
        Ok(slot.answer(pb::ListClustersResponse { clusters }))
    }

    async fn list_load_balancers(
        &self,
        _: Request<pb::ListLoadBalancersRequest>,
    ) -> Result<Response<pb::ListLoadBalancersResponse>, Status> {
        Ok(Response::new(Default::default()))
    }

    /// Sends one event, then nothing.
    async fn watch(&self, request: Request<pb::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let (viewer, slot) = self.0.watch(&request, viewer)?;
        let mut cluster = request.into_inner().cluster;
        viewer.narrow(&mut cluster)?;
        let gone = pb::LoadBalancerGone { cluster, key: None };
        let event = pb::WatchResponse { event: Some(pb::watch_response::Event::Gone(gone)) };
        Ok(slot.answer(futures::stream::iter([Ok(event)]).chain(futures::stream::pending()).boxed()))
    }

    async fn explain(&self, _: Request<pb::ExplainRequest>) -> Result<Response<pb::ExplainResponse>, Status> {
        Ok(Response::new(Default::default()))
    }
}

pub fn viewer(peer: &Peer) -> Result<Viewer, Status> {
    match peer {
        peer if peer.has_san(ADMIN) => Ok(Viewer::All),
        peer if peer.has_san(CLUSTER) => Ok(Viewer::Backend("prod1".parse().unwrap())),
        _ => Err(Status::permission_denied("neither a cluster nor an admin")),
    }
}

#[derive(Default)]
pub struct Decisions(AdminGate);

#[tonic::async_trait]
impl AdminService for Decisions {
    async fn adopt(&self, request: Request<pb::AdoptRequest>) -> Result<Response<pb::AdoptResponse>, Status> {
        self.0.check("Adopt", &request, |peer| peer.has_san(ADMIN))?;
        let change =
            pb::PlannedChange { verb: "tag".into(), id: request.into_inner().load_balancer_id, ..Default::default() };
        Ok(Response::new(pb::AdoptResponse { changes: vec![change] }))
    }

    async fn forget(&self, _: Request<pb::ForgetRequest>) -> Result<Response<pb::ForgetResponse>, Status> {
        Ok(Response::new(Default::default()))
    }

    async fn decommission(
        &self,
        _: Request<pb::DecommissionRequest>,
    ) -> Result<Response<pb::DecommissionResponse>, Status> {
        Ok(Response::new(Default::default()))
    }

    async fn approve(&self, _: Request<pb::ApproveRequest>) -> Result<Response<pb::ApproveResponse>, Status> {
        Ok(Response::new(Default::default()))
    }

    async fn confirm_cluster(
        &self,
        _: Request<pb::ConfirmClusterRequest>,
    ) -> Result<Response<pb::ConfirmClusterResponse>, Status> {
        Ok(Response::new(Default::default()))
    }
}
