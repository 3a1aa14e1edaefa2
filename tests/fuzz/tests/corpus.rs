//! Runs every target over its corpus and over mutations of it: bounded and deterministic.

#![allow(clippy::unwrap_used)] // A panic is the report.

use std::fs;

use gimbal_fuzz::{Mutations, TARGETS, corpus, target};

/// Mutations for each target. `cargo xtask fuzz` runs more.
const ROUNDS: usize = 8000;
/// Mutations for the whole writer, whose every run sets up a world.
const WHOLE_ROUNDS: usize = 1000;

fn run(name: &str) {
    let target = target(name).unwrap();
    let kept = corpus::read(&corpus::file(name)).unwrap();
    assert!(!kept.is_empty(), "the corpus of {name} is empty");
    let inputs = [(target.seeds)(), kept].concat();
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
fn desired() {
    run("desired");
}

#[test]
fn reports() {
    run("reports");
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
fn clusters() {
    run("clusters");
}

#[test]
fn rows() {
    run("rows");
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

/// A seed that is refused by the first parser would leave all later code unreached.
#[test]
fn seeds_are_good() {
    for target in TARGETS {
        assert!((target.seeds)().len() >= 2, "{}", target.name);
    }
}

#[test]
fn a_folder_that_was_packed_unpacks_to_the_same_inputs() {
    let folder = std::env::temp_dir().join(format!("gimbal-corpus-{}", std::process::id()));
    let (packed, again) = (folder.join("packed"), folder.join("again"));
    for folder in ["first", "second"].map(|name| folder.join(name)) {
        fs::create_dir_all(folder).unwrap();
    }
    for (name, input) in [("a", "xyz"), ("b", ""), ("c", "xyz"), ("d", "abc")] {
        fs::write(folder.join("first").join(name), input).unwrap();
    }
    corpus::pack(&folder.join("first"), &packed).unwrap();
    assert_eq!(corpus::read(&packed).unwrap(), [&b""[..], b"abc", b"xyz"]);
    corpus::unpack(&packed, &folder.join("second")).unwrap();
    corpus::pack(&folder.join("second"), &again).unwrap();
    assert_eq!(fs::read(&packed).unwrap(), fs::read(&again).unwrap());
    let whole = fs::read(&packed).unwrap();
    fs::write(&packed, &whole[..whole.len() - 1]).unwrap();
    assert!(corpus::read(&packed).is_err());
    fs::remove_dir_all(folder).unwrap();
}
