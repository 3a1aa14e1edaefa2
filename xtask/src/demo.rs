//! `cargo xtask demo`: two clusters, one discoverer and one writer, and how fast changes in one cluster arrive in the
//! other.

use std::path::PathBuf;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

mod fill;
mod objects;
mod openstack;
mod report;
mod sight;
mod stage;
mod steps;
mod view;

use report::Report;
use stage::Stage;

/// The backend's name.
const BACKEND: &str = "demo";

#[derive(clap::Args)]
pub struct Args {
    /// End by itself, with an error if anything is not as it should be.
    #[arg(long)]
    once: bool,
    /// A real OpenStack cloud as the source, started for the demo.
    #[arg(long, conflicts_with_all = ["source_kubeconfig", "gimbal_kubeconfig"])]
    openstack: bool,
    /// A cluster of yours as the source. Only namespaces that the demo makes (gimbal-demo-*) are touched, and removed
    /// at the end.
    #[arg(long, value_name = "FILE")]
    source_kubeconfig: Option<PathBuf>,
    /// A cluster of yours as the Gimbal cluster; as above.
    #[arg(long, value_name = "FILE")]
    gimbal_kubeconfig: Option<PathBuf>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(demo(args))
}

async fn demo(args: &Args) -> anyhow::Result<()> {
    let mut report = Report::default();
    if args.openstack {
        return tokio::select! {
            result = openstack::play(&mut report, args.once) => result,
            signal = asked_to_end() => signal.and_then(|()| {
                anyhow::ensure!(!args.once, "interrupted before its end");
                Ok(())
            }),
        };
    }
    let mut stage = Stage::build(args.source_kubeconfig.as_deref(), args.gimbal_kubeconfig.as_deref()).await?;
    report.title("source", &stage.source.describe());
    report.title("gimbal cluster", &stage.gimbal.describe());
    // From here on, a cluster of the user is restored in any case.
    let result = tokio::select! {
        result = play(args, &mut stage, &mut report) => result,
        signal = asked_to_end() => signal.and_then(|()| {
            anyhow::ensure!(!args.once, "interrupted before its end");
            Ok(())
        }),
    };
    let result = result.map_err(|error| error.context(stage.logs()));
    let cleaned = stage.clean().await;
    result.and(cleaned)
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
    for (what, line) in stage.hints() {
        report.hint(what, &line);
    }
    if !args.once {
        report.note("everything keeps running: change the source and look; Ctrl-C ends it");
        std::future::pending::<()>().await;
    }
    Ok(())
}
