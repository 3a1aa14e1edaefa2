//! Limits repeated log lines. A peer that is refused retries forever, and one line a minute is enough.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Shortest time between two log lines with the same key.
const QUIET: Duration = Duration::from_secs(60);
/// Largest number of keys that are remembered. All other keys share one line a minute, so that a flood is still logged.
const REMEMBERED: usize = 1024;

/// Allows one log line a minute for each key. The caller chooses the key, such as a host and a problem, or a backend
/// and a reason.
#[derive(Debug)]
pub struct Quiet<K>(Mutex<Lines<K>>);

#[derive(Debug)]
struct Lines<K> {
    keys: HashMap<K, Last>,
    /// The last line about a key that is not remembered.
    others: Option<Last>,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    at: Instant,
    /// Number of lines suppressed since then.
    silent: u64,
}

impl<K> Default for Quiet<K> {
    fn default() -> Self {
        Self(Mutex::new(Lines { keys: HashMap::new(), others: None }))
    }
}

impl<K: Eq + Hash> Quiet<K> {
    /// Returns the number of lines with this key that were suppressed since the last one; `None` if this one is to be
    /// suppressed too.
    pub fn tell(&self, key: K, now: Instant) -> Option<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).tell(key, now)
    }
}

impl<K: Eq + Hash> Lines<K> {
    fn tell(&mut self, key: K, now: Instant) -> Option<u64> {
        if let Some(last) = self.keys.get_mut(&key) {
            return last.tell(now);
        }
        if self.keys.len() >= REMEMBERED {
            self.keys.retain(|_, last| !last.is_old(now));
        }
        let fresh = Last { at: now, silent: 0 };
        if self.keys.len() < REMEMBERED {
            self.keys.insert(key, fresh);
            return Some(0);
        }
        match &mut self.others {
            Some(last) => last.tell(now),
            none => {
                *none = Some(fresh);
                Some(0)
            }
        }
    }
}

impl Last {
    fn is_old(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) >= QUIET
    }

    fn tell(&mut self, now: Instant) -> Option<u64> {
        if self.is_old(now) {
            self.at = now;
            return Some(std::mem::take(&mut self.silent));
        }
        self.silent += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_minute_for_each_key() {
        let (quiet, start) = (Quiet::default(), Instant::now());
        let tell = |host: u8, problem: &'static str, seconds| {
            quiet.tell((host, problem), start + Duration::from_secs(seconds))
        };
        assert_eq!(tell(1, "expired", 0), Some(0));
        assert_eq!(tell(1, "expired", 1), None);
        assert_eq!(tell(1, "expired", 59), None);
        assert_eq!(tell(1, "denied", 59), Some(0), "another problem");
        assert_eq!(tell(2, "expired", 59), Some(0), "another host");
        assert_eq!(tell(1, "expired", 60), Some(2));
        assert_eq!(tell(1, "expired", 61), None);
        assert_eq!(tell(1, "expired", 121), Some(1));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_so_are_the_lines() {
        let (quiet, start) = (Quiet::default(), Instant::now());
        let lines = (0..3000).filter(|n| quiet.tell(*n, start).is_some()).count();
        assert_eq!(lines, REMEMBERED + 1);
        let remembered = || quiet.0.lock().unwrap().keys.len();
        assert_eq!(remembered(), REMEMBERED);
        assert_eq!(quiet.tell(0, start), None);
        assert_eq!(quiet.tell(9999, start + QUIET), Some(0));
        assert_eq!(remembered(), 1, "what is old makes room");
    }
}
