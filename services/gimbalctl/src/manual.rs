//! The commands for a shell, and as manual pages.

use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use gimbal_runtime::Exit;

use crate::output::print;

/// Prints a script that completes the commands.
///
/// # Errors
/// Standard output cannot be written to.
pub fn completion(shell: Shell, mut command: Command) -> Result<(), Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "gimbalctl", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Writes a page of each command: `gimbalctl.1`, `gimbalctl-lb-why.1` and so on.
///
/// # Errors
/// The folder cannot be written to.
pub fn pages(dir: &Path, command: Command) -> Result<(), Exit> {
    let write = || -> io::Result<()> {
        std::fs::create_dir_all(dir)?;
        clap_mangen::generate_to(command, dir)
    };
    write().map_err(|error| Exit::Failure(format!("cannot write manual pages into {}: {error}", dir.display())))
}
