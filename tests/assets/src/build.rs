//! Builds Go programs, with visible progress.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::{Asset, lock, module};

/// How a program is built.
pub(super) enum Recipe {
    /// From `tests/assets/go.mod`, whose checksums pin all dependencies.
    Module {
        /// Package to build.
        package: String,
        /// More flags for the linker.
        stamp: String,
    },
    /// From the folder of its own module, whose checksums pin all dependencies.
    Own {
        /// The module.
        module: &'static str,
        /// Package to build, from the module's folder.
        package: &'static str,
    },
    /// By `go install`, which looks checksums up.
    Install {
        /// `package@version`.
        package: String,
        /// Tags of the build, which leave parts out.
        tags: &'static str,
    },
}

/// Returns the folder of `go.mod`.
pub(super) fn module_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Builds `asset` to `path`.
pub(super) fn build(asset: Asset, recipe: &Recipe, path: &Path) -> anyhow::Result<()> {
    let what = format!("{} {}", asset.name(), asset.version());
    let has_go = Command::new("go").arg("version").stdout(Stdio::null()).status();
    anyhow::ensure!(
        has_go.is_ok_and(|status| status.success()),
        "{what} is not in {} and there is no `go` to build it: install Go 1.26.7 or newer, or name a folder that has the \
         program in KUBEBUILDER_ASSETS (kube-apiserver, etcd) or GIMBAL_CACHE_DIR",
        path.display()
    );
    lock::once(path, |work| {
        say(&format!("building {what} once; this takes minutes, and the result is kept in {}", path.display()));
        let mut command = Command::new("go");
        command.env("CGO_ENABLED", "0");
        match recipe {
            Recipe::Own { module, package } => {
                command.current_dir(module::folder(module, asset.version())?);
                command.env("GOFLAGS", "-mod=readonly -buildvcs=false");
                command
                    .args(["build", "-trimpath", "-ldflags", "-s -w", "-o"])
                    .arg(work.join(asset.name()))
                    .arg(package);
            }
            Recipe::Module { package, stamp } => {
                command.current_dir(module_dir()).env("GOFLAGS", "-mod=readonly -buildvcs=false");
                command.args(["build", "-trimpath", "-ldflags", &format!("-s -w {stamp}"), "-o"]);
                command.arg(work.join(asset.name())).arg(package);
            }
            Recipe::Install { package, tags } => {
                command.current_dir(work).env("GOBIN", work).env_remove("GOFLAGS");
                command.args(["install", "-trimpath", "-ldflags", "-s -w", "-tags", tags, package]);
            }
        }
        run(command, &what)
    })
}

fn run(mut command: Command, what: &str) -> anyhow::Result<()> {
    let start = Instant::now();
    let mut child = command.stdin(Stdio::null()).spawn().context("cannot start go")?;
    let mut told = start;
    let status = loop {
        if let Some(status) = child.try_wait().context("cannot wait for go")? {
            break status;
        }
        if told.elapsed() >= Duration::from_secs(15) {
            say(&format!("still building {what}, {} s", start.elapsed().as_secs()));
            told = Instant::now();
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    anyhow::ensure!(status.success(), "go could not build {what}: see its output above");
    say(&format!("built {what} in {} s", start.elapsed().as_secs()));
    Ok(())
}

/// Writes straight to standard error: `eprintln!` in a test is shown only after it failed, and a build that takes
/// minutes must not look like a test that hangs.
pub fn say(line: &str) {
    writeln!(std::io::stderr(), "gimbal: {line}").ok();
}
