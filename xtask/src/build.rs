//! Builds Gimbal's binaries, for the demo and for tests.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use gimbal_testkit::assets::Asset;

use crate::shell;

/// The services: packages with a binary of the same name.
const SERVICES: [&str; 3] = ["gimbal-writer", "gimbal-kubernetes-discoverer", "gimbal-openstack-discoverer"];

/// A profile that builds quickly and is close to a release.
const PROFILE: &str = "quick";

/// Builds these programs and, concurrently, the servers that are missing. Returns the programs' folder:
/// `GIMBAL_BIN_DIR`, if that is set. Reports the remaining builds whenever one is ready.
pub fn all(programs: &[&str], servers: &[Asset]) -> anyhow::Result<PathBuf> {
    let given = std::env::var_os("GIMBAL_BIN_DIR").map(PathBuf::from);
    if let Some(dir) = &given {
        for name in programs {
            anyhow::ensure!(dir.join(name).is_file(), "GIMBAL_BIN_DIR has no {name}: build it, or unset the variable");
        }
    }
    let missing: Vec<Asset> = servers.iter().copied().filter(|server| !server.is_there()).collect();
    let ours = given.is_none().then(|| programs.join(" and "));
    let left: BTreeSet<&str> = missing.iter().map(|server| server.name()).chain(ours.as_deref()).collect();
    if left.is_empty() {
        return given.map_or_else(bin_dir, Ok);
    }
    eprintln!("building {} (the first time takes minutes)", list(&left));
    let left = Mutex::new(left);
    let done = |name: &str| {
        let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
        left.remove(name);
        if !left.is_empty() {
            eprintln!("{name} is ready; left: {}", list(&left));
        }
    };
    std::thread::scope(|scope| {
        // Two Go builds share most of their packages, so they run one after the other, beside cargo.
        let servers = scope.spawn(|| missing.iter().try_for_each(|server| server.path().map(|_| done(server.name()))));
        let ours = ours.as_deref().map_or(Ok(()), |ours| build(programs).map(|()| done(ours)));
        let servers = servers.join().unwrap_or_else(|_| Err(anyhow::anyhow!("building a server panicked")));
        ours.and(servers)
    })?;
    given.map_or_else(bin_dir, Ok)
}

fn list(names: &BTreeSet<&str>) -> String {
    names.iter().copied().collect::<Vec<_>>().join(", ")
}

fn build(programs: &[&str]) -> anyhow::Result<()> {
    let packages = programs.iter().flat_map(|name| ["--package", name]);
    let args: Vec<&str> = ["build", "--profile", PROFILE, "--bins"].into_iter().chain(packages).collect();
    shell::run(shell::cargo(&args))
}

fn bin_dir() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's own path")?;
    let target = own.parent().and_then(|profile| profile.parent()).context("this program is in no target folder")?;
    Ok(target.join(PROFILE))
}

/// Builds all services as tests run them.
pub fn debug() -> anyhow::Result<()> {
    let packages = SERVICES.into_iter().flat_map(|name| ["--package", name]);
    let args: Vec<&str> = ["build", "--bins"].into_iter().chain(packages).collect();
    shell::run(shell::cargo(&args))
}
