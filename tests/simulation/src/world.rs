//! The whole simulated world, and its event loop.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gimbal_model::BackendName;
use gimbal_reconcile::{Watched, WriteFailure, Written};

use crate::agenda::Agenda;
use crate::agents::Agent;
use crate::api::{Api, Keep, Request};
use crate::link::{Link, Packet};
use crate::random::Random;
use crate::server::Backup;
use crate::sources::Sources;
use crate::witness::Witness;
use crate::writer::{Mail, Writer};
use crate::{Plan, Report, Said, Trouble, content};

/// An event. Events for one life of a process are dropped when that life has ended.
#[derive(Debug)]
pub(crate) enum Event {
    /// A source changes.
    Change,
    Trouble(Trouble),
    /// The link between an agent and the writers is interrupted.
    Cut(usize),
    Heard {
        agent: usize,
        life: u32,
        service: usize,
    },
    Read {
        agent: usize,
        life: u32,
    },
    Dial {
        agent: usize,
        life: u32,
    },
    Wake {
        agent: usize,
        life: u32,
    },
    Up(u64),
    Down(u64),
    Silence(u64),
    Start(usize),
    Turn {
        writer: usize,
        life: u32,
    },
    Tick {
        writer: usize,
        life: u32,
    },
    Lease {
        writer: usize,
        life: u32,
    },
    List {
        writer: usize,
        life: u32,
        kind: Watched,
    },
    Watch {
        writer: usize,
        life: u32,
        kind: Watched,
    },
    Request(Request),
    Answer(Request, Box<Written>),
    GiveUp(Request),
    Keep(Box<Keep>),
    /// The API server's store is restored. The flag says whether the watches go on.
    Restore(Box<Backup>, bool),
    /// All watches start again, because they were silent for long or a writer requests it.
    ListAgain,
    Kept {
        writer: usize,
        life: u32,
        backend: BackendName,
        version: u64,
    },
    CreateNamespace {
        writer: usize,
        life: u32,
        namespace: Arc<str>,
    },
    Approve {
        writer: usize,
        life: u32,
        backend: BackendName,
        id: String,
    },
    /// Checks whether the phase is over.
    Look,
}

/// The phases of a run. Each ends when everything is quiet; the storm ends when its time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Fill,
    Storm,
    Calm,
    /// Everything has been restarted.
    Restart,
    Over,
}

/// The longest pause before a lost packet is sent again, in milliseconds.
const RETRANSMISSION: u64 = 15_000;

/// A hash over all events.
#[derive(Debug, Default)]
pub(crate) struct Trace(DefaultHasher);

impl Trace {
    pub(crate) fn note(&mut self, numbers: &[u64]) {
        numbers.iter().for_each(|number| self.0.write_u64(*number));
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.0.write(text.as_bytes());
    }
}

