//! How a router leads requests to pools: its routes as policies of its listeners.
//!
//! Octavia's load balancers try policies in the order of their positions, but for one thing: those that send clients elsewhere
//! come before all others. A policy takes the requests that match all of its rules.

pub(crate) mod content;
pub(crate) mod difference;
pub(crate) mod early;
pub(crate) mod fold;
pub(crate) mod going;
pub(crate) mod names;
pub(crate) mod order;
pub(crate) mod policies;
pub(crate) mod rebuild;
mod router;
pub(crate) mod same;
mod taken;
#[cfg(test)]
mod tests;
