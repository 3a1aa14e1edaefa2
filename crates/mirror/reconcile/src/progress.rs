//! How far a Service has come in the writer: the frame that brought it, and what the API server answered last.

use std::sync::Arc;
use std::time::Instant;

use gimbal_session::CarriedBy;

/// What the API server answered to a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteAnswer {
    /// `create`, `replace`, `patch` or `delete`.
    pub verb: &'static str,
    /// Kind of the object.
    pub kind: &'static str,
    /// Name of the object.
    pub name: Arc<str>,
    /// The HTTP status that stands for the answer; `None`: there was no answer.
    pub status: Option<u16>,
    /// What kind of answer it was, as metrics spell it: `ok` if the write was accepted.
    pub answer: &'static str,
    /// When it came.
    pub at: Instant,
}

impl WriteAnswer {
    /// What [`answer`](Self::answer) is where the write was accepted.
    pub const OK: &'static str = "ok";
}

/// How far a Service has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TargetProgress {
    /// The frame that brought what the agent sent last; `None`: none of this process's streams did.
    pub carried: Option<CarriedBy>,
    /// The answer to the last write of one of its objects; `None`: this process wrote none.
    pub last_write: Option<WriteAnswer>,
    /// When a write of one of its objects was accepted last.
    pub written: Option<Instant>,
}

/// The writes of a target, as far as they are remembered.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastWrites {
    last: Option<WriteAnswer>,
    accepted: Option<Instant>,
}

impl LastWrites {
    /// Answers may be noted in any order: the one that came last counts.
    pub(crate) fn note(&mut self, answer: WriteAnswer) {
        if answer.answer == WriteAnswer::OK {
            self.accepted = self.accepted.max(Some(answer.at));
        }
        if self.last.as_ref().is_none_or(|last| last.at <= answer.at) {
            self.last = Some(answer);
        }
    }

    pub(crate) fn last(&self) -> Option<&WriteAnswer> {
        self.last.as_ref()
    }

    pub(crate) fn accepted(&self) -> Option<Instant> {
        self.accepted
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_answer_that_came_last_counts_and_the_last_that_was_accepted() {
        let start = Instant::now();
        let at = |seconds: u64, answer: &'static str| WriteAnswer {
            verb: "patch",
            kind: "EndpointSlice",
            name: answer.into(),
            status: None,
            answer,
            at: start + Duration::from_secs(seconds),
        };
        let mut writes = LastWrites::default();
        for (answer, last, accepted) in [
            (at(2, "ok"), "ok", 2),
            (at(3, "timeout"), "timeout", 2),
            (at(1, "ok"), "timeout", 2),
            (at(3, "conflict"), "conflict", 2),
            (at(4, "ok"), "ok", 4),
        ] {
            writes.note(answer.clone());
            let shown = (writes.last().map(|last| last.answer), writes.accepted());
            assert_eq!(shown, (Some(last), Some(start + Duration::from_secs(accepted))), "{answer:?}");
        }
    }
}
