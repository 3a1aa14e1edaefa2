//! The writers' side: two processes, of which one leads. Each runs a loop like the real one: it handles what came in,
//! starts writes, then sends messages.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use gimbal_guard::GuardEvent;
use gimbal_model::BackendName;
use gimbal_plan::EndpointsApi;
use gimbal_reconcile::{Job, Output, Reconciler, Settings, Watched, WriteFailure, Written};
use gimbal_session::{AgentMessage, Goodbye, Hello, WriterLimits, WriterMessage};

use crate::lease::Lead;
use crate::link::Packet;
use crate::sources;
use crate::watch::{Seen, Watch};
use crate::world::{Event, Phase, World};

const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(15);
const COMPARISON: Duration = Duration::from_secs(60);
/// The maximum number of concurrent jobs.
const LANES: usize = 64;
/// The interval at which the writer handles its timers. The real loop does so more often; no decision depends on
/// that.
const TICK: Duration = Duration::from_millis(500);
/// How long a writer waits for an answer.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// An input of the loop.
#[derive(Debug)]
pub(crate) enum Mail {
    Message(u64, AgentMessage),
    Closed(u64),
    Saw(Watched, Seen),
    Done(u64),
    Kept(BackendName, u64),
    NamespaceCreated(Arc<str>),
}

/// The writes of a job in progress.
#[derive(Debug)]
struct Running {
    job: Job,
    answers: Vec<Option<Written>>,
}

/// One writer process.
#[derive(Debug)]
pub(crate) struct Writer {
    /// `None` while it is down.
    pub(crate) state: Option<Reconciler>,
    pub(crate) life: u32,
    pub(crate) mail: VecDeque<Mail>,
    turn: bool,
    running: BTreeMap<u64, Running>,
    /// Links by generation.
    streams: BTreeMap<u64, u64>,
    pause_until: Duration,
    pub(crate) lead: Option<Lead>,
    pub(crate) leading: Option<u64>,
    pub(crate) watches: BTreeMap<Watched, Watch>,
    /// The process cannot reach the API server until this time.
    pub(crate) cut_until: Duration,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self {
            state: None,
            life: 0,
            mail: VecDeque::new(),
            turn: false,
            running: BTreeMap::new(),
            streams: BTreeMap::new(),
            pause_until: Duration::ZERO,
            lead: None,
            leading: None,
            watches: BTreeMap::new(),
            cut_until: Duration::ZERO,
        }
    }

    /// Returns the epoch in which the writer leads at `now`.
    pub(crate) fn epoch(&self, now: Duration) -> Option<u64> {
        self.lead.filter(|lead| now < lead.until).map(|lead| lead.epoch)
    }

    pub(crate) fn is_idle(&self) -> bool {
        let pending = self.state.as_ref().map_or(usize::MAX, Reconciler::pending);
        self.mail.is_empty() && self.running.is_empty() && (self.leading.is_none() || pending == 0)
    }
}

impl World {
    /// Starts a process, which knows only what is stored in the API server.
    pub(crate) fn start_writer(&mut self, writer: usize) {
        if self.writers[writer].state.is_some() {
            return;
        }
        self.report.lives += 1;
        let limits = WriterLimits { credit: self.plan.credit, heartbeat_timeout: HEARTBEAT_TIMEOUT };
        let settings = Settings { api: EndpointsApi::EndpointSlices, limits, comparison_interval: COMPARISON };
        let mut state = Reconciler::new(settings);
        state.configure(sources::policies(self.plan.backends), self.instant());
        self.writers[writer].state = Some(state);
        for kind in Watched::ALL {
            self.relist(writer, kind);
        }
        let life = self.writers[writer].life;
        self.agenda.after(TICK, Event::Tick { writer, life });
        self.agenda.after(Duration::ZERO, Event::Lease { writer, life });
    }

    /// Ends a process without a message. Its requests to the API server are still on their way.
    pub(crate) fn stop_writer(&mut self, writer: usize) {
        let host_lives = self.random.percent(50);
        let (life, cut_until) = (self.writers[writer].life + 1, self.writers[writer].cut_until);
        self.writers[writer] = Writer { life, cut_until, ..Writer::new() };
        let theirs = self.links.iter().filter(|(_, open)| open.writer == writer && open.writer_open);
        let theirs: Vec<u64> = theirs.map(|(link, _)| *link).collect();
        for link in theirs {
            if host_lives {
                self.send_down(link, Packet::End);
            } else {
                let noticed = self.random.millis(10_000, 15_000);
                self.agenda.after(noticed, Event::Silence(link));
            }
            self.close_writers_end(link);
        }
    }

