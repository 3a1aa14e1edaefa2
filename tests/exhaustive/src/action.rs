//! The steps that can follow a state, and their effects.

use std::fmt;
use std::time::Duration;

use gimbal_model::TargetKey;
use gimbal_reconcile::Watched;
use gimbal_simulation::server::Luck;

use crate::Trouble;
use crate::world::{Link, World};

/// The maximum number of messages on their way to the writer on one connection.
const PIPE: usize = 2;
/// Time that passes with `Wait` if nothing is due.
const LONG: Duration = Duration::from_secs(61);
/// Longer than the writer waits for a heartbeat.
const PAUSE: Duration = Duration::from_secs(20);

/// One small step. Agents are given by their index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The next change of a source's script happens, and its agent sees it if it can.
    Change(usize),
    /// An agent reads its source.
    Read(usize),
    /// An agent opens a stream.
    Dial(usize),
    /// An agent sends one message.
    Say(usize),
    /// The writer receives one message of an agent (first index), or the end of the connection. The second index
    /// selects one of its connections, oldest first.
    Up(usize, usize),
    /// The agent receives one message, or the end of the connection.
    Down(usize),
    /// The writer checks whether it leads.
    Lead,
    /// The writer starts its next job.
    Start,
    /// The API server handles the next write of a job.
    Write(TargetKey, Luck),
    /// The answers to a job arrive.
    Finish(TargetKey),
    /// The API server handles a write of a process that has ended.
    Late,
    /// A watch starts again, and the API server makes its list.
    List(Watched),
    /// A watch delivers one event, or its list.
    Watch(Watched),
    /// The next state of a backend is stored (true), or that fails (false).
    Keep(bool),
    /// The writer handles its timers.
    Tick,
    /// Time passes until something is due.
    Wait,
    /// A trouble begins.
    Trouble(Trouble),
    /// The trouble ends.
    Over,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(target, Luck::Good) => write!(f, "Write({target})"),
            Self::Write(target, luck) => write!(f, "Write({target}, {luck:?})"),
            Self::Finish(target) => write!(f, "Finish({target})"),
            Self::Keep(true) => write!(f, "Keep"),
            Self::Keep(false) => write!(f, "Keep, which fails"),
            other => write!(f, "{other:?}"),
        }
    }
}

impl Action {
    /// Whether the step may come at any moment without counting as a detour.
    pub(crate) fn is_free(&self) -> bool {
        match self {
            Self::Change(_) | Self::Trouble(_) | Self::Over => true,
            Self::Write(_, luck) => *luck != Luck::Good,
            Self::Keep(works) => !works,
            _ => false,
        }
    }
}

impl World {
    /// Adds the steps that are possible besides deliveries.
    pub(crate) fn others(&self, actions: &mut Vec<Action>) {
        if actions.is_empty() && self.small.waits < self.setup.waits {
            actions.push(Action::Wait);
        }
        actions.push(Action::Tick);
        for agent in 0..self.agents.len() {
            if self.small.next[agent] < self.setup.backends[agent].script.len() {
                actions.push(Action::Change(agent));
            }
        }
        if self.small.trouble.is_some() {
            actions.extend(self.can_be_over().then_some(Action::Over));
        } else {
            self.troubles(actions);
        }
    }

    /// Whether the trouble can end before everything else is done.
    fn can_be_over(&self) -> bool {
        !self.small.over && matches!(self.small.trouble, Some(Trouble::LateLease | Trouble::Unknown(..)))
    }

    /// Returns the steps that deliver something or that somebody is about to take. Without any, only time, a change
    /// of a source or a trouble can lead to another state.
    #[must_use]
    pub(crate) fn deliveries(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for agent in 0..self.agents.len() {
            let links = &self.links[agent];
            if !self.agents[agent].has_read {
                actions.push(Action::Read(agent));
            }
            for (number, link) in links.iter().enumerate() {
                if link.writer_open && (!link.up.is_empty() || !link.agent_open) {
                    actions.push(Action::Up(agent, number));
                }
            }
            match links.last().filter(|link| link.agent_open) {
                None if self.writer.leading.is_some() && self.small.in_time => actions.push(Action::Dial(agent)),
                None => {}
                Some(link) => {
                    if !link.down.is_empty() || !link.writer_open {
                        actions.push(Action::Down(agent));
                    }
                    if link.writer_open && link.up.len() < PIPE && self.has_something_to_say(agent) {
                        actions.push(Action::Say(agent));
                    }
                }
            }
        }
        self.writers(&mut actions);
        actions
    }

