//! The definitions and the objects of the kinds, beside those of Kuryr.
#![allow(clippy::unwrap_used)] // A panic is the report.

mod definition;
mod objects;
