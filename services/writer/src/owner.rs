//! The task that owns the [`Reconciler`]: all input arrives in its mailbox, and every decision is carried out from
//! here. No other task touches the state.

mod leading;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gimbal_guard::GuardEvent;
use gimbal_model::{BackendName, SourceKey};
use gimbal_reconcile::{Journey, JourneyEnd, JourneyLegs, Output, Reconciler, Stage, Withdrawal};
use gimbal_runtime::Exit;
use gimbal_session::{AgentMessage, Goodbye, GoodbyeReason, TraceContext, WriterMessage};
use gimbal_traces::{SettledChange, Traces, WrittenTo};
use gimbal_transport::Quiet;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use crate::apply::Created;
use crate::backend_state::{BackendFormat, StateKeeper};
use crate::cluster_watches::{ClusterEvent, Relist};
use crate::config::too_many;
use crate::creating::Creating;
use crate::jobs_in_flight::{Done, JobsInFlight};
use crate::links::Links;
use crate::mailbox::{Handle, Mail, Touched};
use crate::metrics::Metrics;
use crate::reject_lines::RejectLines;
use gimbal_lease::{Leadership, Moment};

/// Most inputs taken in one turn before decisions are made.
const TURN: usize = 512;
/// Interval of [`Reconciler::tick`].
const TICK: Duration = Duration::from_millis(100);
/// A longer time between two ticks means that this process was stopped, or had no processor.
const STOPPED: Duration = Duration::from_secs(2);
/// Interval of updates of the metrics.
const SHOW: Duration = Duration::from_secs(1);
/// Messages that may be pending for an agent. More stay in the reconciler until the agent has read some of these, so
/// that any number of rejects is sent at the pace of the reader. Few, because what is new overtakes older rejects only
/// in the reconciler.
pub const STREAM_QUEUE: usize = 512;
/// Places of the queue that are kept for the messages that end a stream.
const LAST_WORDS: usize = 8;
/// How long writes in flight may take to end at shutdown.
const LAST_WRITES: Duration = Duration::from_secs(3);

/// An open stream, as the owner sees it.
struct Stream {
    outgoing: mpsc::Sender<WriterMessage>,
}

/// A line about a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum StreamLine {
    Opened,
    Closed,
    AgentLeaves,
    Dismissed(GoodbyeReason),
}

/// The parts that the owner works with.
pub struct StateOwnerParts {
    /// The state that it owns.
    pub state: Reconciler,
    /// Events of the watches.
    pub events: mpsc::Receiver<ClusterEvent>,
    /// Restarts the watches.
    pub relist: Relist,
    /// Whether this process leads.
    pub leadership: watch::Receiver<Leadership>,
    /// Whether this process, if it leads, could do a leader's work.
    pub able: watch::Sender<bool>,
    /// The jobs in flight, and the client that sends them.
    pub jobs: JobsInFlight,
    /// Stores the state of backends.
    pub keeper: StateKeeper<BackendFormat>,
    /// The writer's metrics.
    pub metrics: Metrics,
    /// Continues the traces that agents begin.
    pub traces: Traces,
    /// Beaten on every tick of the owner.
    pub health: gimbal_runtime::Liveness,
}

/// The owner task.
pub struct StateOwner {
    parts: StateOwnerParts,
    mail: mpsc::Receiver<Mail>,
    touched: Touched,
    /// Open streams by generation: while a newer stream takes over, a backend has two.
    streams: HashMap<u64, Stream>,
    /// What is known of the links to agents beside what they say.
    links: Links,
    /// Lines about streams that were logged recently. An agent that dials again and again gets one of each a minute.
    stream_lines: Quiet<(BackendName, StreamLine)>,
    reject_lines: RejectLines,
    ticked: Option<Instant>,
    shown: Option<Instant>,
    leading: Option<u64>,
    /// Whether agents are sent to another writer: see [`Reconciler::stand_aside`].
    aside: bool,
    /// The epoch for which the stored state was requested last, and when this process could last do its work in it.
    begun: Option<(u64, Instant)>,
    /// Whether the Gimbal cluster has been observed completely since the start.
    observed: bool,
    /// Namespaces that are to be created.
    creating: Creating,
    /// The failure of a task that the owner started. The owner cannot go on after it.
    failed: Option<JoinError>,
}

impl StateOwner {
    /// Creates the owner and the handle by which other tasks reach it.
    #[must_use]
    pub fn new(parts: StateOwnerParts) -> (Self, Handle) {
        let (handle, mail, touched) = Handle::new();
        let (leading, begun, creating, failed) = (None, None, Creating::default(), None);
        let (streams, links) = (HashMap::new(), Links::default());
        let (stream_lines, reject_lines, ticked, shown) = (Quiet::default(), RejectLines::default(), None, None);
        let (aside, observed) = (false, false);
        let owner = Self {
            parts,
            mail,
            touched,
            streams,
            links,
            stream_lines,
            reject_lines,
            ticked,
            shown,
            leading,
            aside,
            begun,
            observed,
            creating,
            failed,
        };
        (owner, handle)
    }

