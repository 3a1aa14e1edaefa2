//! When owners are asked again although nothing has happened.

use std::time::Instant;

use gimbal_kuryr_model::Text;

use crate::cell::Cell;
use crate::cluster::ManagedCluster;

impl ManagedCluster {
    /// Sets when an owner is asked again.
    pub(crate) fn set_timer(&mut self, owner: &Text, cell: &mut Cell, at: Option<Instant>) {
        if let Some(before) = cell.timer.take() {
            self.timers.remove(&(before, owner.clone()));
        }
        cell.timer = at;
        self.timers.extend(at.map(|at| (at, owner.clone())));
    }

    /// Wakes whose timer is over.
    pub(crate) fn timers_due(&mut self, now: Instant) {
        while let Some((at, owner)) = self.timers.first().cloned().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, owner.clone()));
            if let Some(cell) = self.cells.get_mut(&owner) {
                cell.timer = None;
            }
            self.told.insert(owner.clone());
            self.wake(&owner);
        }
    }

    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }
}
