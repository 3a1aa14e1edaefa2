//! `cargo xtask assets`.

use std::path::PathBuf;

use anyhow::Context as _;
use gimbal_assets::{Asset, NodeTools, cache, once};

use crate::shell;

const CARGO_DENY: &str = "0.20.2";
/// The OpenStack release of `tests/openstack/requirements.lock`.
const OPENSTACK: &str = "2026.1";

#[derive(clap::Args)]
pub struct Args {
    /// Keystone, Octavia and Neutron too, and the data that a testbed starts from.
    #[arg(long)]
    openstack: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    for asset in Asset::ALL.into_iter().chain(Asset::NODE) {
        show(asset.name(), asset.version(), &asset.path()?);
    }
    let tools = NodeTools::find()?;
    for (name, path) in [("runc", tools.runc), ("nft", tools.nft), ("network plug-ins", tools.plugins)] {
        show(name, "Debian's", &path);
    }
    show("pause", Asset::Kubelet.version(), &tools.pause);
    show("cargo-deny", CARGO_DENY, &cargo_deny()?);
    if args.openstack {
        show("openstack", OPENSTACK, &openstack()?);
    }
    Ok(())
}

fn show(name: &str, version: &str, path: &std::path::Path) {
    println!("{name:<24} {version:<8} {}", path.display());
}

/// Returns the path of cargo-deny, and builds it first if it is missing.
pub fn cargo_deny() -> anyhow::Result<PathBuf> {
    cargo_tool("cargo-deny", CARGO_DENY)
}

/// Returns the path of a crate's program of the same name, and builds it first if it is missing.
pub fn cargo_tool(name: &str, version: &str) -> anyhow::Result<PathBuf> {
    let path = cache()?.join(format!("{name}-{version}")).join(name);
    if path.is_file() {
        return Ok(path);
    }
    once(&path, |work| {
        eprintln!("gimbal: building {name} {version} once; this takes minutes");
        let mut install = shell::cargo(&["install", name, "--locked", "--version", version, "--root"]);
        install.arg(work).env("CARGO_TARGET_DIR", work.join("target"));
        shell::run(install)?;
        std::fs::rename(work.join("bin").join(name), work.join(name)).with_context(|| format!("cargo made no {name}"))
    })?;
    Ok(path)
}

/// The program of the test kit that installs and prepares OpenStack.
pub const PREPARE: &str = "prepare_openstack";

/// Installs and prepares OpenStack if needed, and returns the path of the initial data of a testbed.
fn openstack() -> anyhow::Result<PathBuf> {
    let path = shell::output(shell::cargo(&["run", "--package", "gimbal-testkit", "--example", PREPARE]))?;
    Ok(path.trim().into())
}
