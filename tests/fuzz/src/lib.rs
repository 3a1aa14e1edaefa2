//! The parsers of input from outside, each as a function of arbitrary bytes. A target must not panic, and its checks
//! must hold.
//!
//! `cargo test` runs every target over its kept corpus and some thousand mutations of it; `cargo xtask fuzz` runs one
//! target guided by coverage, for as long as asked, and with `--minimize` adds what it finds to `corpus/`.

mod answers;
mod clusters;
pub mod corpus;
mod cut;
mod desired;
mod frames;
mod mutate;
mod objects;
mod policy;
mod reports;
mod rows;
mod writer;

pub use mutate::Mutations;

/// A function that accepts arbitrary bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, and its file in `corpus/`.
    pub name: &'static str,
    /// Runs the target; panics if a check fails.
    pub run: fn(&[u8]),
    /// Valid inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: [Target; 9] = [
    Target { name: "frames", run: frames::run, seeds: frames::seeds },
    Target { name: "desired", run: desired::run, seeds: desired::seeds },
    Target { name: "reports", run: reports::run, seeds: reports::seeds },
    Target { name: "answers", run: answers::run, seeds: answers::seeds },
    Target { name: "objects", run: objects::run, seeds: objects::seeds },
    Target { name: "policy", run: policy::run, seeds: policy::seeds },
    Target { name: "clusters", run: clusters::run, seeds: clusters::seeds },
    Target { name: "rows", run: rows::run, seeds: rows::seeds },
    Target { name: "writer", run: writer::run, seeds: writer::seeds },
];

/// Returns the target of this name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}
