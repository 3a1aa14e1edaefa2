//! The task: which tenant's record is written next. A tenant whose record cannot be written delays no other tenant.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use gimbal_kubernetes_client::ApiError;
use gimbal_schedule::Backoff;
use tokio::sync::{mpsc, watch};

use crate::store::{NotWritten, RecordChange, RecordOf, Store};
use crate::{Format, StateEvent};
use gimbal_lease::{Leadership, Moment};

/// Delay after a failed write.
const RETRY: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(30) };
/// Delay after a record was found that is for newer programs. Somebody may delete it.
const NEWER_RETRY: Duration = Duration::from_secs(5);
/// Most writes in flight. One that hangs must not delay the others.
const MAX_IN_FLIGHT: usize = 8;
/// Time for the last writes when the process ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

#[allow(clippy::large_enum_variant)] // At most one for each tenant waits.
pub(crate) enum Request<F: Format> {
    Read(u64),
    Change(u64, F::Tenant, RecordChange<F::State>),
}

/// The result of a call.
enum Ended<F: Format> {
    Write(Box<Pending<F::State>>, F::Tenant, Result<(), NotWritten>),
    Read(Option<Records<F>>),
}

/// The epoch that a read was asked for in, and what was read.
type Records<F> = (u64, Vec<RecordOf<F>>);

/// A change that is to be written.
struct Pending<S> {
    epoch: u64,
    change: RecordChange<S>,
    since: Instant,
}

/// A tenant whose last write failed.
struct Failed {
    failures: u32,
    next: Instant,
    /// Whether the record is for newer programs, so that waiting does not help.
    is_newer: bool,
}

pub(crate) struct Task<F: Format> {
    store: Store<F>,
    leadership: watch::Receiver<Leadership>,
    events: mpsc::UnboundedSender<StateEvent<F>>,
    waiting: BTreeMap<F::Tenant, Pending<F::State>>,
    failed: BTreeMap<F::Tenant, Failed>,
    /// Tenants whose record is being written.
    busy: BTreeSet<F::Tenant>,
    in_flight: FuturesUnordered<BoxFuture<'static, Ended<F>>>,
}

impl<F: Format> Task<F> {
    pub(crate) fn new(
        store: Store<F>,
        leadership: watch::Receiver<Leadership>,
        events: mpsc::UnboundedSender<StateEvent<F>>,
    ) -> Self {
        let in_flight = FuturesUnordered::new();
        Self {
            store,
            leadership,
            events,
            waiting: BTreeMap::new(),
            failed: BTreeMap::new(),
            busy: BTreeSet::new(),
            in_flight,
        }
    }

    pub(crate) async fn run(mut self, mut requests: mpsc::UnboundedReceiver<Request<F>>) {
        let mut deadline: Option<Instant> = None;
        loop {
            let wake = self.start_due(Instant::now()).into_iter().chain(deadline).min();
            tokio::select! {
                request = requests.recv(), if deadline.is_none() => match request {
                    Some(request) => self.accept(request),
                    None => deadline = Some(Instant::now() + SHUTDOWN_TIMEOUT),
                },
                Some(ended) = self.in_flight.next() => self.ended(ended),
                // An error means that the sender is gone and the value final.
                Ok(()) = self.leadership.changed() => {}
                () = sleep_until(wake) => {}
            }
            let waits = |tenant: &F::Tenant| !self.failed.get(tenant).is_some_and(|failed| failed.is_newer);
            let done = !self.waiting.keys().any(waits) && self.busy.is_empty();
            if deadline.is_some_and(|deadline| done || Instant::now() >= deadline) {
                if !done {
                    tracing::warn!("the last changes of the state could not be written in time");
                }
                return;
            }
        }
    }

    fn accept(&mut self, request: Request<F>) {
        match request {
            Request::Read(epoch) => {
                let (store, leadership) = (self.store.clone(), self.leadership.clone());
                self.in_flight.push(Box::pin(async move { Ended::Read(read(store, leadership, epoch).await) }));
            }
            Request::Change(epoch, tenant, change) => {
                let since = self.waiting.get(&tenant).map_or_else(Instant::now, |waiting| waiting.since);
                self.waiting.insert(tenant, Pending { epoch, change, since });
            }
        }
    }

