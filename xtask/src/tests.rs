//! Builds every test once, and runs the test programs in parallel.

mod once_more;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;

use crate::shell;

/// The package of the integration tests, which wait more than they compute. Other packages have a program `it`, too.
const INTEGRATION: &str = "tests/it";
/// What runs at once of the integration tests, as arguments of their program. Each test has two API servers and takes
/// about 600 MB. The tests of OpenStack are the longest, so that they begin at once, beside the others. Two of each keep two
/// cores busy; more only run into each other's deadlines.
const INTEGRATION_RUNS: [&[&str]; 2] =
    [&["openstack", "--test-threads=2"], &["--skip=openstack", "--skip=alone::", "--test-threads=2"]];
/// Tests of OpenStack that take minutes each, and that only `cargo xtask prove` runs: two cores would be busy with them for longer
/// than a change can wait. Most of what they show at the real services, simulations show at a model of them.
pub const PROVEN: [&str; 12] = [
    "openstack_scale::an_idle",
    "openstack_traffic::replacement::",
    "openstack_way_back::conformance::",
    "openstack_way_back::edits::",
    "openstack_way_back::ingress_kills::killed_at_every_step",
    "openstack_writer::a_thousand_members",
    // The real Octavia answers 500 to it now and then.
    "openstack_writer::fifty_ports",
    "openstack_writer::nothing_is_lost",
    "openstack_writer::routes_are_not_lost",
    // A browser is installed for it.
    "page_in_browser::",
    // Contour is built for it.
    "through_envoy::",
    // The programs of the release before this one are built for it.
    "upgrades::",
];
/// Integration tests that need a quiet machine.
const ALONE: &[&str] = &["alone::", "--test-threads=1"];
/// Another program that does: three nodes with kubelets, on which no request may fail.
const PROGRAM_ALONE: &str = "nodes";
/// How many of the other programs run at once, each with a test for each core.
const OTHERS_AT_ONCE: usize = 1;

/// The seed of every property test, so that a change is judged by what it does and not by luck. `cargo xtask prove` looks for
/// what other values find.
const SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "1");

/// A built test program.
struct Program {
    name: String,
    path: PathBuf,
    /// The package's folder, where `cargo test` would run it.
    dir: PathBuf,
}

impl Program {
    /// Returns the command that runs it as `cargo test` would, with Gimbal's programs in `bin_dir`.
    fn command(&self, bin_dir: &Path) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.dir).env("CARGO_MANIFEST_DIR", &self.dir).env("GIMBAL_BIN_DIR", bin_dir);
        // API servers start with a quarter less computing when they collect garbage less often, for some 50 MB each.
        command.env("GOGC", "400");
        command
    }
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
/// Of the programs that [`Which::Fast`] runs, the one that takes longest: it waits until silent connections are noticed.
const WAITS_LONGEST: &str = "transport";
/// Packages whose tests need minutes, some of them only once, to build a program in Go.
const SLOW: [&str; 4] = ["gimbal-cyclonus", "gimbal-exhaustive", "gimbal-simulation", "gimbal-fuzz"];
/// Further packages that [`Which::Fast`] does not build. The others have the same features without them, so that no
/// dependency is built again.
const NOT_FAST: [&str; 3] = ["gimbal-bench", "gimbal-demo", "gimbal-images"];

impl Which {
    /// Returns the arguments of cargo that select the packages.
    fn packages(self) -> Vec<String> {
        let left_out = SLOW.iter().chain(&NOT_FAST).filter(|_| self == Self::Fast);
        let left_out = left_out.flat_map(|package| ["--exclude".to_owned(), (*package).to_owned()]);
        std::iter::once("--workspace".to_owned()).chain(left_out).collect()
    }
}

/// Builds every target once. All features are those of the whole workspace, so that no later step builds a dependency
/// again.
pub fn build(which: Which) -> anyhow::Result<()> {
    let mut command = shell::cargo(&["build", "--all-targets"]);
    command.args(which.packages());
    shell::run(command)
}

/// Builds everything as [`run`] does, so that after it nothing is built anew, and returns the command of the integration tests.
pub fn integration() -> anyhow::Result<Command> {
    build(Which::All)?;
    let programs = programs(Which::All)?;
    let program = programs.iter().find(|program| is_integration(program));
    Ok(program.with_context(|| format!("{INTEGRATION} has no program `it`"))?.command(&bin_dir()?))
}

