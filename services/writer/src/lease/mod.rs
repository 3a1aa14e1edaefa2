//! Leader election: of several writers one writes, and knows by its own clock until when it may (DESIGN 5).

mod edge;
mod machine;
mod moment;
#[cfg(test)]
mod on_server;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
mod times;

use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::watch;

pub use edge::Candidate;
pub use moment::Moment;
pub use times::Times;

/// The name of the Lease.
pub const NAME: &str = "gimbal-writer";

/// Longer than any process lives.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Whether this writer leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leadership {
    /// It does, until another is seen to. Past `until` it writes nothing, and forgets nothing.
    Leader {
        /// Grows each time that the leader changes.
        epoch: u64,
        /// No write is sent from this moment on, unless a later one is published.
        until: Moment,
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
    pub fn may_write(&self, now: Moment) -> bool {
        matches!(self, Self::Leader { until, .. } if now < *until)
    }

    /// For how long a leader may not have written any more at `now`; `None`: it may, or is none.
    #[must_use]
    pub fn late(&self, now: Moment) -> Option<Duration> {
        match self {
            Self::Leader { until, .. } if now >= *until => Some(now.since(*until)),
            _ => None,
        }
    }

    /// The epoch that is led, whether or not its lease is late: nobody else is known to have led since.
    #[must_use]
    pub fn epoch(&self) -> Option<u64> {
        match self {
            Self::Leader { epoch, .. } => Some(*epoch),
            Self::Follower { .. } => None,
        }
    }

    /// A leadership for ever, without a Lease, in the form that [`Candidate::start`] gives: for one writer that has no
    /// rival.
    #[must_use]
    pub fn unopposed() -> watch::Receiver<Self> {
        let leader = Self::Leader { epoch: 0, until: Moment::now() + FOR_EVER };
        // A receiver keeps its last value when the sender is gone.
        watch::channel(leader).1
    }
}

/// What the process that competes for a lease does beside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Its work.
    Goes,
    /// Nothing: it hangs, and the lease is left to run out.
    Hangs,
    /// It turns, but cannot do what a leader does: the lease is given up.
    Cannot,
}

/// Who this writer is to others: a process that comes back at the same address of the same host is the same. Host names
/// are not always unique, and an address is one within its network only; two that take each other for themselves would both
/// lead, so the kernel's names of its boot and of the network tell them apart.
#[must_use]
pub fn identity(listen: &SocketAddr) -> String {
    let kernel = |file: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{file}")).unwrap_or_default();
    let (host, boot) = (kernel("hostname"), kernel("random/boot_id"));
    let network = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    let network: String = network.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    format!("{}_{listen}_{}_{network}", host.trim(), boot.split('-').next().unwrap_or_default().trim())
}
