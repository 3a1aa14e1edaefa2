//! How many reads of a look are made at once, and which are made again.

use gimbal_kuryr_model::Text;

use super::{LookRead, OwnerLook};

/// How many reads of one look are planned at once. A router with hundreds of policies has as many, and others look meanwhile.
const READS_AT_ONCE: usize = 6;
/// One in eight reads may fail and is made again: where some are refused or lost, a look at hundreds would never end.
const READS_PER_REPEAT: usize = 8;

impl OwnerLook {
    /// Adds reads, and returns those that may be planned now.
    pub(crate) fn plan(&mut self, reads: Vec<LookRead>) -> Vec<LookRead> {
        self.waiting.extend(reads);
        let now = READS_AT_ONCE.saturating_sub(self.planned).min(self.waiting.len());
        self.planned += now;
        self.waiting.drain(..now).collect()
    }

    /// Takes note that a planned read was answered.
    pub(crate) fn answered(&mut self) {
        self.planned = self.planned.saturating_sub(1);
    }

    /// Whether a read in a project that failed is to be made again.
    pub(crate) fn repeats(&mut self, project: &Text) -> bool {
        let may_repeat = !self.spared.contains(project) && self.repeated < self.asked.len() / READS_PER_REPEAT;
        self.repeated += usize::from(may_repeat);
        may_repeat
    }
}
