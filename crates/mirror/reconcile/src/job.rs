//! What the edge is asked to write, and what it answers.

use std::time::Duration;

use gimbal_model::TargetKey;
use gimbal_plan::{Action, Body};
use gimbal_session::Reject;

use crate::Claim;
use crate::cluster::ListsBegun;

/// Writes for one target. Nothing else of this target is handed out until they are answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The target.
    pub target: TargetKey,
    /// For whom it is written; `None` where what is there goes, or is of a backend that is lost.
    pub owner: Option<Claim>,
    /// The writes.
    pub actions: Vec<Action>,
    /// So many of them go out first, side by side. The others follow if what these create [is there](Written::is_there).
    pub first: usize,
    /// Lists that had begun when it was handed out.
    pub(crate) lists: ListsBegun,
    /// Set if nothing is left to do once all of them are answered with what was sent.
    pub(crate) closing: Option<Closing>,
}

/// What is told of a target when its last job ends well.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Closing {
    /// Set if a part of what was wanted is left out.
    pub(crate) partly: Option<Reject>,
}

impl Job {
    /// Carries the writes out, one after the other.
    pub fn carry_out(&self, mut write: impl FnMut(&Action) -> Written) -> Vec<Written> {
        let (first, rest) = self.stages();
        let mut written: Vec<_> = first.iter().map(&mut write).collect();
        let go_on = written.iter().all(Written::is_there);
        written.extend(rest.iter().map(|action| if go_on { write(action) } else { Written::NotSent }));
        written
    }

    /// What goes out first, and what follows.
    #[must_use]
    pub fn stages(&self) -> (&[Action], &[Action]) {
        self.actions.split_at(self.first.min(self.actions.len()))
    }

    /// Leaves out all but so many of the writes; the rest is decided anew after these.
    pub fn truncate(&mut self, writes: usize) {
        if writes < self.actions.len() {
            self.actions.truncate(writes);
            self.closing = None;
        }
    }
}

/// How one write ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Written {
    /// The API server's answer to a create or replace.
    Answered(Body),
    /// A create met an object with our mark: one of ours whose answer was lost, or that the watch has yet to bring.
    Found(Body),
    /// The object is gone: deleted, or it was not there.
    Gone,
    /// 409: the object is not the version that was named, or something else in the API server says so.
    Conflict {
        /// What is there, as it was read after that.
        there: Body,
    },
    /// It did not happen, as far as is known.
    Failed(WriteFailure),
    /// It was not sent, for this process no longer leads or is about to end.
    NotSent,
}

impl Written {
    /// Whether what was written stands.
    #[must_use]
    pub fn is_there(&self) -> bool {
        matches!(self, Self::Answered(_) | Self::Found(_))
    }
}

/// Why a write failed.
#[derive(Debug, Clone, PartialEq)]
pub enum WriteFailure {
    /// An object of someone else has the name.
    Foreign,
    /// The namespace does not exist, or is being deleted.
    NamespaceMissing,
    /// The API server will not take it as it is.
    Invalid(String),
    /// The API server will not have it, as a policy or a quota of the namespace says.
    Forbidden(String),
    /// It is too large for the API server.
    TooLarge(String),
    /// The API server asks for patience.
    Throttled(Option<Duration>),
    /// Anything else; it may pass.
    Api(String),
}
