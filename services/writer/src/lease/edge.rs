//! The task that keeps the Lease: carries the machine's steps out and publishes what follows from them.

use std::time::Duration;

use gimbal_kubernetes_client::{ApiError, Cluster};
use gimbal_kubernetes_objects::Lease;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::apply::code;

use super::machine::{Failure, Machine, Step};
use super::{Leadership, Moment, NAME, Times, Work};

/// The release is a courtesy: without it others wait for the lease to run out.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);
/// Durations of a lease for which one that gave it up leaves it to others.
const STAND_BACK: u32 = 10;

/// Who competes, and for what.
pub struct Candidate {
    /// The API server; it should have connections of its own.
    pub cluster: Cluster,
    /// Where the Lease is.
    pub namespace: String,
    /// Who this is to others; see [`super::identity`].
    pub identity: String,
    /// How long a lease lasts, and what follows from that.
    pub times: Times,
    /// Whether the rest of the process does its work: asked before each renewal.
    pub work: Box<dyn Fn() -> Work + Send>,
    /// Told of each call about the Lease: what it was, and how it ended.
    pub called: Box<dyn Fn(&'static str, &'static str) + Send>,
}

impl Candidate {
    /// Starts to compete for the Lease. On `stop` the task gives it back and ends: everything that writes must have ended
    /// before.
    #[must_use]
    pub fn start(self, stop: CancellationToken) -> (watch::Receiver<Leadership>, JoinHandle<()>) {
        let (publish, leadership) = watch::channel(Leadership::Follower { holder: String::new() });
        let machine = Machine::new(&self.namespace, NAME, &self.identity, self.times, Moment::now());
        let keeper = Keeper { candidate: self, machine, publish, reachable: true, in_time: true };
        (leadership, tokio::spawn(keeper.run(stop)))
    }
}

struct Keeper {
    candidate: Candidate,
    machine: Machine,
    publish: watch::Sender<Leadership>,
    /// Whether the last call was answered: a change is logged, not each attempt.
    reachable: bool,
    /// Whether the lease is not late: as above.
    in_time: bool,
}

impl Keeper {
    async fn run(mut self, stop: CancellationToken) {
        // A call is never abandoned half way: it ends in time, and then it is known what there is to release.
        while !stop.is_cancelled() {
            let work = (self.candidate.work)();
            if work == Work::Cannot && self.machine.held().is_some() {
                self.hand_over().await;
            }
            match self.machine.step(Moment::now(), &wall(), work == Work::Goes) {
                Step::Wait(until) => {
                    tokio::select! {
                        () = stop.cancelled() => break,
                        () = tokio::time::sleep(until.since(Moment::now()).min(self.candidate.times.poll)) => {}
                    }
                }
                step => self.carry_out(step).await,
            }
            self.tell();
        }
        self.release().await;
    }

    /// This process cannot do what a leader does; another one may.
    async fn hand_over(&mut self) {
        tracing::warn!("this writer leads, and cannot do its work: it gives the lease up, so that another can");
        self.release().await;
        self.machine.stand_back(Moment::now() + self.candidate.times.duration * STAND_BACK);
    }

    async fn carry_out(&mut self, step: Step) {
        let started = Moment::now();
        let cluster = self.candidate.cluster.clone().with_timeout(self.machine.patience());
        let reading = step == Step::Read;
        let verb = match &step {
            Step::Wait(_) => return,
            Step::Read => "read",
            Step::Create(_) => "create",
            Step::Replace(_) if self.machine.held().is_some() => "renew",
            Step::Replace(_) => "take",
        };
        let answer = match step {
            Step::Wait(_) => return,
            Step::Read => cluster.get::<Lease>(&self.candidate.namespace, NAME).await.map(|lease| (lease, false)),
            Step::Create(lease) => cluster.create(&lease).await.map(|lease| (lease, true)),
            Step::Replace(lease) => cluster.replace(&lease).await.map(|lease| (lease, true)),
        };
        let now = Moment::now();
        self.machine.took(now.since(started));
        (self.candidate.called)(verb, answer.as_ref().err().map_or("ok", code));
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

    fn fail(&mut self, error: &ApiError, now: Moment) {
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
    fn tell(&mut self) {
        let late = self.machine.held().is_some() && self.machine.lead(Moment::now()).is_none();
        if late && std::mem::replace(&mut self.in_time, false) {
            tracing::warn!("the lease is late: nothing is written until it is renewed, or is another's");
        } else if !late && !std::mem::replace(&mut self.in_time, true) {
            tracing::info!("the lease is not late any more");
        }
        let now = match self.machine.held() {
            Some(lead) => Leadership::Leader { epoch: lead.epoch, until: lead.until },
            None => Leadership::Follower { holder: self.machine.holder().to_owned() },
        };
        self.publish.send_if_modified(|before| {
            let changed = *before != now;
            *before = now;
            changed
        });
    }

    async fn release(&mut self) {
        let release = self.machine.release(&wall());
        // First nobody writes, then others may.
        self.tell();
        let Some(lease) = release else { return };
        match self.candidate.cluster.clone().with_timeout(RELEASE_TIMEOUT).replace(&lease).await {
            Ok(_) => tracing::info!("the lease is released"),
            Err(error) => tracing::warn!(%error, "the lease could not be released; it runs out by itself"),
        }
    }
}

/// The time of day in the API's form.
fn wall() -> String {
    format!("{:.6}", Timestamp::now())
}
