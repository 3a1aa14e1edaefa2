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

mod backend;
mod claims;
mod decide;
mod finish;
mod job;
mod observe;
mod policy;
mod queue;
mod reconciler;
mod status;
mod streams;
mod target;

pub use backend::{Backend, BackendState};
pub use job::{Job, WriteFailure, Written};
pub use observe::Watched;
pub use policy::{Namespaces, Policy};
pub use queue::Urgency;
pub use reconciler::{Counters, Output, Reconciler, Settings};
pub use status::{Explanation, ServiceStatus, State};
pub use target::Claim;
