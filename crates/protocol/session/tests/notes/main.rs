//! A second payload, the smallest that uses every part of a session: entries with parts, without parts and being
//! deleted; reports, facts and contents from the writer to the agent. Whatever happens in between, both ends agree in
//! the end.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A panic is the report.

mod come_back;
mod contents;
mod model;
mod payload;
mod rules;
mod too_large;
mod unknown;
mod world;
