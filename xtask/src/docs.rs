//! `cargo xtask docs`: what is generated, written again.

use crate::{ci, shell};

#[derive(clap::Args)]
pub struct Args {
    /// Let the counts of words rise, too: after files were moved.
    #[arg(long)]
    raise: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    // Tests compare the page with the tables, and dashboards with what makes them, so that xtask need not link the programs.
    let tests = ["the_page_of_metrics_is_what_the_programs_declare", "dashboards_are_as_they_are_made"];
    let mut metrics = shell::cargo(&["test", "-q", "-p", "gimbal-metrics-page", "--lib", "--"]);
    metrics.args(tests);
    metrics.env("GIMBAL_WRITE_DOCS", "1");
    shell::run(metrics)?;
    ci::words::write(args.raise)
}
