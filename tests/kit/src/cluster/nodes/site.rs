//! A network, a process and a mount namespace for everything that a test with nodes starts.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::assets::{Asset, NodeTools};

/// Says in which site a process is: the name of its cgroups.
const NAME: &str = "GIMBAL_SITE";
/// Where the controllers of cgroups are mounted.
const CGROUPS: &str = "/sys/fs/cgroup";

/// The namespaces of a test with nodes. Nothing in them reaches, or is reached by, anything outside: there is no route. All of
/// it ends with the test's process.
pub struct Site {
    name: String,
}

impl Site {
    /// Returns the site that this process runs in. Outside of one, it runs the test `name` of this program again in a new one,
    /// and returns nothing once that has passed.
    ///
    /// # Errors
    /// The user is not root, namespaces cannot be made, or the test fails.
    pub fn enter(name: &str) -> anyhow::Result<Option<Self>> {
        if let Ok(name) = std::env::var(NAME) {
            return Ok(Some(Self { name }));
        }
        // Nothing can be downloaded in there.
        for asset in Asset::ALL.into_iter().chain(Asset::NODE) {
            asset.path()?;
        }
        NodeTools::find()?;
        let own = std::env::current_exe().context("cannot find this program's own path")?;
        let site = format!("gimbal-test-{}", std::process::id());
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc"]);
        // Packets go from one cluster to the other.
        command.args([
            "--kill-child=KILL",
            "sh",
            "-ec",
            "ip link set lo up; sysctl -qw net.ipv4.ip_forward=1; exec \"$0\" \"$@\"",
        ]);
        command.arg(own).args(["--exact", name, "--nocapture", "--test-threads=1"]);
        let status = command.env(NAME, &site).stdin(Stdio::null()).status();
        let status = status.context("cannot run setpriv and unshare (util-linux)")?;
        remove_cgroups(&site)?;
        anyhow::ensure!(status.success(), "{name} failed in namespaces of its own, which only root can make: {status}");
        Ok(None)
    }

    /// Returns the path of a node's group below each controller, and makes the groups.
    pub(super) fn make_cgroups(&self, node: &str) -> anyhow::Result<String> {
        let path = format!("{}/{node}", self.name);
        for controller in controllers()? {
            let group = controller.join(&path);
            std::fs::create_dir_all(&group).with_context(|| format!("cannot make {}", group.display()))?;
            // A group without processors and memory takes no process.
            for file in ["cpuset.cpus", "cpuset.mems"].iter().filter(|file| controller.join(file).is_file()) {
                let all = std::fs::read(controller.join(file))?;
                for group in [controller.join(&self.name), group.clone()] {
                    std::fs::write(group.join(file), &all)
                        .with_context(|| format!("cannot write {file} in {}", group.display()))?;
                }
            }
        }
        Ok(path)
    }
}

fn controllers() -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(CGROUPS).context("there are no control groups")?;
    let folders = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(folders.filter(|path| path.is_dir() && !path.is_symlink()).collect())
}

/// Removes the groups of a site whose processes are gone.
fn remove_cgroups(site: &str) -> anyhow::Result<()> {
    for controller in controllers()? {
        remove(&controller.join(site));
    }
    Ok(())
}

/// Removes a group and what is below it. One with a process that has not ended yet stays, empty, until the machine restarts.
fn remove(group: &Path) {
    for entry in std::fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            remove(&entry.path());
        }
    }
    std::fs::remove_dir(group).ok();
}
