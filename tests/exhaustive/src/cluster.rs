//! The Gimbal cluster's side: what its API server stores and shows, what the writer keeps there, and how troubles
//! affect them.

use std::collections::VecDeque;

use gimbal_kubernetes_objects::keys;
use gimbal_model::TargetKey;
use gimbal_plan::{Action as Write, Body};
use gimbal_reconcile::{Watched, WriteFailure, Written};
use gimbal_simulation::judge_write;
use gimbal_simulation::server::Luck;

use crate::Trouble;
use crate::rules::{self, Fault, Rule};
use crate::world::{Keep, Seen, World, Writer};

impl World {
    /// The API server handles the next write of a job.
    pub(crate) fn write(&mut self, target: &TargetKey, luck: Luck) {
        match luck {
            Luck::AnswerLost => self.small.trouble = Some(Trouble::LostAnswer),
            Luck::Refused => self.small.trouble = Some(Trouble::FailedWrite),
            Luck::Good => {}
        }
        let Some(running) = self.writer.running.get(target) else { return };
        let write = running.job.actions[running.answers.len()].clone();
        let answer = match (self.small.in_time, self.refusal(&write)) {
            (false, _) => Written::NotSent,
            (true, Some(refusal)) => refusal,
            (true, None) => {
                // After a lost answer or a restoration, the writer cannot know what exists.
                let unheard = matches!(self.small.trouble, Some(Trouble::LostAnswer | Trouble::PutBack));
                if let Err(fault) = judge_write(&self.cluster.server, &write, !unheard) {
                    self.fail(Fault { rule: Rule::Write, what: fault });
                }
                self.take_write(&write, luck)
            }
        };
        self.answered(target, answer);
    }

    /// The API server handles a write of a process that has ended.
    pub(crate) fn write_late(&mut self) {
        let write = self.cluster.edit().late.remove(0);
        self.take_write(&write, Luck::AnswerLost);
    }

    fn take_write(&mut self, write: &Write, luck: Luck) -> Written {
        let written = self.cluster.edit().server.write(write, luck);
        self.tell_watches();
        rules::look(self);
        written
    }

    fn refusal(&self, write: &Write) -> Option<Written> {
        let (create, body) = match write {
            Write::Create(body) => (true, body),
            Write::Replace(body) | Write::Patch(body) => (false, body),
            Write::Delete { .. } => return None,
        };
        let of = body.meta().labels.get(keys::BACKEND);
        let of = |backend: usize| of.is_some_and(|of| **of == *self.setup.backends[backend].name.as_str());
        match self.small.trouble.filter(|_| !self.small.over)? {
            Trouble::Refused { backend, writes, .. } if of(backend) && writes.include(create, body.kind()) => {
                Some(Written::Failed(WriteFailure::Invalid("a policy refuses it".into())))
            }
            Trouble::Conflicts(backend) if of(backend) && !create => {
                let same = |there: &&Body| there.kind() == body.kind() && there.name() == body.name();
                let there = self.cluster.server.objects.values().find(same)?.clone();
                Some(Written::Conflict { there })
            }
            _ => None,
        }
    }

    /// Queues the new events for each watch of their kind.
    pub(crate) fn tell_watches(&mut self) {
        let events = std::mem::take(&mut self.cluster.edit().server.events);
        for event in events {
            if let Some(queue) = self.writer.edit().watches.get_mut(&event.kind()) {
                queue.push_back(Seen::Event(event));
            }
        }
    }

    /// The API server makes a list, which is on its way from then on.
    pub(crate) fn list(&mut self, kind: Watched) {
        let all = self.cluster.server.list(kind);
        let writer = self.writer.edit();
        writer.state.list_begin(kind);
        writer.watches.insert(kind, VecDeque::from([Seen::List(all)]));
    }

    /// Lists the kinds that nothing else depends on, and delivers these lists at once.
    pub(crate) fn list_the_rest(&mut self) {
        for kind in [Watched::Namespaces, Watched::Endpoints] {
            self.list(kind);
            self.watch(kind);
        }
    }

    /// Whether an attempt to store a state would succeed. Backends are stored one after the other; one whose record
    /// is refused is skipped.
    pub(crate) fn can_keep(&self) -> bool {
        self.small.in_time && self.next_keep().is_some()
    }

    fn next_keep(&self) -> Option<gimbal_model::BackendName> {
        let refused = match self.small.trouble {
            Some(Trouble::RefusedKeep(agent)) => Some(&self.setup.backends[agent].name),
            _ => None,
        };
        self.writer.keeps.keys().find(|backend| refused != Some(*backend)).cloned()
    }

    pub(crate) fn keep(&mut self, works: bool) {
        if !works {
            // The state stays queued and is stored later.
            self.small.trouble = Some(Trouble::FailedKeep);
            return;
        }
        let now = self.now();
        let Some(backend) = self.next_keep() else { return };
        let Some(keep) = self.writer.edit().keeps.remove(&backend) else { return };
        match keep {
            Keep::State(version, state) => {
                self.cluster.edit().kept.insert(backend.clone(), *state);
                self.writer.edit().state.kept(&backend, version, now);
                self.collect();
            }
            Keep::Nothing => {
                self.cluster.edit().kept.remove(&backend);
            }
        }
    }

    /// Ends the writer's process. The next one begins with what the Gimbal cluster holds. With `another`, a different
    /// process takes the lease while the writes that were sent are still on their way.
    pub(crate) fn kill_writer(&mut self, another: bool) {
        if another {
            self.small.epoch += 1;
            let sent = self.writer.running.values().flat_map(|running| {
                let (first, done) = (running.job.first, running.answers.len());
                let until = if done < first { first } else { running.job.actions.len() };
                running.job.actions[done..until].iter().cloned()
            });
            let sent: Vec<Write> = sent.collect();
            self.cluster.edit().late = sent;
        }
        *self.writer.edit() = Writer::new(&self.setup, self.now());
        for links in &mut self.links {
            for link in links.edit() {
                link.up.clear();
                link.writer_open = false;
            }
        }
        self.list_the_rest();
    }

    /// Restores the store to its state at the beginning. All watches end, and start again with a list.
    pub(crate) fn put_back(&mut self) {
        let beginning = self.beginning.clone();
        let cluster = self.cluster.edit();
        cluster.server.put_back(&beginning.server);
        cluster.kept.clone_from(&beginning.kept);
        self.writer.edit().watches.clear();
        rules::forget_what_is_not_there(self);
    }
}
