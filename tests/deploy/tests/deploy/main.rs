//! What users install from deploy/ is what a real API server takes, what the programs understand, and no more than they need.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A panic is the report.

mod admission;
mod alerts;
mod dashboards;
mod flags;
mod operations;
mod pieces;
mod priority;
mod rights;
mod server;
mod values;
