//! Computes the requests that turn the observed objects of a target into the wanted ones. Pure: no clock, no I/O.
//!
//! ```text
//!   model::Service --Wanted::new-----------> Wanted ----+
//!                                                       +--plan()--> Plan: phases of Create | Replace | Patch | Delete
//!   watched objects --set_*, remove_*----> Observed ----+     ^
//!                                                             |
//!   losses, as the writer counts them --> gimbal-guard --> Removals::Allowed | Held | HeldReady
//! ```

mod app_protocol;
mod count;
mod difference;
mod limit;
mod lost;
mod observed;
mod placement;
mod plan;
mod print;
mod shape;
mod strip;
mod valid;
mod wanted;

pub use app_protocol::AppProtocols;
pub use count::{Count, publishable};
pub use difference::difference;
pub use limit::limited;
pub use lost::{Lost, plan_lost};
pub use observed::{Observed, ObservedObject, Owner, ReportOrder};
pub use plan::{Action, Body, Plan, Removals, made_for, plan};
pub use print::Fingerprint;
pub use strip::{Keep, Pattern, Strip};
pub use wanted::{EndpointsApi, Rules, UnknownEndpointsApi, Unwanted, UnwantedReason, Wanted, left_out};

/// The largest number of endpoints in one slice, as in Kubernetes' own controller.
pub const MAX_ENDPOINTS: usize = 100;
