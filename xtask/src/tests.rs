//! Builds every test once, and runs the test programs in parallel.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;

use crate::shell;

/// The package of the integration tests, which wait more than they compute. Other packages have a program `it`, too.
const INTEGRATION: &str = "tests/it";
/// How many integration tests run at once: each waits for two API servers and takes about 600 MB.
const INTEGRATION_THREADS: &str = "6";

/// A built test program.
struct Program {
    name: String,
    path: PathBuf,
    /// The package's folder, where `cargo test` would run it.
    dir: PathBuf,
}

/// Which tests to run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All of them.
    All,
    /// Those that start no server and finish in seconds, and one integration test as a smoke test.
    Fast,
}

/// The smoke test of [`Which::Fast`].
const SMOKE: &str = "mirror::a_service_arrives_changes_and_goes";
/// Packages whose tests need servers or minutes.
const SLOW: [&str; 3] = ["gimbal-exhaustive", "gimbal-simulation", "gimbal-fuzz"];

/// Builds every target once. All features are those of the whole workspace, so that no later step builds a dependency
/// again.
pub fn build() -> anyhow::Result<()> {
    shell::run(shell::cargo(&["build", "--workspace", "--all-targets"]))
}

/// Runs the tests. Integration tests run in parallel to the others; a program's output is printed when it ends.
pub fn run(which: Which) -> anyhow::Result<()> {
    let programs = programs()?;
    let bin_dir = bin_dir()?;
    let (integration, others): (Vec<_>, Vec<_>) = programs.iter().partition(|program| is_integration(program));
    let others: Vec<_> = others.into_iter().filter(|program| which == Which::All || is_fast(program)).collect();
    let failed = Mutex::new(Vec::new());
    let one = |program: &Program| {
        let mut command = Command::new(&program.path);
        command.current_dir(&program.dir).stdin(Stdio::null());
        command.env("CARGO_MANIFEST_DIR", &program.dir).env("GIMBAL_BIN_DIR", &bin_dir);
        if is_integration(program) {
            command.args(["--test-threads", INTEGRATION_THREADS]);
            command.args((which == Which::Fast).then_some(["--exact", SMOKE]).into_iter().flatten());
        }
        if !passes(program, command) {
            failed.lock().unwrap_or_else(PoisonError::into_inner).push(program.name.clone());
        }
    };
    std::thread::scope(|scope| {
        for programs in [&integration, &others] {
            scope.spawn(|| programs.iter().for_each(|program| one(program)));
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    anyhow::ensure!(failed.is_empty(), "tests failed in {}", failed.join(", "));
    if which == Which::All {
        shell::run(shell::cargo(&["test", "--workspace", "--doc", "--quiet"]))?;
    }
    Ok(())
}

fn is_integration(program: &Program) -> bool {
    program.name == "it" && program.dir.ends_with(INTEGRATION)
}

/// Whether a program's tests need neither minutes nor servers, which only the test kit starts.
fn is_fast(program: &Program) -> bool {
    let package = std::fs::read_to_string(program.dir.join("Cargo.toml")).unwrap_or_default();
    !package.contains("gimbal-testkit") && !SLOW.iter().any(|slow| package.contains(&format!("name = \"{slow}\"")))
}

/// Runs one program and prints its output as a whole, followed by how long it took.
fn passes(program: &Program, mut command: Command) -> bool {
    let start = Instant::now();
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("cannot run {}: {error}", program.path.display());
            return false;
        }
    };
    let passed = output.status.success();
    let said = String::from_utf8_lossy(&output.stdout);
    let summary = said.lines().find(|line| line.starts_with("test result")).unwrap_or_default();
    eprintln!("{:>8}  {}: {summary}", seconds(start.elapsed()), program.name);
    // A test that is skipped prints such a line.
    let errors = String::from_utf8_lossy(&output.stderr);
    errors.lines().filter(|line| line.starts_with("SKIPPED")).for_each(|line| eprintln!("{line}"));
    if !passed {
        eprintln!("{said}\n{errors}");
    }
    passed
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Builds what is not built yet, and returns every test program.
fn programs() -> anyhow::Result<Vec<Program>> {
    let mut command = shell::cargo(&["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    let output = command.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    anyhow::ensure!(output.status.success(), "the tests do not build");
    let lines = String::from_utf8_lossy(&output.stdout);
    let programs = lines.lines().filter_map(|line| program(&serde_json::from_str(line).ok()?)).collect();
    Ok(programs)
}

fn program(message: &Value) -> Option<Program> {
    let path = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
    let mut dir = PathBuf::from(message["manifest_path"].as_str()?);
    dir.pop();
    Some(Program { name: message["target"]["name"].as_str()?.to_owned(), path: path.into(), dir })
}

/// Returns the folder of the services, so that no test process runs cargo.
fn bin_dir() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's own path")?;
    let target = own.parent().and_then(|profile| profile.parent()).context("this program is in no target folder")?;
    Ok(target.join("debug"))
}

#[cfg(test)]
mod of_programs {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_test_programs_are_taken() {
        let message = |test: bool, executable: Value| {
            json!({"executable": executable, "profile": {"test": test}, "target": {"name": "it"},
                "manifest_path": "/a/tests/it/Cargo.toml"})
        };
        let it = program(&message(true, json!("/a/target/debug/deps/it-1"))).unwrap();
        assert_eq!((it.name.as_str(), it.dir.to_str()), ("it", Some("/a/tests/it")));
        assert!(program(&message(false, json!("/a/target/debug/gimbal-writer"))).is_none());
        assert!(program(&message(true, Value::Null)).is_none());
        assert!(is_integration(&it));
        let other = Program { dir: "/a/crates/openstack/client".into(), ..it };
        assert!(!is_integration(&other));
    }
}
