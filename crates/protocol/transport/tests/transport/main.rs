//! Both ends of a stream over real sockets: who is let in, what is survived, and how it ends.
#![allow(clippy::unwrap_used)] // A panic is the report.

mod certificates;
mod common;
mod identity;
mod inspection;
mod silence;
mod streams;
mod unread;
