//! `cargo xtask`: what a person or a CI machine does with this repository.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod assets;
mod bench;
mod build;
mod ci;
mod counts;
mod crds;
mod demo;
mod docs;
mod fuzz;
mod images;
mod manifests;
mod prove;
mod shell;
mod tests;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "What a person or a CI machine does with this repository")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build or fetch the servers and tools that tests and the demo need, once.
    Assets(assets::Args),
    /// Everything that CI checks, the quick things first; stops at the first failure.
    #[command(alias = "ci")]
    Test(ci::Args),
    /// Write deploy/crds from the types of the custom resources. `test` fails while the files are out of date.
    Crds,
    /// Write deploy/manifests and deploy/rbac from the charts, and the copies that charts have of other files. `test` fails while
    /// they are out of date.
    Manifests,
    /// Assemble an OCI image of each program, and the list of what is in it.
    Images(images::Args),
    /// Two clusters, a discoverer and a writer, and how fast what happens in one arrives in the other.
    #[command(disable_help_flag = true)]
    Demo(demo::Args),
    /// Write the generated files: docs/metrics.md and xtask/src/ci/words.txt. `test` fails while they are out of date.
    Docs(docs::Args),
    /// How fast, how large and how fair, as ratios to the API server in the same run.
    #[command(disable_help_flag = true)]
    Bench(bench::Args),
    /// Instructions and allocations of what must stay cheap, against those that are kept. `test` does it too.
    Counts(counts::Args),
    /// Any bytes into what parses bytes from outside, with coverage as the guide. `test` does a bounded part of it.
    Fuzz(fuzz::Args),
    /// Tests at their whole size, which takes longer than a change can wait for. `test` runs a short form of each.
    Prove(prove::Args),
}

fn main() -> ExitCode {
    let result = match Args::parse().task {
        Task::Assets(args) => assets::run(&args),
        Task::Test(args) => ci::run(&args),
        Task::Crds => crds::run(),
        Task::Manifests => manifests::run(),
        Task::Images(args) => images::run(&args),
        Task::Demo(args) => demo::run(&args),
        Task::Docs(args) => docs::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Counts(args) => counts::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Prove(args) => prove::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod of_options {
    use clap::CommandFactory as _;

    use super::Args;

    #[test]
    fn every_command_can_be_parsed() {
        Args::command().debug_assert();
    }
}
