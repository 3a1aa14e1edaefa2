//! Leader election by a Kubernetes Lease: of several processes one leads, and knows by its own clock until when it may
//! write.
//!
//! [`Election`] decides and performs no I/O; [`Candidate`] is the task that carries its calls out over the Kubernetes
//! client and publishes the [`Leadership`].

mod candidate;
mod election;
mod moment;
mod times;

use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::watch;

pub use candidate::{Candidate, Fitness};
pub use election::{Election, Lead, LeaseCall, LeaseFailure};
pub use moment::Moment;
pub use times::Times;

/// Longer than any process lives.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Whether this process leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leadership {
    /// It leads until another process is seen to lead. After `until` it must not write, but keeps its state.
    Leader {
        /// Grows each time the leader changes. It never falls while a process lives, even if the Lease is deleted and
        /// created again. Between processes it may: one that starts after the Lease was deleted, and has not seen it,
        /// begins with 1.
        epoch: u64,
        /// No write is sent from this moment on, unless a later one is published.
        until: Moment,
    },
    /// It does not lead.
    Follower {
        /// Identity of the leader, as far as it is known; empty if there is none.
        holder: String,
    },
}

impl Leadership {
    /// Returns whether a write may be sent at `now`.
    #[must_use]
    pub fn may_write(&self, now: Moment) -> bool {
        matches!(self, Self::Leader { until, .. } if now < *until)
    }

    /// Returns for how long a leader's lease has been late at `now`, or `None` if it is not late or this is no leader.
    #[must_use]
    pub fn late(&self, now: Moment) -> Option<Duration> {
        match self {
            Self::Leader { until, .. } if now >= *until => Some(now.since(*until)),
            _ => None,
        }
    }

    /// Returns the leader's epoch, even if its lease is late: no other process is known to have led since.
    #[must_use]
    pub fn epoch(&self) -> Option<u64> {
        match self {
            Self::Leader { epoch, .. } => Some(*epoch),
            Self::Follower { .. } => None,
        }
    }

    /// Returns a leadership that never ends, for a process that runs without a Lease. It has the form that
    /// [`Candidate::start`] returns.
    #[must_use]
    pub fn unopposed() -> watch::Receiver<Self> {
        let leader = Self::Leader { epoch: 0, until: Moment::now() + FOREVER };
        // A receiver keeps its last value when the sender is dropped.
        watch::channel(leader).1
    }
}

/// Returns the identity under which this process holds a Lease. A process that restarts at the same address of the same
/// host has the same identity and takes its own Lease back at once.
///
/// Two processes with one identity would both lead. Host names are not always unique, and an address is unique within
/// its network only, so the identity also contains the kernel's boot ID and the number of the network namespace.
#[must_use]
pub fn identity(listen: &SocketAddr) -> String {
    let kernel = |file: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{file}")).unwrap_or_default();
    let (host, boot) = (kernel("hostname"), kernel("random/boot_id"));
    let network = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    let network: String = network.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    format!("{}_{listen}_{}_{network}", host.trim(), boot.split('-').next().unwrap_or_default().trim())
}
