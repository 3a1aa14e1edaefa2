//! A pause that the server asked for.

use std::time::{Duration, Instant};

/// Length of a pause after a refusal that names no time.
const DEFAULT: Duration = Duration::from_secs(1);
/// Longest pause, whatever the server (or a proxy before it) asks for. A mistake of theirs must not stop writes for a
/// day.
const LONGEST: Duration = Duration::from_secs(300);

/// Until when the server asked not to be sent anything, by a 429 or a `Retry-After`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pause(Option<Instant>);

impl Pause {
    /// Begins a pause, or extends the current one. Returns whether its end moved.
    pub fn begin(&mut self, retry_after: Option<Duration>, now: Instant) -> bool {
        let until = now + retry_after.unwrap_or(DEFAULT).min(LONGEST);
        let longer = self.0.is_none_or(|current| current < until);
        if longer {
            self.0 = Some(until);
        }
        longer
    }

    /// Returns when the pause ends, if there is one at `now`.
    #[must_use]
    pub fn until(&self, now: Instant) -> Option<Instant> {
        self.0.filter(|until| now < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_several_counts_and_has_an_end() {
        let (mut pause, now) = (Pause::default(), Instant::now());
        assert_eq!(pause.until(now), None);
        assert!(pause.begin(Some(Duration::from_secs(2)), now));
        assert!(!pause.begin(None, now), "a shorter one changes nothing");
        assert_eq!(pause.until(now), Some(now + Duration::from_secs(2)));
        assert_eq!(pause.until(now + Duration::from_secs(2)), None);
        pause.begin(None, now + Duration::from_secs(5));
        assert_eq!(pause.until(now + Duration::from_secs(5)), Some(now + Duration::from_secs(6)));
        pause.begin(Some(Duration::MAX), now);
        assert_eq!(pause.until(now), Some(now + LONGEST));
    }
}
