//! The task that keeps the Lease: carries the machine's steps out and publishes what follows from them.

use std::time::{Duration, Instant};

use gimbal_kube_io::{ApiError, Cluster};
use gimbal_objects::Lease;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use super::machine::{DEADLINE, Failure, Machine, Step};
use super::{Leadership, NAME};

/// The release is a courtesy: without it others wait for the lease to run out.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// Starts to compete for the Lease in `namespace`. The cluster should have connections of its own. On `stop` the task gives
/// the Lease back and ends: everything that writes must have ended before.
#[must_use]
pub fn start(
    cluster: Cluster,
    namespace: &str,
    identity: &str,
    stop: CancellationToken,
) -> (watch::Receiver<Leadership>, Option<JoinHandle<()>>) {
    let (publish, leadership) = watch::channel(Leadership::Follower { holder: String::new() });
    let machine = Machine::new(namespace, NAME, identity, Instant::now());
    let keeper = Keeper { cluster, namespace: namespace.to_owned(), machine, publish, reachable: true };
    (leadership, Some(tokio::spawn(keeper.run(stop))))
}

struct Keeper {
    cluster: Cluster,
    namespace: String,
    machine: Machine,
    publish: watch::Sender<Leadership>,
    /// Whether the last call was answered: a change is logged, not each attempt.
    reachable: bool,
}

impl Keeper {
    async fn run(mut self, stop: CancellationToken) {
        // A call is never abandoned half way: it ends within the deadline, and then it is known what there is to release.
        while !stop.is_cancelled() {
            match self.machine.step(Instant::now(), &wall()) {
                Step::Wait(until) => {
                    tokio::select! {
                        () = stop.cancelled() => break,
                        () = sleep_until(until.into()) => {}
                    }
                }
                step => self.carry_out(step).await,
            }
            self.tell();
        }
        self.release().await;
    }

    async fn carry_out(&mut self, step: Step) {
        let started = Instant::now();
        let left = self.machine.lead(started).map_or(DEADLINE, |lead| lead.until.saturating_duration_since(started));
        let cluster = self.cluster.clone().with_timeout(left);
        let reading = step == Step::Read;
        let answer = match step {
            Step::Wait(_) => return,
            Step::Read => cluster.get::<Lease>(&self.namespace, NAME).await.map(|lease| (lease, false)),
            Step::Create(lease) => cluster.create(&lease).await.map(|lease| (lease, true)),
            Step::Replace(lease) => cluster.replace(&lease).await.map(|lease| (lease, true)),
        };
        let now = Instant::now();
        match answer {
            Ok((lease, written)) => {
                if written {
                    self.machine.written(lease, started, now);
                } else {
                    self.machine.read(Some(lease), now);
                }
                if !std::mem::replace(&mut self.reachable, true) {
                    tracing::info!("the lease can be reached again");
                }
            }
            Err(ApiError::NotFound { .. }) if reading => self.machine.read(None, now),
            Err(error) => self.fail(&error, now),
        }
    }

    fn fail(&mut self, error: &ApiError, now: Instant) {
        let outrun = matches!(error, ApiError::Conflict { .. } | ApiError::AlreadyExists { .. })
            || matches!(error, ApiError::NotFound { namespace: false, .. });
        if outrun {
            tracing::debug!(%error, "another writer was faster");
        } else if std::mem::replace(&mut self.reachable, false) {
            tracing::warn!(%error, "the lease cannot be reached; nothing is written from its deadline on");
        }
        let failure = if outrun { Failure::Outrun } else { Failure::Unknown };
        self.machine.failed(failure, now);
    }

    /// Publishes what holds now, if it is another than before.
    fn tell(&self) {
        let now = match self.machine.lead(Instant::now()) {
            Some(lead) => Leadership::Leader { epoch: lead.epoch, until: lead.until },
            None => Leadership::Follower { holder: self.machine.holder().to_owned() },
        };
        self.publish.send_if_modified(|before| {
            let changed = *before != now;
            *before = now;
            changed
        });
    }

    async fn release(mut self) {
        let release = self.machine.release(&wall());
        // First nobody writes, then others may.
        self.tell();
        let Some(lease) = release else { return };
        match self.cluster.with_timeout(RELEASE_TIMEOUT).replace(&lease).await {
            Ok(_) => tracing::info!("the lease is released"),
            Err(error) => tracing::warn!(%error, "the lease could not be released; it runs out by itself"),
        }
    }
}

/// The time of day in the API's form.
fn wall() -> String {
    format!("{:.6}", Timestamp::now())
}
