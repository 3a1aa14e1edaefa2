//! Lets time pass, and runs everything that can happen.

use std::time::Duration;

use super::server::Luck;
use super::world::World;

impl World {
    /// Runs everything without troubles until nothing has happened for longer than anything waits.
    pub fn settle(&mut self) {
        self.settle_for(Duration::from_secs(62));
    }

    /// Like [`World::settle`], with another length of silence.
    pub fn settle_for(&mut self, silence: Duration) {
        self.settle_watched(silence, |_| {});
    }

    /// Like [`World::settle_for`]. Calls `watch` after each write.
    pub fn settle_watched(&mut self, silence: Duration, mut watch: impl FnMut(&mut Self)) {
        let mut quiet = Duration::ZERO;
        let step = Duration::from_millis(500);
        for _ in 0..5_000 {
            let mut moved = self.watch();
            for agent in 0..self.agents.len() {
                let refused = self.agents[agent].refused == Some(self.now);
                let redials = self.agents[agent].end.wants_redial();
                if (redials || self.agents[agent].stream.is_none())
                    && !refused
                    && self.silent != Some(agent)
                    && self.policies.contains_key(&self.agents[agent].name)
                {
                    self.connect(agent);
                    moved = true;
                }
                moved |= self.speak(agent);
                moved |= self.hear(agent);
            }
            let writes = self.server.writes;
            while self.start_job() {}
            // An attempt that fails over and over does not count as activity.
            while self.finish_job(Luck::Good) {
                watch(self);
            }
            moved |= self.server.writes != writes;
            if moved {
                quiet = Duration::ZERO;
                continue;
            }
            quiet += step;
            if quiet > silence {
                if self.server.is_deaf() {
                    // A watch that was silent for long starts a new list.
                    self.list();
                    quiet = Duration::ZERO;
                    continue;
                }
                return;
            }
            // Back-offs and repeated requests become due later.
            self.pass(step);
        }
        panic!("the world does not come to rest");
    }
}
