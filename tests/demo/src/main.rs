//! `cargo xtask demo`: two clusters, one discoverer and one writer, and how fast changes in one cluster arrive in the
//! other.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

mod fill;
mod kuryr;
mod objects;
mod openstack;
mod processes;
mod report;
mod sight;
mod stage;
mod steps;
mod view;

use report::Report;
use stage::Stage;

/// The backend's name.
const BACKEND: &str = "demo";

/// Two clusters, a discoverer and a writer, and how fast changes in one cluster arrive in the other.
#[derive(Parser)]
#[command(name = "cargo xtask demo")]
struct Args {
    /// End by itself, with an error if anything is not as it should be.
    #[arg(long)]
    once: bool,
    /// A real OpenStack cloud as the source, started for the demo.
    #[arg(long, conflicts_with_all = ["source_kubeconfig", "gimbal_kubeconfig"])]
    openstack: bool,
    /// The way back: Services of a cluster become load balancers of a real OpenStack cloud, whose addresses answer.
    #[arg(long, conflicts_with_all = ["openstack", "source_kubeconfig", "gimbal_kubeconfig"])]
    kuryr: bool,
    /// A cluster of yours as the source. Only namespaces that the demo makes (gimbal-demo-*) are touched, and removed
    /// at the end.
    #[arg(long, value_name = "FILE")]
    source_kubeconfig: Option<PathBuf>,
    /// A cluster of yours as the Gimbal cluster; as above.
    #[arg(long, value_name = "FILE")]
    gimbal_kubeconfig: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match demo(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn demo(args: &Args) -> anyhow::Result<()> {
    let mut report = Report::default();
    if args.openstack {
        return unless_interrupted(args, Box::pin(openstack::play(&mut report, args.once))).await;
    }
    if args.kuryr {
        return unless_interrupted(args, Box::pin(kuryr::play(&mut report, args.once))).await;
    }
    let mut stage = Stage::build(args.source_kubeconfig.as_deref(), args.gimbal_kubeconfig.as_deref()).await?;
    report.title("source", &stage.source.describe());
    report.title("gimbal cluster", &stage.gimbal.describe());
    // From here on, a cluster of the user is restored in any case.
    let result = unless_interrupted(args, play(args, &mut stage, &mut report)).await;
    let result = result.map_err(|error| error.context(stage.processes.logs()));
    let cleaned = stage.clean().await;
    result.and(cleaned)
}

/// Plays until the end, or until a person ends it.
async fn unless_interrupted(args: &Args, play: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::select! {
        result = play => result,
        signal = asked_to_end() => signal.and_then(|()| {
            anyhow::ensure!(!args.once, "interrupted before its end");
            Ok(())
        }),
    }
}

/// Waits for Ctrl-C or SIGTERM.
async fn asked_to_end() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed.context("cannot wait for Ctrl-C"),
        _ = terminate.recv() => Ok(()),
    }
}

async fn play(args: &Args, stage: &mut Stage, report: &mut Report) -> anyhow::Result<()> {
    steps::all(stage, report).await?;
    report.table(&stage.target().await?);
    report.times();
    for (what, line) in stage.hints()? {
        report.hint(what, &line);
    }
    if !args.once {
        report.note("everything keeps running: change the source and look; Ctrl-C ends it");
        std::future::pending::<()>().await;
    }
    Ok(())
}
