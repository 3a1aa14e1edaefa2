//! Our binaries, for the demo and for tests.

use std::path::PathBuf;

use anyhow::Context as _;

use crate::shell;

/// The services, each a package with a binary of its name.
const SERVICES: [&str; 3] = ["gimbal-writer", "gimbal-kubernetes-discoverer", "gimbal-openstack-discoverer"];

/// Quick to build, close to a release.
const PROFILE: &str = "quick";

/// Builds these programs, each a package of its name, and returns their paths; `GIMBAL_BIN_DIR` may name a folder that has
/// them.
pub fn programs<const N: usize>(names: [&str; N]) -> anyhow::Result<[PathBuf; N]> {
    if let Some(dir) = std::env::var_os("GIMBAL_BIN_DIR").map(PathBuf::from) {
        for name in names {
            anyhow::ensure!(dir.join(name).is_file(), "GIMBAL_BIN_DIR has no {name}: build it, or unset the variable");
        }
        return Ok(names.map(|name| dir.join(name)));
    }
    eprintln!("building {} (the first time takes minutes)", names.join(" and "));
    let packages = names.into_iter().flat_map(|name| ["--package", name]);
    let args: Vec<&str> = ["build", "--profile", PROFILE, "--bins"].into_iter().chain(packages).collect();
    shell::run(shell::cargo(&args))?;
    let own = std::env::current_exe().context("cannot find this program's own path")?;
    let target = own.parent().and_then(|profile| profile.parent()).context("this program is in no target folder")?;
    Ok(names.map(|name| target.join(PROFILE).join(name)))
}

/// Builds all services as tests run them.
pub fn debug() -> anyhow::Result<()> {
    let packages = SERVICES.into_iter().flat_map(|name| ["--package", name]);
    let args: Vec<&str> = ["build", "--bins"].into_iter().chain(packages).collect();
    shell::run(shell::cargo(&args))
}
