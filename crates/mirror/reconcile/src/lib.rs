//! The writer's state and every decision it takes, without I/O: desired state (what the agents said, by source key) against
//! observed state (what the watches and the answers to writes showed, by target), a queue between them, and the
//! next writes.
//!
//! ```text
//!  agents' messages -> Backend (WriterEnd) --+                      +-> Job (actions) -> the edge writes -> finish()
//!                                            +-> Target -> Queue ---+
//!  watch events ---------> Observed ---------+                      +-> settle: Ack, Reject, Resolved to the agent
//! ```
//!
//! One task owns a [`Reconciler`], feeds it and carries out what it says. Start, reconnect, relist and repair are one
//! path: a target is put in the queue and decided anew from what is desired and observed at that moment.

mod aside;
mod audit;
mod backend;
mod backends;
mod claims;
mod compare;
mod configure;
mod course;
mod creation;
mod decide;
mod decisions;
mod decommission;
mod doubts;
mod finish;
mod job;
mod loss;
mod lost;
mod namespaces;
mod observe;
mod policy;
mod preview;
mod probe;
mod quota;
mod reconciler;
mod refusals;
mod routes;
mod status;
mod streams;
mod target;
mod targets;
mod tick;
#[cfg(test)]
mod work;

pub use backend::{Backend, BackendState, describe_hold};
pub use decisions::NotConfirmed;
pub use decommission::{Decommission, Inventory, NotDecommissioned};
pub use gimbal_schedule::Urgency;
pub use job::{Job, WriteFailure, Written};
pub use loss::{Facts, GRACE, Loss, LossPolicy, LossRecord, Stage};
pub use namespaces::{NamespacePolicy, NamespaceRefused, is_namespace};
pub use observe::Watched;
pub use policy::{Mode, Policy, Quota};
pub use preview::Tally;
pub use quota::{Amount, Usage};
pub use reconciler::{Counters, Output, Reconciler, Settings};
pub use status::{Explanation, ServiceStatus, State};
pub use target::Claim;
