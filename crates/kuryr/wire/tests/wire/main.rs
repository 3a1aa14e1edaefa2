//! The payload and its wire form: what every payload has to fulfil, what is refused, and what may not change.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A panic is the report.

mod ends;
mod golden;
mod laws;
mod roundtrip;
mod routers;
mod rules;
mod values;
