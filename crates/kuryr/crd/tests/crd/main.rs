//! The definition and the objects of KuryrLoadBalancer, beside those of Kuryr.
#![allow(clippy::unwrap_used)] // A panic is the report.

mod definition;
mod objects;
