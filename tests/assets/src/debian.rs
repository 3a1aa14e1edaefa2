//! Installs system packages, on Debian and as root.

use std::process::{Command, Stdio};

use anyhow::Context as _;

/// Implements [`super::debian`].
pub(super) fn install(packages: &[&str]) -> anyhow::Result<()> {
    super::say(&format!("installing {}", packages.join(" and ")));
    let install = [&["install", "--no-install-recommends"], packages].concat();
    apt(&install).or_else(|_| {
        update()?;
        apt(&install)
    })
}

/// Reads the package lists again; only root may.
pub(super) fn update() -> anyhow::Result<()> {
    apt(&["update"])
}

fn apt(args: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").args(["-qq", "-y", "-o", "DPkg::Lock::Timeout=300"]);
    let out = command.args(args).stdin(Stdio::null()).output().context("cannot run apt-get")?;
    let said = String::from_utf8_lossy(&out.stderr);
    anyhow::ensure!(out.status.success(), "apt-get {} failed: {}", args.join(" "), said.trim());
    Ok(())
}
