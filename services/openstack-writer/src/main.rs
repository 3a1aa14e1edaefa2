//! `gimbal-openstack-writer`: see the library.

// Rows of large clouds are allocated and freed at every look; glibc's allocator would not return that memory.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    match gimbal_runtime::parse::<gimbal_openstack_writer::Args>() {
        Ok(args) => {
            gimbal_runtime::run("gimbal-openstack-writer", args.worker_threads, gimbal_openstack_writer::run(args))
        }
        Err(code) => code,
    }
}
