//! Who waits to be kept, and whose turn it is. A backend whose record cannot be written waits by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use gimbal_kubernetes_client::ApiError;
use gimbal_model::BackendName;
use gimbal_reconcile::BackendState;
use gimbal_runtime::Exit;
use gimbal_schedule::Backoff;
use tokio::sync::{mpsc, watch};

use super::{Change, Store, Told};
use gimbal_lease::{Leadership, Moment};

/// Delay after a failed write.
const RETRY: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(30) };
/// Writes side by side: one that hangs must not stand before the others.
const SIDE_BY_SIDE: usize = 8;
/// How long the last writes may take when the process ends.
const LAST: Duration = Duration::from_secs(1);

#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // One for each backend waits at most.
pub(super) enum Request {
    Read(u64),
    Change(u64, BackendName, Change),
}

/// How something ended.
enum Ended {
    Write(Box<Waiting>, BackendName, Result<(), ApiError>),
    Read(Option<(u64, Vec<(BackendName, BackendState)>)>),
}

#[derive(Clone)]
struct Waiting {
    epoch: u64,
    change: Change,
    since: Instant,
}

struct Trouble {
    failures: u32,
    next: Instant,
}

pub(super) struct Task {
    store: Store,
    leadership: watch::Receiver<Leadership>,
    tell: mpsc::UnboundedSender<Told>,
    waiting: BTreeMap<BackendName, Waiting>,
    /// Backends whose last write failed.
    troubles: BTreeMap<BackendName, Trouble>,
    /// Backends that are being written.
    busy: BTreeSet<BackendName>,
    under_way: FuturesUnordered<BoxFuture<'static, Ended>>,
}

impl Task {
    pub(super) fn new(
        store: Store,
        leadership: watch::Receiver<Leadership>,
        tell: mpsc::UnboundedSender<Told>,
    ) -> Self {
        let under_way = FuturesUnordered::new();
        Self {
            store,
            leadership,
            tell,
            waiting: BTreeMap::new(),
            troubles: BTreeMap::new(),
            busy: BTreeSet::new(),
            under_way,
        }
    }

    pub(super) async fn run(mut self, mut requests: mpsc::UnboundedReceiver<Request>) -> Result<(), Exit> {
        let mut last: Option<Instant> = None;
        loop {
            let wake = self.start_due(Instant::now()).into_iter().chain(last).min();
            tokio::select! {
                request = requests.recv(), if last.is_none() => match request {
                    Some(request) => self.take(request),
                    None => last = Some(Instant::now() + LAST),
                },
                Some(ended) = self.under_way.next() => self.ended(ended),
                // An error means that it never changes.
                Ok(()) = self.leadership.changed() => {}
                () = sleep_until(wake) => {}
            }
            let done = self.waiting.is_empty() && self.busy.is_empty();
            if last.is_some_and(|last| done || Instant::now() >= last) {
                if !done {
                    tracing::warn!("the last states of backends could not be kept in time");
                }
                return Ok(());
            }
        }
    }

    fn take(&mut self, request: Request) {
        match request {
            Request::Read(epoch) => {
                let (store, leadership) = (self.store.clone(), self.leadership.clone());
                self.under_way.push(Box::pin(async move { Ended::Read(read(store, leadership, epoch).await) }));
            }
            Request::Change(epoch, backend, change) => {
                let since = self.waiting.get(&backend).map_or_else(Instant::now, |waiting| waiting.since);
                self.waiting.insert(backend, Waiting { epoch, change, since });
            }
        }
    }

    /// Starts what may be written now, those that wait longest first. When to look again, if only time stands in the way.
    fn start_due(&mut self, now: Instant) -> Option<Instant> {
        let (epoch, may_write) = {
            let leadership = self.leadership.borrow();
            (leadership.epoch(), leadership.may_write(Moment::now()))
        };
        // Whoever leads now, or will when the lease comes back, keeps what it finds; this would be older.
        self.waiting.retain(|_, waiting| Some(waiting.epoch) == epoch);
        self.troubles.retain(|backend, _| self.waiting.contains_key(backend) || self.busy.contains(backend));
        // A lease that is late may still come back; what waits, waits for it.
        while may_write && self.busy.len() < SIDE_BY_SIDE {
            let is_due = |backend: &BackendName| {
                !self.busy.contains(backend) && self.next(backend).is_none_or(|next| next <= now)
            };
            let due = self.waiting.iter().filter(|(backend, _)| is_due(backend));
            let Some(backend) = due.min_by_key(|(_, waiting)| waiting.since).map(|(backend, _)| backend.clone()) else {
                break;
            };
            let Some(waiting) = self.waiting.remove(&backend) else { break };
            self.busy.insert(backend.clone());
            let store = self.store.clone();
            self.under_way.push(Box::pin(async move {
                let result = store.write(&backend, &waiting.change).await;
                Ended::Write(Box::new(waiting), backend, result)
            }));
        }
        let later = self.waiting.keys().filter(|backend| !self.busy.contains(*backend));
        later.filter_map(|backend| self.next(backend)).filter(|next| may_write && *next > now).min()
    }

    /// When a backend may be tried again, if its last write failed.
    fn next(&self, backend: &BackendName) -> Option<Instant> {
        self.troubles.get(backend).map(|trouble| trouble.next)
    }

    fn ended(&mut self, ended: Ended) {
        let told = match ended {
            Ended::Read(read) => read.map(|(epoch, kept)| Told::Read(epoch, kept)),
            Ended::Write(waiting, backend, result) => {
                self.busy.remove(&backend);
                match result {
                    Ok(()) => {
                        self.troubles.remove(&backend);
                        match waiting.change {
                            Change::Keep(version, _) => Some(Told::Kept(backend, version)),
                            Change::Forget => None,
                        }
                    }
                    Err(error) => {
                        self.failed(backend, *waiting, &error);
                        None
                    }
                }
            }
        };
        if told.is_some_and(|told| self.tell.send(told).is_err()) {
            // The process ends; what is left is still written.
            tracing::debug!("nobody waits for what is kept");
        }
    }

    fn failed(&mut self, backend: BackendName, waiting: Waiting, error: &ApiError) {
        if !matches!(error, ApiError::Withheld) {
            tracing::warn!(%backend, %error, "cannot keep the state of a backend; it is retried, and removals that count wait for it");
            let failures = self.troubles.get(&backend).map_or(0, |trouble| trouble.failures);
            let pause = RETRY.delay(failures);
            let pause = pause.max(error.retry_after().unwrap_or_default());
            let next = Instant::now() + pause;
            self.troubles.insert(backend.clone(), Trouble { failures: failures + 1, next });
        }
        // What came meanwhile is newer.
        self.waiting.entry(backend).or_insert(waiting);
    }
}

/// What is kept, however often that has to be tried; nothing when the epoch has ended.
async fn read(
    store: Store,
    leadership: watch::Receiver<Leadership>,
    epoch: u64,
) -> Option<(u64, Vec<(BackendName, BackendState)>)> {
    let mut told = false;
    while leadership.borrow().epoch() == Some(epoch) {
        match store.read().await {
            Ok(kept) => return Some((epoch, kept)),
            Err(error) if !told => {
                told = true;
                tracing::warn!(%error, "cannot read what is kept of the backends; nothing is written until it can be read");
            }
            Err(error) => tracing::debug!(%error, "still cannot read what is kept of the backends"),
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
