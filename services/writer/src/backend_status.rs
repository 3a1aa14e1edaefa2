//! Writes the status of the objects of the kind Backend, and Events about them, while this process leads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures::{StreamExt, stream};
use gimbal_backend::{
    AskedOrders, BackendObjects, BackendOrder, BackendProblem, BackendRemoval, BackendResource, BackendResourceStatus,
    OrderBook, ReadStatus, RemovalPhase, Standing, StatusFacts, StatusReports, notices, wanted_finalizers,
};
use gimbal_kubernetes_client::{ApiError, Cluster};
use gimbal_kubernetes_objects::Meta;
use gimbal_lease::{Leadership, Moment};
use gimbal_model::BackendName;
use gimbal_reconcile::Reconciler;
use gimbal_schedule::Retries;
use jiff::Timestamp;
use tokio::sync::watch;

use crate::backend_events::BackendEvents;
use crate::backend_look::{AskedObject, KnownBackend, look_at};
use crate::mailbox::{Ended, Handle};

/// Who the fields of a status that it writes belong to.
const MANAGER: &str = "gimbal-writer";
/// Interval of looks at what there is to say.
const LOOK: Duration = Duration::from_secs(1);
/// How many objects are written at the same time, so that few wait for a webhook that does not answer for one of them.
const AT_ONCE: usize = 16;

/// The objects that get a status.
#[derive(Debug, Clone, Default)]
pub(crate) struct StatusTargets {
    objects: Vec<StatusTarget>,
    /// How often the cluster's store was put back to an older state.
    restorations: u64,
}

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

impl StatusTarget {
    fn read(&self) -> ReadStatus<'_> {
        ReadStatus { uid: &self.uid, version: &self.resource_version, status: self.there.as_ref() }
    }
}

/// Returns the objects that get a status: those that are there.
pub(crate) fn status_targets(objects: &BackendObjects) -> StatusTargets {
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
    StatusTargets { objects: target.collect(), restorations: objects.restorations() }
}

/// Writes statuses and Events.
pub(crate) struct StatusWriter {
    /// Writes only while the lease lasts.
    pub(crate) cluster: Cluster,
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) owner: Handle,
    pub(crate) targets: watch::Receiver<StatusTargets>,
    pub(crate) events: BackendEvents,
    pub(crate) said: Said,
}

/// What was said, and in which epoch of the lease.
#[derive(Debug, Default)]
pub(crate) struct Said {
    reports: StatusReports,
    orders: OrderBook,
    epoch: Option<u64>,
    /// Restorations of the cluster's store that are taken into account.
    restorations: u64,
    /// The objects that cannot be written at the moment.
    failing: Retries<BackendName>,
}

/// What is written to an object: its status, and its finalizers after that.
struct DueWrite {
    target: StatusTarget,
    /// The version of the object that it is about.
    version: Arc<str>,
    /// What the status said before.
    said: BackendResourceStatus,
    standing: Option<Standing>,
    /// The status to write, if there is anything to say.
    status: Option<BackendResourceStatus>,
    /// Whether the status says, now or before, that nothing of the backend is left.
    is_removed: bool,
    at: Timestamp,
}

