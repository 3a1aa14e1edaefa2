//! `cargo xtask test`: what must hold before a change lands.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use gimbal_testkit::assets::Asset;

use crate::tests::{self, Which};
use crate::{assets, counts, shell};

mod deps;
mod files;
mod links;
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
    /// What one runs while working: checks of files, lints, tests that start no server, and one that does.
    #[arg(long, conflicts_with = "advisories")]
    fast: bool,
}

type Check = Box<dyn FnOnce() -> anyhow::Result<()>>;

pub fn run(args: &Args) -> anyhow::Result<()> {
    let advisories = args.advisories;
    let mut steps: Vec<(&str, Check)> = vec![
        ("format", Box::new(|| shell::run(shell::cargo(&["fmt", "--all", "--check"])))),
        ("files: length, reachability", Box::new(files::check)),
        ("words: plain ones, references that lead somewhere", Box::new(words::check)),
        ("links: pages and anchors that exist, short lines", Box::new(links::check)),
        ("dependencies: pure crates, one TLS provider", Box::new(deps::check)),
        ("unused dependencies", Box::new(unused::check)),
        ("lints", Box::new(lints)),
        ("documentation", Box::new(documentation)),
        ("servers and tools", Box::new(tools)),
        ("protocol: lint, format, compatibility", Box::new(proto::check)),
        ("licences, sources, bans", Box::new(move || deps::deny(advisories))),
        ("build", Box::new(tests::build)),
        ("instruction counts", Box::new(counts::step)),
        ("tests", Box::new(|| tests::run(Which::All))),
    ];
    if args.fast {
        let left_out = ["documentation", "servers", "protocol", "licences", "unused", "instruction", "tests"];
        steps.retain(|(name, _)| !left_out.iter().any(|left_out| name.starts_with(left_out)));
        steps.push(("fast tests", Box::new(|| tests::run(Which::Fast))));
    }
    if let Some(only) = &args.only {
        steps.retain(|(name, _)| name.contains(only.as_str()));
        anyhow::ensure!(!steps.is_empty(), "no step's name contains {only:?}");
    }
    let all = Instant::now();
    let mut times = Vec::new();
    for (number, (name, check)) in steps.into_iter().enumerate() {
        eprintln!("\n=== {}. {name}", number + 1);
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
    let mut command = shell::cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    shell::run(command)
}

fn tools() -> anyhow::Result<()> {
    for asset in [Asset::Etcd, Asset::ApiServer, Asset::Buf, Asset::Grpcurl] {
        asset.path()?;
    }
    assets::cargo_deny()?;
    assets::openstack().map(|_| ())
}

fn show(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{:.0} m {:02.0} s", (seconds / 60.0).floor(), seconds % 60.0)
    }
}
