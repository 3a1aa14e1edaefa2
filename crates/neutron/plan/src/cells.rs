//! What is kept of each Pod, pool and project.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use gimbal_kuryr_model::Text;
use gimbal_schedule::Backoff;

use crate::call::PortCallId;
use crate::demand::PortDemand;
use crate::{PodPortEnd, PodPortWish, PortObstacle, PortReport};

/// Between two tries of what fails.
pub(crate) const RETRY: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(300) };
/// So long after a lost answer it is looked for what it may have made: a request may still be under way
/// (`docs/decisions/021-look-up-window.md`).
const LOOKS: [Duration; 3] = [Duration::ZERO, Duration::from_secs(5), Duration::from_secs(10)];

/// A Pod.
#[derive(Debug, Clone, Default)]
pub(crate) struct PodCell {
    /// What is wanted for it; unset: it was over when it was first seen.
    pub(crate) wish: Option<PodPortWish>,
    /// That it is over, and since when that is known.
    pub(crate) end: Option<(PodPortEnd, Instant)>,
    /// The call that makes or gives it a port, until it is known what came of it.
    pub(crate) making: Option<PortCallId>,
    /// What is wrong with its port.
    pub(crate) obstacle: Option<PortObstacle>,
    /// The last report.
    pub(crate) reported: Option<PortReport>,
    /// Since when it has more than one port.
    pub(crate) twins: Option<Instant>,
}

impl PodCell {
    /// What is wanted, unless the Pod is over.
    pub(crate) fn wanted(&self) -> Option<&PodPortWish> {
        self.wish.as_ref().filter(|_| self.end.is_none())
    }

    /// The port that was reported last.
    pub(crate) fn given(&self) -> Option<&Text> {
        match &self.reported {
            Some(PortReport::Ready { port, .. }) => Some(&port.id),
            _ => None,
        }
    }
}

/// A creation of ports whose outcome is unknown.
#[derive(Debug, Clone)]
pub(crate) struct PortDoubt {
    /// The Pods that ports were made for.
    pub(crate) pods: BTreeSet<Text>,
    /// The node that the others were made for.
    pub(crate) node: Option<Text>,
    since: Instant,
    looks: usize,
}

impl PortDoubt {
    pub(crate) fn new(pods: BTreeSet<Text>, node: Option<Text>, now: Instant) -> Self {
        Self { pods, node, since: now, looks: 0 }
    }

    /// Those whose ports are looked for.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &Text> {
        self.pods.iter().chain(&self.node)
    }

    /// Returns when to look next; `None`: there was no port at any look, so that none was made.
    pub(crate) fn next(&self) -> Option<Instant> {
        LOOKS.get(self.looks).map(|after| self.since + *after)
    }

    /// Counts a look that has not found all that was to be made, unless it came before its time.
    pub(crate) fn looked(&mut self, now: Instant) {
        if self.next().is_some_and(|at| at <= now) {
            self.looks += 1;
        }
    }
}

/// A pool of ports that are ready for any Pod of one node.
#[derive(Debug, Clone, Default)]
pub(crate) struct PoolCell {
    pub(crate) demand: PortDemand,
    /// Pods that want a port of it, or have one.
    pub(crate) living: BTreeSet<Text>,
    /// Those of them that have none.
    pub(crate) waiting: BTreeSet<Text>,
    /// Since when no Pod is there.
    pub(crate) idle: Option<Instant>,
    /// The creation that is under way.
    pub(crate) making: Option<PortCallId>,
    pub(crate) doubt: Option<PortDoubt>,
    /// Ports that a request makes at most, since larger ones were refused for want of room.
    pub(crate) most: Option<usize>,
    pub(crate) failures: u32,
    pub(crate) pause: Option<Instant>,
    pub(crate) obstacle: Option<PortObstacle>,
}

impl PoolCell {
    /// Leaves the pool alone for a while, which grows with each failure.
    pub(crate) fn fail(&mut self, obstacle: PortObstacle, now: Instant) {
        let delay = if obstacle.is_lasting() { RETRY.longest } else { RETRY.delay(self.failures) };
        self.failures += 1;
        self.pause = Some(now + delay);
        self.obstacle = Some(obstacle);
    }

    /// Notes that a request was accepted.
    pub(crate) fn succeed(&mut self) {
        (self.failures, self.pause, self.obstacle, self.most) = (0, None, None, None);
    }
}

/// A project.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProjectCell {
    /// Whether all of its ports were listed at least once: before, no port is made or changed there.
    pub(crate) is_listed: bool,
    /// When to list them next; unset: now.
    pub(crate) next_list: Option<Instant>,
    /// The read that is under way: one at a time.
    pub(crate) reading: Option<PortCallId>,
    /// Ports to be read.
    pub(crate) to_read: BTreeSet<Text>,
    /// Pools to be looked at after a lost answer.
    pub(crate) looks: BTreeSet<crate::PortPoolKey>,
    pub(crate) failures: u32,
    pub(crate) pause: Option<Instant>,
    /// That the quota is used up, in Neutron's words, and until when that is taken for granted.
    pub(crate) full: Option<(String, Instant)>,
    /// Until when no port is made in advance, for there may be too few for the Pods.
    pub(crate) scarce: Option<Instant>,
}

impl ProjectCell {
    /// Returns when the next read may begin, and whether there is a reason for it other than time.
    pub(crate) fn read_at(&self, now: Instant) -> Option<Instant> {
        if self.reading.is_some() {
            return None;
        }
        let wants = !self.to_read.is_empty() || !self.looks.is_empty();
        let due = if wants { now } else { self.next_list.unwrap_or(now) };
        Some(self.pause.map_or(due, |pause| pause.max(due)))
    }
}
