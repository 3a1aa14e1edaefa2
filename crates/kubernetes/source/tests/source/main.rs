//! What a cluster offers, from the objects that its API server sends.
#![allow(clippy::unwrap_used)] // A panic is the report.

mod any_order;
mod common;
mod golden;
mod joining;
mod leaving_out;
