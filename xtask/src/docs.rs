//! `cargo xtask docs`: what is generated, written again.

use crate::ci;

#[derive(clap::Args)]
pub struct Args {
    /// Let the counts of words rise, too: after files were moved.
    #[arg(long)]
    raise: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    ci::words::write(args.raise)
}
