//! Finds or builds Gimbal's binaries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;

/// Programs that send traces if they are built for it, as those that are released.
const TRACED: [&str; 3] = ["gimbal-writer", "gimbal-kubernetes-discoverer", "gimbal-openstack-discoverer"];

/// Returns the path of a binary of this workspace, which has the name of its package.
///
/// It is taken from `GIMBAL_BIN_DIR`, if that is set. Otherwise it is built, once in each process, in the profile of
/// this process: an existing binary may be older than the code under test.
///
/// # Errors
/// It is not in `GIMBAL_BIN_DIR`, or does not build.
pub fn binary(name: &str) -> anyhow::Result<PathBuf> {
    static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    if let Some(dir) = std::env::var_os("GIMBAL_BIN_DIR") {
        let path = Path::new(&dir).join(name);
        anyhow::ensure!(path.is_file(), "GIMBAL_BIN_DIR has no {name}: build it, or unset the variable");
        return Ok(path);
    }
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = built.get(name) {
        return Ok(path.clone());
    }
    let path = build(name)?;
    built.insert(name.to_owned(), path.clone());
    Ok(path)
}

fn build(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's own path")?;
    // target/<profile>/deps/<test>, or target/<profile>/<program>.
    let dir = own.parent().context("this program has no folder")?;
    let dir = if dir.ends_with("deps") { dir.parent().context("deps has no folder")? } else { dir };
    let target = dir.parent().context("the profile's folder has no parent")?;
    let profile = match dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(other) => other,
        None => anyhow::bail!("{} names no profile", dir.display()),
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command
        .args(["build", "--quiet", "--package", name, "--bin", name, "--profile", profile, "--target-dir"])
        .arg(target);
    if TRACED.contains(&name) {
        command.args(["--features", "otlp"]);
    }
    let status = command.status().context("cannot run cargo")?;
    anyhow::ensure!(status.success(), "cargo could not build {name}");
    Ok(dir.join(name))
}
