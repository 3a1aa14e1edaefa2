//! `gimbal-openstack-discoverer`: see the library.

use std::process::ExitCode;

use gimbal_openstack_discoverer::{Args, discoverer};
use gimbal_runtime::{Exit, init_logging, parse, run, shutdown_token};

// Each poll allocates and frees the lists of a large cloud; glibc's allocator would not return that memory.
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
    // The future holds the state of the cloud, which is too large to move on the stack.
    Box::pin(discoverer(args).await?.run(shutdown)).await
}
