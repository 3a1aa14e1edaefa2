//! What every program has in common: its endpoint for probes and metrics, its log, and how it ends.
#![allow(clippy::unwrap_used)] // A panic is the report.

mod admin;
mod field_names;
mod process;
