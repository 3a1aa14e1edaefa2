//! `gimbal-kubernetes-discoverer`: see the library.

use std::process::ExitCode;

use gimbal_kubernetes_discoverer::{Args, discoverer};
use gimbal_runtime::{Exit, init_logging, parse, run, shutdown_token};

// A relist of a large source leaves glibc's allocator with memory that it does not give back.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    match parse::<Args>() {
        Ok(args) => run("gimbal-kubernetes-discoverer", args.worker_threads(), work(args)),
        Err(code) => code,
    }
}

async fn work(args: Args) -> Result<(), Exit> {
    init_logging(args.log_format(), "info")?;
    let shutdown = shutdown_token()?;
    // What is known of the source is in it: too much to be moved about on the stack.
    Box::pin(discoverer(args).await?.run(shutdown)).await
}
