//! Checks every interleaving of a small world: the real state machines of two backends with one or two Services each,
//! with at most one trouble on each path.
//!
//! ```text
//!   Setup -> World -- Action --> World -- Action --> ...      the same state is looked at once, by its fingerprint
//!              |                   |
//!            rules               rules      what must be true at every moment
//!                                  |
//!                                 rest      where nothing more is on its way: what must be true at the end
//! ```
//!
//! `tests/simulation` runs a thousand backends in a few orders; this runs a few backends in every order.

mod action;
mod agents;
mod cluster;
mod expect;
mod part;
mod print;
mod rest;
mod rules;
mod search;
mod setup;
mod world;
mod writer;

pub use action::Action;
pub use rules::{Fault, Rule};
pub use search::{Bounds, Path, Seen, explore};
pub use setup::{Backend, Offer, Setup, Trouble, Writes, hosts};
pub use world::World;
