//! The lease: one candidate step by step, several in a simulation, and two on a real API server.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A panic is the report.

mod on_server;
mod one_candidate;
mod simulation;
