//! The cost of one step of each pure part, in instructions and in allocations: `cargo xtask counts` runs this program
//! under valgrind and compares the result with `tests/counts/counts.json`. An input is created in a case's setup and
//! returned at its end, so that neither its creation nor its drop is counted.
#![allow(clippy::unwrap_used)] // A panic is the report.

mod balancing;
mod differing;
mod object;
mod planning;
mod reconciling;
mod source;
mod streaming;
mod translation;
mod wiring;

use gungraun::{Callgrind, Dhat, LibraryBenchmarkConfig};

use balancing::load_balancing;
use differing::model;
use object::objects;
use planning::plan;
use reconciling::reconcile;
use streaming::stream;
use translation::translate;
use wiring::wire;

/// The simulation of caches is off: it would take twice the time.
fn callgrind() -> Callgrind {
    Callgrind::with_args(["--cache-sim=no"])
}

/// For a case whose setup is so large that tracing its allocations takes a minute; a smaller case counts them.
fn instructions_only() -> LibraryBenchmarkConfig {
    let mut config = LibraryBenchmarkConfig::default();
    config.tool_override(callgrind());
    config
}

gungraun::main!(
    config = LibraryBenchmarkConfig::default()
        // Without the allocator's bins that are merged all at once: a case would pay for what its setup freed.
        .env("GLIBC_TUNABLES", "glibc.malloc.mxfast=0")
        .tool(callgrind())
        // Deep enough that the case itself is among the callers of each allocation.
        .tool(Dhat::with_args(["--num-callers=200"]));
    library_benchmark_groups = model, translate, stream, wire, plan, reconcile, objects, load_balancing
);
