//! The definition of the kind `Backend`.
#![allow(clippy::unwrap_used)] // A panic is the report.

mod definition;
