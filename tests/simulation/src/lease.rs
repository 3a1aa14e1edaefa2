//! The Lease, as far as the loop meets it. That there are never two leaders is what the writer's own lease machine is
//! tried for (`services/writer/src/lease/simulation.rs`); here it is given: a leader relies on its renewal for less time
//! than the other one waits.

use std::time::Duration;

use crate::world::{Event, World};

/// How long its holder relies on it, from before the request.
const DEADLINE: Duration = Duration::from_secs(2);
/// How long it lasts for the other, from the renewal on.
const DURATION: Duration = Duration::from_secs(3);

/// What the API server holds.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    holder: Option<usize>,
    renewed: Duration,
    epoch: u64,
}

/// What a leader relies on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lead {
    pub(crate) epoch: u64,
    pub(crate) until: Duration,
}

impl World {
    /// A writer looks after the Lease.
    pub(crate) fn follow_lease(&mut self, writer: usize) {
        let (now, life) = (self.agenda.now(), self.writers[writer].life);
        let again = self.random.millis(400, 600);
        self.agenda.after(again, Event::Lease { writer, life });
        // A request that takes too long is worth nothing to who sent it.
        let takes = self.api_delay();
        if self.writers[writer].cut_until > now || takes >= DEADLINE {
            return;
        }
        let lease = &mut self.api.lease;
        let free = lease.holder.is_none() || now >= lease.renewed + DURATION;
        if lease.holder == Some(writer) || free {
            // A process that comes back is the same holder: it goes on in the same epoch.
            lease.epoch += u64::from(lease.holder != Some(writer));
            lease.holder = Some(writer);
            lease.renewed = now + takes;
            self.writers[writer].lead = Some(Lead { epoch: lease.epoch, until: now + DEADLINE });
        } else {
            self.writers[writer].lead = None;
        }
    }

    /// Whether a writer led in this epoch last: what it sent then may still be kept.
    pub(crate) fn is_newest(&self, epoch: Option<u64>) -> bool {
        epoch == Some(self.api.lease.epoch)
    }
}
