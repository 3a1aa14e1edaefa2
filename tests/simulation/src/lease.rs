//! The Lease, as the loop sees it. The writer's own lease machine is tested for never having two leaders
//! (`services/writer/src/lease/simulation.rs`); here that is given, because a leader relies on its renewal for a
//! shorter time than the other writer waits.

use std::time::Duration;

use crate::world::{Event, World};

/// How long the holder relies on a renewal, counted from before the request.
const DEADLINE: Duration = Duration::from_secs(2);
/// How long the Lease lasts for the other writer, counted from the renewal.
const DURATION: Duration = Duration::from_secs(3);

/// The Lease as the API server holds it.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    holder: Option<usize>,
    renewed: Duration,
    epoch: u64,
}

/// The renewal that a leader relies on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lead {
    pub(crate) epoch: u64,
    pub(crate) until: Duration,
}

impl World {
    /// A writer renews the Lease, or tries to take it.
    pub(crate) fn follow_lease(&mut self, writer: usize) {
        let (now, life) = (self.agenda.now(), self.writers[writer].life);
        let again = self.random.millis(400, 600);
        self.agenda.after(again, Event::Lease { writer, life });
        // A request that takes too long is of no use to its sender.
        let takes = self.api_delay();
        if self.writers[writer].cut_until > now || takes >= DEADLINE {
            return;
        }
        let lease = &mut self.api.lease;
        let free = lease.holder.is_none() || now >= lease.renewed + DURATION;
        if lease.holder == Some(writer) || free {
            // A process that comes back is the same holder and continues in the same epoch.
            lease.epoch += u64::from(lease.holder != Some(writer));
            lease.holder = Some(writer);
            lease.renewed = now + takes;
            self.writers[writer].lead = Some(Lead { epoch: lease.epoch, until: now + DEADLINE });
        } else {
            self.writers[writer].lead = None;
        }
    }

    /// Whether this epoch is the newest, so that states sent in it may still be stored.
    pub(crate) fn is_newest(&self, epoch: Option<u64>) -> bool {
        epoch == Some(self.api.lease.epoch)
    }
}