/// The state of a run.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) random: Random,
    pub(crate) agenda: Agenda<Event>,
    pub(crate) base: Instant,
    pub(crate) phase: Phase,
    pub(crate) sources: Sources,
    pub(crate) agents: Vec<Agent>,
    pub(crate) links: BTreeMap<u64, Link>,
    pub(crate) next_link: u64,
    pub(crate) writers: Vec<Writer>,
    pub(crate) next_job: u64,
    pub(crate) api: Api,
    pub(crate) witness: Witness,
    pub(crate) trace: Trace,
    pub(crate) report: Report,
    /// Time of the last write.
    pub(crate) last_active: Duration,
    /// Time at which the phase began.
    pub(crate) begun: Duration,
    pub(crate) storm_until: Duration,
    /// Number of writes of objects and of states before everything was restarted.
    pub(crate) at_rest: (u64, u64),
    /// The messages that were counted before that.
    pub(crate) said_before: Said,
    fault: Option<String>,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        let mut world = Self {
            random: Random::new(plan.seed),
            agenda: Agenda::new(),
            base: Instant::now(),
            phase: Phase::Fill,
            sources: Sources::new(&plan),
            agents: (0..plan.backends).map(Agent::new).collect(),
            links: BTreeMap::new(),
            next_link: 0,
            writers: vec![Writer::new(), Writer::new()],
            next_job: 0,
            api: Api::default(),
            witness: Witness::default(),
            trace: Trace::default(),
            report: Report::default(),
            last_active: Duration::ZERO,
            begun: Duration::ZERO,
            storm_until: Duration::ZERO,
            at_rest: (0, 0),
            said_before: Said::default(),
            fault: None,
            plan,
        };
        for namespace in crate::sources::namespaces() {
            world.api.server.set_namespace(&namespace, true);
        }
        world.api.server.events.clear();
        for writer in 0..world.writers.len() {
            world.start_writer(writer);
        }
        for agent in 0..world.agents.len() {
            world.start_agent(agent);
        }
        world.look_later();
        world
    }

    pub(crate) fn instant(&self) -> Instant {
        self.base + self.agenda.now()
    }

    pub(crate) fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30) + self.agenda.now()
    }

    /// Ends the run with a fault, unless it has one already.
    pub(crate) fn fail(&mut self, fault: String) {
        let (phase, now) = (self.phase, self.agenda.now());
        self.fault.get_or_insert_with(|| format!("{phase:?}, {:.3} s: {fault}", now.as_secs_f64()));
    }

    pub(crate) fn active(&mut self) {
        self.last_active = self.agenda.now();
    }

    pub(crate) fn forget_if_over(&mut self, link: u64) {
        if self.links.get(&link).is_some_and(Link::is_over) {
            self.links.remove(&link);
        }
    }

    /// Runs until a phase is reached.
    ///
    /// # Errors
    /// Returns the first fault.
    pub(crate) fn run_to(&mut self, phase: Phase) -> Result<(), String> {
        while self.phase != phase {
            let Some(event) = self.agenda.pop() else { return Err("nothing happens any more".into()) };
            self.report.events += 1;
            self.trace.note(&[u64::try_from(self.agenda.now().as_micros()).unwrap_or(u64::MAX)]);
            self.happen(event);
            if let Some(fault) = self.fault.take() {
                return Err(fault);
            }
        }
        self.report.time = self.agenda.now();
        self.report.said_at_the_end = std::mem::replace(&mut self.report.said, self.said_before);
        self.report.changes = self.sources.changes;
        self.report.trace = std::hash::Hasher::finish(&self.trace.0);
        self.report.content = content::hash(&content::read(&self.api.server)?);
        Ok(())
    }

    fn lives(&self, writer: usize, life: u32) -> bool {
        self.writers[writer].life == life && self.writers[writer].state.is_some()
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Change => self.change_sources(),
            Event::Trouble(trouble) => self.trouble(trouble),
            Event::Cut(agent) if self.phase == Phase::Storm => self.cut(agent),
            Event::Look => self.look(),
            Event::Heard { agent, life, service } if self.agents[agent].life == life => {
                self.hear_source(agent, service);
            }
            Event::Read { agent, life } if self.agents[agent].life == life => self.read_source(agent),
            Event::Dial { agent, life } if self.agents[agent].life == life => self.dial(agent),
            Event::Wake { agent, life } if self.agents[agent].life == life => self.speak(agent),
            Event::Up(link) => self.arrive_up(link),
            Event::Down(link) => self.arrive_down(link),
            Event::Silence(link) => self.notice_silence(link),
            Event::Start(writer) => self.start_writer(writer),
            Event::Turn { writer, life } if self.lives(writer, life) => self.turn(writer),
            Event::Tick { writer, life } if self.lives(writer, life) => self.tick(writer),
            Event::Lease { writer, life } if self.lives(writer, life) => self.follow_lease(writer),
            Event::List { writer, life, kind } if self.lives(writer, life) => self.list(writer, kind),
            Event::Watch { writer, life, kind } if self.lives(writer, life) => self.see(writer, kind),
            Event::Request(request) => self.take_request(request),
            Event::Answer(request, written) if self.lives(request.writer, request.life) => {
                self.answer(request.writer, request.job, request.action, *written);
            }
            Event::GiveUp(request) if self.lives(request.writer, request.life) => {
                let late = Written::Failed(WriteFailure::Api("no answer in time".into()));
                self.answer(request.writer, request.job, request.action, late);
            }
            Event::Keep(keep) => self.take_keep(*keep),
            Event::Restore(backup, watches_go_on) if self.phase == Phase::Storm => {
                self.restore(&backup, watches_go_on);
            }
            Event::ListAgain => self.list_again(),
            Event::Kept { writer, life, backend, version } if self.lives(writer, life) => {
                self.post(writer, Mail::Kept(backend, version));
            }
            Event::CreateNamespace { writer, life, namespace } => self.take_namespace(writer, life, namespace),
            Event::Approve { writer, life, backend, id } if self.lives(writer, life) => {
                if let Some(state) = &mut self.writers[writer].state {
                    state.approve(&backend, &id);
                }
            }
            // The event was for a process that has ended.
            _ => {}
        }
    }

    /// A message of an agent arrives, once its link is not interrupted.
    fn arrive_up(&mut self, link: u64) {
        let now = self.agenda.now();
        let Some(open) = self.links.get_mut(&link) else { return };
        let cut = self.agents[open.agent].cut_until;
        if cut > now {
            // A lost message is sent again after a pause that has grown with each attempt, so a newer connection may
            // be faster.
            let again = cut + self.random.millis(0, RETRANSMISSION);
            return self.agenda.at(again, Event::Up(link));
        }
        let (writer, listens) = (open.writer, open.writer_open);
        let packet = open.up.arrive();
        let next = open.up.rearm();
        if let Some(next) = next {
            self.agenda.at(next, Event::Up(link));
        }
        match packet {
            Some(Packet::Says(message)) => {
                self.report.said.left((self.plan.bytes)(&message));
                if listens {
                    self.post(writer, Mail::Message(link, message));
                }
            }
            Some(Packet::End) if listens => self.post(writer, Mail::Closed(link)),
            _ => self.forget_if_over(link),
        }
    }

    fn arrive_down(&mut self, link: u64) {
        let now = self.agenda.now();
        let Some(open) = self.links.get_mut(&link) else { return };
        let cut = self.agents[open.agent].cut_until;
        if cut > now {
            let again = cut + self.random.millis(0, RETRANSMISSION);
            return self.agenda.at(again, Event::Down(link));
        }
        let packet = open.down.arrive();
        if let Some(next) = open.down.rearm() {
            self.agenda.at(next, Event::Down(link));
        }
        match packet {
            Some(packet) => self.hear(link, packet),
            None => self.forget_if_over(link),
        }
    }
}
