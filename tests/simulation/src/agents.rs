//! The agents' side: how each follows its source, talks to a writer, and reacts to the end of its connection.

use std::time::Duration;

use gimbal_model::BackendName;
use gimbal_session::{AgentConfig, AgentEnd, AgentVerdict, Freshness, Scope, WriterMessage};

use crate::link::{Link, Packet};
use crate::sources;
use crate::world::{Event, World};

/// The shortest and the longest limit of the pause before a dial, in milliseconds, as in the real agent when no
/// writer refuses it.
const FIRST_PAUSE: u64 = 20;
const LONGEST_PAUSE: u64 = 1_000;
/// How long a dial takes that gets no answer.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// The time until all agents dial, if they dial at once.
const AT_ONCE: Duration = Duration::from_secs(5);
/// The ordinary delay of a link, in milliseconds.
const DELAY: (u64, u64) = (1, 20);

/// One agent.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) name: BackendName,
    pub(crate) end: AgentEnd,
    /// The number of the agent's life. Events for an earlier one are dropped.
    pub(crate) life: u32,
    /// Whether the agent sees changes of its source.
    pub(crate) hears: bool,
    pub(crate) link: Option<u64>,
    dialling: bool,
    /// Counts the dials, which alternate between the writers, as through a load balancer.
    next_writer: usize,
    /// The limit of the next pause, in milliseconds.
    limit: u64,
    wake: Option<Duration>,
    /// The link is interrupted until this time.
    pub(crate) cut_until: Duration,
    /// The longest extra delay of messages to the writer and from it, in milliseconds, and the time until which it
    /// lasts.
    pub(crate) lag: (u64, u64, Duration),
}

impl Agent {
    pub(crate) fn new(backend: usize) -> Self {
        let name = sources::name(backend);
        Self {
            end: end(&name, 0),
            name,
            life: 0,
            hears: false,
            link: None,
            dialling: false,
            next_writer: backend,
            limit: FIRST_PAUSE,
            wake: None,
            cut_until: Duration::ZERO,
            lag: Default::default(),
        }
    }
}

fn end(name: &BackendName, life: u32) -> AgentEnd {
    let mut end = AgentEnd::new(AgentConfig {
        backend: name.to_string(),
        instance: format!("{name}-{life}"),
        version: "simulation".into(),
    });
    end.set_incarnation(format!("source of {name}"));
    end
}

impl World {
    /// Starts an agent's process: it begins to read its source, and dials.
    pub(crate) fn start_agent(&mut self, agent: usize) {
        self.report.lives += 1;
        let life = self.agents[agent].life;
        let (read, dial) = (self.random.millis(50, 3000), self.random.millis(0, 2000));
        self.agenda.after(read, Event::Read { agent, life });
        self.agents[agent].dialling = true;
        self.agenda.after(dial, Event::Dial { agent, life });
    }

    /// Ends an agent's process without a message. Its host may live on and close the connection.
    pub(crate) fn restart_agent(&mut self, agent: usize) {
        let host_lives = self.random.percent(50);
        if let Some(link) = self.agents[agent].link {
            self.leave(link, host_lives);
        }
        let one = &mut self.agents[agent];
        one.life += 1;
        one.end = end(&one.name, one.life);
        (one.link, one.hears, one.limit, one.wake) = (None, false, FIRST_PAUSE, None);
        self.start_agent(agent);
    }

    /// The agent has read its source completely, for the first time or again.
    pub(crate) fn read_source(&mut self, agent: usize) {
        let now = self.instant();
        let one = &mut self.agents[agent];
        for service in 0..self.sources.services() {
            one.end.set(sources::key(agent, service), self.sources.service(agent, service), now);
        }
        one.hears = true;
        one.end.source_complete();
        self.speak(agent);
    }

    /// The agent sees a change: the Service in its present form.
    pub(crate) fn hear_source(&mut self, agent: usize, service: usize) {
        let now = self.instant();
        if self.agents[agent].hears {
            let end = &mut self.agents[agent].end;
            end.set(sources::key(agent, service), self.sources.service(agent, service), now);
            self.speak(agent);
        }
    }

    /// The agent loses sight of its source until it has read it again.
    pub(crate) fn lose_source(&mut self, agent: usize, back_after: Duration) {
        let one = &mut self.agents[agent];
        if !one.hears {
            return;
        }
        one.hears = false;
        one.end.scope_unknown(Scope::All, "the source does not answer".into());
        let life = one.life;
        self.agenda.after(back_after, Event::Read { agent, life });
        self.speak(agent);
    }

    pub(crate) fn dial(&mut self, agent: usize) {
        self.agents[agent].dialling = false;
        if self.agents[agent].link.is_some() {
            return;
        }
        if self.agents[agent].cut_until > self.agenda.now() {
            return self.redial(agent, None, DIAL_TIMEOUT);
        }
        self.agents[agent].next_writer += 1;
        let writer = self.agents[agent].next_writer % self.writers.len();
        if self.writers[writer].state.is_none() {
            return self.redial(agent, None, Duration::ZERO);
        }
        self.next_link += 1;
        let link = self.next_link;
        self.links.insert(link, Link::new(agent, writer));
        let now = self.instant();
        let one = &mut self.agents[agent];
        one.link = Some(link);
        one.end.connected(now);
        self.speak(agent);
    }

