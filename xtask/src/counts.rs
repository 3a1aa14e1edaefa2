//! `cargo xtask counts`: what one step of each pure part costs, in instructions and allocations, against what is kept.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::shell;

mod compare;
mod kept;
mod measure;

use compare::{Comparison, compare};
use kept::Kept;

const FILE: &str = "tests/counts/counts.json";
const ACCEPT: &str = "cargo xtask counts --accept";

#[derive(clap::Args)]
pub struct Args {
    /// Keep what is counted now, in `tests/counts/counts.json`.
    #[arg(long)]
    accept: bool,
    /// Only the cases whose name contains this.
    #[arg(long)]
    only: Option<String>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let valgrind = measure::valgrind()?;
    let now = measure::measure(&valgrind, args.only.as_deref())?;
    anyhow::ensure!(!now.counts.is_empty(), "no case's name contains {:?}", args.only.as_deref().unwrap_or_default());
    let file = shell::root().join(FILE);
    let before = Kept::read(&file)?;
    let comparison = compare(&before, &now, args.only.is_none());
    eprintln!("{}", comparison.table());
    if args.accept {
        return accept(before, now, args.only.is_none(), &file);
    }
    judge(&comparison)
}

/// The step of `cargo xtask test`. Without valgrind, and where it cannot be installed, the step is skipped with a
/// message; on CI that is an error.
pub fn step() -> anyhow::Result<()> {
    match measure::valgrind() {
        Ok(_) => run(&Args { accept: false, only: None }),
        Err(error) if std::env::var_os("CI").is_some() => Err(error),
        Err(error) => {
            eprintln!("SKIPPED: {error:#}");
            Ok(())
        }
    }
}

fn judge(comparison: &Comparison) -> anyhow::Result<()> {
    for note in &comparison.notes {
        eprintln!("{note}");
    }
    if comparison.is_better() {
        eprintln!("some cases cost less than what is kept: `{ACCEPT}` keeps the gain from being lost unseen");
    }
    anyhow::ensure!(
        comparison.faults.is_empty(),
        "{}\nIf that is meant, `{ACCEPT}` keeps the new counts; say in the commit why.",
        comparison.faults.join("\n")
    );
    Ok(())
}

/// Accepts the present counts. Unless `all` cases were counted, the others keep their accepted counts.
fn accept(before: Kept, now: Kept, all: bool, file: &Path) -> anyhow::Result<()> {
    let mut counts = if all { Default::default() } else { before.counts };
    anyhow::ensure!(
        all || before.with == now.with,
        "the others are of {}, not {}: accept all together",
        before.with,
        now.with
    );
    counts.extend(now.counts);
    Kept { with: now.with, counts }.write(file)?;
    eprintln!("kept in {FILE}");
    Ok(())
}

/// Returns the path of gungraun's runner, of the same version as the library.
fn runner() -> anyhow::Result<PathBuf> {
    let lock = shell::root().join("Cargo.lock");
    let lock = std::fs::read_to_string(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    let version = locked(&lock, "gungraun").context("Cargo.lock names no gungraun")?;
    crate::assets::cargo_tool("gungraun-runner", version)
}

/// Returns the version of a package in a lock file.
fn locked<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let (_, after) = lock.split_once(&format!("name = \"{package}\"\nversion = \""))?;
    after.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_version_is_found_by_the_whole_name() {
        let lock =
            "[[package]]\nname = \"a-b\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"a\"\nversion = \"2.0.0\"\n";
        assert_eq!(locked(lock, "a"), Some("2.0.0"));
        assert_eq!(locked(lock, "b"), None);
    }
}