    fn writers(&self, actions: &mut Vec<Action>) {
        let writer = &*self.writer;
        if self.epoch() != writer.leading {
            actions.push(Action::Lead);
        }
        if self.has_a_job() {
            actions.push(Action::Start);
        }
        for (target, running) in &writer.running {
            actions.push(match running.answers.len() < running.job.actions.len() {
                true => Action::Write(target.clone(), Luck::Good),
                false => Action::Finish(target.clone()),
            });
        }
        if !self.cluster.late.is_empty() {
            actions.push(Action::Late);
        }
        for kind in Watched::ALL {
            match writer.watches.get(&kind) {
                None => actions.push(Action::List(kind)),
                Some(queue) if !queue.is_empty() => actions.push(Action::Watch(kind)),
                Some(_) => {}
            }
        }
        if self.can_keep() {
            actions.push(Action::Keep(true));
        }
    }

    /// Adds the troubles that are possible now.
    fn troubles(&self, actions: &mut Vec<Action>) {
        for trouble in &self.setup.troubles {
            match trouble {
                Trouble::Cut(agent) | Trouble::HalfOpen(agent) if !self.is_connected(*agent) => {}
                Trouble::LateLease if self.writer.leading.is_none() => {}
                Trouble::FailedKeep => {
                    if self.can_keep() {
                        actions.push(Action::Keep(false));
                    }
                }
                Trouble::LostAnswer | Trouble::FailedWrite => {
                    let luck = if *trouble == Trouble::LostAnswer { Luck::AnswerLost } else { Luck::Refused };
                    let waits = self.writer.running.iter().filter(|(_, r)| r.answers.len() < r.job.actions.len());
                    actions.extend(waits.map(|(target, _)| Action::Write(target.clone(), luck)));
                }
                _ => actions.push(Action::Trouble(*trouble)),
            }
        }
    }

    fn is_connected(&self, agent: usize) -> bool {
        self.links[agent].last().is_some_and(|link| link.agent_open)
    }

    /// Executes a step.
    pub fn take(&mut self, action: &Action) {
        match action {
            Action::Change(agent) => self.change(*agent),
            Action::Read(agent) => self.read(*agent),
            Action::Dial(agent) => self.dial(*agent),
            Action::Say(agent) => self.say(*agent),
            Action::Up(agent, link) => self.up(*agent, *link),
            Action::Down(agent) => self.down(*agent),
            Action::Lead => self.lead(),
            Action::Start => self.start(),
            Action::Write(target, luck) => self.write(target, *luck),
            Action::Finish(target) => self.finish(target),
            Action::Late => self.write_late(),
            Action::List(kind) => self.list(*kind),
            Action::Watch(kind) => self.watch(*kind),
            Action::Keep(works) => self.keep(*works),
            Action::Tick => self.tick(),
            Action::Wait => {
                self.small.waits += 1;
                self.pass(self.due().unwrap_or(LONG));
            }
            Action::Trouble(trouble) => self.go_wrong(*trouble),
            Action::Over => self.go_well(),
        }
        for links in &mut self.links {
            if links.iter().any(Link::is_over) {
                links.edit().retain(|link| !link.is_over());
            }
        }
    }

    /// Returns the time until something is due, or `None` if nothing is due later than now.
    fn due(&self) -> Option<Duration> {
        let due = self.writer.state.next_deadline()?;
        Some(due.saturating_duration_since(self.now())).filter(|due| !due.is_zero())
    }

    fn go_wrong(&mut self, trouble: Trouble) {
        self.small.trouble = Some(trouble);
        match trouble {
            Trouble::Cut(agent) => self.cut(agent, true),
            Trouble::HalfOpen(agent) => self.cut(agent, false),
            Trouble::KillAgent(agent) => self.kill_agent(agent),
            Trouble::KillWriter => self.kill_writer(false),
            Trouble::OtherWriter => self.kill_writer(true),
            Trouble::LateLease => self.small.in_time = false,
            Trouble::PutBack => self.put_back(),
            Trouble::Unknown(agent, namespace) => self.lose_sight(agent, namespace),
            Trouble::Pause => {
                self.small.clock += PAUSE;
                self.tick();
            }
            // These last until they are over, or took effect with the step itself.
            Trouble::Refused { .. } | Trouble::RefusedKeep(_) | Trouble::Conflicts(_) => {}
            Trouble::LostAnswer | Trouble::FailedWrite | Trouble::FailedKeep => {}
        }
    }

    /// Ends a trouble that can end.
    pub(crate) fn go_well(&mut self) {
        self.small.over = true;
        self.small.in_time = true;
        for agent in 0..self.agents.len() {
            self.see_again(agent);
        }
    }
}
