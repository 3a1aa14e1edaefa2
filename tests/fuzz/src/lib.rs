//! What parses bytes from outside, each as a function of any bytes. A target must not panic, and what it says must hold.
//!
//! `cargo test` runs every target over its kept corpus and some thousand mutations of it; `cargo xtask fuzz` runs one target
//! guided by coverage, for as long as asked, and with `--minimize` adds what it finds to `corpus/`.

mod answers;
pub mod corpus;
mod cut;
mod frames;
mod mutate;
mod objects;
mod policy;
mod writer;

pub use mutate::Mutations;

/// Something that takes any bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, and its file in `corpus/`.
    pub name: &'static str,
    /// Takes the bytes; panics when a rule is broken.
    pub run: fn(&[u8]),
    /// Good inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: [Target; 5] = [
    Target { name: "frames", run: frames::run, seeds: frames::seeds },
    Target { name: "answers", run: answers::run, seeds: answers::seeds },
    Target { name: "objects", run: objects::run, seeds: objects::seeds },
    Target { name: "policy", run: policy::run, seeds: policy::seeds },
    Target { name: "writer", run: writer::run, seeds: writer::seeds },
];

/// The target of a name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}
