//! `cargo xtask bench`: the benchmarks, and everything they start, in a profile close to a release.

use crate::{build, shell};

#[derive(clap::Args)]
pub struct Args {
    /// For the benchmarks; `--help` among them tells what there is
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

const BENCH: &str = "gimbal-bench";
/// What the scenarios start. All of them together are built faster than each when it is needed.
const PROGRAMS: [&str; 4] =
    ["gimbal-writer", "gimbal-kubernetes-discoverer", "gimbal-kuryr-controller", "gimbal-openstack-writer"];

pub fn run(args: &Args) -> anyhow::Result<()> {
    let help = args.args.iter().any(|arg| arg == "--help" || arg == "-h");
    let dir = build::all(BENCH, if help { &[] } else { &PROGRAMS }, &[])?;
    let mut command = shell::command(build::bin_dir()?.join(BENCH));
    command.args(&args.args).env("GIMBAL_BIN_DIR", dir);
    shell::run(command)
}
