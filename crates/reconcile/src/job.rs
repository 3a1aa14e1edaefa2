//! What the edge is asked to write, and what it answers.

use std::time::Duration;

use gimbal_model::TargetKey;
use gimbal_plan::{Action, Body};

use crate::Claim;

/// Writes for one target that may go out side by side. Nothing else of this target is handed out until they are
/// answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The target.
    pub target: TargetKey,
    /// For whom it is written; `None` where what is there goes, or is of a backend that is lost.
    pub owner: Option<Claim>,
    /// The writes.
    pub actions: Vec<Action>,
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
    /// It did not happen, as far as is known.
    Failed(WriteFailure),
    /// It was not sent, for this process no longer leads or is about to end.
    NotSent,
}

/// Why a write failed.
#[derive(Debug, Clone, PartialEq)]
pub enum WriteFailure {
    /// The object changed since it was observed. The watch brings the change.
    Conflict,
    /// An object of someone else has the name.
    Foreign,
    /// The namespace does not exist, or is being deleted.
    NamespaceMissing,
    /// The API server will not take it as it is.
    Invalid(String),
    /// It is too large for the API server.
    TooLarge(String),
    /// The API server asks for patience.
    Throttled(Option<Duration>),
    /// Anything else; it may pass.
    Api(String),
}
