//! The plan against the model of Neutron: whatever is lost, refused or killed on the way, each Pod has a port of its own in the end,
//! and no port is left.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // Helpers of a test panic as a test does; the only clock is here.

mod any_trouble;
mod kubernetes;
mod life;
mod lost;
mod pools;
mod room;
mod world;
mod writers;
