//! `gimbal-openstack-discoverer`: see the library.

use std::process::ExitCode;

use gimbal_openstack_discoverer::{Args, discoverer};
use gimbal_runtime::{Exit, init_logging, parse, run, shutdown_token};

// The lists of a large cloud come and go with each poll; glibc's allocator would keep what they took.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    match parse::<Args>() {
        Ok(args) => run("gimbal-openstack-discoverer", args.agent.worker_threads, work(args)),
        Err(code) => code,
    }
}

async fn work(args: Args) -> Result<(), Exit> {
    init_logging(args.agent.log_format, "info")?;
    let shutdown = shutdown_token()?;
    // What is known of the cloud is in it: too much to be moved about on the stack.
    Box::pin(discoverer(args).await?.run(shutdown)).await
}
