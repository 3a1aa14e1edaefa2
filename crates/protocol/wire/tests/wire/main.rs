//! Messages and their bytes.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A panic is the report.

mod golden;
mod roundtrip;
mod rules;
