//! What agents, writers and API servers do together, in simulated time.
#![allow(clippy::unwrap_used)] // A panic is the report.

mod bytes;
mod reconnect;
mod storm;
