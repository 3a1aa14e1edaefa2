//! The project's benchmarks: every figure is a ratio to what the API server does without Gimbal, in the same run, on
//! real servers. `cargo xtask bench` builds and runs this program; `docs/benchmarks.md` explains what the figures mean
//! and what they do not show.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;

mod backends;
mod change;
mod content;
mod discovery;
mod figure;
mod fill;
mod flame;
mod flood;
mod inspection;
mod machine;
mod model_cloud;
mod plot;
mod proc;
mod protobuf;
mod raw;
mod relay;
mod results;
mod scenarios;
mod sight;
mod simulated;
mod subject;
mod sync;
mod table;
mod times;
mod verb;
mod xds;

/// Arguments that all scenarios share.
#[derive(Debug, Clone, clap::Args)]
pub struct Context {
    /// Of the sizes that the figures are meant for: 0.1 takes a tenth of the objects
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// How often a scenario that can be repeated is repeated; medians are reported
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// How long a scenario that lasts may last, in minutes
    #[arg(long, default_value_t = 2.0)]
    minutes: f64,
    /// Only these rows of `kuryr`; its other results that are there are kept
    #[arg(long, value_name = "ROW,...", value_delimiter = ',')]
    only: Vec<scenarios::Row>,
}

impl Context {
    /// Returns `whole` at the requested scale, at least 1.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub fn scaled(&self, whole: usize) -> usize {
        ((whole as f64 * self.scale).round() as usize).max(1)
    }
}

#[derive(Parser)]
#[command(name = "cargo xtask bench", about = "Measures, on real servers")]
struct Args {
    #[command(flatten)]
    context: Context,
    /// Where results.json, results.md and the plots are written; results of other scenarios that are there are kept
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
    /// Which scenarios; all, if none is named
    scenarios: Vec<scenarios::Name>,
}

impl Args {
    /// Returns the arguments with which the program measures only one scenario.
    fn only(&self, name: scenarios::Name) -> Vec<String> {
        let Context { scale, runs, minutes, only: _ } = &self.context;
        let out = self.out.display();
        let options = [format!("--scale={scale}"), format!("--runs={runs}"), format!("--minutes={minutes}")];
        options.into_iter().chain([format!("--out={out}"), name.to_string()]).collect()
    }
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    let mut results = results::Results::read(&args.out)?;
    for name in scenarios::Name::chosen(&args.scenarios) {
        if !name.is_here(&args.only(name))? {
            results = results::Results::read(&args.out)?;
            continue;
        }
        eprintln!("\n=== {name}");
        // Each scenario has a runtime of its own, so that no task is left when the next one begins.
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
        let before = machine::Machine::read();
        let outcome = runtime.block_on(name.run(&args.context)).with_context(|| format!("scenario {name}"))?;
        runtime.shutdown_background();
        print!("{}", table::text(&outcome.figures));
        results.put(name, &args.context, before, outcome, &args.out)?;
        results.write(&args.out)?;
    }
    eprintln!("\nresults are in {}", args.out.display());
    Ok(())
}
