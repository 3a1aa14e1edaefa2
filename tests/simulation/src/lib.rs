//! Simulates the state machines alone, with thousands of backends: agents, two writers, an API server and the links
//! between them under a virtual clock. Every choice follows from one random seed. No sockets, no tasks, no real time.
//!
//! ```text
//!   Sources -> Agent (AgentEnd) -> Link -> Writer (Reconciler) -> Api (Server, Lease, stored states)
//!                                              ^------ Watch ---------+
//! ```
//!
//! A run fills the Gimbal cluster, starts a storm of troubles, waits until everything is quiet and restarts
//! everything. `witness` checks the rules of every moment, `content` those of the end.

mod agenda;
mod agents;
mod api;
pub mod content;
mod lease;
mod link;
mod plan;
mod random;
mod said;
pub mod server;
mod sources;
mod storm;
mod watch;
mod witness;
mod world;
mod writer;

pub use plan::{Ending, Plan, Report, Trouble, estimated};
pub use said::Said;
pub use witness::judge_write;
use world::{Phase, World};

/// Runs a plan to its end.
///
/// # Errors
/// Returns the first fault, with its phase and virtual time.
pub fn run(plan: &Plan) -> Result<Report, String> {
    let mut world = World::new(plan.clone());
    world.run_to(Phase::Over)?;
    Ok(world.report)
}
