//! Faults, and the requests they affect.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::FakeCloud;
use super::answer::{Answer, Asked};

type Change = Arc<dyn Fn(&mut FakeCloud) + Send + Sync>;

/// A fault: which requests it affects, and how.
pub struct Fault {
    path: String,
    after: usize,
    times: usize,
    with_marker: bool,
    larger_than: Option<usize>,
    deed: Deed,
}

#[derive(Clone)]
pub(super) enum Deed {
    Answer(Answer),
    Hang,
    Hold(Arc<Semaphore>),
    Cut,
    Endless(u16),
    Change(Change),
}

impl Fault {
    /// Affects requests whose path (without the query) ends with `path`: all of them, by status 500, unless the methods
    /// below change that.
    #[must_use]
    pub fn on(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            after: 0,
            times: usize::MAX,
            with_marker: false,
            larger_than: None,
            deed: Deed::Answer(Answer::status(500)),
        }
    }

    /// Skips the first `requests` that match.
    #[must_use]
    pub fn after(mut self, requests: usize) -> Self {
        self.after = requests;
        self
    }

    /// Affects at most `times` requests.
    #[must_use]
    pub fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    /// Affects only pages after the first.
    #[must_use]
    pub fn with_marker(mut self) -> Self {
        self.with_marker = true;
        self
    }

    /// Affects only requests for more rows than this.
    #[must_use]
    pub fn larger_than(mut self, rows: usize) -> Self {
        self.larger_than = Some(rows);
        self
    }

    /// Answers with this status.
    #[must_use]
    pub fn status(self, status: u16) -> Self {
        self.answer(Answer::status(status))
    }

    /// Answers with this status and text.
    #[must_use]
    pub fn text(self, status: u16, body: &str) -> Self {
        self.answer(Answer::text(status, body))
    }

    /// Answers 429 with a Retry-After.
    #[must_use]
    pub fn retry_after(self, when: &str) -> Self {
        self.answer(Answer::status(429).with_header("retry-after", when))
    }

    /// Redirects.
    #[must_use]
    pub fn redirect(self, to: &str) -> Self {
        self.answer(Answer::status(302).with_header("location", to))
    }

    /// Answers as Octavia does when the marker's row is gone.
    #[must_use]
    pub fn marker_gone(self) -> Self {
        self.with_marker().answer(Answer::marker_gone("x"))
    }

    /// Never answers.
    #[must_use]
    pub fn hang(mut self) -> Self {
        self.deed = Deed::Hang;
        self
    }

    /// Answers when the gate has a permit.
    #[must_use]
    pub fn hold(mut self, gate: &Arc<Semaphore>) -> Self {
        self.deed = Deed::Hold(gate.clone());
        self
    }

    /// Breaks the connection in the middle of the answer.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.deed = Deed::Cut;
        self
    }

    /// Answers with this status and a body that has no end.
    #[must_use]
    pub fn endless(mut self, status: u16) -> Self {
        self.deed = Deed::Endless(status);
        self
    }

    /// Changes the cloud just before the answer, which is otherwise the usual one.
    #[must_use]
    pub fn change(mut self, change: impl Fn(&mut FakeCloud) + Send + Sync + 'static) -> Self {
        self.deed = Deed::Change(Arc::new(change));
        self
    }

    fn answer(mut self, answer: Answer) -> Self {
        self.deed = Deed::Answer(answer);
        self
    }

    /// Returns what happens to this request, if anything.
    pub(super) fn strike(&mut self, asked: &Asked) -> Option<Deed> {
        let fits = asked.path.ends_with(&self.path)
            && (!self.with_marker || asked.marker().is_some())
            && self.larger_than.is_none_or(|rows| asked.limit().is_some_and(|limit| limit > rows));
        if !fits || self.times == 0 {
            return None;
        }
        if self.after > 0 {
            self.after -= 1;
            return None;
        }
        self.times -= 1;
        Some(self.deed.clone())
    }
}
