//! Leader election: of several writers one writes, and knows by its own clock until when it may (DESIGN 5).

mod edge;
mod machine;
#[cfg(test)]
mod on_server;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use edge::start;

/// The name of the Lease.
pub const NAME: &str = "gimbal-writer";

/// Longer than any process lives.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Whether this writer leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leadership {
    /// It does, until the deadline and no longer, whatever is published later.
    Leader {
        /// Grows each time that the leader changes.
        epoch: u64,
        /// No write is sent from this moment on.
        until: Instant,
    },
    /// It does not.
    Follower {
        /// Who does, as far as is known; empty: nobody.
        holder: String,
    },
}

impl Leadership {
    /// Whether a write may be sent at `now`.
    #[must_use]
    pub fn may_write(&self, now: Instant) -> bool {
        self.epoch(now).is_some()
    }

    /// The epoch that is led at `now`, if any is.
    #[must_use]
    pub fn epoch(&self, now: Instant) -> Option<u64> {
        match self {
            Self::Leader { epoch, until } if now < *until => Some(*epoch),
            _ => None,
        }
    }

    /// A leadership for ever, without a Lease, in the form that [`start`] gives: for one writer that has no rival.
    #[must_use]
    pub fn unopposed() -> (watch::Receiver<Self>, Option<JoinHandle<()>>) {
        let leader = Self::Leader { epoch: 0, until: Instant::now() + FOR_EVER };
        // A receiver keeps its last value when the sender is gone.
        (watch::channel(leader).1, None)
    }
}

/// Who this writer is to others: a process that comes back on the same host and address is the same. Host names are not
/// always unique, and two that take each other for themselves would both lead; the kernel's boot id tells them apart.
#[must_use]
pub fn identity(listen: &SocketAddr) -> String {
    let kernel = |file: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{file}")).unwrap_or_default();
    let (host, boot) = (kernel("hostname"), kernel("random/boot_id"));
    format!("{}_{listen}_{}", host.trim(), boot.split('-').next().unwrap_or_default().trim())
}
