//! Unpacks and packs the corpus of a fuzz target, or adds an input that failed to it: `corpus unpack TARGET FOLDER`,
//! `corpus pack TARGET FOLDER`, `corpus add TARGET FILE`.

use std::path::Path;
use std::process::ExitCode;

use gimbal_fuzz::corpus;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["unpack", target, folder] => corpus::unpack(&corpus::file(target), Path::new(folder)),
        ["pack", target, folder] => corpus::pack(Path::new(folder), &corpus::file(target)),
        ["add", target, input] => corpus::add(&corpus::file(target), Path::new(input)),
        _ => {
            eprintln!("usage: corpus unpack|pack TARGET FOLDER | add TARGET FILE");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
