//! Translates an OpenStack cloud's load balancers, as rows of lists, into the Services of a backend.
//!
//! ```text
//!   rows (lists, members) ---answer---> CloudPoller --finish--> PollOutcome: changes (SourceKey, Service or none)
//!                         <-next_query-
//! ```
//!
//! [`CloudPoller`] decides what to fetch and when an object is proven gone. This crate does no I/O, does not wait, and
//! reads no clock; the caller fetches the rows.

mod address;
mod explain;
mod lists;
mod members;
mod options;
mod outcome;
mod poller;
mod projects;
mod query;
mod safe_name;
mod skip;
mod translate;

pub use options::{EmptyProjectPattern, ListMode, PollOptions, ProjectPattern, ServiceName};
pub use outcome::{PollOutcome, PollTrouble};
pub use poller::CloudPoller;
pub use query::{ListScope, MembersError, Query, Reply};
pub use safe_name::safe_name;
pub use skip::{LeftOut, SkipReason};
