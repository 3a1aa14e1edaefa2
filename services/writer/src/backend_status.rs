//! Writes the status of the objects of the kind Backend, and Events about them, while this process leads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_backend::{
    AskedOrders, BackendObjects, BackendOrder, BackendProblem, BackendRemoval, BackendResource, BackendResourceStatus,
    OrderBook, RemovalPhase, StatusFacts, StatusReports, notices, wanted_finalizers,
};
use gimbal_kubernetes_client::{ApiError, Cluster};
use gimbal_kubernetes_objects::Meta;
use gimbal_lease::{Leadership, Moment};
use gimbal_model::BackendName;
use gimbal_reconcile::Reconciler;
use jiff::Timestamp;
use tokio::sync::watch;

use crate::backend_events::BackendEvents;
use crate::backend_look::{AskedObject, KnownBackend, look_at};
use crate::mailbox::{Ended, Handle};

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
    is_leaving: bool,
    resource_version: Arc<str>,
    finalizers: Vec<Arc<str>>,
    /// Its status when it was read last.
    there: Option<BackendResourceStatus>,
    /// What its annotations decide.
    orders: BTreeMap<BackendOrder, String>,
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
        is_leaving: known.is_leaving,
        resource_version: known.resource_version.into(),
        finalizers: known.finalizers.to_vec(),
        there: known.status.cloned(),
        orders: known.orders.clone(),
    });
    target.collect()
}

/// Writes statuses and Events.
pub(crate) struct StatusWriter {
    /// Writes only while the lease lasts.
    pub(crate) cluster: Cluster,
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) owner: Handle,
    pub(crate) targets: watch::Receiver<Vec<StatusTarget>>,
    pub(crate) events: BackendEvents,
    pub(crate) said: Said,
}

/// What was said, and in which epoch of the lease.
#[derive(Debug, Default)]
pub(crate) struct Said {
    reports: StatusReports,
    orders: OrderBook,
    epoch: Option<u64>,
    /// A failure was logged, and its end not yet.
    failing: bool,
}

impl StatusWriter {
    /// Runs for ever.
    pub(crate) async fn run(mut self) {
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            // Who may not write waits for the next look, and not for what is due already.
            let due = self.events.deadline().filter(|_| self.may_write());
            tokio::select! {
                _ = look.tick() => if self.look().await.is_err() {
                    // The process ends.
                    return std::future::pending().await;
                },
                written = self.events.written() => self.events.handle(written, Instant::now()),
                () = sleep_until(due) => {}
            }
            if self.may_write() {
                self.events.write_next(Instant::now());
            }
        }
    }

    fn may_write(&self) -> bool {
        self.leadership.borrow().may_write(Moment::now())
    }

    /// Writes what there is to say now.
    async fn look(&mut self) -> Result<(), Ended> {
        let leads = self.leadership.borrow().epoch();
        if leads != self.said.epoch {
            // Another process may have written meanwhile.
            self.said.reports.forget();
            self.said.orders.forget();
            self.events.forget();
            self.said.epoch = leads;
        }
        if !self.may_write() {
            return Ok(());
        }
        let targets = self.targets.borrow().clone();
        let asked: Vec<AskedObject> = targets.iter().map(|target| self.asked(target)).collect();
        let mut book = std::mem::take(&mut self.said.orders);
        let look = move |state: &mut Reconciler| {
            let known = look_at(state, &mut book, &asked, Instant::now());
            (known, book)
        };
        let (known, book) = self.owner.ask(look).await?;
        self.said.orders = book;
        // Who does not know yet what its predecessor stored has nothing to say.
        let Some(mut known) = known else { return Ok(()) };
        for target in targets {
            let known = known.remove(&target.name).unwrap_or_default();
            match self.write(&target, known).await {
                Ok(()) => self.said.failing = false,
                // Logged once for each outage: it is tried again with the next look.
                Err(error) if !std::mem::replace(&mut self.said.failing, true) => {
                    tracing::warn!(backend = %target.name, %error, "cannot write the status of a Backend");
                }
                Err(error) => tracing::debug!(backend = %target.name, %error, "still cannot write the status"),
            }
        }
        Ok(())
    }

    fn asked(&self, target: &StatusTarget) -> AskedObject {
        let StatusTarget { name, uid, there, orders, in_force, is_leaving, .. } = target;
        let said = self.said.reports.said(name, uid, there.as_ref());
        let (name, uid, orders) = (name.clone(), uid.clone(), orders.clone());
        AskedObject { in_force: *in_force, orders: AskedOrders { name, uid, is_leaving: *is_leaving, orders, said } }
    }

    async fn write(&mut self, target: &StatusTarget, known: KnownBackend) -> Result<(), ApiError> {
        let StatusTarget { name, uid, there, .. } = target;
        let said = self.said.reports.said(name, uid, there.as_ref());
        let standing = known.standing.map(|standing| standing.or_as_said(&said));
        // An answer is not given twice, even if the object cannot be used for a while.
        let answers = known.answers.unwrap_or_else(|| said.answers.clone());
        let removal = known.removal.and_then(|state| match state {
            Some(state) => Some(BackendRemoval::of(name, &state, said.removal.as_ref())),
            None => said.removal.clone(),
        });
        let (standing, removal) = (standing.as_ref(), removal.as_ref());
        let (generation, problem) = (target.generation, target.problem.as_ref());
        let facts = StatusFacts { generation, problem, standing, answers: &answers, removal };
        let (now, at) = (Instant::now(), Timestamp::now());
        let wall = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        if let Some(status) = self.said.reports.due(name, uid, there.as_ref(), &facts, now, &wall) {
            // Applied, so that the conditions of others stay, and what is unset goes.
            let meta = Meta { name: name.as_str().into(), uid: uid.clone(), ..Meta::default() };
            if passed(self.cluster.apply_status::<BackendResource>(&meta, &status, MANAGER).await)?.is_none() {
                return Ok(());
            }
            // After the status, from which the next writer knows what was said.
            for notice in notices(name, &said, &status, standing) {
                self.events.push(name, uid, &notice, at);
            }
            self.said.reports.wrote(name, status, now);
        }
        // After the status as well: it has to say that nothing is left, or that counts as a loss of the object.
        let is_removed = removal.is_some_and(|removal| removal.phase == RemovalPhase::Removed);
        self.set_finalizers(target, is_removed).await
    }

    async fn set_finalizers(&self, target: &StatusTarget, is_removed: bool) -> Result<(), ApiError> {
        let StatusTarget { name, uid, resource_version, finalizers, in_force, is_leaving, .. } = target;
        let Some(wanted) = wanted_finalizers(finalizers, *in_force, *is_leaving, is_removed) else { return Ok(()) };
        // A patch replaces the whole list, so it has to be the list of the version that was read.
        let (name, resource_version) = (name.as_str().into(), resource_version.clone());
        let meta = Meta { name, uid: uid.clone(), resource_version, ..Meta::default() };
        let change = serde_json::json!({"metadata": {"finalizers": wanted}});
        passed(self.cluster.merge_patch::<BackendResource>(&meta, &change).await).map(drop)
    }
}

/// Returns the answer to a write; `None` if the object changed, was deleted or made anew, as the watch will say.
fn passed(answer: Result<BackendResource, ApiError>) -> Result<Option<BackendResource>, ApiError> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(ApiError::NotFound { .. } | ApiError::Conflict { .. } | ApiError::Withheld) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
