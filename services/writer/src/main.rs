//! `gimbal-writer`.

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    let args = match gimbal_runtime::parse::<gimbal_writer::Args>() {
        Ok(args) => args,
        Err(code) => return code,
    };
    gimbal_runtime::run("gimbal-writer", args.worker_threads, gimbal_writer::run(args))
}