/// What came of it.
struct Wrote {
    due: DueWrite,
    /// The version of the object that has the status, if it was written.
    version: Option<Arc<str>>,
    result: Result<(), ApiError>,
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
        let StatusTargets { objects: targets, restorations } = self.targets.borrow().clone();
        if std::mem::replace(&mut self.said.restorations, restorations) != restorations {
            self.said.reports.went_back();
        }
        let asked: Vec<AskedObject> = targets.iter().map(|target| self.asked(target)).collect();
        let mut book = std::mem::take(&mut self.said.orders);
        let look = move |state: &mut Reconciler| {
            let known = look_at(state, &mut book, &asked);
            (known, book)
        };
        let (known, book) = self.owner.ask(look).await?;
        self.said.orders = book;
        // Who does not know yet what its predecessor stored has nothing to say.
        let Some(mut known) = known else { return Ok(()) };
        let there: BTreeSet<&BackendName> = targets.iter().map(|target| &target.name).collect();
        self.said.failing.keep(|name| there.contains(name));
        let now = Instant::now();
        let mut due = Vec::new();
        for target in targets {
            let known = known.remove(&target.name).unwrap_or_default();
            if self.said.failing.waits(&target.name, now).is_none() {
                due.push(self.due(target, known, now));
            }
        }
        let cluster = &self.cluster;
        let writes = stream::iter(due.into_iter().map(|due| write(cluster, due)));
        let wrote: Vec<Wrote> = writes.buffer_unordered(AT_ONCE).collect().await;
        wrote.into_iter().for_each(|wrote| self.take(wrote));
        Ok(())
    }

    fn asked(&self, target: &StatusTarget) -> AskedObject {
        let StatusTarget { name, uid, orders, in_force, is_leaving, .. } = target;
        let said = self.said.reports.said_and_answered(name, target.read());
        let (name, uid, orders) = (name.clone(), uid.clone(), orders.clone());
        AskedObject { in_force: *in_force, orders: AskedOrders { name, uid, is_leaving: *is_leaving, orders, said } }
    }

    /// Returns what there is to write to an object.
    fn due(&mut self, target: StatusTarget, known: KnownBackend, now: Instant) -> DueWrite {
        let (name, there) = (&target.name, target.read());
        let said = self.said.reports.said(name, there);
        let standing = known.standing.map(|standing| standing.or_as_said(&said));
        // An answer is not given twice, even if the object cannot be used for a while.
        let answers = known.answers.unwrap_or_else(|| self.said.reports.said_and_answered(name, there).answers);
        let removal = known.removal.and_then(|state| match state {
            Some(state) => Some(BackendRemoval::of(name, &state, said.removal.as_ref(), wall_time)),
            None => said.removal.clone(),
        });
        let (generation, problem) = (target.generation, target.problem.as_ref());
        let (standing_now, removal) = (standing.as_ref(), removal.as_ref());
        let facts = StatusFacts { generation, problem, standing: standing_now, answers: &answers, removal };
        let at = Timestamp::now();
        let wall = rfc3339(at);
        let status = self.said.reports.due(name, there, &facts, now, &wall);
        let is_removed = removal.is_some_and(|removal| removal.phase == RemovalPhase::Removed);
        let version = self.said.reports.version(name, there).into();
        DueWrite { target, version, said, standing, status, is_removed, at }
    }

    /// Notes what was written, and reports what that says.
    fn take(&mut self, wrote: Wrote) {
        let Wrote { due: DueWrite { target, said, standing, status, at, .. }, version, result } = wrote;
        let StatusTarget { name, uid, .. } = &target;
        if let (Some(status), Some(version)) = (status, version) {
            // After the status, from which the next writer knows what was said.
            for notice in notices(name, &said, &status, standing.as_ref()) {
                self.events.push(name, uid, &notice, at);
            }
            self.said.reports.wrote(name, status, &version, Instant::now());
        }
        match result {
            Ok(()) if self.said.failing.done(name) => {
                tracing::info!(backend = %name, "the Backend can be written again")
            }
            Ok(()) => {}
            // Logged once for each outage of an object.
            Err(error) if self.said.failing.failed(name.clone(), Instant::now(), ()) => {
                tracing::warn!(backend = %name, %error, "cannot write the status or the finalizer of a Backend; it is tried again");
            }
            Err(error) => tracing::debug!(backend = %name, %error, "still cannot write the Backend"),
        }
    }
}

/// Writes what is due to an object.
async fn write(cluster: &Cluster, due: DueWrite) -> Wrote {
    let mut version = due.version.clone();
    let mut result = Ok(());
    let mut written = None;
    if let Some(status) = &due.status {
        let StatusTarget { name, uid, .. } = &due.target;
        // Applied, so that the conditions of others stay, and what is unset goes; to the version that was read, so that a writer that
        // was stopped and wakes takes nothing back of what the next one said.
        let (name, resource_version) = (name.as_str().into(), version.clone());
        let meta = Meta { name, uid: uid.clone(), resource_version, ..Meta::default() };
        match passed(cluster.apply_status::<BackendResource>(&meta, status, MANAGER).await) {
            Ok(Some(object)) => {
                version = object.metadata.meta.resource_version;
                written = Some(version.clone());
            }
            // The next look is at what it is by then.
            Ok(None) => return Wrote { due, version: None, result },
            Err(error) => result = Err(error),
        }
    }
    // After the status: it has to say that nothing is left, or that counts as a loss of the object. The finalizer comes without it.
    let is_removed = due.is_removed && result.is_ok();
    let set = set_finalizers(cluster, &due.target, version, is_removed).await;
    Wrote { due, version: written, result: result.and(set) }
}

async fn set_finalizers(
    cluster: &Cluster,
    target: &StatusTarget,
    version: Arc<str>,
    is_removed: bool,
) -> Result<(), ApiError> {
    let StatusTarget { name, uid, finalizers, in_force, is_leaving, .. } = target;
    let Some(wanted) = wanted_finalizers(finalizers, *in_force, *is_leaving, is_removed) else { return Ok(()) };
    // A patch replaces the whole list, so it has to be the list of the version that was read, or that only the status changed since.
    let meta = Meta { name: name.as_str().into(), uid: uid.clone(), resource_version: version, ..Meta::default() };
    let change = serde_json::json!({"metadata": {"finalizers": wanted}});
    passed(cluster.merge_patch::<BackendResource>(&meta, &change).await).map(drop)
}

/// Returns the answer to a write; `None` if the object changed, was deleted or made anew, as the watch will say.
fn passed(answer: Result<BackendResource, ApiError>) -> Result<Option<BackendResource>, ApiError> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(ApiError::NotFound { .. } | ApiError::Conflict { .. } | ApiError::Withheld) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns a time to the second, as Kubernetes writes it.
fn rfc3339(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn wall_time(at: SystemTime) -> String {
    rfc3339(Timestamp::try_from(at).unwrap_or(Timestamp::MAX))
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
