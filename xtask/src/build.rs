//! Builds Gimbal's binaries, for the demo and for tests.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use gimbal_assets::Asset;

use crate::shell;

/// The services: packages with a binary of the same name.
pub const SERVICES: [&str; 6] = [
    "gimbal-writer",
    "gimbal-kubernetes-discoverer",
    "gimbal-openstack-discoverer",
    "gimbal-kuryr-controller",
    "gimbal-openstack-writer",
    "gimbal-operator",
];

/// A profile that builds quickly and is close to a release.
const PROFILE: &str = "quick";

/// Builds our own program `ours` with these programs and, concurrently, the servers that are missing. Returns the
/// programs' folder: `GIMBAL_BIN_DIR`, if that is set. Reports the remaining builds whenever one is ready.
pub fn all(ours: &str, programs: &[&str], servers: &[Asset]) -> anyhow::Result<PathBuf> {
    let given = std::env::var_os("GIMBAL_BIN_DIR").map(PathBuf::from);
    if let Some(dir) = &given {
        for name in programs {
            anyhow::ensure!(dir.join(name).is_file(), "GIMBAL_BIN_DIR has no {name}: build it, or unset the variable");
        }
    }
    let programs = if given.is_some() { &[] } else { programs };
    let built = [&[ours], programs].concat();
    let (there, missing): (Vec<Asset>, Vec<Asset>) = servers.iter().partition(|server| server.is_there());
    for server in there {
        eprintln!("found {} {} in {}", server.name(), server.version(), server.path()?.display());
    }
    let progress = Progress::new(missing.iter().map(|server| server.name()).chain([&*built.join(" and ")]));
    std::thread::scope(|scope| {
        // Two Go builds share most of their packages, so they run one after the other, beside cargo.
        let servers =
            scope.spawn(|| missing.iter().try_for_each(|server| server.path().map(|_| progress.done(server.name()))));
        let ours = build(&built).map(|()| progress.done(&built.join(" and ")));
        let servers = servers.join().unwrap_or_else(|_| Err(anyhow::anyhow!("building a server panicked")));
        ours.and(servers)
    })?;
    given.map_or_else(bin_dir, Ok)
}

/// What is still being built.
struct Progress {
    left: Mutex<BTreeSet<String>>,
    all: usize,
}

impl Progress {
    fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let left: BTreeSet<String> = names.map(str::to_owned).collect();
        eprintln!("building {} (the first time takes minutes)", list(&left));
        Self { all: left.len(), left: Mutex::new(left) }
    }

    /// Reports that one is ready, and what is left.
    fn done(&self, name: &str) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.remove(name);
        if !left.is_empty() {
            eprintln!("{} of {} are ready; left: {}", self.all - left.len(), self.all, list(&left));
        }
    }
}

fn list(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn build(programs: &[&str]) -> anyhow::Result<()> {
    let packages = programs.iter().flat_map(|name| ["--package", name]);
    let args: Vec<&str> = ["build", "--profile", PROFILE, "--bins"].into_iter().chain(packages).collect();
    shell::run(shell::cargo(&args))
}

/// Returns the folder of the programs that [`all`] builds.
pub fn bin_dir() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's own path")?;
    let target = own.parent().and_then(|profile| profile.parent()).context("this program is in no target folder")?;
    Ok(target.join(PROFILE))
}
