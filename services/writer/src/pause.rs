//! Until when the API server asked to be left alone. Every write looks here right before it is sent, so that the first
//! one that is told so is the last one that is sent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// After a 429 that names no time.
const DEFAULT: Duration = Duration::from_secs(1);
/// However long the API server, or a proxy before it, asks for: an error of theirs must not stop us for a day.
const LONGEST: Duration = Duration::from_secs(300);

/// See the module. Clones are one.
#[derive(Debug, Clone, Default)]
pub struct Pause(Arc<watch::Sender<Option<Instant>>>);

impl Pause {
    /// Begins a pause, or makes the one that there is longer.
    pub fn begin(&self, retry_after: Option<Duration>, now: Instant) {
        let until = now + retry_after.unwrap_or(DEFAULT).min(LONGEST);
        self.0.send_if_modified(|there| {
            let longer = there.is_none_or(|there| there < until);
            if longer {
                *there = Some(until);
            }
            longer
        });
    }

    /// When the pause ends, if there is one at `now`.
    #[must_use]
    pub fn until(&self, now: Instant) -> Option<Instant> {
        self.0.borrow().filter(|until| now < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_several_counts_for_every_clone_and_has_an_end() {
        let (pause, now) = (Pause::default(), Instant::now());
        let other = pause.clone();
        assert_eq!(other.until(now), None);
        pause.begin(Some(Duration::from_secs(2)), now);
        pause.begin(None, now);
        assert_eq!(other.until(now), Some(now + Duration::from_secs(2)));
        assert_eq!(other.until(now + Duration::from_secs(2)), None);
        pause.begin(None, now + Duration::from_secs(5));
        assert_eq!(other.until(now + Duration::from_secs(5)), Some(now + Duration::from_secs(6)));
        pause.begin(Some(Duration::MAX), now);
        assert_eq!(other.until(now), Some(now + LONGEST));
    }
}
