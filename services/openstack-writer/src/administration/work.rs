//! The work of an order. It runs on a task of its own: the admin may go away in the middle, and what was begun comes to its end.

use std::time::{Duration, Instant};

use gimbal_kuryr_model::Text;
use gimbal_kuryr_wire::pb;
use gimbal_octavia_registry::AdoptionOutcome;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::words::{check_id, not_adopted, not_configured, not_ordered, not_released};
use crate::cloud_access::CloudAccess;
use crate::clusters::Clusters;
use crate::inspection::{balancer_key, ended};
use crate::listing::planned;
use crate::mailbox::OwnerHandle;
use crate::marked::{MarkRelease, MarkScope, MarkedInventory, ReleaseRefusal, RemovalProgress, remove};

/// How long an admin waits for the end of an order.
const PATIENCE: Duration = Duration::from_secs(60);
/// Changes of a removal that are shown.
const SHOWN: usize = 1000;

/// Carries out one order.
#[derive(Clone)]
pub(super) struct AdminOrders {
    pub(super) owner: OwnerHandle,
    pub(super) cloud: CloudAccess,
    pub(super) dry_run: bool,
    pub(super) shutdown: CancellationToken,
}

/// Lets work come to its end, whether or not somebody waits for it.
pub(super) async fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<T, Status> {
    tokio::spawn(work).await.unwrap_or_else(|error| Err(Status::internal(error.to_string())))
}

impl AdminOrders {
    fn check_dry_run(&self) -> Result<(), Status> {
        match self.dry_run {
            true => Err(Status::failed_precondition("the writer runs with --dry-run: nothing is changed")),
            false => Ok(()),
        }
    }

    pub(super) async fn adopt(self, request: pb::AdoptRequest) -> Result<pb::AdoptResponse, Status> {
        let pb::AdoptRequest { cluster, namespace, name, load_balancer_id: id, dry_run } = request;
        let key = balancer_key(&namespace, &name)?;
        check_id(&id)?;
        if !dry_run {
            self.check_dry_run()?;
        }
        let (reply, outcome) = oneshot::channel();
        let (asked, wanted, balancer) = (cluster.clone(), key.clone(), id.clone());
        let question = move |all: &mut Clusters| {
            let known = all.get(&asked).filter(|state| state.uid.is_some()).ok_or_else(|| not_configured(&asked))?;
            if !known.is_connected() {
                let message = format!("the controller of cluster {asked} is not connected, so nothing is changed");
                return Err(Status::unavailable(message));
            }
            if known.config.quarantine && !dry_run {
                let message =
                    format!("cluster {asked} is in quarantine, so nothing is changed; set its mode to admit first");
                return Err(Status::failed_precondition(message));
            }
            if let Some(reject) = known.reject(&wanted) {
                let message = format!("cluster {asked} may not have {wanted}: {}", reject.message);
                return Err(Status::failed_precondition(message));
            }
            match all.adopt(&asked.as_str().into(), wanted, &balancer, dry_run, reply, Instant::now()) {
                true => Ok(()),
                false => Err(Status::already_exists(format!(
                    "another adoption of load balancer {balancer}, or by this Service, is under way; order it again when that \
                     has ended"
                ))),
            }
        };
        self.owner.ask(question).await.map_err(ended)??;
        let outcome = tokio::time::timeout(PATIENCE, outcome).await.map_err(|_| {
            Status::deadline_exceeded(format!(
                "the adoption of load balancer {id} is still under way, and goes on; order it again to wait for its end"
            ))
        })?;
        let given_up =
            |_| Status::unavailable("the configuration of the cluster has changed, or the writer is shutting down");
        match outcome.map_err(given_up)? {
            AdoptionOutcome::WouldChange(changes) => {
                Ok(pb::AdoptResponse { changes: changes.iter().map(|change| planned(&change.request())).collect() })
            }
            AdoptionOutcome::Done => Ok(pb::AdoptResponse::default()),
            AdoptionOutcome::Refused(refusal) => Err(not_adopted(refusal, &cluster, &key, &id)),
        }
    }

