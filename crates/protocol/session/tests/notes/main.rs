//! A second payload, as small as one can be that uses all of a session: entries with parts, without parts and being
//! deleted; reports, facts and contents on the way back. Whatever happens in between, both ends agree in the end.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A panic is the report.

mod model;
mod payload;
mod rules;
mod world;