    pub(crate) fn post(&mut self, writer: usize, mail: Mail) {
        if self.writers[writer].state.is_none() {
            return;
        }
        self.writers[writer].mail.push_back(mail);
        self.turn_soon(writer);
    }

    fn turn_soon(&mut self, writer: usize) {
        if !std::mem::replace(&mut self.writers[writer].turn, true) {
            let (pause, life) = (self.random.millis(2, 20), self.writers[writer].life);
            self.agenda.after(pause, Event::Turn { writer, life });
        }
    }

    /// Runs the loop once.
    pub(crate) fn turn(&mut self, writer: usize) {
        self.writers[writer].turn = false;
        self.report.most_mail = self.report.most_mail.max(self.writers[writer].mail.len());
        let Some(mut state) = self.writers[writer].state.take() else { return };
        while let Some(mail) = self.writers[writer].mail.pop_front() {
            self.take_in(writer, &mut state, mail);
        }
        self.start_jobs(writer, &mut state);
        for output in state.take_outputs() {
            self.carry_out(writer, &mut state, output);
        }
        self.report.longest_queue = self.report.longest_queue.max(state.pending());
        if state.pending() > self.plan.keys() {
            self.fail(format!("{} targets wait, of {} that there can be", state.pending(), self.plan.keys()));
        }
        self.writers[writer].state = Some(state);
    }

    pub(crate) fn tick(&mut self, writer: usize) {
        let (now, instant, wall) = (self.agenda.now(), self.instant(), self.wall());
        let one = &mut self.writers[writer];
        let (epoch, life) = (one.epoch(now), one.life);
        let Some(state) = &mut one.state else { return };
        if epoch != one.leading {
            if epoch.is_some() {
                self.report.leaders += 1;
                for (backend, kept) in &self.api.kept {
                    state.restore(backend, kept.clone(), instant, wall);
                }
            }
            state.lead(epoch);
            one.leading = epoch;
        }
        state.tick(instant, wall);
        self.turn_soon(writer);
        self.agenda.after(TICK, Event::Tick { writer, life });
    }

    fn take_in(&mut self, writer: usize, state: &mut Reconciler, mail: Mail) {
        let now = self.instant();
        match mail {
            Mail::Message(link, AgentMessage::Hello(hello)) => self.open(state, link, &hello),
            Mail::Message(link, message) => {
                let stream = self.links.get(&link).and_then(|open| Some((open.agent, open.generation?)));
                if let Some((agent, generation)) = stream {
                    state.receive(&self.agents[agent].name, generation, message, now);
                }
            }
            Mail::Closed(link) => {
                let stream = self.links.get(&link).and_then(|open| Some((open.agent, open.generation?)));
                if let Some((agent, generation)) = stream {
                    self.writers[writer].streams.remove(&generation);
                    state.closed(&self.agents[agent].name, generation);
                }
                self.close_writers_end(link);
            }
            Mail::Saw(kind, seen) => {
                if matches!(seen, Seen::ListBegins) {
                    self.ask_list(writer, kind);
                }
                seen.deliver(kind, state, now);
            }
            Mail::Done(job) => {
                let Some(Running { job, answers }) = self.writers[writer].running.remove(&job) else { return };
                let written = answers.into_iter().map(|answer| answer.unwrap_or(Written::NotSent)).collect();
                state.finish(&job, written, now);
            }
            Mail::Kept(backend, version) => state.kept(&backend, version, now),
            Mail::NamespaceCreated(namespace) => state.namespace_created(&namespace, Ok(()), now),
        }
    }

    fn open(&mut self, state: &mut Reconciler, link: u64, hello: &Hello) {
        let Some(open) = self.links.get_mut(&link).filter(|open| open.writer_open) else { return };
        match state.open(&self.agents[open.agent].name, hello, self.base + self.agenda.now()) {
            Ok(generation) => {
                open.generation = Some(generation);
                self.writers[open.writer].streams.insert(generation, link);
            }
            Err(goodbye) => self.refuse(link, goodbye),
        }
    }

    fn refuse(&mut self, link: u64, goodbye: Goodbye) {
        self.send_down(link, Packet::Says(WriterMessage::Goodbye(goodbye)));
        self.send_down(link, Packet::End);
        self.close_writers_end(link);
    }

