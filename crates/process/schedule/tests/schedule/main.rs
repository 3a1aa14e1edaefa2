//! The queue and its limits with other keys than those of the mirror.
#![allow(clippy::unwrap_used)] // A panic is the report.

mod lanes;
mod load_balancers;
