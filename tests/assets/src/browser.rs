//! A browser, and the checks of accessibility that run in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use super::{cache, debian, once, say};

const AXE: &str = "4.14.1";
const CHROMIUM: &str = "/usr/bin/chromium";

/// Implements [`super::chromium`].
pub(super) fn chromium() -> anyhow::Result<PathBuf> {
    if !Path::new(CHROMIUM).is_file() {
        debian::install(&["chromium"])?;
    }
    Ok(CHROMIUM.into())
}

/// Implements [`super::axe`].
pub(super) fn axe() -> anyhow::Result<PathBuf> {
    let path = cache()?.join(format!("axe-core-{AXE}")).join("axe.min.js");
    once(&path, |work| {
        say("downloading axe-core once");
        run(Command::new("npm").args(["pack", "--silent", &format!("axe-core@{AXE}")]).current_dir(work))?;
        let archive = format!("axe-core-{AXE}.tgz");
        let options = ["--extract", "--gzip", "--strip-components=1", "--file", &archive, "package/axe.min.js"];
        run(Command::new("tar").args(options).current_dir(work))
    })?;
    Ok(path)
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let out = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {program}"))?;
    let said = String::from_utf8_lossy(&out.stderr);
    anyhow::ensure!(out.status.success(), "{program} failed: {}", said.trim());
    Ok(())
}
