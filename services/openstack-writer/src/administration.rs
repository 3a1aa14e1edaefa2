//! Carries out the decisions of administrators.

#[cfg(test)]
mod tests;
mod words;
mod work;

use std::time::Instant;

use gimbal_kuryr_wire::pb;
use gimbal_transport::AdminGate;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use self::words::not_configured;
use self::work::{AdminOrders, detached};
use crate::cloud_access::CloudAccess;
use crate::clusters::{Clusters, SharedConfig};
use crate::inspection::ended;
use crate::mailbox::OwnerHandle;

/// Serves `gimbal.kuryr.v1.AdminService`.
pub struct ClusterAdministration {
    /// Who is an administrator.
    pub config: watch::Receiver<SharedConfig>,
    /// The owner, which decides.
    pub owner: OwnerHandle,
    /// The connection, for what is not about a controller's wishes.
    pub cloud: CloudAccess,
    /// Whether nothing may be changed.
    pub dry_run: bool,
    /// Cancelled when the process ends.
    pub shutdown: CancellationToken,
    /// Admits calls.
    pub gate: AdminGate,
}

impl ClusterAdministration {
    fn check<T: std::fmt::Debug>(&self, call: &'static str, request: &Request<T>) -> Result<(), Status> {
        self.gate.check(call, request, |peer| self.config.borrow().identify(peer).is_admin())
    }

    fn orders(&self) -> AdminOrders {
        AdminOrders {
            owner: self.owner.clone(),
            cloud: self.cloud.clone(),
            dry_run: self.dry_run,
            shutdown: self.shutdown.clone(),
        }
    }
}

#[tonic::async_trait]
impl pb::admin_service_server::AdminService for ClusterAdministration {
    async fn adopt(&self, request: Request<pb::AdoptRequest>) -> Result<Response<pb::AdoptResponse>, Status> {
        self.check("Adopt", &request)?;
        detached(self.orders().adopt(request.into_inner())).await.map(Response::new)
    }

    async fn forget(&self, request: Request<pb::ForgetRequest>) -> Result<Response<pb::ForgetResponse>, Status> {
        self.check("Forget", &request)?;
        detached(self.orders().forget(request.into_inner())).await.map(Response::new)
    }

    async fn decommission(
        &self,
        request: Request<pb::DecommissionRequest>,
    ) -> Result<Response<pb::DecommissionResponse>, Status> {
        self.check("Decommission", &request)?;
        detached(self.orders().decommission(request.into_inner())).await.map(Response::new)
    }

    async fn approve(&self, request: Request<pb::ApproveRequest>) -> Result<Response<pb::ApproveResponse>, Status> {
        self.check("Approve", &request)?;
        let pb::ApproveRequest { cluster, id } = request.into_inner();
        let question = move |all: &mut Clusters| {
            let now = Instant::now();
            let view = all.registry.cluster(&cluster, now).ok_or_else(|| not_configured(&cluster))?;
            let of = |held: &Option<gimbal_guard::HeldDrop>| {
                held.as_ref().filter(|held| held.id == id).map_or(0, |held| held.endpoints_removed)
            };
            let released =
                pb::ApproveResponse { load_balancers: of(&view.held_balancers), members: of(&view.held_members) };
            match all.registry.approve(&cluster, &id, now) {
                true => Ok(released),
                false => Err(Status::not_found(format!(
                    "nothing is held under the id {id:?}; ListClusters (gimbalctl lb clusters) shows what is"
                ))),
            }
        };
        self.owner.ask(question).await.map_err(ended)?.map(Response::new)
    }

    async fn confirm_cluster(
        &self,
        request: Request<pb::ConfirmClusterRequest>,
    ) -> Result<Response<pb::ConfirmClusterResponse>, Status> {
        self.check("ConfirmCluster", &request)?;
        let pb::ConfirmClusterRequest { cluster, cluster_uid } = request.into_inner();
        let uid = cluster_uid.clone();
        let question = move |all: &mut Clusters| all.confirm(&cluster.as_str().into(), &cluster_uid, Instant::now());
        let confirmed = self.owner.ask(question).await.map_err(ended)?;
        let previous = confirmed.map_err(Status::failed_precondition)?;
        let configuration = match previous.as_str() {
            "" => format!("clusterUid: {uid}"),
            previous => format!("clusterUid: {uid}, and {previous} in formerUids"),
        };
        Ok(Response::new(pb::ConfirmClusterResponse { previous, configuration }))
    }
}
