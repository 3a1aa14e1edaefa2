//! `gimbal-kuryr-controller`: see the library.

use std::process::ExitCode;

use gimbal_kuryr_controller::{Args, controller};
use gimbal_runtime::{Exit, forbid_core_dumps, init_logging, parse, run, shutdown_token};

// A relist of a large cluster leaves glibc's allocator with memory that it does not give back.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    match parse::<Args>() {
        Ok(args) => run("gimbal-kuryr-controller", args.worker_threads(), work(args)),
        Err(code) => code,
    }
}

async fn work(args: Args) -> Result<(), Exit> {
    init_logging(args.log_format(), "info")?;
    forbid_core_dumps()?;
    let shutdown = shutdown_token()?;
    // What is known of the cluster is in it: too much to be moved about on the stack.
    Box::pin(controller(args).await?.run(shutdown)).await
}
