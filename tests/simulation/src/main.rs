//! Runs many random seeds by hand: `cargo run -p gimbal-simulation --profile quick -- --backends 1000 --seeds 100`. A
//! failure is printed with its random seed and the fewest troubles that still cause it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use gimbal_simulation::{Plan, Report, run};

#[derive(Parser)]
#[command(about = "Simulates many backends, two writers and an API server, with everything that can go wrong")]
struct Args {
    /// How many backends.
    #[arg(long, default_value_t = 1000)]
    backends: usize,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds, one after the other.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// How long the storm lasts, in seconds of virtual time.
    #[arg(long, default_value_t = 240)]
    storm: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut content = None;
    for seed in args.seed..args.seed.saturating_add(args.seeds) {
        let plan = Plan { storm: Duration::from_secs(args.storm), ..Plan::new(seed, args.backends) };
        let start = Instant::now();
        match run(&plan) {
            Ok(report) => {
                tell(seed, &report, start.elapsed());
                if *content.get_or_insert(report.content) != report.content {
                    eprintln!("seed {seed} ends with another content than the seeds before");
                    return ExitCode::FAILURE;
                }
            }
            Err(fault) => {
                eprintln!("seed {seed} fails: {fault}");
                let fewest = shrink(plan);
                eprintln!("it still does with {:?}: {}", fewest.troubles, run(&fewest).err().unwrap_or_default());
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Leaves out troubles as long as the run still fails.
fn shrink(mut plan: Plan) -> Plan {
    for trouble in plan.troubles.clone() {
        let troubles = plan.troubles.iter().copied().filter(|other| *other != trouble).collect();
        let fewer = Plan { troubles, ..plan.clone() };
        if run(&fewer).is_err() {
            plan = fewer;
        }
    }
    plan
}

fn tell(seed: u64, report: &Report, took: Duration) {
    let Report { trace, content, time, events, changes, writes, failed_writes, late_writes, .. } = report;
    println!(
        "seed {seed}: trace {trace:016x}, content {content:016x}, {} s of virtual time in {:.1} s, {events} events, {changes} changes, {writes} writes ({late_writes} late), {failed_writes} failed, {} leaders, {} lives, {} holds, longest queue {}, {:?}",
        time.as_secs(),
        took.as_secs_f64(),
        report.leaders,
        report.lives,
        report.holds,
        report.longest_queue,
        report.said,
    );
}
