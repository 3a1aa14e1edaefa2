//! A network, a process and a mount namespace for everything that a test with nodes starts.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::assets::{Asset, NodeTools};

/// Says in which site a process is: the name of its cgroups.
const NAME: &str = "GIMBAL_SITE";
/// Where the controllers of cgroups are mounted.
const CGROUPS: &str = "/sys/fs/cgroup";

/// What a site has of its own.
const NAMESPACES: [&str; 5] = ["--net", "--mount", "--pid", "--fork", "--mount-proc"];

/// The namespaces of a test with nodes. Nothing in them reaches, or is reached by, anything outside: there is no route. All of
/// it ends with the test's process.
pub struct Site {
    name: String,
}

impl Site {
    /// Returns the site that this process runs in. Outside of one, it runs the test `name` of this program again in a new one,
    /// and returns nothing once that has passed. Where namespaces or control groups cannot be made, it says that the test is
    /// skipped.
    ///
    /// # Errors
    /// A program is missing and cannot be built, or the test fails.
    pub fn enter(name: &str) -> anyhow::Result<Option<Self>> {
        if let Ok(name) = std::env::var(NAME) {
            return Ok(Some(Self { name }));
        }
        if let Err(why) = possible() {
            crate::openstack::skipped(&format!("nodes cannot run here: {why:#}"));
            return Ok(None);
        }
        // Nothing can be downloaded in there.
        for asset in Asset::ALL.into_iter().chain(Asset::NODE) {
            asset.path()?;
        }
        NodeTools::find()?;
        let own = std::env::current_exe().context("cannot find this program's own path")?;
        let site = format!("gimbal-test-{}", std::process::id());
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "unshare"]).args(NAMESPACES);
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
        anyhow::ensure!(status.success(), "{name} failed in namespaces of its own: {status}");
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

/// Whether this user may make namespaces and control groups.
fn possible() -> anyhow::Result<()> {
    let mut command = Command::new("unshare");
    command.args(NAMESPACES).arg("true");
    super::output(command)?;
    let memory = Path::new(CGROUPS).join("memory");
    anyhow::ensure!(memory.is_dir(), "{} is no controller of version 1", memory.display());
    let group = memory.join(format!("gimbal-trial-{}", std::process::id()));
    std::fs::create_dir(&group).with_context(|| format!("cannot make {}", group.display()))?;
    std::fs::remove_dir(&group).with_context(|| format!("cannot remove {}", group.display()))
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
