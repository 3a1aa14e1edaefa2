//! The program between a real API server and a scripted writer.
#![allow(clippy::unwrap_used)] // A panic is the report.

mod cli;
mod common;
mod events;
mod inspection;
mod stream;
