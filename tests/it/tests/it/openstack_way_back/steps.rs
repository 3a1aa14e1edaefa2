//! Somebody who is killed at each step with `GIMBAL_PROVE`, and at every second one without.

use std::time::Duration;

use gimbal_testkit::eventually;
use gimbal_testkit::openstack::{Service, Steer, Steered};
use gimbal_tests::WayBack;

use super::{WITHIN, WRITER, kill_controller, kill_writer};

const CONTROLLERS_USER: &str = "user-1";

/// Who is killed, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Killed {
    /// When OpenStack has carried out a change and has not answered yet.
    Writer,
    /// As the writer, both.
    Both,
    /// When the API server has taken a write of it.
    Controller,
}

/// Kills somebody at steps.
pub struct Steps {
    who: Killed,
    /// At which of the steps.
    every: usize,
    steps: usize,
    pub kills: usize,
    /// Rules that hold the answer of the next change.
    held: Vec<Steered>,
    /// Writes of the controller so far.
    writes: usize,
    /// What the controller is started with.
    controller: &'static [&'static str],
    /// The services whose changes are steps of the writer.
    services: &'static [Service],
}

impl Steps {
    pub async fn begin(
        stage: &WayBack,
        who: Killed,
        controller: &'static [&'static str],
        services: &'static [Service],
    ) -> Self {
        let every = if std::env::var_os("GIMBAL_PROVE").is_some() { 1 } else { 2 };
        let mut steps = Self { who, every, steps: 0, kills: 0, held: Vec::new(), writes: 0, controller, services };
        steps.arm(stage).await;
        steps
    }

    async fn arm(&mut self, stage: &WayBack) {
        self.end(stage).await;
        if self.who == Killed::Controller {
            self.writes = writes(stage).await;
            return;
        }
        let next = Steer::calls("^(POST|PUT|DELETE)$", ".").by("^gimbal-openstack-writer").once();
        let next = next.answer_late(Duration::from_secs(2));
        for service in self.services {
            self.held.push(stage.cloud.steer(*service, &next).await.unwrap());
        }
    }

    pub async fn end(&mut self, stage: &WayBack) {
        for rule in self.held.drain(..) {
            stage.cloud.stop_steering(rule).await.unwrap();
        }
    }

    async fn is_at_a_step(&self, stage: &WayBack) -> bool {
        for rule in &self.held {
            if stage.cloud.steered(*rule).await.unwrap() > 0 {
                return true;
            }
        }
        self.who == Killed::Controller && writes(stage).await > self.writes
    }

    /// Kills and starts again at steps, until `done`.
    pub async fn until(&mut self, stage: &mut WayBack, what: &str, done: impl AsyncFn(&WayBack) -> anyhow::Result<()>) {
        loop {
            let next = eventually(what, WITHIN, async || {
                if self.is_at_a_step(stage).await {
                    return Ok(true);
                }
                done(&*stage).await.map(|()| false)
            });
            let is_step =
                next.await.unwrap_or_else(|error| panic!("after {} kills: {error:#}\n{}", self.kills, stage.logs()));
            if !is_step {
                return;
            }
            self.steps += 1;
            if !self.steps.is_multiple_of(self.every) {
                self.arm(stage).await;
                continue;
            }
            self.kills += 1;
            if self.who != Killed::Writer {
                kill_controller(stage);
            }
            if self.who != Killed::Controller {
                kill_writer(stage);
            }
            self.arm(stage).await;
            if self.who != Killed::Controller {
                stage.start_writer(&WRITER).await.unwrap();
            }
            if self.who != Killed::Writer {
                stage.start_controller(self.controller).await.unwrap();
            }
        }
    }
}

/// Returns how much the controller has written, except for Events.
async fn writes(stage: &WayBack) -> usize {
    let entries = stage.cluster.audit().await.unwrap();
    let own = entries.iter().filter(|entry| entry.user == CONTROLLERS_USER && entry.is_write());
    own.filter(|entry| entry.code < 300 && entry.resource != "events" && entry.resource != "leases").count()
}
