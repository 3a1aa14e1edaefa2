//! Services to load balancers and back.
#![allow(clippy::unwrap_used)] // A panic is the report.

mod bounds;
mod careful;
mod common;
mod desired;
mod golden;
mod ingress;
mod order;
mod spec;
mod status;
mod wanted;
