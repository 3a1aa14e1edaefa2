//! So much a second: of writes, or of bytes.

use std::io;
use std::time::{Duration, Instant};

use gimbal_plan::{Action, Body};

/// What may be saved up, in seconds. A burst is answered at once, and no second sees much more than the rate.
const BURST: f64 = 0.25;
/// What a delete is taken to cost. Who watches is sent the object as it was, and how large that was is not known here.
const DELETE: u64 = 1024;

/// A token bucket. What costs more than there is goes into debt, so that it still passes, and what follows waits the
/// longer. Time is a parameter.
#[derive(Debug)]
pub(super) struct Budget {
    rate: f64,
    saved: f64,
    at: Option<Instant>,
}

impl Budget {
    /// `rate` a second; 0: no budget.
    // Rates and costs are far below the 53 bits of a float.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn new(rate: u64) -> Option<Self> {
        let rate = rate as f64;
        (rate > 0.0).then(|| Self { rate, saved: Self::most(rate), at: None })
    }

    fn most(rate: f64) -> f64 {
        (rate * BURST).max(1.0)
    }

    pub(super) fn refill(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.at.replace(now).unwrap_or(now));
        self.saved = (self.saved + since.as_secs_f64() * self.rate).min(Self::most(self.rate));
    }

    /// Whether something may be spent.
    pub(super) fn has_any(&self) -> bool {
        self.saved >= 1.0
    }

    #[allow(clippy::cast_precision_loss)]
    pub(super) fn spend(&mut self, cost: u64) {
        self.saved -= cost as f64;
    }

    /// When something may be spent again; `None`: now.
    pub(super) fn next(&self) -> Option<Instant> {
        if self.has_any() {
            return None;
        }
        // A moment later than reckoned, so that rounding cannot wake us too early again and again.
        let missing = Duration::from_secs_f64((1.0 - self.saved) / self.rate) + Duration::from_micros(1);
        self.at.map(|at| at + missing)
    }
}

/// The bytes of an object that is written, in about the form in which it is sent to those who watch.
pub(super) fn size(write: &Action) -> u64 {
    let (Action::Create(body) | Action::Replace(body) | Action::Patch(body)) = write else { return DELETE };
    let mut counted = Counted(0);
    let done = match body {
        Body::Service(object) => serde_json::to_writer(&mut counted, object),
        Body::Slice(object) => serde_json::to_writer(&mut counted, object),
        Body::Endpoints(object) => serde_json::to_writer(&mut counted, object),
    };
    // What cannot be written as JSON is refused where it would be sent.
    done.map_or(0, |()| counted.0)
}

struct Counted(u64);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
