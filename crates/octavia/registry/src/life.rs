//! The stream of a cluster: when it was heard of, and what ends with it.

use std::time::{Duration, Instant};

use gimbal_kuryr_model::Text;

use crate::cell::CellState;
use crate::cluster::ManagedCluster;

impl ManagedCluster {
    pub(crate) fn heard(&mut self, age: Duration, now: Instant) {
        if !self.is_live(age, now) {
            self.life += 1;
            self.searched_at.get_or_insert(now);
            (self.alive_since, self.has_snapshot) = (Some(now), false);
            self.poller.now();
            self.orphans.clear();
            self.look_whether_gone();
        }
        self.heard = Some(now);
    }

    /// Lets everybody of whom nothing was left look again, and say so again: another writer may have made something since.
    fn look_whether_gone(&mut self) {
        let gone = self.cells.iter_mut().filter(|(_, cell)| matches!(cell.state, CellState::Gone));
        let owners: Vec<Text> = gone.map(|(owner, cell)| (cell.reported = None, owner.clone()).1).collect();
        owners.iter().for_each(|owner| self.wake(owner));
    }

    pub(crate) fn stream_ended(&mut self) {
        self.heard = None;
        (self.is_current, self.is_complete) = (false, false);
        (self.has_snapshot, self.is_told_all) = (false, false);
        self.wipe_contents();
    }

    /// Whether its stream was heard of lately.
    pub(crate) fn is_live(&self, age: Duration, now: Instant) -> bool {
        self.live_until(age).is_some_and(|until| now < until)
    }

    pub(crate) fn live_until(&self, age: Duration) -> Option<Instant> {
        self.heard.map(|heard| heard + age)
    }
}
