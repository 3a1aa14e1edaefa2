//! The writer's side: one process, driven as the real main loop drives its state.

use std::collections::BTreeMap;
use std::time::Duration;

use gimbal_guard::{GuardEvent, Release};
use gimbal_plan::EndpointsApi;
use gimbal_reconcile::{Output, Reconciler, Settings, Watched, Written};
use gimbal_session::{AgentMessage, Credit, WriterLimits, WriterMessage};

use crate::rules;
use crate::world::{Keep, Running, Seen, World, Writer};
use crate::{Setup, Trouble};

impl Writer {
    pub(crate) fn new(setup: &Setup, now: std::time::Instant) -> Self {
        let mut state = Reconciler::new(Settings {
            api: EndpointsApi::EndpointSlices,
            limits: WriterLimits {
                credit: Credit { changes: 3, bytes: 1 << 20 },
                heartbeat_timeout: Duration::from_secs(15),
            },
            comparison_interval: Duration::from_secs(60),
        });
        let policies = setup.backends.iter().map(|backend| (backend.name.clone(), backend.policy.clone()));
        state.configure(policies.collect(), now);
        Self { state, leading: None, running: BTreeMap::new(), watches: BTreeMap::new(), keeps: BTreeMap::new() }
    }
}

impl World {
    /// Returns the epoch in which the process leads. While its lease is late it writes nothing, but still leads.
    pub(crate) fn epoch(&self) -> Option<u64> {
        Some(self.small.epoch)
    }

    pub(crate) fn lead(&mut self) {
        let (epoch, now, wall) = (self.epoch(), self.now(), self.wall());
        let kept = self.cluster.kept.clone();
        let writer = self.writer.edit();
        if epoch.is_some() {
            for (name, state) in kept {
                writer.state.restore(&name, state, now, wall);
            }
        }
        writer.state.lead(epoch);
        writer.leading = epoch;
        self.collect();
    }

    pub(crate) fn tick(&mut self) {
        let (now, wall) = (self.now(), self.wall());
        self.writer.edit().state.tick(now, wall);
        self.collect();
    }

    /// The writer receives one message.
    pub(crate) fn up(&mut self, agent: usize, number: usize) {
        let (now, name) = (self.now(), self.setup.backends[agent].name.clone());
        let link = &mut self.links[agent].edit()[number];
        let message = link.up.pop_front();
        let state = &mut self.writer.edit().state;
        match (message, link.generation) {
            (Some(AgentMessage::Hello(hello)), _) => match state.open(&name, &hello, now) {
                Ok(generation) => link.generation = Some(generation),
                Err(goodbye) => {
                    link.down.push_back(WriterMessage::Goodbye(goodbye));
                    link.up.clear();
                    link.writer_open = false;
                }
            },
            (Some(message), Some(generation)) => state.receive(&name, generation, message, now),
            (Some(_), None) => {}
            (None, generation) => {
                generation.into_iter().for_each(|generation| state.closed(&name, generation));
                link.writer_open = false;
            }
        }
        self.collect();
    }

    pub(crate) fn has_a_job(&self) -> bool {
        let state = &self.writer.state;
        // Tried on a copy, because asking for a job changes the state.
        self.small.in_time && state.pending() > state.in_flight() && {
            let (mut copy, now) = (state.clone(), self.now());
            let job = copy.next_job(now).is_some();
            job || !copy.take_outputs().is_empty() || copy.pending() != state.pending()
        }
    }

    pub(crate) fn start(&mut self) {
        let now = self.now();
        let writer = self.writer.edit();
        if let Some(job) = writer.state.next_job(now) {
            writer.running.insert(job.target.clone(), Running { job, answers: Vec::new() });
        }
        self.collect();
    }

    pub(crate) fn finish(&mut self, target: &gimbal_model::TargetKey) {
        let now = self.now();
        let writer = self.writer.edit();
        if let Some(Running { job, answers }) = writer.running.remove(target) {
            writer.state.finish(&job, answers, now);
        }
        self.collect();
    }

    /// Records the answer to the next write of a job.
    pub(crate) fn answered(&mut self, target: &gimbal_model::TargetKey, answer: Written) {
        let Some(running) = self.writer.edit().running.get_mut(target) else { return };
        running.answers.push(answer);
        let done = running.answers.len();
        let goes_on = running.answers.iter().all(Written::is_there);
        if done == running.job.first && !goes_on {
            running.answers.resize(running.job.actions.len(), Written::NotSent);
        }
    }

    /// A watch delivers one item.
    pub(crate) fn watch(&mut self, kind: Watched) {
        let now = self.now();
        let writer = self.writer.edit();
        match writer.watches.get_mut(&kind).and_then(std::collections::VecDeque::pop_front) {
            Some(Seen::List(all)) => {
                all.into_iter().for_each(|event| event.deliver(&mut writer.state, now));
                writer.state.list_end(kind, now);
            }
            Some(Seen::Event(event)) => event.deliver(&mut writer.state, now),
            None => {}
        }
        self.collect();
    }

    /// Carries out the writer's outputs.
    pub(crate) fn collect(&mut self) {
        loop {
            let outputs = self.writer.edit().state.take_outputs();
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                self.carry_out(output);
            }
        }
    }

    fn carry_out(&mut self, output: Output) {
        let number = |world: &Self, name| world.setup.backends.iter().position(|backend| backend.name == name);
        match output {
            Output::Send { backend, generation, message } => {
                let Some(agent) = number(self, backend) else { return };
                let mut links = self.links[agent].edit().iter_mut();
                if let Some(link) = links.find(|link| link.generation == Some(generation) && link.agent_open) {
                    link.down.push_back(message);
                }
            }
            Output::Close { backend, generation } => {
                self.small.disturbed |= self.small.trouble == Some(Trouble::LateLease);
                let Some(agent) = number(self, backend) else { return };
                let mut links = self.links[agent].edit().iter_mut();
                if let Some(link) = links.find(|link| link.generation == Some(generation)) {
                    link.up.clear();
                    link.writer_open = false;
                }
            }
            Output::Keep { backend, version, state } => {
                self.writer.edit().keeps.insert(backend, Keep::State(version, Box::new(state)));
            }
            Output::Forget { backend } => {
                self.writer.edit().keeps.insert(backend, Keep::Nothing);
            }
            Output::CreateNamespace { namespace, .. } => {
                self.cluster.edit().server.set_namespace(&namespace, true);
                self.tell_watches();
                let now = self.now();
                self.writer.edit().state.namespace_created(&namespace, Ok(()), now);
            }
            Output::Guard { backend, event: GuardEvent::Released { by, .. } } => {
                if matches!(by, Release::Snapshot) {
                    let agent = number(self, backend);
                    agent.into_iter().for_each(|agent| rules::judge_release(self, agent));
                }
            }
            // Each watch ends, and starts again with a list.
            Output::ListAgain => self.writer.edit().watches.clear(),
            Output::Guard { .. }
            | Output::Loss { .. }
            | Output::RemovalWithdrawn { .. }
            | Output::Touched(_)
            | Output::Settled { .. }
            | Output::Accepted { .. } => {}
        }
    }
}
