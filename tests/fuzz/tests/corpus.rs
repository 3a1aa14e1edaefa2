//! Every target, over what was kept and over mutations of it: bounded, and the same at each run.

#![allow(clippy::unwrap_used)] // A panic is the report.

use std::fs;
use std::path::Path;

use gimbal_fuzz::{Mutations, TARGETS, target};

/// Mutations of each target. By hand there are more: `cargo xtask fuzz`.
const ROUNDS: usize = 40000;
/// Of the writer as a whole, where each has a world of its own.
const WHOLE_ROUNDS: usize = 5000;

fn kept(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

fn run(name: &str) {
    let target = target(name).unwrap();
    let inputs = [(target.seeds)(), kept(name)].concat();
    assert!(inputs.len() > (target.seeds)().len(), "the corpus of {name} is empty");
    let rounds = if name == "writer" { WHOLE_ROUNDS } else { ROUNDS };
    let mutations: Vec<_> = Mutations::new(inputs.clone()).take(rounds).collect();
    for input in inputs.iter().chain(&mutations) {
        if std::panic::catch_unwind(|| (target.run)(input)).is_err() {
            panic!("{name} fails on {:?}", String::from_utf8_lossy(input));
        }
    }
}

#[test]
fn frames() {
    run("frames");
}

#[test]
fn answers() {
    run("answers");
}

#[test]
fn objects() {
    run("objects");
}

#[test]
fn policy() {
    run("policy");
}

#[test]
fn writer() {
    run("writer");
}

#[test]
fn every_target_is_run_here() {
    let source = include_str!("corpus.rs");
    for target in TARGETS {
        assert!(source.contains(&format!("run(\"{}\")", target.name)), "{} is not run", target.name);
    }
}

/// A seed that its own parser refuses would leave everything behind that parser unseen.
#[test]
fn seeds_are_good() {
    for target in TARGETS {
        assert!((target.seeds)().len() >= 2, "{}", target.name);
    }
}
