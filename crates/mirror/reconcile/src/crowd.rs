//! Who else waits for the API server: whether changes of several backends are about, and which backends have nothing
//! under way.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use gimbal_model::BackendName;

/// For how long a fresh change beside other work is expected to be followed by another one. What is under way when the next
/// one comes was sent before it, so it is too late to make room then.
const EXPECTED: Duration = Duration::from_secs(10);

/// See the module. Memory is bounded by the backends that have something under way.
#[derive(Debug, Clone, Default)]
pub(crate) struct Crowd {
    under_way: HashMap<BackendName, usize>,
    total: usize,
    shared_until: Option<Instant>,
}

impl Crowd {
    /// A target of the backend is being written from now on.
    pub(crate) fn start(&mut self, backend: &BackendName) {
        *self.under_way.entry(backend.clone()).or_default() += 1;
        self.total += 1;
    }

    /// A target of the backend is not being written any more.
    pub(crate) fn done(&mut self, backend: &BackendName) {
        let Some(count) = self.under_way.get_mut(backend) else { return };
        *count -= 1;
        self.total -= 1;
        if *count == 0 {
            self.under_way.remove(backend);
        }
    }

    /// Whether nothing of the backend is being written.
    pub(crate) fn is_quiet(&self, backend: &BackendName) -> bool {
        !self.under_way.contains_key(backend)
    }

    /// Whether something of another backend is being written.
    pub(crate) fn has_others(&self, backend: &BackendName) -> bool {
        self.total > self.under_way.get(backend).copied().unwrap_or_default()
    }

    /// A fresh change was handed out beside other work.
    pub(crate) fn met(&mut self, now: Instant) {
        self.shared_until = Some(now + EXPECTED);
    }

    /// Whether fresh changes and other work have lately been about at the same time.
    pub(crate) fn is_shared(&self, now: Instant) -> bool {
        self.shared_until.is_some_and(|until| now < until)
    }
}
