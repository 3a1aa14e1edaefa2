//! `gimbal-operator`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    match gimbal_runtime::parse::<gimbal_operator::Args>() {
        Ok(args) => gimbal_runtime::run("gimbal-operator", args.worker_threads, gimbal_operator::run(args)),
        Err(code) => code,
    }
}
