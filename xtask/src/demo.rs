//! `cargo xtask demo`: builds the demo and, side by side, the programs and servers that it starts.

use gimbal_assets::Asset;

use crate::{build, shell};

#[derive(clap::Args)]
pub struct Args {
    /// For the demo; `--help` among them tells what there is
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

impl Args {
    /// Returns what a person would have given as these arguments.
    pub fn new(args: &[&str]) -> Self {
        Self { args: args.iter().map(ToString::to_string).collect() }
    }
}

const DEMO: &str = "gimbal-demo";
/// Both programs, and what asks them.
const DISCOVERY: [&str; 3] = ["gimbal-writer", "gimbal-kubernetes-discoverer", "gimbalctl"];
/// The way back, and the way that closes the circle.
const KURYR: [&str; 4] =
    ["gimbal-kuryr-controller", "gimbal-openstack-writer", "gimbal-openstack-discoverer", "gimbal-writer"];

pub fn run(args: &Args) -> anyhow::Result<()> {
    let (programs, servers) = needed(&args.args);
    let dir = build::all(DEMO, programs, servers)?;
    let mut command = shell::command(build::bin_dir()?.join(DEMO));
    command.args(&args.args).env("GIMBAL_BIN_DIR", dir);
    shell::run(command)
}

/// Returns the programs and servers that the demo starts with these arguments.
fn needed(args: &[String]) -> (&'static [&'static str], &'static [Asset]) {
    let has = |flag: &str| args.iter().any(|arg| arg == flag || arg.starts_with(&format!("{flag}=")));
    if has("--help") || has("-h") {
        (&[], &[])
    } else if has("--kuryr") {
        (&KURYR, &[Asset::Grpcurl, Asset::Etcd, Asset::ApiServer])
    } else if has("--openstack") {
        (&["gimbal-writer", "gimbal-openstack-discoverer"], &[Asset::Grpcurl, Asset::Etcd, Asset::ApiServer])
    } else if has("--source-kubeconfig") && has("--gimbal-kubeconfig") {
        (&DISCOVERY, &[Asset::Grpcurl])
    } else {
        (&DISCOVERY, &[Asset::Grpcurl, Asset::Etcd, Asset::ApiServer])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_what_is_started() {
        let needed = |args: &[&str]| needed(&args.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(needed(&["--once"]).1.len(), 3);
        assert!(needed(&["--openstack", "--once"]).0.contains(&"gimbal-openstack-discoverer"));
        assert!(needed(&["--kuryr", "--once"]).0.contains(&"gimbal-kuryr-controller"));
        assert_eq!(needed(&["--source-kubeconfig=a", "--gimbal-kubeconfig", "b"]).1, [Asset::Grpcurl]);
        assert!(needed(&["--help"]).0.is_empty());
    }
}