    /// Starts the writes that are due, the oldest first. Returns when to call it again, if a delayed write waits.
    fn start_due(&mut self, now: Instant) -> Option<Instant> {
        let (epoch, may_write) = {
            let leadership = self.leadership.borrow();
            (leadership.epoch(), leadership.may_write(Moment::now()))
        };
        // Changes of an earlier epoch are dropped: another process led since and may have written newer ones.
        self.waiting.retain(|_, waiting| Some(waiting.epoch) == epoch);
        self.failed.retain(|tenant, _| self.waiting.contains_key(tenant) || self.busy.contains(tenant));
        // While the lease is late nothing is written, but pending changes stay: it may still be renewed.
        while may_write && self.busy.len() < MAX_IN_FLIGHT {
            let is_due =
                |tenant: &F::Tenant| !self.busy.contains(tenant) && self.next(tenant).is_none_or(|next| next <= now);
            let due = self.waiting.iter().filter(|(tenant, _)| is_due(tenant));
            let Some(tenant) = due.min_by_key(|(_, waiting)| waiting.since).map(|(tenant, _)| tenant.clone()) else {
                break;
            };
            let Some(waiting) = self.waiting.remove(&tenant) else { break };
            self.busy.insert(tenant.clone());
            let store = self.store.clone();
            self.in_flight.push(Box::pin(async move {
                let result = store.write(&tenant, &waiting.change).await;
                Ended::Write(Box::new(waiting), tenant, result)
            }));
        }
        let later = self.waiting.keys().filter(|tenant| !self.busy.contains(*tenant));
        later.filter_map(|tenant| self.next(tenant)).filter(|next| may_write && *next > now).min()
    }

    /// Returns when a tenant may be tried again, if its last write failed.
    fn next(&self, tenant: &F::Tenant) -> Option<Instant> {
        self.failed.get(tenant).map(|failed| failed.next)
    }

    fn ended(&mut self, ended: Ended<F>) {
        let event = match ended {
            Ended::Read(read) => read.map(|(epoch, kept)| StateEvent::Read(epoch, kept)),
            Ended::Write(waiting, tenant, result) => {
                self.busy.remove(&tenant);
                match result {
                    Ok(()) => {
                        self.failed.remove(&tenant);
                        match waiting.change {
                            RecordChange::Keep(version, _) => Some(StateEvent::Kept(tenant, version)),
                            RecordChange::Forget => None,
                        }
                    }
                    Err(error) => {
                        self.failed(tenant, *waiting, &error);
                        None
                    }
                }
            }
        };
        if event.is_some_and(|event| self.events.send(event).is_err()) {
            // The process ends. Pending changes are still written.
            tracing::debug!("the owner of the state has ended");
        }
    }

    fn failed(&mut self, tenant: F::Tenant, waiting: Pending<F::State>, error: &NotWritten) {
        let before = self.failed.get(&tenant).map_or(0, |failed| failed.failures);
        let failed = match error {
            NotWritten::Api(ApiError::Withheld) => None,
            NotWritten::Api(error) => {
                F::log_not_written(&tenant, error);
                let pause = RETRY.delay(before).max(error.retry_after().unwrap_or_default());
                Some(Failed { failures: before + 1, next: Instant::now() + pause, is_newer: false })
            }
            // It was logged when it was read.
            NotWritten::Newer(newer) => {
                tracing::debug!(%tenant, %newer, "the record is not written");
                Some(Failed { failures: 0, next: Instant::now() + NEWER_RETRY, is_newer: true })
            }
        };
        if let Some(failed) = failed {
            self.failed.insert(tenant.clone(), failed);
        }
        // A change that was requested meanwhile is newer.
        self.waiting.entry(tenant).or_insert(waiting);
    }
}

/// Reads every record, retrying until it works. Returns `None` if the epoch ends before that.
async fn read<F: Format>(store: Store<F>, leadership: watch::Receiver<Leadership>, epoch: u64) -> Option<Records<F>> {
    let mut logged = false;
    while leadership.borrow().epoch() == Some(epoch) {
        match store.read().await {
            Ok(kept) => return Some((epoch, kept)),
            Err(error) if !logged => {
                logged = true;
                tracing::warn!(%error, "cannot read the stored state; nothing is written until it can be read");
            }
            Err(error) => tracing::debug!(%error, "still cannot read the stored state"),
        }
        tokio::time::sleep(RETRY.first).await;
    }
    None
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