/// Runs the examples in documentation, then the tests: those of the integration tests beside all others, and last those that
/// need a quiet machine. A program's output is printed when it ends.
pub fn run(which: Which) -> anyhow::Result<()> {
    let programs = programs(which)?;
    let bin_dir = bin_dir()?;
    let (integration, others): (Vec<_>, Vec<_>) = programs.iter().partition(|program| is_integration(program));
    let (alone, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|program| program.name == PROGRAM_ALONE);
    let mut others: Vec<_> = others.into_iter().filter(|program| which == Which::All || is_fast(program)).collect();
    // Those that take long begin first.
    others.sort_by_key(|program| (is_fast(program), program.name != WAITS_LONGEST));
    // With the features of the build, so that nothing is compiled again; and alone, for rustdoc would slow the tests down.
    let mut examples = shell::cargo(&["test", "--doc", "--quiet"]);
    examples.args(which.packages());
    let failed = Mutex::new(Vec::new());
    let fails = |name: &str| failed.lock().unwrap_or_else(PoisonError::into_inner).push(name.to_owned());
    let again = Mutex::new(Vec::new());
    let run = |program: &Program, args: &[&str]| {
        let mut command = program.command(&bin_dir);
        command.stdin(Stdio::null()).args(args);
        if std::env::var_os(SEED.0).is_none() {
            command.env(SEED.0, SEED.1);
        }
        outcome(&program.name, args, command)
    };
    let one = |program: &Program, args: &[&str]| {
        let Outcome::Failed(said) = run(program, args) else { return };
        match once_more::failed_tests(&said) {
            tests if tests.is_empty() || is_fast(program) => fails(&program.name),
            tests => again.lock().unwrap_or_else(PoisonError::into_inner).push((program.path.clone(), tests)),
        }
    };
    let (one, queue) = (&one, &Mutex::new(others.into_iter()));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    if !outcome("examples in documentation", &[], examples).passed() {
        fails("examples in documentation");
    }
    std::thread::scope(|scope| {
        for program in &integration {
            match which {
                Which::All => {
                    INTEGRATION_RUNS.iter().for_each(|args| drop(scope.spawn(|| one(program, &without_proven(args)))))
                }
                Which::Fast => drop(scope.spawn(|| one(program, &["--exact", SMOKE]))),
            }
        }
        for _ in 0..OTHERS_AT_ONCE {
            scope.spawn(|| std::iter::from_fn(next).for_each(|program| one(program, &[])));
        }
    });
    if which == Which::All {
        integration.iter().for_each(|program| one(program, ALONE));
        alone.iter().for_each(|program| one(program, &[]));
    }
    let again = again.into_inner().unwrap_or_else(PoisonError::into_inner);
    let again = programs.iter().flat_map(|program| {
        let of = again.iter().filter(|(path, _)| *path == program.path);
        of.flat_map(move |(_, tests)| tests.iter().map(move |test| (program, test.as_str())))
    });
    once_more::run(&again.collect::<Vec<_>>(), |program, test| run(program, &["--exact", test]).passed(), fails);
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    anyhow::ensure!(failed.is_empty(), "tests failed in {}", failed.join(", "));
    Ok(())
}

/// Adds that [`PROVEN`] is left out.
fn without_proven<'a>(args: &[&'a str]) -> Vec<&'a str> {
    args.iter().copied().chain(PROVEN.into_iter().flat_map(|name| ["--skip", name])).collect()
}

fn is_integration(program: &Program) -> bool {
    program.name == "it" && program.dir.ends_with(INTEGRATION)
}

/// Whether a program's tests need neither minutes nor servers, which only the test kit starts.
fn is_fast(program: &Program) -> bool {
    let package = std::fs::read_to_string(program.dir.join("Cargo.toml")).unwrap_or_default();
    !package.contains("gimbal-testkit") && !SLOW.iter().any(|slow| package.contains(&format!("name = \"{slow}\"")))
}

/// What came of a program.
enum Outcome {
    Passed,
    /// It failed, after it wrote this to its standard output.
    Failed(String),
}

impl Outcome {
    fn passed(&self) -> bool {
        matches!(self, Self::Passed)
    }
}

/// Runs one program and prints its output as a whole, followed by how long it took.
fn outcome(name: &str, args: &[&str], mut command: Command) -> Outcome {
    let start = Instant::now();
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("cannot run {name}: {error}");
            return Outcome::Failed(String::new());
        }
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let summary = said.lines().find(|line| line.starts_with("test result")).unwrap_or_default();
    let name = [&[name], args].concat().join(" ");
    eprintln!("{:>8}  {name}: {summary}", seconds(start.elapsed()));
    // A test that is skipped prints such a line.
    let errors = String::from_utf8_lossy(&output.stderr);
    errors.lines().filter(|line| line.starts_with("SKIPPED")).for_each(|line| eprintln!("{line}"));
    if output.status.success() {
        return Outcome::Passed;
    }
    eprintln!("{said}\n{errors}");
    Outcome::Failed(said.into_owned())
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Builds what is not built yet, and returns every test program.
fn programs(which: Which) -> anyhow::Result<Vec<Program>> {
    let mut command = shell::cargo(&["test", "--no-run", "--message-format=json-render-diagnostics"]);
    command.args(which.packages());
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
pub fn bin_dir() -> anyhow::Result<PathBuf> {
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

    #[test]
    fn every_integration_test_is_in_one_run() {
        let modules = std::fs::read_to_string(shell::root().join(INTEGRATION).join("tests/it/main.rs")).unwrap();
        assert!(modules.contains("mod alone;") && modules.contains("mod openstack;"));
        let of = |name: &str| {
            let takes = |args: &&[&str]| {
                let (skipped, wanted): (Vec<&str>, Vec<&str>) =
                    args.iter().filter(|arg| !arg.starts_with("--test")).partition(|arg| arg.starts_with("--skip="));
                let skips = skipped.iter().any(|arg| name.contains(arg.trim_start_matches("--skip=")));
                !skips && (wanted.is_empty() || wanted.iter().any(|arg| name.contains(arg)))
            };
            INTEGRATION_RUNS.iter().chain([&ALONE]).filter(|args| takes(args)).count()
        };
        for name in ["openstack::roles::a", "openstack_fake::a", "alone::a", "mirror::a"] {
            assert_eq!(of(name), 1, "{name}");
        }
    }
}
