//! The guard: what it holds, what it releases, and that restarts do not weaken it.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A panic is the report.

mod holds;
mod ids;
mod invariant;
mod load_balancers;
mod restarts;
