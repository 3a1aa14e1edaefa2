//! The state machines alone, by the thousand, under a virtual clock.

pub mod server;
