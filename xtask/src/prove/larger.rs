//! Whether every integration test that `GIMBAL_PROVE` makes larger is in a proof: else its whole size is never run.

use std::path::Path;

use super::{PROOFS, Place};
use crate::shell;

const VARIABLE: &str = "GIMBAL_PROVE";

/// A file of the integration tests.
struct TestFile {
    /// The module that it is, `openstack_writer::failures`.
    module: String,
    /// Its code, without comments.
    code: String,
}

impl TestFile {
    /// The names of its tests, each with its code and what follows up to the next one.
    fn tests(&self) -> Vec<(String, &str)> {
        let parts = self.code.split("#[tokio::test").skip(1);
        let named = parts.filter_map(|part| {
            let (name, _) = part.split_once("fn ")?.1.split_once('(')?;
            Some((format!("{}::{name}", self.module), part))
        });
        named.collect()
    }

    fn names(&self, word: &str) -> Vec<String> {
        self.tests().into_iter().filter(|(_, part)| part.contains(word)).map(|(name, _)| name).collect()
    }

    fn all(&self) -> Vec<String> {
        self.tests().into_iter().map(|(name, _)| name).collect()
    }
}

fn read(folder: &Path, module: &str, files: &mut Vec<TestFile>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let inner = match (module, &*stem) {
            (module, "mod") => module.to_owned(),
            ("", stem) => stem.to_owned(),
            (module, stem) => format!("{module}::{stem}"),
        };
        if path.is_dir() {
            read(&path, &inner, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            files.push(TestFile { module: inner, code: code.collect::<Vec<_>>().join("\n") });
        }
    }
}

/// Returns the tests that run what a file has: its own, or those of its neighbours that name it.
fn runners(file: &TestFile, files: &[TestFile]) -> Vec<String> {
    let own = file.all();
    if !own.is_empty() {
        return own;
    }
    let (parent, stem) = file.module.rsplit_once("::").unwrap_or(("", &file.module));
    let word = format!("{stem}::");
    let neighbours = files
        .iter()
        .filter(|one| one.module == parent || one.module.rsplit_once("::").map_or("", |(of, _)| of) == parent);
    let of_neighbour = |one: &TestFile| match one.names(&word) {
        none if none.is_empty() && one.code.contains(&word) => one.all(),
        some => some,
    };
    neighbours.flat_map(of_neighbour).collect()
}

fn is_proven(test: &str) -> bool {
    PROOFS.iter().any(|proof| matches!(proof.place, Place::Integration) && test.contains(proof.test))
}

#[test]
fn every_test_with_a_larger_size_is_in_a_proof() {
    let mut files = Vec::new();
    read(&shell::root().join("tests/it/tests/it"), "", &mut files);
    let larger: Vec<&TestFile> = files.iter().filter(|file| file.code.contains(VARIABLE)).collect();
    assert!(larger.len() >= 10, "{}", larger.len());
    let mut missing = Vec::new();
    for file in larger {
        // Those that say so themselves have to be in one; of what several tests use it is enough that one of them is.
        let by_themselves = file.names(VARIABLE);
        missing.extend(by_themselves.iter().filter(|test| !is_proven(test)).cloned());
        if by_themselves.is_empty() && !runners(file, &files).iter().any(|test| is_proven(test)) {
            missing.push(file.module.clone());
        }
    }
    assert_eq!(missing, [""; 0], "nothing proves these");
}
