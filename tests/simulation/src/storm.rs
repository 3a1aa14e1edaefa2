//! The troubles of the storm, and the ends of the phases.

use std::time::Duration;

use gimbal_reconcile::{Reconciler, Watched};
use gimbal_session::{AgentMessage, Data, Frame, StreamState};

use crate::server::{Backup, meta_mut};
use crate::world::{Event, Phase, World};
use crate::{Ending, Trouble, content, sources};

/// The average time between two changes of a source Service.
const CHANGE: Duration = Duration::from_secs(90);
/// The interval at which the end of a phase is checked.
const LOOK: Duration = Duration::from_secs(5);
/// How long nothing must be written before everything counts as quiet: longer than a hold of the guard and than a
/// comparison of everything.
const QUIET: Duration = Duration::from_secs(150);
/// How long a watch may be silent before it is started again.
const SILENCE: Duration = Duration::from_secs(90);
/// The longest time that a phase may take.
const LONGEST: Duration = Duration::from_secs(3600);

impl World {
    pub(crate) fn look_later(&mut self) {
        self.agenda.after(LOOK, Event::Look);
    }

    /// Starts the storm.
    fn break_loose(&mut self) {
        self.report.writes = 0;
        self.witness.begin(&self.sources);
        self.change_later();
        for trouble in self.plan.troubles.clone() {
            self.trouble_later(trouble);
        }
    }

    fn somewhen(&mut self, mean: Duration) -> Duration {
        let twice = u64::try_from(mean.as_millis()).unwrap_or(u64::MAX) * 2;
        self.random.millis(0, twice.max(1))
    }

    fn change_later(&mut self) {
        let pause = self.somewhen(CHANGE / u32::try_from(self.plan.keys()).unwrap_or(u32::MAX));
        self.agenda.after(pause, Event::Change);
    }

    fn trouble_later(&mut self, trouble: Trouble) {
        if let Some(interval) = trouble.interval(self.plan.backends) {
            let pause = self.somewhen(interval);
            self.agenda.after(pause, Event::Trouble(trouble));
        }
    }

    pub(crate) fn change_sources(&mut self) {
        if self.phase != Phase::Storm {
            return;
        }
        let changed = self.sources.change(&mut self.random);
        for service in changed.services {
            self.source_changed(changed.backend, service);
        }
        self.change_later();
    }

    fn source_changed(&mut self, agent: usize, service: usize) {
        self.witness.changed(&self.sources, agent, service);
        let (pause, life) = (self.random.millis(1, 300), self.agents[agent].life);
        self.agenda.after(pause, Event::Heard { agent, life, service });
    }

    pub(crate) fn trouble(&mut self, trouble: Trouble) {
        if self.phase != Phase::Storm {
            return;
        }
        self.trouble_later(trouble);
        let now = self.agenda.now();
        let agent = self.random.below(self.agents.len());
        let writer = self.random.below(self.writers.len());
        let kind = Watched::ALL[self.random.below(Watched::ALL.len())];
        let while_ = |world: &mut Self, from, to| now + world.random.millis(from, to);
        match trouble {
            Trouble::Partition => self.cut(agent),
            Trouble::CutSnapshot => {}
            Trouble::Lag => {
                let lag = [(6_000, 0), (0, 6_000), (3_000, 3_000)][self.random.below(3)];
                self.agents[agent].lag = (lag.0, lag.1, while_(self, 5_000, 40_000));
            }
            Trouble::AgentRestart => self.restart_agent(agent),
            Trouble::SourceOutage => {
                let back = self.random.millis(100, 60_000);
                self.lose_source(agent, back);
            }
            Trouble::WriterRestart => {
                self.stop_writer(writer);
                let back = self.random.millis(100, 30_000);
                self.agenda.after(back, Event::Start(writer));
            }
            Trouble::WriterCutOff => self.writers[writer].cut_until = while_(self, 500, 25_000),
            Trouble::SlowServer => self.api.slow_until = while_(self, 2_000, 20_000),
            Trouble::Throttling => self.api.throttled_until = while_(self, 1_000, 15_000),
            Trouble::LostWrites => self.api.lossy_until = while_(self, 1_000, 15_000),
            Trouble::StalledWatch => {
                let until = while_(self, 500, 20_000);
                if let Some(watch) = self.writers[writer].watches.get_mut(&kind) {
                    watch.stalled_until = until;
                }
            }
            Trouble::HandEdit => self.edit_by_hand(),
            Trouble::Restoration => {
                let (backup, later) = (self.api.server.back_up(), self.random.millis(500, 30_000));
                let watches_go_on = self.random.percent(30);
                self.agenda.after(later, Event::Restore(Box::new(backup), watches_go_on));
            }
            Trouble::Compaction if self.writers[writer].state.is_some() => self.relist(writer, kind),
            Trouble::Compaction => {}
        }
    }

