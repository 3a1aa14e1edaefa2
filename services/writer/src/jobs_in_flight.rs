//! The jobs in flight: starts as many as the limits allow, and passes on their results.

use std::time::Instant;

use gimbal_reconcile::{Job, Reconciler};
use gimbal_schedule::{InFlight, Room, WaitReason, WriteLimiter, WriteSample};
use tokio::task::{JoinError, JoinSet};

use crate::apply::{Sent, Writes};
use crate::metrics::Metrics;
use crate::write_size::write_size;

/// Most writes of one job that are in flight at a time, so that a Service with many slices leaves room for others.
const MAX_WRITES_PER_JOB: usize = 8;

/// A job that ended.
pub struct Done {
    job: Job,
    width: usize,
    sent: Vec<Sent>,
}

/// The tasks of the jobs in flight. Owned by the writer's owner task.
pub struct JobsInFlight {
    writes: Writes,
    in_flight: InFlight,
    metrics: Metrics,
    running: JoinSet<Done>,
}

impl JobsInFlight {
    /// Creates a state with no job in flight.
    #[must_use]
    pub fn new(writes: Writes, limiter: WriteLimiter, metrics: Metrics) -> Self {
        Self { writes, in_flight: InFlight::new(limiter), metrics, running: JoinSet::new() }
    }

    /// Returns the client that sends writes.
    #[must_use]
    pub fn writes(&self) -> &Writes {
        &self.writes
    }

    /// Starts the jobs that may start now.
    pub fn start_jobs(&mut self, state: &mut Reconciler, now: Instant) {
        if !self.writes.may_write() {
            // Jobs stay queued: the lease may be renewed late.
            return;
        }
        let stopped = loop {
            let room = self.in_flight.room(state.is_shared(now), self.writes.throttle.until(now), now);
            let (room, job, otherwise) = match room {
                Ok(Room::Anybody(room)) => (room, state.next_job(now), None),
                Ok(Room::Quiet(room)) => (room, state.next_quiet_job(now), Some(WaitReason::Shared)),
                Err(wait) => break Some(wait),
            };
            let Some(mut job) = job else {
                if otherwise.is_none() {
                    self.in_flight.idle();
                }
                break otherwise;
            };
            // Actions that are cut off here are planned again after the job.
            job.truncate(self.in_flight.pay(&job.actions, write_size));
            let (first, rest) = job.stages();
            let width = first.len().max(rest.len()).min(room).min(MAX_WRITES_PER_JOB);
            self.in_flight.start(width);
            let writes = self.writes.clone();
            self.running.spawn(async move {
                let sent = writes.carry_out(&job, width).await;
                Done { job, width, sent }
            });
        };
        let waiting = stopped.filter(|_| state.pending() > state.in_flight());
        if let Some((reason, time)) = self.in_flight.set_waiting(waiting, now) {
            self.metrics.waited(reason, time);
        }
    }

    /// Starts and pays for a single write that belongs to no job, if one may start now. Where both wait, single writes
    /// and jobs alternate; call this before [`JobsInFlight::start_jobs`].
    pub fn start_single(&mut self, state: &Reconciler, now: Instant) -> bool {
        let paused_until = self.writes.throttle.until(now);
        self.writes.may_write() && self.in_flight.start_single(state.is_shared(now), paused_until, now)
    }

    /// Ends [`JobsInFlight::start_single`]; `sample` is `None` if nothing was sent.
    pub fn single_done(&mut self, sample: Option<&WriteSample>) {
        self.in_flight.done(1);
        if let Some(sample) = sample {
            self.in_flight.answered(sample);
        }
    }

    /// Waits for the next job that ends; returns `None` if none is in flight.
    pub async fn next(&mut self) -> Option<Result<Done, JoinError>> {
        self.running.join_next().await
    }

    /// Returns a job that has ended already.
    pub fn try_next(&mut self) -> Option<Result<Done, JoinError>> {
        self.running.try_join_next()
    }

    /// Passes the results of a job to the reconciler.
    pub fn finished(&mut self, done: Done, state: &mut Reconciler, now: Instant) {
        let Done { job, width, sent } = done;
        self.in_flight.done(width);
        let mut written = Vec::with_capacity(sent.len());
        for sent in sent {
            if let Some(sample) = sent.sample {
                self.in_flight.answered(&sample);
            }
            if let Some(answer) = sent.answer {
                state.note_answer(&job.target, answer);
            }
            written.push(sent.written);
        }
        state.finish(&job, written, now);
    }

    /// Returns when to start jobs again, if the rates or a pause prevent it now.
    #[must_use]
    pub fn wake_at(&self, now: Instant) -> Option<Instant> {
        self.in_flight.limiter().wake_at(self.writes.throttle.until(now), now)
    }

    /// Updates the metrics of the limits.
    pub fn show(&self) {
        let limiter = self.in_flight.limiter();
        self.metrics.show_limit(limiter.concurrency_limit(), limiter.shared_limit());
    }

    /// Returns the number of jobs in flight.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }
}
