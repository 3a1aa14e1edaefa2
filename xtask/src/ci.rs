//! `cargo xtask test`: what must hold before a change lands.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use gimbal_assets::{Asset, NodeTools};

use crate::tests::{self, Which};
use crate::{assets, counts, manifests, shell};

mod alerts;
mod deps;
mod disk;
pub mod files;
mod links;
mod names;
mod needs;
mod proto;
mod text;
mod unused;
pub mod words;

#[derive(clap::Args)]
pub struct Args {
    /// Ask for known vulnerabilities too; the database of them comes from outside.
    #[arg(long)]
    advisories: bool,
    /// Only the steps whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// What one runs while working: checks of files, lints, tests that start no server, one that does, and examples.
    #[arg(long, conflicts_with = "advisories")]
    fast: bool,
}

type Check = Box<dyn FnOnce() -> anyhow::Result<()>>;

pub fn run(args: &Args) -> anyhow::Result<()> {
    let advisories = args.advisories;
    let which = if args.fast { Which::Fast } else { Which::All };
    let mut steps: Vec<(&str, Check)> = vec![
        ("installed programs", Box::new(move || needs::check(which))),
        ("room on the disk", Box::new(move || disk::check(which))),
        ("format", Box::new(|| shell::run(shell::cargo(&["fmt", "--all", "--check"])))),
        ("files: length, reachability", Box::new(files::check)),
        ("words: plain ones, references that lead somewhere", Box::new(words::check)),
        ("names: one meaning each", Box::new(names::check)),
        ("links: pages and anchors that exist, short lines", Box::new(links::check)),
        ("alerts: metrics and runbooks that exist", Box::new(alerts::check)),
        ("dependencies: pure crates, one TLS provider", Box::new(deps::check)),
        ("unused dependencies", Box::new(unused::check)),
        ("lints", Box::new(lints)),
        ("documentation", Box::new(documentation)),
        ("servers and tools", Box::new(tools)),
        ("charts: rendered manifests and rights, copies", Box::new(manifests::check)),
        ("protocol: lint, format, compatibility", Box::new(proto::check)),
        ("licences, sources, bans", Box::new(move || deps::deny(advisories))),
        ("build", Box::new(move || tests::build(which))),
        ("cloud: Keystone, Octavia, Neutron", Box::new(cloud)),
        ("instruction counts", Box::new(counts::step)),
        ("tests", Box::new(|| tests::run(Which::All))),
    ];
    if args.fast {
        let left_out =
            ["documentation", "servers", "charts", "cloud", "protocol", "licences", "unused", "instruction", "tests"];
        steps.retain(|(name, _)| !left_out.iter().any(|left_out| name.starts_with(left_out)));
        steps.push(("fast tests", Box::new(|| tests::run(Which::Fast))));
    }
    if let Some(only) = &args.only {
        steps.retain(|(name, _)| name.contains(only.as_str()));
        anyhow::ensure!(!steps.is_empty(), "no step's name contains {only:?}");
    }
    let all = Instant::now();
    let mut times = Vec::new();
    let count = steps.len();
    for (number, (name, check)) in steps.into_iter().enumerate() {
        eprintln!("\n=== {} of {count}: {name}", number + 1);
        let start = Instant::now();
        let result = check();
        times.push((name, start.elapsed()));
        result.with_context(|| format!("step {} ({name}) failed after {}", number + 1, show(start.elapsed())))?;
        eprintln!("=== {name}: passed in {}", show(start.elapsed()));
    }
    eprintln!("\n=== all passed in {}", show(all.elapsed()));
    for (name, time) in times {
        eprintln!("    {:>8}  {name}", show(time));
    }
    Ok(())
}

fn lints() -> anyhow::Result<()> {
    let mut command = shell::cargo(&["clippy", "--workspace", "--all-targets"]);
    if std::env::var_os("CI").is_some() {
        command.arg("--locked");
    }
    command.args(["--", "-D", "warnings"]);
    shell::run(command)
}

fn documentation() -> anyhow::Result<()> {
    // Only with examples among the targets are the features those of the other steps.
    let targets = ["--lib", "--bins", "--examples"];
    let mut command = shell::cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
    command.args(targets);
    command.env("RUSTDOCFLAGS", "-D warnings");
    shell::run(command)
}

fn tools() -> anyhow::Result<()> {
    for asset in Asset::ALL.into_iter().chain(Asset::NODE) {
        asset.path()?;
    }
    NodeTools::find()?;
    assets::cargo_deny().map(drop)
}

/// Installs and prepares OpenStack, by a program that the build has made already.
fn cloud() -> anyhow::Result<()> {
    shell::run(shell::cargo(&["build", "--workspace", "--example", assets::PREPARE]))?;
    shell::run(shell::command(tests::bin_dir()?.join("examples").join(assets::PREPARE)))
}

fn show(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{:.0} m {:02.0} s", (seconds / 60.0).floor(), seconds % 60.0)
    }
}
