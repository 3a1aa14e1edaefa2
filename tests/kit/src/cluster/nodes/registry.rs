//! A registry of images in a site.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use super::output;
use crate::Process;
use crate::assets::Asset;

const PORT: u16 = 5999;
const READY_WITHIN: Duration = Duration::from_secs(30);

/// Where nodes get every image from, whatever its name is. There is one in a site.
pub struct Registry {
    crane: PathBuf,
    _process: Process,
    dir: tempfile::TempDir,
}

impl Registry {
    /// Starts an empty one.
    ///
    /// # Errors
    /// crane is missing and cannot be built, or does not start.
    pub async fn start() -> anyhow::Result<Self> {
        let crane = tokio::task::spawn_blocking(|| Asset::Crane.path()).await??;
        let dir = tempfile::Builder::new().prefix("gimbal-registry-").tempdir().context("no temporary folder")?;
        let disk = dir.path().join("blobs");
        std::fs::create_dir(&disk).context("cannot make the folder of the blobs")?;
        let args =
            ["registry", "serve", "--address", &format!("0.0.0.0:{PORT}"), "--disk", &disk.display().to_string()];
        let mut process =
            Process::start("registry", &crane, &args.map(str::to_owned), &dir.path().join("registry.log"))?;
        process.answers(&format!("http://127.0.0.1:{PORT}/v2/"), READY_WITHIN).await?;
        Ok(Self { crane, _process: process, dir })
    }

    /// Pushes an image of an OCI layout as `name`, which has a tag and no host.
    ///
    /// # Errors
    /// What crane says.
    pub fn push(&self, layout: &Path, name: &str) -> anyhow::Result<()> {
        self.crane(&["push", &layout.display().to_string(), &Self::reference(name)])
    }

    /// Pushes an image that has a program without libraries, and starts it.
    ///
    /// # Errors
    /// What tar or crane says.
    pub fn push_program(&self, program: &Path, name: &str) -> anyhow::Result<()> {
        let (folder, file) = program.parent().zip(program.file_name()).context("a program in a folder is wanted")?;
        let file = file.to_string_lossy();
        let layer = self.dir.path().join(format!("{file}.tar"));
        let mut tar = Command::new("tar");
        tar.args(["--owner=0", "--group=0", "--mode=0755", "-cf"]).arg(&layer).arg("-C").arg(folder).arg(&*file);
        output(tar)?;
        let [layer, image] = [layer.display().to_string(), Self::reference(name)];
        self.crane(&["append", "--oci-empty-base", "--new_layer", &layer, "--new_tag", &image])?;
        let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        let entrypoint = format!("--entrypoint=/{file}");
        self.crane(&["mutate", &image, &entrypoint, &format!("--set-platform=linux/{arch}"), "--tag", &image])
    }

    /// Returns what containerd is to read of a host that it has no file for, seen from a node with this gateway.
    pub(super) fn hosts(gateway: &str) -> String {
        format!("[host.\"http://{gateway}:{PORT}\"]\ncapabilities = [\"pull\", \"resolve\"]\n")
    }

    fn reference(name: &str) -> String {
        format!("127.0.0.1:{PORT}/{name}")
    }

    fn crane(&self, args: &[&str]) -> anyhow::Result<()> {
        let mut crane = Command::new(&self.crane);
        crane.args(args).env("HOME", self.dir.path());
        output(crane).map(drop)
    }
}
