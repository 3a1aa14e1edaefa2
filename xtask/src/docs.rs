//! `cargo xtask docs`: what is generated, written again.

use crate::{ci, shell};

#[derive(clap::Args)]
pub struct Args {
    /// Let the counts of words rise, too: after files were moved.
    #[arg(long)]
    raise: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    // The writer's own test compares the page with its table of metrics, so that xtask need not link the writer.
    let mut metrics =
        shell::cargo(&["test", "-q", "-p", "gimbal-writer", "--lib", "the_page_of_metrics_is_this_table"]);
    metrics.env("GIMBAL_WRITE_DOCS", "1");
    shell::run(metrics)?;
    ci::words::write(args.raise)
}
