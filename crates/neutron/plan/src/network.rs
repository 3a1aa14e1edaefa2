//! The network of a namespace, or of a node: what to do next about it, as a pure function of what is wanted and what was seen.
//!
//! A [`NetworkActor`] is a value, one for each owner. Its caller asks it for the [`NetworkStep`], takes it, and says what came of it.
//!
//! ```text
//!   NetworkActor::step(now) -> Look | Change(NetworkChange) | Wait | Done | Blocked | Gone
//!        ^                      |        |
//!        |  looked(seen)        |        | answered(ChangeOutcome)
//!        +----------------------+--------+
//! ```
//!
//! It is made in this order: network, subnet from the pool, interface of the router; and removed in the opposite one, after the
//! ports, which are not the network's to remove: whoever has one is named. What is to carry the mark carries it from the request that
//! makes it, so what a lost answer has made is found, and of two networks of one owner the one that the status names stays, or the
//! older one.

mod actor;
mod change;
mod memory;
mod obstacle;
mod seen;
mod step;
mod wish;

pub use actor::NetworkActor;
pub use change::NetworkChange;
pub use obstacle::{NetworkObstacle, PortInTheWay};
pub use seen::{SeenNetwork, SeenSubnet};
pub use step::NetworkStep;
pub use wish::{NetworkEntry, NetworkWish};
