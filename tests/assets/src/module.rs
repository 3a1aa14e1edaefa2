//! Go modules whose files are of use without building them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context as _;

/// Returns the folder of `module` at `version` in Go's cache of modules.
pub(super) fn folder(module: &str, version: &str) -> anyhow::Result<PathBuf> {
    let mut command = Command::new("go");
    // In a module, go would refuse what that module does not name.
    command.current_dir(std::env::temp_dir()).env_remove("GOFLAGS");
    command.args(["mod", "download", "-json", &format!("{module}@v{version}")]).stdin(Stdio::null());
    let output = command.output().context("cannot start go")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let field = |name: &str| {
        let line = said.lines().find_map(|line| line.trim().strip_prefix(&format!("\"{name}\": \"")))?;
        line.split('"').next().map(str::to_owned)
    };
    field("Dir").map(PathBuf::from).filter(|_| output.status.success()).with_context(|| {
        format!("go cannot download {module} {version}: {}", field("Error").unwrap_or_else(|| said.trim().to_owned()))
    })
}
