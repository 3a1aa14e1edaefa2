//! The networks of namespaces against the model of Neutron.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // Helpers of a test panic as a test does; the only clock is here.

mod any_trouble;
mod life;
mod world;
