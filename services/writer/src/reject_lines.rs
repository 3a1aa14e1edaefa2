//! Limits the log lines about the Services that are rejected: how many there are is up to the backend.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use gimbal_model::BackendName;

/// Lines about rejects of one backend in a minute, and about their ends. Enough for what people read; metrics and inspection
/// have the rest.
pub(crate) const A_MINUTE: u32 = 100;
const MINUTE: Duration = Duration::from_secs(60);

/// The lines of each backend within its present minute.
#[derive(Debug, Default)]
pub(crate) struct RejectLines(HashMap<BackendName, RejectMinute>);

#[derive(Debug)]
struct RejectMinute {
    since: Instant,
    lines: u32,
    silent: u64,
}

impl RejectLines {
    /// Returns the number of lines of the backend that were suppressed in the minute before; `None` if this one is to be
    /// suppressed too.
    pub(crate) fn tell(&mut self, backend: &BackendName, now: Instant) -> Option<u64> {
        let fresh = || RejectMinute { since: now, lines: 0, silent: 0 };
        let minute = match self.0.get_mut(backend) {
            Some(minute) => minute,
            None => self.0.entry(backend.clone()).or_insert_with(fresh),
        };
        let mut untold = 0;
        if now.saturating_duration_since(minute.since) >= MINUTE {
            untold = minute.silent;
            *minute = fresh();
        }
        if minute.lines == A_MINUTE {
            minute.silent += 1;
            return None;
        }
        minute.lines += 1;
        Some(untold)
    }

    /// Forgets the backends that are no longer known.
    pub(crate) fn keep(&mut self, is_known: impl Fn(&BackendName) -> bool) {
        self.0.retain(|backend, _| is_known(backend));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_has_a_hundred_lines_a_minute() {
        let (mut lines, start) = (RejectLines::default(), Instant::now());
        let (one, other) = (BackendName::parse("one").unwrap(), BackendName::parse("other").unwrap());
        let mut logged = |backend: &BackendName, seconds| {
            let at = start + Duration::from_secs(seconds);
            (0..1000).filter_map(|_| lines.tell(backend, at)).collect::<Vec<_>>()
        };
        assert_eq!((logged(&one, 0), logged(&one, 59)), (vec![0; 100], vec![]));
        assert_eq!(logged(&other, 59).len(), 100, "another backend has lines of its own");
        let again = logged(&one, 60);
        assert_eq!((again.len(), again[0], again[1]), (100, 1900, 0));
        lines.keep(|backend| *backend == other);
        assert_eq!(lines.tell(&one, start + MINUTE), Some(0));
    }
}
