//! Policies to groups, and what the groups let through.
#![allow(clippy::unwrap_used)] // A panic is the report.

mod any_order;
mod bad_input;
mod changes;
mod common;
mod composed;
mod naive;
mod rules;
mod services;