    /// Interrupts the link between an agent and the writers, either too briefly for anyone to notice or for much
    /// longer.
    pub(crate) fn cut(&mut self, agent: usize) {
        let lasts =
            if self.random.percent(40) { self.random.millis(1, 9_000) } else { self.random.millis(9_000, 150_000) };
        self.agents[agent].cut_until = self.agenda.now() + lasts;
        if let Some(link) = self.agents[agent].link {
            let noticed = self.random.millis(10_000, 15_000);
            self.agenda.after(noticed, Event::Silence(link));
        }
    }

    /// Sometimes interrupts the agent's link soon after a snapshot begins.
    pub(crate) fn tempt(&mut self, agent: usize, message: &AgentMessage) {
        let begins = matches!(message, AgentMessage::Data(Data { frame: Frame::SnapshotBegin { .. }, .. }));
        if begins && self.phase == Phase::Storm && self.plan.troubles.contains(&Trouble::CutSnapshot) {
            let (worst, moment) = (self.random.percent(15), self.random.millis(5, 150));
            if worst {
                self.agenda.after(moment, Event::Cut(agent));
            }
        }
    }

    /// Restores the API server's store from a backup. Watches that were interrupted too briefly to notice go on, and
    /// deliver nothing of it.
    pub(crate) fn restore(&mut self, backup: &Backup, watches_go_on: bool) {
        self.api.server.restore(backup, watches_go_on);
        self.witness.restored(&self.api.server);
        self.report.restorations += 1;
        self.api.doubtful_until = self.agenda.now() + SILENCE + LOOK;
        self.active();
        if watches_go_on {
            self.agenda.after(SILENCE, Event::ListAgain);
        } else {
            self.list_again();
        }
    }

    /// Starts every watch again.
    pub(crate) fn list_again(&mut self) {
        self.api.server.listed();
        for writer in 0..self.writers.len() {
            for kind in Watched::ALL {
                if self.writers[writer].state.is_some() {
                    self.relist(writer, kind);
                }
            }
        }
    }

    fn edit_by_hand(&mut self) {
        let nth = self.random.below(self.api.server.objects.len().max(1));
        let Some(mut body) = self.api.server.objects.values().nth(nth).cloned() else { return };
        meta_mut(&mut body).labels.insert("by".into(), "hand".into());
        self.api.server.put(body);
        self.report.hand_edits += 1;
        self.active();
        self.tell_watches();
    }

    /// Ends all troubles, and sets each source to its final state.
    fn calm_down(&mut self) {
        let now = self.agenda.now();
        for agent in &mut self.agents {
            agent.cut_until = now;
            agent.lag = (0, 0, now);
        }
        if self.api.server.is_deaf() {
            self.list_again();
        }
        for writer in 0..self.writers.len() {
            self.writers[writer].cut_until = now;
            self.writers[writer].watches.values_mut().for_each(|watch| watch.stalled_until = now);
            self.start_writer(writer);
        }
        (self.api.slow_until, self.api.throttled_until, self.api.lossy_until) = (now, now, now);
        for changed in self.sources.end() {
            for service in changed.services {
                self.source_changed(changed.backend, service);
            }
        }
    }