    /// Runs until `shutdown`, then sends every agent a goodbye and waits for the writes in flight.
    ///
    /// # Errors
    /// Returns an error if a task that it started panicked: the owner would never learn the result of its write.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<(), Exit> {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let wake = self.wake_at();
            tokio::select! {
                () = shutdown.cancelled() => break,
                Some(done) = self.parts.jobs.next() => self.finished(done),
                Some(done) = self.creating.next() => self.created(done),
                Some(event) = self.parts.events.recv() => self.observe(event),
                Some(mail) = self.mail.recv() => self.receive(mail),
                Some(event) = self.parts.keeper.next() => self.state_event(event),
                // An error means that it never changes.
                Ok(()) = self.parts.leadership.changed() => self.follow_leadership(Instant::now(), Moment::now()),
                () = sleep_until(wake) => {}
                _ = tick.tick() => self.tick(),
            }
            self.take_more();
            if let Some(error) = self.failed.take() {
                return Err(Exit::Failure(format!("a task of the owner failed: {error}")));
            }
            self.start();
        }
        self.end().await;
        Ok(())
    }

    /// Starts the writes that may start now, and carries out the reconciler's outputs.
    fn start(&mut self) {
        // Before the jobs: with many jobs, no room is left after them. `start_single` makes the two alternate.
        self.creating.start(&mut self.parts.jobs, &self.parts.state, Instant::now());
        self.parts.jobs.start_jobs(&mut self.parts.state, Instant::now());
        self.send();
        // Namespaces that the jobs asked for just now.
        self.creating.start(&mut self.parts.jobs, &self.parts.state, Instant::now());
    }

    fn finished(&mut self, done: Result<Done, JoinError>) {
        match done {
            Ok(done) => self.parts.jobs.finished(done, &mut self.parts.state, Instant::now()),
            Err(error) => self.failed = Some(error),
        }
    }

    fn created(&mut self, done: Result<(Arc<str>, Created), JoinError>) {
        match done {
            Ok(done) => {
                self.creating.ended(done, &mut self.parts.jobs, &mut self.parts.state, Instant::now());
            }
            Err(error) => self.failed = Some(error),
        }
    }

    /// Takes further pending inputs, so that decisions are based on all of them.
    fn take_more(&mut self) {
        for _ in 0..TURN {
            if let Some(done) = self.parts.jobs.try_next() {
                self.finished(done);
            } else if let Ok(event) = self.parts.events.try_recv() {
                self.observe(event);
            } else if let Ok(mail) = self.mail.try_recv() {
                self.receive(mail);
            } else {
                return;
            }
        }
    }

    fn receive(&mut self, mail: Mail) {
        let now = Instant::now();
        match mail {
            Mail::Open { backend, policy, hello, certificate_ends, outgoing, reply } => {
                if let Some(policy) = policy {
                    let before = self.parts.state.backends().len();
                    self.parts.state.add_backend(&backend, *policy, now);
                    let count = self.parts.state.backends().len();
                    if let Some(warning) = too_many(count).filter(|_| too_many(before).is_none()) {
                        tracing::warn!("{warning}");
                    }
                }
                let opened = self.parts.state.open(&backend, &hello, now);
                if let Ok(generation) = opened {
                    if let Some(untold) = self.stream_lines.tell((backend.clone(), StreamLine::Opened), now) {
                        tracing::info!(%backend, generation, agent = hello.agent_instance, version = hello.agent_version, untold, "stream opened");
                    }
                    self.links.opened(&backend, generation, certificate_ends);
                    self.streams.insert(generation, Stream { outgoing });
                }
                if reply.send(opened).is_err() {
                    tracing::debug!("a stream ended while it was opened");
                }
            }
            Mail::Message { backend, generation, message, turns } => {
                if let AgentMessage::Goodbye(goodbye) = &message
                    && let Some(untold) = self.stream_lines.tell((backend.clone(), StreamLine::AgentLeaves), now)
                {
                    let (reason, text) = (goodbye.reason, &goodbye.message);
                    tracing::info!(%backend, generation, ?reason, text, untold, "the agent says goodbye");
                }
                self.parts.state.receive(&backend, generation, message, now);
                drop(turns);
            }
            Mail::Closed { backend, generation } => {
                if self.streams.remove(&generation).is_some()
                    && let Some(untold) = self.stream_lines.tell((backend.clone(), StreamLine::Closed), now)
                {
                    tracing::info!(%backend, generation, untold, "stream closed; what was last known stays");
                }
                self.links.closed(&backend, generation);
                self.parts.state.closed(&backend, generation);
            }
            Mail::Ask(question) => question(&mut self.parts.state, &self.links),
        }
    }

    fn observe(&mut self, event: ClusterEvent) {
        event.apply(&mut self.parts.state, Instant::now());
    }

    fn wake_at(&self) -> Option<Instant> {
        let now = Instant::now();
        let due = self.parts.state.next_deadline().filter(|due| *due > now);
        match (due, self.parts.jobs.wake_at(now)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn tick(&mut self) {
        self.parts.health.beat();
        self.tick_at(Instant::now());
    }

    fn tick_at(&mut self, now: Instant) {
        self.follow_leadership(now, Moment::now());
        let ticked = self.ticked.replace(now);
        if let Some(stopped) = ticked.map(|ticked| now.saturating_duration_since(ticked)).filter(|gap| *gap >= STOPPED)
        {
            tracing::warn!(
                seconds = stopped.as_secs_f32(),
                "this process was stopped: agents have time to be heard again"
            );
            self.parts.state.excuse_silence(now);
        }
        self.parts.state.tick(now, SystemTime::now());
        if self.shown.is_none_or(|shown| now >= shown + SHOW) {
            self.shown = Some(now);
            self.parts.metrics.show(&self.parts.state, self.parts.jobs.writes().may_write(), now);
            self.parts.metrics.oldest_pending(self.parts.state.oldest_pending(now).unwrap_or_default());
            self.parts.jobs.show();
            let known = self.parts.state.backends();
            self.links.keep(|backend| known.contains_key(backend));
            self.reject_lines.keep(|backend| known.contains_key(backend));
        }
    }

    fn send(&mut self) {
        let streams = &self.streams;
        let room = |generation| {
            // What is for a stream that has ended is dropped.
            streams.get(&generation).map_or(usize::MAX, |stream| stream.outgoing.capacity().saturating_sub(LAST_WORDS))
        };
        for output in self.parts.state.take_outputs_within(room) {
            match output {
                Output::Send { backend, generation, message } => self.send_message(&backend, generation, message),
                Output::Close { generation, .. } => {
                    // Dropping the sender ends the stream after what is queued.
                    self.streams.remove(&generation);
                }
                Output::ListAgain => {
                    tracing::warn!(
                        "the Gimbal cluster's store was put back to an older state: everything is listed again"
                    );
                    self.parts.relist.all();
                    // The stored state of backends went back as well.
                    self.parts.state.keep_all();
                }
                Output::Keep { backend, version, state } => match self.leading {
                    Some(epoch) => self.parts.keeper.keep(epoch, backend, version, state),
                    None => tracing::debug!(%backend, "who does not lead keeps nothing"),
                },
                Output::Forget { backend } => {
                    tracing::warn!(%backend, "the backend is decommissioned: nothing of it is left");
                    if let Some(epoch) = self.leading {
                        self.parts.keeper.forget(epoch, backend);
                    }
                }
                Output::RemovalWithdrawn { backend, id, services, why } => {
                    let (why, next) = (why.reason(), after_withdrawal(why));
                    tracing::warn!(%backend, id, services, "the removal of this backend was approved, and is over: {why}. {next}");
                }
                Output::Loss { backend, stage, lost_for } => {
                    let seconds = lost_for.as_secs();
                    match stage {
                        Stage::Hold => {
                            tracing::info!(%backend, "the backend is back; its endpoints are as its source has them")
                        }
                        _ => {
                            tracing::warn!(%backend, stage = stage.as_str(), lost_for_seconds = seconds, "the backend is lost, and its policy takes effect (onLoss)")
                        }
                    }
                    self.parts.metrics.lost(backend.as_str(), stage);
                }
                Output::Accepted { target, kind, name } => {
                    tracing::info!(object = %target, kind, %name, "the API server stores this otherwise than it was sent; its form is accepted");
                }
                Output::Guard { backend, event } => {
                    self.parts.metrics.guarded(backend.as_str(), &event);
                    log_guard(&backend, &event);
                }
                Output::CreateNamespace { namespace, backend } => self.creating.ask(namespace, backend),
                Output::Touched(claim) => {
                    self.touched.notify(claim);
                }
                Output::Settled { backend, end, journey, traced } => {
                    self.settled(&backend, end, &journey, traced.as_ref());
                }
            }
        }
    }

    /// Records what came of a change, and how long that took.
    fn settled(&mut self, backend: &BackendName, end: JourneyEnd, journey: &Journey, traced: Option<&SourceKey>) {
        let now = Instant::now();
        let legs = journey.legs(now);
        let trace = traced.and_then(|service| self.trace(backend, service, end, journey.trace?, &legs));
        self.parts.metrics.settled(backend.as_str(), end, &legs, trace);
        if end == JourneyEnd::Written {
            self.links.written(backend, legs.since_reported(), now);
        }
    }

    /// Continues the trace of a change. Returns it if the collector gets it.
    fn trace(
        &mut self,
        backend: &BackendName,
        service: &SourceKey,
        end: JourneyEnd,
        trace: TraceContext,
        legs: &JourneyLegs,
    ) -> Option<TraceContext> {
        let change = SettledChange {
            backend: backend.as_str(),
            namespace: &service.namespace,
            service: &service.name,
            outcome: end.as_str(),
            queue: legs.queue,
            writing: legs.api_server,
            written_to: WrittenTo::ApiServer,
        };
        self.parts.traces.settled(trace, &change).then_some(trace)
    }

    fn send_message(&mut self, backend: &BackendName, generation: u64, message: WriterMessage) {
        let Some(stream) = self.streams.get_mut(&generation) else { return };
        match &message {
            WriterMessage::Reject(reject) => {
                if let Some(untold) = self.reject_lines.tell(backend, Instant::now()) {
                    let key = reject.key.as_ref().map(ToString::to_string);
                    let reason = reject.reason.as_str();
                    tracing::warn!(%backend, key, reason, text = reject.message, untold, "rejected");
                }
            }
            WriterMessage::Resolved(key) => {
                if let Some(untold) = self.reject_lines.tell(backend, Instant::now()) {
                    tracing::info!(%backend, %key, untold, "resolved");
                }
            }
            WriterMessage::Resync { reason, .. } => {
                self.parts.metrics.resync(backend.as_str());
                tracing::info!(%backend, reason, "asked for a snapshot");
            }
            WriterMessage::Goodbye(goodbye) => {
                self.parts.metrics.dismissed(backend.as_str(), goodbye.reason);
                let line = (backend.clone(), StreamLine::Dismissed(goodbye.reason));
                if let Some(untold) = self.stream_lines.tell(line, Instant::now()) {
                    tracing::info!(%backend, generation, reason = ?goodbye.reason, text = goodbye.message, untold, "goodbye");
                }
            }
            // Streams of Services have no reports, facts or contents.
            WriterMessage::Report { .. } | WriterMessage::Facts(_) | WriterMessage::ContentRequest(_) => {}
            // Only the receiving side makes it.
            WriterMessage::Unreadable { .. } => {}
            WriterMessage::Welcome(_) | WriterMessage::Ack(_) | WriterMessage::Credit(_) => {}
        }
        if let Err(mpsc::error::TrySendError::Full(_)) = stream.outgoing.try_send(message) {
            tracing::warn!(%backend, generation, "the agent does not read; its stream ends and it may resume");
            self.streams.remove(&generation);
            self.parts.state.closed(backend, generation);
        }
    }

    async fn end(mut self) {
        let goodbye =
            Goodbye { reason: GoodbyeReason::Shutdown, message: "the writer shuts down".into(), retry_after: None };
        for stream in self.streams.values() {
            // A stream that is full or closed needs no goodbye: the agent sees it end.
            stream.outgoing.try_send(WriterMessage::Goodbye(goodbye.clone())).ok();
        }
        self.streams.clear();
        let under_way = self.parts.jobs.running();
        let waiting = async { while self.parts.jobs.next().await.is_some() {} };
        if tokio::time::timeout(LAST_WRITES, waiting).await.is_err() {
            tracing::warn!(under_way, "some writes did not end in time; the next writer repairs what they leave");
        }
        // Dropping `self` drops the keeper, whose task ends after it has written what is pending.
    }
}

/// Returns what is left of a backend whose removal is over, and what to do if it is not meant so.
fn after_withdrawal(why: Withdrawal) -> &'static str {
    match why {
        Withdrawal::Admitted => {
            "What is left of it stays, and its agent is let in. Where it is to go, see that every writer has the configuration without it, or \
             delete its object, and approve the removal again"
        }
        Withdrawal::OtherObject => {
            "What is left of it stays. Where it is to go, delete this object, and approve its removal"
        }
        Withdrawal::OtherFigures => {
            "What is left of it stays. Where it is to go, approve the removal again, of what is there now"
        }
    }
}

fn log_guard(backend: &BackendName, event: &GuardEvent) {
    match event {
        GuardEvent::Held(held) => tracing::warn!(
            %backend, id = held.id, endpoints = held.endpoints_removed, before = held.endpoints_before, services = held.targets,
            "the mass-change guard holds a removal; AdminService.Approve with this id releases it"
        ),
        GuardEvent::Ended { id } => tracing::info!(%backend, id, "the held removal ended: so little is missing by now"),
        GuardEvent::Released { id, endpoints, by } => {
            tracing::warn!(%backend, id, endpoints, ?by, "the held removal is released");
        }
        GuardEvent::SnapshotWanted { id } => tracing::info!(%backend, id, "a complete snapshot is asked for"),
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
