//! The writer's state and every decision it makes, without I/O.
//!
//! The desired state is what the agents said, by source key. The observed state is what the watches and the answers to
//! writes showed, by target. A queue of targets lies between them: each target is compared when its turn comes, and the
//! difference is the next writes.
//!
//! ```text
//!  agents' messages -> Backend (WriterEnd) --+                      +-> Job (actions) -> the caller writes -> finish()
//!                                            +-> Target -> Queue ---+
//!  watch events ---------> Observed ---------+                      +-> settle: Ack, Reject, Resolved to the agent
//! ```
//!
//! One task owns a [`Reconciler`], feeds it with what happens, and carries out its [`Output`]s and [`Job`]s. Start,
//! reconnect, relist and repair are one path: a target is enqueued, and decided from what is desired and observed when
//! its turn comes.

mod backend;
mod batches;
mod budgets;
mod cluster;
#[cfg(test)]
mod cost_tests;
mod creation;
mod decide;
mod desired;
mod doubts;
mod guards;
mod job;
mod journey;
mod leadership;
mod loss;
mod namespaces;
mod outputs;
mod policy;
mod progress;
mod quota;
mod reconciler;
mod refusals;
mod routes;
mod stored;
mod target;
mod targets;
mod test_probe;

pub use backend::{Backend, BackendState, describe_hold, describe_unmatched};
pub use cluster::Watched;
pub use gimbal_schedule::Urgency;
pub use guards::Guards;
pub use job::{Job, WriteFailure, Written};
pub use journey::{Journey, JourneyEnd, JourneyLegs};
pub use loss::{Facts, GRACE, Loss, LossPolicy, LossRecord, Stage};
pub use namespaces::{NamespacePolicy, NamespaceRefused, is_namespace};
pub use outputs::{Counters, Output};
pub use policy::{Mode, Policy, Quota, RemovalPolicy};
pub use progress::{TargetProgress, WriteAnswer};
pub use quota::{Amount, Usage};
pub use reconciler::{
    AddressExplanation, Decommission, DecommissionOrder, Explanation, Inventory, NotConfirmed, NotDecommissioned,
    PolicyDifference, Reconciler, Rehearsal, RehearsedWrite, RemovalState, ServiceStatus, Settings, SyncState, Tally,
    Withdrawal,
};
pub use target::Claim;
