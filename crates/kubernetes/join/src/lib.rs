//! Joins Services with the objects that belong to them, in whatever order the events of two watches arrive.
//!
//! ```text
//!   Service events --(caller translates)--> header ---+
//!                                                     +--> entry by namespace/name --drain--> (key, output or none)
//!   slice events ----(caller translates)--> part -----+         (parts by object name)
//! ```
//!
//! A [`Join`] does the bookkeeping that every consumer of Services needs: which slice belongs to which Service, what a
//! complete list no longer contains, which Services have changed since the last [`drain`](Join::drain). What it keeps of an
//! object and what it makes of a Service and its parts is up to an [`JoinOutput`].

mod join;
mod list_progress;
mod listing;
mod service_record;
#[cfg(feature = "test-support")]
pub mod test_support;

pub use join::{Join, JoinOutput};
pub use list_progress::ListProgress;
pub use service_record::ServiceRecord;