    pub(super) async fn forget(self, request: pb::ForgetRequest) -> Result<pb::ForgetResponse, Status> {
        let pb::ForgetRequest { cluster, load_balancer_id: id, dry_run } = request;
        check_id(&id)?;
        if !dry_run {
            self.check_dry_run()?;
        }
        let name: Text = cluster.into();
        let asked = name.clone();
        let scope = self.owner.ask(move |all| all.mark_scope(&asked)).await.map_err(ended)?.map_err(not_ordered)?;
        let release = MarkRelease::read(&self.cloud, &scope, &id).await.map_err(not_released)?;
        let changes: Vec<_> = release.changes.iter().map(planned).collect();
        let (asked, owner) = (name.clone(), release.owner.clone());
        if dry_run {
            let may_go = self.owner.ask(move |all| all.may_release(&asked, &owner)).await.map_err(ended)?;
            return may_go.map(|()| pb::ForgetResponse { changes }).map_err(not_ordered);
        }
        let begin = move |all: &mut Clusters| all.begin_release(&asked, &owner, Instant::now());
        let permit = self.owner.ask(begin).await.map_err(ended)?.map_err(not_ordered)?;
        let owner = release.owner.clone();
        tracing::warn!(cluster = %name, %owner, balancer = id, "the mark is taken off, as an admin ordered");
        let carried_out = release.carry_out(&self.cloud, &scope, move || permit.holds());
        let done = tokio::time::timeout(PATIENCE, carried_out).await.unwrap_or_else(|_| {
            let words =
                format!("Octavia is not done with load balancer {id} yet; order it again, what is done stays done");
            Err(ReleaseRefusal::Unavailable(words))
        });
        let end = move |all: &mut Clusters| all.end_release(&name, &owner, Instant::now());
        self.owner.ask(end).await.map_err(ended)?;
        done.map(|()| pb::ForgetResponse { changes }).map_err(not_released)
    }

    pub(super) async fn decommission(
        self,
        request: pb::DecommissionRequest,
    ) -> Result<pb::DecommissionResponse, Status> {
        let pb::DecommissionRequest { cluster, dry_run, id } = request;
        let name: Text = cluster.into();
        let scope = self.owner.ask(move |all| all.removable(&name)).await.map_err(ended)?.map_err(not_ordered)?;
        let inventory = MarkedInventory::read(&self.cloud, &scope).await.map_err(Status::unavailable)?;
        let present = inventory.id(&scope);
        if !dry_run {
            self.check_dry_run()?;
            if id != present && inventory.owners().is_empty() {
                let message = format!(
                    "nothing carries the mark of cluster {} any more, so there is nothing to remove: take the cluster out of the \
                     configuration of openstack-writer",
                    scope.cluster()
                );
                return Err(Status::failed_precondition(message));
            }
            if id != present {
                let message = format!(
                    "{id:?} was ordered, and what would be removed now is {present}: look at a dry run first, and order the id that it \
                     prints"
                );
                return Err(Status::failed_precondition(message));
            }
            self.remove(scope, &inventory, present.clone()).await?;
        }
        let changes = inventory.changes().take(SHOWN).cloned().collect();
        Ok(pb::DecommissionResponse { id: present, objects: inventory.counts(), changes })
    }

    /// Begins to remove everything of a cluster.
    async fn remove(&self, scope: MarkScope, inventory: &MarkedInventory, id: String) -> Result<(), Status> {
        let owners = inventory.owners().clone();
        let (name, progress) = (scope.cluster().clone(), RemovalProgress::new(id, owners.len()));
        let (asked, begun) = (name.clone(), progress.clone());
        let stop = self.owner.ask(move |all| all.begin_removal(&asked, begun)).await.map_err(ended)?;
        let stop = stop.map_err(not_ordered)?;
        let (cloud, owner, shutdown) = (self.cloud.clone(), self.owner.clone(), self.shutdown.clone());
        tokio::spawn(async move {
            let id = progress.id.clone();
            let removing = remove(cloud, scope, owners, progress, stop);
            // A change that is lost at shutdown is found again by its mark.
            if shutdown.run_until_cancelled(removing).await.is_some()
                && owner.ask(move |all| all.end_removal(&name, &id)).await.is_err()
            {
                tracing::debug!("the process ends");
            }
        });
        Ok(())
    }
}
