//! The state machines alone, by the thousand: agents, two writers, an API server and the links between them under a
//! virtual clock, with every choice from one seed. No sockets, no tasks, no real time.
//!
//! ```text
//!   Sources -> Agent (AgentEnd) -> Link -> Writer (Reconciler) -> Api (Server, Lease, what is kept)
//!                                              ^------ Watch ---------+
//! ```
//!
//! A run fills the Gimbal cluster, lets a storm loose over it, waits until all is quiet and restarts everything. What must be
//! true at every moment is the business of `witness`, what must be true at the end that of `content`.

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
/// What must not be, with the phase and the virtual time in which it was.
pub fn run(plan: &Plan) -> Result<Report, String> {
    let mut world = World::new(plan.clone());
    world.run_to(Phase::Over)?;
    Ok(world.report)
}
