//! Writes the status of the objects of the kind Backend, and Events about them, while this process leads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_backend::{
    AskedOrders, BackendAnswer, BackendObjects, BackendOrder, BackendProblem, BackendResource, BackendResourceStatus,
    OrderBook, Standing, StatusFacts, StatusReports, notices,
};
use gimbal_kubernetes_client::{ApiError, Cluster};
use gimbal_kubernetes_objects::Meta;
use gimbal_lease::{Leadership, Moment};
use gimbal_model::BackendName;
use gimbal_reconcile::Reconciler;
use jiff::Timestamp;
use tokio::sync::watch;

use crate::backend_events::BackendEvents;
use crate::mailbox::{Ended, Handle};

/// Interval of looks at what there is to say.
const LOOK: Duration = Duration::from_secs(1);
/// Fields of a status that are left out where there is nothing to say, and have to be removed by name.
const OPTIONAL: [&str; 4] = ["incarnation", "refusedIncarnation", "heldChanges", "answers"];

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
            let due = self.events.deadline();
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
        // Who does not know yet what its predecessor stored has nothing to say.
        let targets = self.targets.borrow().clone();
        let in_force = targets.iter().filter(|target| target.in_force);
        let asked: Vec<AskedOrders> = in_force.map(|target| self.asked(target)).collect();
        let mut book = std::mem::take(&mut self.said.orders);
        let look = move |state: &mut Reconciler| {
            let known = known(state, &mut book, &asked);
            (known, book)
        };
        let (known, book) = self.owner.ask(look).await?;
        self.said.orders = book;
        let Some(mut known) = known else { return Ok(()) };
        for target in targets {
            let known = known.remove(&target.name).filter(|_| target.in_force);
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

    fn asked(&self, target: &StatusTarget) -> AskedOrders {
        let StatusTarget { name, uid, there, orders, .. } = target;
        let said = self.said.reports.said(name, uid, there.as_ref());
        AskedOrders { name: name.clone(), orders: orders.clone(), said }
    }

    async fn write(&mut self, target: &StatusTarget, known: Option<KnownBackend>) -> Result<(), ApiError> {
        let StatusTarget { name, uid, there, .. } = target;
        let said = self.said.reports.said(name, uid, there.as_ref());
        let (standing, answers) = known.map(|known| (known.standing.or_as_said(&said), known.answers)).unzip();
        // An answer is not given twice, even if the object cannot be used for a while.
        let answers = answers.unwrap_or_else(|| said.answers.clone());
        let problem = target.problem.as_ref();
        let facts = StatusFacts { generation: target.generation, problem, standing: standing.as_ref(), answers: &answers };
        let (now, at) = (Instant::now(), Timestamp::now());
        let wall = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let Some(status) = self.said.reports.due(name, uid, there.as_ref(), &facts, now, &wall) else { return Ok(()) };
        let meta = Meta { name: name.as_str().into(), uid: uid.clone(), ..Meta::default() };
        match self.cluster.patch_status::<BackendResource>(&meta, &patch(&status)).await {
            Ok(_) => {
                // After the status, from which the next writer knows what was said.
                for notice in standing.iter().flat_map(|standing| notices(name, &said, &status, standing)) {
                    self.events.push(name, uid, &notice, at);
                }
                self.said.reports.wrote(name, status, now);
                Ok(())
            }
            // Deleted, or made anew: the watch says so.
            Err(ApiError::NotFound { .. } | ApiError::Conflict { .. } | ApiError::Withheld) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Returns a status as a patch. What it does not have would stay as it was, and so is removed by name.
fn patch(status: &BackendResourceStatus) -> serde_json::Value {
    let mut patch = serde_json::to_value(status).unwrap_or_default();
    for field in OPTIONAL {
        if patch.get(field).is_none() {
            patch[field] = serde_json::Value::Null;
        }
    }
    patch
}

/// What is known of a configured backend.
struct KnownBackend {
    standing: Standing,
    answers: Vec<BackendAnswer>,
}

/// Carries out what annotations decide, and returns what is known of each configured backend then; `None` if this process cannot know
/// it, because it does not lead.
fn known(
    state: &mut Reconciler,
    book: &mut OrderBook,
    asked: &[AskedOrders],
) -> Option<BTreeMap<BackendName, KnownBackend>> {
    if !state.is_leading() {
        return None;
    }
    let mut answers: BTreeMap<&BackendName, Vec<BackendAnswer>> =
        asked.iter().map(|asked| (&asked.name, book.carry_out(state, asked))).collect();
    let pending = state.pending_by_backend();
    let listed = state.backends().iter().filter(|(_, backend)| backend.is_listed());
    let known = listed.map(|(name, backend)| {
        let waits = pending.get(name).copied().unwrap_or_default();
        let answers = answers.remove(name).unwrap_or_default();
        (name.clone(), KnownBackend { standing: Standing::of(backend, waits), answers })
    });
    Some(known.collect())
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
