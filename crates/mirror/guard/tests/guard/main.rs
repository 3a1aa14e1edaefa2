//! The guard: what it holds, what it releases, and that restarts do not weaken it.

mod holds;
mod ids;
mod invariant;
mod load_balancers;
mod restarts;
