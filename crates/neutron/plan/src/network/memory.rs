//! What an actor remembers beside what it has seen.

use std::time::{Duration, Instant};

use super::NetworkObstacle;
use crate::cells::RETRY;

/// So long after a lost creation it is looked for: the request may still be under way (`docs/decisions/021-look-up-window.md`).
const LOOKS: [Duration; 3] = [Duration::ZERO, Duration::from_secs(5), Duration::from_secs(10)];
/// Between two looks at what is in the way.
pub(crate) const IN_THE_WAY: Duration = Duration::from_secs(5);

/// A creation whose outcome is unknown.
#[derive(Debug, Clone)]
pub(crate) struct LostCreation {
    /// Whether it is that of a subnet.
    pub(crate) is_subnet: bool,
    /// What came instead of an answer.
    words: String,
    since: Instant,
    looks: usize,
}

/// What came of changes of late.
#[derive(Debug, Clone, Default)]
pub(crate) struct NetworkMemory {
    pub(crate) lost: Option<LostCreation>,
    failures: u32,
    /// Until when nothing is changed, and why.
    pub(crate) pause: Option<(Instant, NetworkObstacle)>,
}

impl NetworkMemory {
    /// Leaves the owner alone for a while, which grows with each failure.
    pub(crate) fn fail(&mut self, obstacle: NetworkObstacle, now: Instant) {
        let delay = match &obstacle {
            obstacle if obstacle.is_lasting() => RETRY.longest,
            NetworkObstacle::InUse(_) | NetworkObstacle::Ports(_) => IN_THE_WAY,
            _ => RETRY.delay(self.failures),
        };
        self.failures += 1;
        self.pause = Some((now + delay, obstacle));
    }

    pub(crate) fn succeed(&mut self) {
        (self.failures, self.pause) = (0, None);
    }

    /// Notes that a creation may have had its effect.
    pub(crate) fn lose(&mut self, is_subnet: bool, words: String, now: Instant) {
        self.lost = Some(LostCreation { is_subnet, words, since: now, looks: 0 });
    }

    /// Returns when to look again for what a lost creation may have made; `None` if that is settled.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        let lost = self.lost.as_ref()?;
        LOOKS.get(lost.looks).map(|after| lost.since + *after)
    }

    /// Counts a look that has not found what a lost creation may have made, unless it came before its time.
    pub(crate) fn not_found(&mut self, now: Instant) {
        if self.next_look().is_some_and(|at| at > now) {
            return;
        }
        if let Some(lost) = &mut self.lost {
            lost.looks += 1;
        }
        if self.next_look().is_none()
            && let Some(lost) = self.lost.take()
        {
            // Neutron also answers so what it can never do: a used-up subnet pool is a 500.
            self.fail(NetworkObstacle::Failing(lost.words), now);
        }
    }
}
