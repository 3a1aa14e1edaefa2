//! `cargo xtask bench`: the benchmarks, and everything they start, in a profile close to a release.

use crate::shell;

#[derive(clap::Args)]
pub struct Args {
    /// For the benchmarks; `--help` among them tells what there is
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut command = shell::cargo(&["run", "--profile", "quick", "--package", "gimbal-bench", "--"]);
    command.args(&args.args);
    shell::run(command)
}
