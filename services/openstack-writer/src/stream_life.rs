//! Whether a cluster's controller is alive, as tasks that send changes see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// When a cluster's controller was last heard on its open stream. Cheap to clone; the clones share the time.
#[derive(Debug, Clone)]
pub struct StreamLife {
    begun: Instant,
    /// Microseconds after `begun`, and one more; 0 while no stream is open.
    heard: Arc<AtomicU64>,
    /// How many streams have ended.
    ended: Arc<AtomicU64>,
}

impl Default for StreamLife {
    fn default() -> Self {
        Self { begun: Instant::now(), heard: Arc::default(), ended: Arc::default() }
    }
}

impl StreamLife {
    /// Takes note that the controller was heard.
    pub fn heard(&self, now: Instant) {
        let micros = now.saturating_duration_since(self.begun).as_micros();
        self.heard.store(u64::try_from(micros).unwrap_or(u64::MAX).saturating_add(1), SeqCst);
    }

    /// Takes note that its stream has ended.
    pub fn ended(&self) {
        self.heard.store(0, SeqCst);
        self.ended.fetch_add(1, SeqCst);
    }

    /// Returns a permit for what the stream that is open now wants: whether it is still open, and the controller was heard on it
    /// less than `age` ago. What a former stream wanted counts for nothing, even if there is another one.
    pub fn permit(&self, age: Duration) -> impl Fn() -> bool + Send + Sync + use<> {
        let (life, ended) = (self.clone(), self.ended.load(SeqCst));
        move || life.ended.load(SeqCst) == ended && life.is_younger(age, Instant::now())
    }

    /// Returns whether the controller was heard on an open stream less than `age` ago.
    #[must_use]
    pub fn is_younger(&self, age: Duration, now: Instant) -> bool {
        match self.heard.load(SeqCst) {
            0 => false,
            heard => now.saturating_duration_since(self.begun) < age + Duration::from_micros(heard - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alive_while_it_is_heard_and_its_stream_is_open() {
        let (life, age) = (StreamLife::default(), Duration::from_secs(10));
        let at = |seconds| life.begun + Duration::from_secs(seconds);
        assert!(!life.is_younger(age, at(0)), "it was never heard");
        life.clone().heard(at(5));
        assert!(life.is_younger(age, at(14)) && !life.is_younger(age, at(15)));
        life.heard(at(15));
        assert!(life.is_younger(age, at(15)));
        life.ended();
        assert!(!life.is_younger(age, at(15)), "its stream has ended");
    }

    #[test]
    fn what_a_former_stream_wanted_is_not_sent_under_the_next_one() {
        let (life, age) = (StreamLife::default(), Duration::from_secs(3600));
        life.heard(Instant::now());
        let permit = life.permit(age);
        assert!(permit());
        life.ended();
        life.heard(Instant::now());
        assert!(!permit() && life.permit(age)());
    }
}
