//! The writes that the caller has to send, and their answers.

use std::time::Duration;

use gimbal_model::TargetKey;
use gimbal_plan::{Action, Body};
use gimbal_session::Reject;

use crate::Claim;
use crate::cluster::ListsBegun;

/// Writes for one target. Nothing else of this target is handed out until they are answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The target that all writes are for.
    pub target: TargetKey,
    /// The claim for which it is written. `None` where objects are deleted, or belong to a lost backend.
    pub owner: Option<Claim>,
    /// The writes, in order.
    pub actions: Vec<Action>,
    /// How many of the writes are sent first, concurrently. The others follow if all of these
    /// [succeed](Written::is_there).
    pub first: usize,
    /// The lists that had begun when the job was handed out.
    pub(crate) lists: ListsBegun,
    /// Set if nothing remains to be decided once all writes are answered with what was sent.
    pub(crate) closing: Option<Closing>,
}

/// How a target converges when its last job ends well.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Closing {
    /// Why a part of the Service is left out, if it is.
    pub(crate) partly: Option<Reject>,
}

impl Job {
    /// Sends the writes one after the other, and returns their answers.
    pub fn carry_out(&self, mut write: impl FnMut(&Action) -> Written) -> Vec<Written> {
        let (first, rest) = self.stages();
        let mut written: Vec<_> = first.iter().map(&mut write).collect();
        let go_on = written.iter().all(Written::is_there);
        written.extend(rest.iter().map(|action| if go_on { write(action) } else { Written::NotSent }));
        written
    }

    /// Returns the writes that are sent first, and those that follow.
    #[must_use]
    pub fn stages(&self) -> (&[Action], &[Action]) {
        self.actions.split_at(self.first.min(self.actions.len()))
    }

    /// Keeps only the first `writes` actions. The others are planned again after these.
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
    /// A create found an object with our mark: the answer to its create was lost, or the watch has not shown it yet.
    Found(Body),
    /// The object does not exist: it was deleted, or was missing already.
    Gone,
    /// 409: the object has another version than the write named, or something else answers so, for example a webhook, a
    /// quota or a proxy.
    Conflict {
        /// The object that exists, as read after the answer.
        there: Body,
    },
    /// The write failed. It may have been carried out nevertheless.
    Failed(WriteFailure),
    /// It was not sent: an earlier write of the job failed, the API server has asked to wait, or this process no longer
    /// leads or is about to end.
    NotSent,
}

impl Written {
    /// Whether the object that was written exists.
    #[must_use]
    pub fn is_there(&self) -> bool {
        matches!(self, Self::Answered(_) | Self::Found(_))
    }
}

/// Why a write failed.
#[derive(Debug, Clone, PartialEq)]
pub enum WriteFailure {
    /// An object without our mark has the name.
    Foreign,
    /// The namespace does not exist, or is being deleted.
    NamespaceMissing,
    /// The API server rejects the object as invalid.
    Invalid(String),
    /// An admission policy or a quota of the namespace forbids the write.
    Forbidden(String),
    /// The object is too large for the API server.
    TooLarge(String),
    /// The API server asks to wait, possibly for a given time.
    Throttled(Option<Duration>),
    /// 409 time and again: something is against this object, and not the API server.
    Contested(String),
    /// Any other failure, which may be temporary.
    Api(String),
}
