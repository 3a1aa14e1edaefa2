//! What model tests of the controllers share: a model of openstack-writer, and how an API server merges a patch.

#![allow(clippy::unwrap_used)] // A panic is the report.

mod merge;
mod writer;

pub use merge::{has_finalizer, is_going, merge, text};
pub use writer::{Writer, report};
