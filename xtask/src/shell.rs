//! Runs other programs in the repository's root.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

/// Returns the repository's root.
pub fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

/// Returns a command that runs in the root, without standard input.
pub fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).stdin(Stdio::null());
    // Variables that `cargo run` sets describe xtask; build scripts that depend on them would run again.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Returns a command of the cargo that runs xtask.
pub fn cargo(args: &[&str]) -> Command {
    let mut command = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args);
    command
}

/// Runs a command; its output goes to the caller's.
pub fn run(mut command: Command) -> anyhow::Result<()> {
    let line = line_of(&command);
    let status = command.status().with_context(|| format!("cannot run `{line}`"))?;
    anyhow::ensure!(status.success(), "`{line}` failed ({status})");
    Ok(())
}

/// Runs a command and returns its output.
pub fn output(mut command: Command) -> anyhow::Result<String> {
    let line = line_of(&command);
    let output = command.output().with_context(|| format!("cannot run `{line}`"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "`{line}` failed ({}): {}", output.status, said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn line_of(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    let args = command.get_args().map(|arg| format!(" {}", arg.to_string_lossy()));
    std::iter::once(program.into_owned()).chain(args).collect()
}