    /// Dials again after `pause`, or by default after the back-off. `lost` is the time that the last attempt took.
    fn redial(&mut self, agent: usize, pause: Option<Duration>, lost: Duration) {
        let one = &mut self.agents[agent];
        if std::mem::replace(&mut one.dialling, true) {
            return;
        }
        let pause = match pause {
            Some(pause) => pause,
            None => {
                let limit = one.limit;
                one.limit = (limit * 2).min(LONGEST_PAUSE);
                self.random.millis(0, limit)
            }
        };
        let life = self.agents[agent].life;
        self.agenda.after(lost + pause, Event::Dial { agent, life });
    }

    /// Ends the agent's stream, and dials at the same time as all other agents, when the Lease is taken again.
    pub(crate) fn dial_at_once(&mut self, agent: usize) {
        if let Some(link) = self.agents[agent].link {
            self.leave(link, true);
        }
        let life = self.agents[agent].life;
        self.agents[agent].dialling = true;
        self.agenda.after(AT_ONCE, Event::Dial { agent, life });
    }

    /// Sends every message that the agent has and may send.
    pub(crate) fn speak(&mut self, agent: usize) {
        let now = self.instant();
        let Some(link) = self.agents[agent].link else { return };
        let age = if self.agents[agent].hears { Duration::ZERO } else { Duration::from_secs(5) };
        let freshness = vec![Freshness { kind: "services".into(), age: Some(age) }];
        self.agents[agent].end.set_freshness(freshness);
        while let Some(message) = self.agents[agent].end.next(now) {
            let bytes = (self.plan.bytes)(&message);
            if let Some(open) = self.links.get_mut(&link) {
                self.report.said.sent(&message, bytes, &mut open.amid_snapshot);
            }
            self.tempt(agent, &message);
            self.send_up(link, Packet::Says(message));
        }
        if self.agents[agent].end.wants_redial() {
            self.leave(link, true);
            self.redial(agent, Some(Duration::ZERO), Duration::ZERO);
            return;
        }
        let one = &mut self.agents[agent];
        if let Some(due) = one.end.next_deadline(now).map(|due| due.saturating_duration_since(now)) {
            let (when, life) = (self.agenda.now() + due, one.life);
            if one.wake.is_none_or(|wake| wake > when || wake <= self.agenda.now()) {
                one.wake = Some(when);
                self.agenda.at(when, Event::Wake { agent, life });
            }
        }
    }

    fn send_up(&mut self, link: u64, packet: Packet<gimbal_session::AgentMessage>) {
        let Some(open) = self.links.get_mut(&link) else { return };
        let (lag, _, until) = self.agents[open.agent].lag;
        let slow = if until > self.agenda.now() { self.random.millis(0, lag) } else { Duration::ZERO };
        let when = self.agenda.now() + slow + self.random.millis(DELAY.0, DELAY.1);
        if let Some(look) = open.up.send(when, packet) {
            self.agenda.at(look, Event::Up(link));
        }
    }

    /// Returns the delay of a message from the writer.
    pub(crate) fn down_delay(&mut self, agent: usize) -> Duration {
        let (_, lag, until) = self.agents[agent].lag;
        let slow = if until > self.agenda.now() { self.random.millis(0, lag) } else { Duration::ZERO };
        slow + self.random.millis(DELAY.0, DELAY.1)
    }

    /// Ends the agent's side of a connection. With `announced`, the writer learns of it after the messages sent before;
    /// otherwise these are lost.
    pub(crate) fn leave(&mut self, link: u64, announced: bool) {
        let Some(open) = self.links.get_mut(&link) else { return };
        open.agent_open = false;
        self.report.said.snapshot_over(&mut open.amid_snapshot);
        open.down.lose();
        let agent = open.agent;
        if announced {
            self.send_up(link, Packet::End);
        } else {
            for lost in open.up.lose() {
                self.report.said.left((self.plan.bytes)(&lost));
            }
        }
        self.agents[agent].end.disconnected();
        self.agents[agent].link = None;
        self.forget_if_over(link);
    }

    /// A message of the writer arrives.
    pub(crate) fn hear(&mut self, link: u64, packet: Packet<WriterMessage>) {
        let now = self.instant();
        let Some(agent) = self.links.get(&link).filter(|open| open.agent_open).map(|open| open.agent) else { return };
        let Packet::Says(message) = packet else {
            self.leave(link, true);
            return self.redial(agent, None, Duration::ZERO);
        };
        if matches!(message, WriterMessage::Welcome(_)) {
            self.agents[agent].limit = FIRST_PAUSE;
        }
        match self.agents[agent].end.receive(message, now) {
            AgentVerdict::Continue => self.speak(agent),
            AgentVerdict::Close { retry_after, .. } => {
                self.leave(link, true);
                self.redial(agent, retry_after, Duration::ZERO);
            }
        }
    }

    /// The agent considers the connection dead, because nothing has come back for long.
    pub(crate) fn notice_silence(&mut self, link: u64) {
        let Some(open) = self.links.get(&link).filter(|open| open.agent_open) else { return };
        let agent = open.agent;
        if self.agents[agent].cut_until > self.agenda.now() || !open.writer_open {
            self.leave(link, true);
            self.redial(agent, None, Duration::ZERO);
        }
    }
}
