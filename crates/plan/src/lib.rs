//! From what should be and what is to what must be written: pure, without a clock or a socket of its own.
//!
//! ```text
//!   model::Service --Wanted::new--> Wanted ---+
//!                                             +--plan()--> Plan: phases of Create | Replace | Delete
//!   watched objects --set_*/remove_*--> Observed --+          ^
//!                                             |              | Removals::Allowed | Held
//!                                                            |
//!   losses, as the writer counts them -------> Guard --------+
//! ```

mod guard;
mod observed;
mod placement;
mod plan;
mod print;
mod shape;
mod strip;
mod valid;
mod wanted;

pub use guard::{Guard, GuardConfig, GuardEvent, HeldDrop, Release};
pub use observed::{Held, Observed, Owner};
pub use plan::{Action, Body, Plan, Removals, made_for, plan};
pub use print::Fingerprint;
pub use strip::{Pattern, Strip};
pub use wanted::{EndpointsApi, Rules, UnknownEndpointsApi, Unwanted, UnwantedReason, Wanted};

/// Most endpoints in one slice, as Kubernetes' own controller has it.
pub const MAX_ENDPOINTS: usize = 100;
