//! Ports of Pods: what to do next about all of one cluster, as a pure function of what is wanted and of what Neutron was seen to have.
//!
//! A [`PortPlan`] is a value. Its caller says what is wanted and what came of the calls, and asks for the next call; the plan never
//! waits, sends or sleeps.
//!
//! ```text
//!   Pods, nodes       want, release, set_node, ..  +----------+  next(now) -> PortCall
//!   (KuryrPorts)   ------------------------------> | PortPlan | ------------------------> Neutron
//!                  <------------------------------ +----------+ <------------------------
//!                     take_report -> PortReport                   answered(id, PortAnswer)
//! ```
//!
//! **Who has a port** is said by the mark in its description, which Neutron writes in one step with the rest: the Pod, or the node
//! for a port that is ready for any Pod. Every change of a port names the revision that it was decided on, so of two writers, or of
//! two requests of one, one succeeds. Tags with the same words follow, for people and other programs. What a call whose answer was
//! lost has done is read before anything is done again.
//!
//! | port | what is done |
//! |---|---|
//! | is lacking for a Pod | one that is ready is given to it: description and name in one change. Else it is made, with those of others and what the pool lacks in one request |
//! | of a Pod that lives | its groups are set; of several, the one that its status names stays. One that neither its status names nor this writer has made is given to it again before it is reported, so that no writer can still be removing it |
//! | of a Pod that is over | once its node has said that it is unplugged it goes back to a pool with the pool's groups, if there is room; else it is removed. Without the node's word: after five minutes, or with the node |
//! | ready for any Pod | it waits, the pool covers the next ten seconds at the rate of the last minute; what is too much goes, also what is beyond what the policy allows |
//! | of a node that was deleted, or on a network that is being removed | it is removed |
//! | of an owner whom two complete lists lack | it is removed after a grace, if the guard lets it go |
//!
//! **Removal takes two steps**: a change of the description, which fails if somebody has changed the port meanwhile, and only then the
//! deletion, for Neutron compares no revision there. A port that is being removed is never taken again
//! (`docs/decisions/026-ports-of-pods.md`).
//!
//! [`network`] has the networks that these ports are in.
//!
//! A restart is no event of its own: the first list shows what exists, and each port says in its description who has it.

mod answers;
mod call;
mod cells;
mod demand;
mod due;
pub mod network;
mod next;
mod ownership;
mod plan;
mod pods;
mod pool_steps;
mod port_steps;
mod reading;
mod report;
mod row;
mod settings;
mod table;
mod wish;

pub use call::{PortAnswer, PortCall, PortCallId, PortChange, PortRead, PortWork};
pub use plan::PortPlan;
pub use report::{PortObstacle, PortReport};
pub use row::PodPort;
pub use settings::PortSettings;
pub use wish::{Plugged, PodPortEnd, PodPortWish, PortPoolKey};
