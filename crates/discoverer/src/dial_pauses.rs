//! The pauses between dials.

use std::time::{Duration, Instant};

use crate::jittered_backoff::JitteredBackoff;

/// Why there is no stream to the writer. Decides when to dial again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DialFailure {
    /// No address answers, or the stream broke. Dialled again soon, so that a writer that comes back is found at once.
    Lost,
    /// No writer leads. A new leader is expected soon, unless its cluster is down.
    NoLeader,
    /// One end refused the other. A retry alone is unlikely to help.
    Refused,
}

/// Limit of the first pause. It is short, so that a change during a reconnect is hardly delayed, but it still spreads
/// the handshakes of many agents that lose a writer at once.
const FIRST: Duration = Duration::from_millis(20);
/// Limit of later pauses while a writer or a leader is expected back soon.
const SOON: Duration = Duration::from_secs(1);
/// Time without a leader after which the pauses become longer.
const HASTE: Duration = Duration::from_secs(30);
/// Limit of those longer pauses. A writer that does not lead has to handle each handshake too.
const LATER: Duration = Duration::from_secs(5);
/// Limit of the pauses after a refusal.
const PATIENT: Duration = Duration::from_secs(15);

/// The pauses between dials. Pure except for randomness.
#[derive(Debug)]
pub(crate) struct DialPauses {
    lost: JitteredBackoff,
    no_leader: JitteredBackoff,
    later: JitteredBackoff,
    refused: JitteredBackoff,
    leaderless_since: Option<Instant>,
}

impl DialPauses {
    pub(crate) fn new() -> Self {
        Self {
            lost: JitteredBackoff::new(FIRST, SOON),
            no_leader: JitteredBackoff::new(FIRST, SOON),
            later: JitteredBackoff::new(SOON, LATER),
            refused: JitteredBackoff::new(FIRST, PATIENT),
            leaderless_since: None,
        }
    }

    /// Returns the pause after this kind of failure.
    pub(crate) fn after(&mut self, failure: DialFailure, now: Instant) -> Duration {
        match failure {
            DialFailure::Lost => self.lost.pause(),
            DialFailure::Refused => self.refused.pause(),
            DialFailure::NoLeader => {
                let since = *self.leaderless_since.get_or_insert(now);
                let hastes = now.saturating_duration_since(since) < HASTE;
                if hastes { self.no_leader.pause() } else { self.later.pause() }
            }
        }
    }

    /// Resets all pauses. Called when a writer accepted the stream.
    pub(crate) fn reset(&mut self) {
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates an outage that ends after `away`. Returns the time from its end to the first dial after it.
    fn late(failure: DialFailure, away: Duration) -> Duration {
        let begun = Instant::now();
        let (mut pauses, mut now) = (DialPauses::new(), begun);
        while now < begun + away {
            now += pauses.after(failure, now);
        }
        now - begun - away
    }

    #[test]
    fn whoever_comes_back_is_found_within_a_second_and_who_refuses_is_not_pressed() {
        for seconds in [1, 8, 20, 3600] {
            let latest = (0..50).map(|_| late(DialFailure::Lost, Duration::from_secs(seconds))).max();
            assert!(latest <= Some(SOON), "{latest:?} after {seconds} s");
        }
        for seconds in [3, 8, 29] {
            let latest = (0..50).map(|_| late(DialFailure::NoLeader, Duration::from_secs(seconds))).max();
            assert!(latest <= Some(SOON), "{latest:?} after {seconds} s");
        }
        let mut pauses = DialPauses::new();
        let now = Instant::now();
        let mut longest = |failure, now| (0..200).map(|_| pauses.after(failure, now)).max().unwrap();
        assert!(longest(DialFailure::NoLeader, now) <= SOON);
        assert!((SOON..=LATER).contains(&longest(DialFailure::NoLeader, now + HASTE)));
        assert!((LATER..=PATIENT).contains(&longest(DialFailure::Refused, now)));
    }
}
