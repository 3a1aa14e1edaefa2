//! Writes the status of the objects of the kind Backend, while this process leads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_backend::{
    BackendObjects, BackendProblem, BackendResource, BackendResourceStatus, Standing, StatusFacts, StatusReports,
};
use gimbal_kubernetes_client::{ApiError, Cluster};
use gimbal_kubernetes_objects::Meta;
use gimbal_lease::{Leadership, Moment};
use gimbal_model::BackendName;
use gimbal_reconcile::Reconciler;
use tokio::sync::watch;

use crate::mailbox::Handle;

/// Who the fields of a status that it writes belong to.
const MANAGER: &str = "gimbal-writer";
/// Interval of looks at what there is to say.
const LOOK: Duration = Duration::from_secs(1);

/// An object that gets a status.
#[derive(Debug, Clone)]
pub(crate) struct StatusTarget {
    name: BackendName,
    uid: Arc<str>,
    generation: i64,
    problem: Option<BackendProblem>,
    in_force: bool,
    /// Its status when it was read last.
    there: Option<BackendResourceStatus>,
}

/// Returns the objects that get a status: those that are there.
pub(crate) fn status_targets(objects: &BackendObjects) -> Vec<StatusTarget> {
    let there = objects.known().filter(|(_, known)| !known.is_kept);
    let target = there.map(|(name, known)| StatusTarget {
        name: name.clone(),
        uid: known.uid.into(),
        generation: known.generation,
        problem: known.problem,
        in_force: known.in_force.is_some(),
        there: known.status.cloned(),
    });
    target.collect()
}

/// Writes statuses.
pub(crate) struct StatusWriter {
    /// Writes only while the lease lasts.
    pub(crate) cluster: Cluster,
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) owner: Handle,
    pub(crate) targets: watch::Receiver<Vec<StatusTarget>>,
}

impl StatusWriter {
    /// Runs for ever.
    pub(crate) async fn run(self) {
        let mut reports = StatusReports::default();
        let (mut epoch, mut failing) = (None, false);
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            look.tick().await;
            let (leads, may_write) = {
                let leadership = self.leadership.borrow();
                (leadership.epoch(), leadership.may_write(Moment::now()))
            };
            if leads != epoch {
                // Another process may have written meanwhile.
                reports.forget();
                epoch = leads;
            }
            if !may_write {
                continue;
            }
            let Ok(standings) = self.owner.ask(standings).await else { return std::future::pending().await };
            // Who does not know yet what its predecessor stored has nothing to say.
            let Some(standings) = standings else { continue };
            let targets = self.targets.borrow().clone();
            for target in targets {
                match self.write(&mut reports, &target, standings.get(&target.name)).await {
                    Ok(()) => failing = false,
                    // Logged once for each outage: it is tried again with the next look.
                    Err(error) if !std::mem::replace(&mut failing, true) => {
                        tracing::warn!(backend = %target.name, %error, "cannot write the status of a Backend");
                    }
                    Err(error) => tracing::debug!(backend = %target.name, %error, "still cannot write the status"),
                }
            }
        }
    }

    async fn write(
        &self,
        reports: &mut StatusReports,
        target: &StatusTarget,
        standing: Option<&Standing>,
    ) -> Result<(), ApiError> {
        let standing = standing.filter(|_| target.in_force);
        let facts = StatusFacts { generation: target.generation, problem: target.problem.as_ref(), standing };
        let (now, wall) = (Instant::now(), jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        let there = target.there.as_ref();
        let Some(status) = reports.due(&target.name, &target.uid, there, &facts, now, &wall) else { return Ok(()) };
        let meta = Meta { name: target.name.as_str().into(), uid: target.uid.clone(), ..Meta::default() };
        // Applied, so that the conditions of others stay, and what is unset goes.
        match self.cluster.apply_status::<BackendResource>(&meta, &status, MANAGER).await {
            Ok(_) => {
                reports.wrote(&target.name, status, now);
                Ok(())
            }
            // Deleted, or made anew: the watch says so.
            Err(ApiError::NotFound { .. } | ApiError::Conflict { .. } | ApiError::Withheld) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Returns what is known of each configured backend; `None` if this process cannot know it, because it does not lead.
fn standings(state: &mut Reconciler) -> Option<BTreeMap<BackendName, Standing>> {
    if !state.is_leading() {
        return None;
    }
    let pending = state.pending_by_backend();
    let listed = state.backends().iter().filter(|(_, backend)| backend.is_listed());
    let standing = listed.map(|(name, backend)| {
        let waits = pending.get(name).copied().unwrap_or_default();
        (name.clone(), Standing::of(backend, waits))
    });
    Some(standing.collect())
}