    /// Moves on to the next phase when this one is over.
    pub(crate) fn look(&mut self) {
        self.look_later();
        let now = self.agenda.now();
        if self.phase == Phase::Storm {
            if now >= self.last_active.max(self.storm_until) {
                self.phase = Phase::Calm;
                self.calm_down();
                self.begun = now;
            }
            return;
        }
        match self.unrest() {
            Some(why) if now >= self.begun + LONGEST => self.fail(format!("it does not come to rest: {why}")),
            Some(_) => {}
            None => self.go_on(),
        }
    }

    fn go_on(&mut self) {
        let found = content::read(&self.api.server);
        let wrong = found.map(|found| content::difference(&found, &content::expected(&self.sources)));
        match wrong {
            Err(wrong) | Ok(Some(wrong)) => return self.fail(wrong),
            Ok(None) => {}
        }
        self.begun = self.agenda.now();
        self.phase = match self.phase {
            Phase::Fill => {
                self.storm_until = self.begun + self.plan.storm;
                self.break_loose();
                Phase::Storm
            }
            Phase::Calm => {
                self.end_it();
                Phase::Restart
            }
            _ => {
                self.judge_restart();
                Phase::Over
            }
        };
    }

    fn end_it(&mut self) {
        self.at_rest = (self.report.writes, self.api.keeps);
        (self.said_before, self.report.most_mail) = (std::mem::take(&mut self.report.said), 0);
        if self.plan.ending != Ending::Reconnect {
            for writer in 0..self.writers.len() {
                self.stop_writer(writer);
                self.start_writer(writer);
            }
        }
        for agent in 0..self.agents.len() {
            match self.plan.ending {
                Ending::RestartAll => self.restart_agent(agent),
                Ending::RestartWriters | Ending::Reconnect => self.dial_at_once(agent),
            }
        }
    }

    /// Checks that the restart wrote no object. The time of a backend's loss is stored after some seconds, and
    /// forgotten when it is back.
    fn judge_restart(&mut self) {
        let (written, kept) = (self.report.writes - self.at_rest.0, self.api.keeps - self.at_rest.1);
        let lost = (0..self.plan.backends).filter(|backend| sources::follows_loss(*backend)).count() as u64;
        if written > 0 || kept > 2 * lost {
            self.fail(format!("a restart wrote {written} objects and the states of {kept} backends"));
        }
    }

    /// Returns why it is not quiet, if so.
    fn unrest(&self) -> Option<String> {
        let now = self.agenda.now();
        if now < self.last_active.max(self.begun) + QUIET {
            return Some("something was written a while ago".into());
        }
        let leader = self.writers.iter().find(|writer| writer.leading.is_some());
        let Some(state) = leader.and_then(|leader| leader.state.as_ref()) else {
            return Some("no writer leads".into());
        };
        let open = |agent: &&crate::agents::Agent| {
            agent.end.stream_state() == StreamState::Open && agent.end.is_complete() && agent.end.pending() == 0
        };
        if let Some(agent) = self.agents.iter().find(|agent| !open(agent)) {
            let (state, pending) = (agent.end.stream_state(), agent.end.pending());
            return Some(format!("{} has a stream that is {state:?} and {pending} Services to tell", agent.name));
        }
        if let Some(held) = state.backends().values().find(|backend| backend.guards().removals().held().is_some()) {
            return Some(format!("a removal of {} is held", held.name()));
        }
        let busy = self.writers.iter().find(|writer| !writer.is_idle());
        let pending = busy.map(|writer| writer.state.as_ref().map(Reconciler::pending));
        pending.map(|pending| format!("a writer has something to do, with {pending:?} targets waiting"))
    }
}
