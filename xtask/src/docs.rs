//! `cargo xtask docs`: what is generated, written again.

use crate::{ci, shell};

#[derive(clap::Args)]
pub struct Args {
    /// Let the counts of words rise, too: after files were moved.
    #[arg(long)]
    raise: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    // A test compares the page with the tables, so that xtask need not link the programs.
    let test = "the_page_of_metrics_is_what_the_programs_declare";
    let mut metrics = shell::cargo(&["test", "-q", "-p", "gimbal-metrics-page", "--lib", test]);
    metrics.env("GIMBAL_WRITE_DOCS", "1");
    shell::run(metrics)?;
    ci::words::write(args.raise)
}
