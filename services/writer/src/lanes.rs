//! The jobs under way: how many there may be, and what their answers tell of the API server.

use std::time::Instant;

use gimbal_reconcile::{Job, Reconciler};
use tokio::task::{JoinError, JoinSet};

use crate::apply::{Sent, Writes};
use crate::metrics::Metrics;
use crate::pace::{Answer, Pace, Room, Wait};

/// Writes of one job that are under way side by side: a Service of many slices must not take every lane for itself.
const SIDE_BY_SIDE: usize = 8;

/// A job that ended.
pub struct Done {
    job: Job,
    width: usize,
    sent: Vec<Sent>,
}

/// See the module. Part of the owner's state.
pub struct Lanes {
    writes: Writes,
    pace: Pace,
    metrics: Metrics,
    running: JoinSet<Done>,
    /// Writes that the running jobs may have under way.
    under_way: usize,
    /// What is no part of a job had its turn, and the jobs have theirs before it has the next.
    jobs_first: bool,
    /// What stands in the way of the next job, and since when.
    waiting: Option<(Wait, Instant)>,
}

impl Lanes {
    /// No job runs.
    #[must_use]
    pub fn new(writes: Writes, pace: Pace, metrics: Metrics) -> Self {
        Self { writes, pace, metrics, running: JoinSet::new(), under_way: 0, jobs_first: false, waiting: None }
    }

    /// Where writes go.
    #[must_use]
    pub fn writes(&self) -> &Writes {
        &self.writes
    }

    /// Starts what may start now.
    pub fn start_jobs(&mut self, state: &mut Reconciler, now: Instant) {
        if !self.writes.may_write() {
            // What waits, waits: a lease that is late may come back.
            return;
        }
        let stopped = loop {
            let room = self.pace.room(self.under_way, state.is_shared(now), self.writes.pause.until(now), now);
            let (room, job, otherwise) = match room {
                Ok(Room::Anybody(room)) => (room, state.next_job(now), None),
                Ok(Room::Quiet(room)) => (room, state.next_quiet_job(now), Some(Wait::Shared)),
                Err(wait) => break Some(wait),
            };
            let Some(mut job) = job else {
                if otherwise.is_none() {
                    self.pace.idle();
                    self.jobs_first = false;
                }
                break otherwise;
            };
            // What is left out is decided anew after the rest: a job is only ever the first part of what is to be done.
            job.truncate(self.pace.pay(&job.actions));
            self.jobs_first = false;
            let (first, rest) = job.stages();
            let width = first.len().max(rest.len()).min(room).min(SIDE_BY_SIDE);
            self.under_way += width;
            let writes = self.writes.clone();
            self.running.spawn(async move {
                let sent = writes.carry_out(&job, width).await;
                Done { job, width, sent }
            });
        };
        let stopped = stopped.filter(|_| state.pending() > state.in_flight());
        if let Some((wait, since)) = self.waiting.take() {
            self.metrics.waited(wait, now.saturating_duration_since(since));
        }
        self.waiting = stopped.map(|wait| (wait, now));
    }

    /// Whether one write may start now that is no part of a job; it is paid for. Of two budgets' worth one is for the jobs, if
    /// any wait; the other is for whoever asks here before they start.
    pub fn take_one(&mut self, state: &Reconciler, now: Instant) -> bool {
        if self.jobs_first || !self.writes.may_write() {
            return false;
        }
        if self.pace.room(self.under_way, state.is_shared(now), self.writes.pause.until(now), now).is_err() {
            return false;
        }
        self.pace.pay_one();
        self.under_way += 1;
        self.jobs_first = true;
        true
    }

    /// It ended.
    pub fn give_back_one(&mut self, answer: Option<&Answer>) {
        self.under_way -= 1;
        if let Some(answer) = answer {
            self.pace.answered(answer);
        }
    }

    /// The next job that ends; `None` if there is none.
    pub async fn next(&mut self) -> Option<Result<Done, JoinError>> {
        self.running.join_next().await
    }

    /// A job that has ended already.
    pub fn try_next(&mut self) -> Option<Result<Done, JoinError>> {
        self.running.try_join_next()
    }

    /// Takes in how a job ended.
    pub fn finished(&mut self, done: Done, state: &mut Reconciler, now: Instant) {
        let Done { job, width, sent } = done;
        self.under_way -= width;
        let mut written = Vec::with_capacity(sent.len());
        for sent in sent {
            if let Some(answer) = sent.answer {
                self.pace.answered(&answer);
            }
            written.push(sent.written);
        }
        state.finish(&job, written, now);
    }

    /// When to start jobs again, if only time stands in the way.
    #[must_use]
    pub fn wake_at(&self, now: Instant) -> Option<Instant> {
        self.pace.wake_at(self.writes.pause.until(now), now)
    }

    /// Brings the metrics up to date.
    pub fn show(&self) {
        self.metrics.show_limit(self.pace.limit(), self.pace.bend());
    }

    /// Jobs that run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }
}
