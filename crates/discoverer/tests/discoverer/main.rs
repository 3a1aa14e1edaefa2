//! The framework around a source that polls.
#![allow(clippy::unwrap_used)] // A panic is the report.

mod cloud;
mod dialling;
mod poller;
mod traces;