    fn start_jobs(&mut self, writer: usize, state: &mut Reconciler) {
        let (now, instant) = (self.agenda.now(), self.instant());
        while self.writers[writer].running.len() < LANES && self.writers[writer].pause_until <= now {
            let Some(job) = state.next_job(instant) else { return };
            self.next_job += 1;
            let number = self.next_job;
            for action in 0..job.first {
                self.send_request(writer, number, &job, action);
            }
            let answers = vec![None; job.actions.len()];
            self.writers[writer].running.insert(number, Running { job, answers });
        }
    }

    /// The answer to one action of a job arrives, or the writer gives up waiting for it.
    pub(crate) fn answer(&mut self, writer: usize, job: u64, action: usize, written: Written) {
        let now = self.agenda.now();
        let one = &mut self.writers[writer];
        let Some(running) = one.running.get_mut(&job).filter(|running| running.answers[action].is_none()) else {
            return;
        };
        match &written {
            Written::Failed(failure) => {
                self.report.failed_writes += 1;
                if let WriteFailure::Throttled(after) = failure {
                    one.pause_until = one.pause_until.max(now + after.unwrap_or_default());
                }
            }
            Written::NotSent => self.report.failed_writes += 1,
            _ => {}
        }
        running.answers[action] = Some(written);
        let (first, rest) = running.answers.split_at_mut(running.job.first);
        if action < first.len() && first.iter().all(Option::is_some) {
            if first.iter().flatten().all(Written::is_there) {
                let (done, actions) = (running.job.clone(), running.job.first..running.job.actions.len());
                actions.for_each(|action| self.send_request(writer, job, &done, action));
            } else {
                rest.fill(Some(Written::NotSent));
            }
        }
        let running = self.writers[writer].running.get(&job);
        if running.is_some_and(|running| running.answers.iter().all(Option::is_some)) {
            self.post(writer, Mail::Done(job));
        }
    }

    pub(crate) fn waits_for(&self, writer: usize, job: u64, action: usize) -> bool {
        let running = self.writers[writer].running.get(&job);
        running.is_some_and(|running| running.answers[action].is_none())
    }

    fn carry_out(&mut self, writer: usize, state: &mut Reconciler, output: Output) {
        let life = self.writers[writer].life;
        match output {
            Output::Send { generation, message, .. } => {
                if let Some(link) = self.writers[writer].streams.get(&generation).copied() {
                    self.send_down(link, Packet::Says(message));
                }
            }
            Output::Close { generation, .. } => {
                if let Some(link) = self.writers[writer].streams.remove(&generation) {
                    self.send_down(link, Packet::End);
                    self.close_writers_end(link);
                }
            }
            Output::Keep { backend, version, state: kept } => self.send_keep(writer, backend, version, kept),
            Output::CreateNamespace { namespace, .. } => {
                let pause = self.api_delay();
                self.agenda.after(pause, Event::CreateNamespace { writer, life, namespace });
            }
            Output::Guard { backend, event: GuardEvent::Held(held) } => {
                self.report.holds += 1;
                // A person approves the held removals some time later.
                let looks = self.random.millis(20_000, 100_000);
                self.agenda.after(looks, Event::Approve { writer, life, backend, id: held.id });
            }
            Output::ListAgain => self.agenda.after(Duration::ZERO, Event::ListAgain),
            Output::Forget { backend } => self.fail(format!("{backend} was forgotten though that was not ordered")),
            Output::RemovalWithdrawn { backend, .. } => {
                self.fail(format!("the removal of {backend} was taken back though it was not ordered"));
            }
            Output::Accepted { target, .. } => {
                self.fail(format!("{target} was accepted in another form than was sent"))
            }
            Output::Guard { .. } | Output::Loss { .. } | Output::Touched(_) | Output::Settled { .. } => {}
        }
        if self.phase == Phase::Restart && state.counters().comparison_differences > 0 {
            self.fail("a comparison found a difference".into());
        }
    }

    fn send_down(&mut self, link: u64, packet: Packet<WriterMessage>) {
        let Some(agent) = self.links.get(&link).map(|open| open.agent) else { return };
        let when = self.agenda.now() + self.down_delay(agent);
        let look = self.links.get_mut(&link).and_then(|open| open.down.send(when, packet));
        if let Some(look) = look {
            self.agenda.at(look, Event::Down(link));
        }
    }

    /// Ends the writer's side of a connection. Messages that it sent are still on their way.
    fn close_writers_end(&mut self, link: u64) {
        let Some(open) = self.links.get_mut(&link) else { return };
        open.writer_open = false;
        for lost in open.up.lose() {
            self.report.said.left((self.plan.bytes)(&lost));
        }
        self.forget_if_over(link);
    }
}
