//! Programs that run where there is no network, so that nothing they start reaches anything else.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use anyhow::Context as _;

/// Set in the namespace without a network.
const INSIDE: &str = "GIMBAL_WITHOUT_NETWORK";

/// Runs the test `name` of this program again in a network namespace that has only a loopback device, and no route. Returns
/// whether this is already there. What is built or downloaded is made by `prepare` before, because it cannot be there.
///
/// # Errors
/// The error of `prepare`, there are no namespaces, or the test fails.
pub fn is_without_network(name: &str, prepare: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<bool> {
    again_without_network(&["--exact", name, "--nocapture"], prepare).with_context(|| format!("the test {name}"))
}

/// As [`is_without_network`], for any program: it runs again with these arguments.
///
/// # Errors
/// As [`is_without_network`].
pub fn again_without_network(
    args: &[impl AsRef<OsStr>],
    prepare: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<bool> {
    if std::env::var_os(INSIDE).is_some() {
        return Ok(true);
    }
    prepare()?;
    let own = std::env::current_exe().context("cannot find this program's own path")?;
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "sh", "-ec", "ip link set lo up; exec \"$0\" \"$@\""]);
    command.arg(own).args(args).env(INSIDE, "1").stdin(Stdio::null());
    let status = command.status().context("cannot run unshare (util-linux)")?;
    anyhow::ensure!(status.success(), "it failed without a network: {status}");
    Ok(false)
}
