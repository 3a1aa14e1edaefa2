//! `cargo xtask images`: an OCI image of each program, from binaries that are built already.
//!
//! An image has the program, the shared libraries of this system that it needs, certificates of public authorities, and nothing
//! else: no shell and no package manager. The same binaries and libraries make the same bytes.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context as _;
use clap::Parser;

mod layers;
mod layout;
mod libraries;
mod materials;
#[cfg(test)]
mod tests;

/// Assembles OCI images of Gimbal's programs.
#[derive(Parser)]
struct Args {
    /// Folder of the built programs.
    #[arg(long)]
    bins: PathBuf,
    /// Folder for the images: an OCI layout, and a list of what is in it, for each program.
    #[arg(long)]
    out: PathBuf,
    /// Features that programs were built with, each as PROGRAM/FEATURE; the materials are those of these.
    #[arg(long, value_delimiter = ',')]
    features: Vec<String>,
    /// Programs; each has a package of the same name.
    #[arg(required = true)]
    programs: Vec<String>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    for program in &args.programs {
        match build(program, &args.bins, &args.features, &args.out) {
            Ok(digest) => println!("{program} {digest}"),
            Err(error) => {
                eprintln!("error: {program}: {error:#}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Writes the image of a program to `out/PROGRAM`, and what is in it to `out/PROGRAM.cdx.json`. Returns the image's digest.
fn build(program: &str, bins: &Path, features: &[String], out: &Path) -> anyhow::Result<String> {
    let binary = bins.join(program);
    let libraries = libraries::of(&binary)?;
    let source = Source::of_checkout()?;
    let base = layers::base(&libraries)?;
    let own = layers::own(program, &binary)?;
    let folder = out.join(program);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let digest = layout::write(&folder, program, &source, &[base, own])?;
    let list = materials::list(program, features, &libraries, &source)?;
    let file = out.join(format!("{program}.cdx.json"));
    std::fs::write(&file, list).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(digest)
}

/// What an image says of its source.
struct Source {
    version: &'static str,
    /// The commit, with `-dirty` after it where files differ from it.
    revision: String,
    /// When the commit was made, as in RFC 3339: an image has no other time, for it would differ with each build.
    created: String,
}

impl Source {
    fn of_checkout() -> anyhow::Result<Self> {
        let commit = output(git(&["log", "-1", "--format=%H"]))?;
        let mut date = git(&["log", "-1", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", "--format=%cd"]);
        date.env("TZ", "UTC");
        let changed = output(git(&["status", "--porcelain", "--untracked-files=no"]))?;
        let dirty = if changed.trim().is_empty() { "" } else { "-dirty" };
        let created = output(date)?.trim().to_owned();
        Ok(Self { version: env!("CARGO_PKG_VERSION"), revision: format!("{}{dirty}", commit.trim()), created })
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn git(args: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.current_dir(root()).args(args);
    git
}

/// Runs a command and returns its output.
fn output(mut command: Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{command:?} failed ({}): {}", output.status, said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
