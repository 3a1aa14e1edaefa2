//! The task that competes for the Lease: it carries out the calls of the [`Election`] and publishes the result.

use std::time::Duration;

use gimbal_kubernetes_client::{ApiError, Cluster};
use gimbal_kubernetes_objects::Lease;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{Election, Leadership, LeaseCall, LeaseFailure, Moment, Times};

/// Time-out of a release. Without a release the other candidates wait for the lease to run out.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a process that released its lease as [`Fitness::Unable`] does not take it again, in durations of a lease.
const STAND_BACK: u32 = 10;

/// Whether the rest of the process does its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fitness {
    /// It works.
    Working,
    /// It hangs. The lease is not renewed and runs out.
    Hanging,
    /// It runs, but cannot do what a leader does. The lease is released.
    Unable,
}

/// A process that competes for a Lease.
pub struct Candidate {
    /// Client for the Lease. It should have connections of its own.
    pub cluster: Cluster,
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Identity of this process; see [`identity`](crate::identity).
    pub identity: String,
    /// Duration of a lease and the times that follow from it.
    pub times: Times,
    /// Returns whether the process does its work. Called before each decision about the next call.
    pub fitness: Box<dyn Fn() -> Fitness + Send>,
    /// Called after each call about the Lease, with the call's name and its error, if it failed.
    pub called: OnCall,
}

/// Gets the name of a call and its error, if it failed.
pub type OnCall = Box<dyn Fn(&'static str, Option<&ApiError>) + Send>;

impl Candidate {
    /// Starts to compete. When `stop` is cancelled, the task releases the Lease and ends; everything that writes must
    /// have ended before.
    #[must_use]
    pub fn start(self, stop: CancellationToken) -> (watch::Receiver<Leadership>, JoinHandle<()>) {
        let (publish, leadership) = watch::channel(Leadership::Follower { holder: String::new() });
        let election = Election::new(&self.namespace, &self.name, &self.identity, self.times, Moment::now());
        let task = Task { candidate: self, election, publish, reachable: true, in_time: true };
        (leadership, tokio::spawn(task.run(stop)))
    }
}

struct Task {
    candidate: Candidate,
    election: Election,
    publish: watch::Sender<Leadership>,
    /// Whether the last call was answered. Only changes are logged.
    reachable: bool,
    /// Whether the lease was in time when it was last published. Only changes are logged.
    in_time: bool,
}

impl Task {
    async fn run(mut self, stop: CancellationToken) {
        // `stop` interrupts a wait, never a call: calls have a time-out, and the result decides what there is to
        // release.
        while !stop.is_cancelled() {
            let fitness = (self.candidate.fitness)();
            if fitness == Fitness::Unable && self.election.held().is_some() {
                self.hand_over().await;
            }
            match self.election.next_call(Moment::now(), &wall(), fitness == Fitness::Working) {
                LeaseCall::Wait(until) => {
                    tokio::select! {
                        () = stop.cancelled() => break,
                        () = tokio::time::sleep(until.since(Moment::now()).min(self.candidate.times.poll)) => {}
                    }
                }
                call => self.carry_out(call).await,
            }
            self.publish();
        }
        self.release().await;
    }

    /// Releases the lease and leaves it to other candidates for `STAND_BACK` durations.
    async fn hand_over(&mut self) {
        tracing::warn!("this process leads but cannot do its work: it releases the lease so that another one can lead");
        self.release().await;
        self.election.stand_back(Moment::now() + self.candidate.times.duration * STAND_BACK);
    }

    async fn carry_out(&mut self, call: LeaseCall) {
        let started = Moment::now();
        let cluster = self.candidate.cluster.clone().with_timeout(self.election.call_timeout());
        let reading = call == LeaseCall::Read;
        let verb = match &call {
            LeaseCall::Wait(_) => return,
            LeaseCall::Read => "read",
            LeaseCall::Create(_) => "create",
            LeaseCall::Replace(_) if self.election.held().is_some() => "renew",
            LeaseCall::Replace(_) => "take",
        };
        let answer = match call {
            LeaseCall::Wait(_) => return,
            LeaseCall::Read => {
                let lease = cluster.get::<Lease>(&self.candidate.namespace, &self.candidate.name).await;
                lease.map(|lease| (lease, false))
            }
            LeaseCall::Create(lease) => cluster.create(&lease).await.map(|lease| (lease, true)),
            LeaseCall::Replace(lease) => cluster.replace(&lease).await.map(|lease| (lease, true)),
        };
        let now = Moment::now();
        self.election.observe_latency(now.since(started));
        (self.candidate.called)(verb, answer.as_ref().err());
        match answer {
            Ok((lease, written)) => {
                if written {
                    self.election.written(lease, started, now);
                } else {
                    self.election.read(Some(lease), now);
                }
                if !std::mem::replace(&mut self.reachable, true) {
                    tracing::info!("the lease can be reached again");
                }
            }
            Err(ApiError::NotFound { .. }) if reading => self.election.read(None, now),
            Err(error) => self.fail(&error, now),
        }
    }

    fn fail(&mut self, error: &ApiError, now: Moment) {
        let outrun = matches!(error, ApiError::Conflict { .. } | ApiError::AlreadyExists { .. })
            || matches!(error, ApiError::NotFound { namespace: false, .. });
        if outrun {
            tracing::debug!(%error, "another candidate wrote the lease first");
        } else if std::mem::replace(&mut self.reachable, false) {
            tracing::warn!(%error, "the lease cannot be reached; writes stop at its deadline");
        }
        let failure = if outrun { LeaseFailure::Outrun } else { LeaseFailure::Unknown };
        self.election.failed(failure, now);
    }

    /// Publishes the leadership if it changed, and logs when the lease is late and when it is in time again.
    fn publish(&mut self) {
        let late = self.election.held().is_some() && self.election.lead(Moment::now()).is_none();
        if late && std::mem::replace(&mut self.in_time, false) {
            tracing::warn!("the lease is late: writes stop until it is renewed or another process leads");
        } else if !late && !std::mem::replace(&mut self.in_time, true) {
            tracing::info!("the lease is in time again");
        }
        let leadership = match self.election.held() {
            Some(lead) => Leadership::Leader { epoch: lead.epoch, until: lead.until },
            None => Leadership::Follower { holder: self.election.holder().to_owned() },
        };
        self.publish.send_if_modified(|before| {
            let changed = *before != leadership;
            *before = leadership;
            changed
        });
    }

    async fn release(&mut self) {
        let release = self.election.release(&wall());
        // This process must stop writing before others may start.
        self.publish();
        let Some(lease) = release else { return };
        let answer = self.candidate.cluster.clone().with_timeout(RELEASE_TIMEOUT).replace(&lease).await;
        (self.candidate.called)("release", answer.as_ref().err());
        match answer {
            Ok(_) => tracing::info!("the lease is released"),
            Err(error) => tracing::warn!(%error, "the lease could not be released; it runs out by itself"),
        }
    }
}

/// Returns the time of day in the API's form.
fn wall() -> String {
    format!("{:.6}", Timestamp::now())
}
