//! Failures of a cluster that need etcd: compaction, backup and restoration.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::TestCluster;
use crate::assets::Asset;

/// How far docs/operations.md has versions raised, in case of a restoration.
pub const BUMP: u64 = 1_000_000_000;

/// A copy of a cluster's data.
pub struct Backup(tempfile::TempDir);

/// A snapshot of a cluster's etcd, as `etcdctl snapshot save` writes it.
pub struct Snapshot(tempfile::NamedTempFile);

/// Copies a folder with its content.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in std::fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), &to).with_context(|| format!("cannot write {}", to.display()))?;
        }
    }
    Ok(())
}

impl TestCluster {
    /// Forgets all history, so that a watch from any earlier version is answered with 410, and so is the next page of a
    /// list begun before.
    ///
    /// Restarts the API server, because it serves both from its own cache, which a compaction of etcd does not change.
    ///
    /// # Errors
    /// The error of either server.
    pub async fn compact(&self) -> anyhow::Result<()> {
        // Without a later change, the version that a client saw last would still be the current one.
        let name = json!({"metadata": {"generateName": "testkit-"}});
        let made = self.admin.post("/api/v1/namespaces/kube-system/configmaps", &name).await?;
        let name = made["metadata"]["name"].as_str().context("the object has no name")?;
        self.admin.delete(&format!("/api/v1/namespaces/kube-system/configmaps/{name}")).await?;
        self.stop_apiserver()?;
        let status = self.etcd("/v3/maintenance/status", &json!({})).await?;
        let revision = status["header"]["revision"].as_str().context("etcd names no revision")?;
        self.etcd("/v3/kv/compaction", &json!({"revision": revision, "physical": true})).await?;
        self.start_apiserver().await
    }

    /// Copies the cluster's current data. Both servers restart.
    ///
    /// # Errors
    /// A server's error, or one of the file system.
    pub async fn back_up(&self) -> anyhow::Result<Backup> {
        let backup = Backup(tempfile::Builder::new().prefix("backup-").tempdir_in(self.dir())?);
        self.exchange(|data| copy(data, &backup.0.path().join("etcd"))).await?;
        Ok(backup)
    }

    /// Restores the data, including versions, as an operator would restore etcd.
    ///
    /// # Errors
    /// A server's error, or one of the file system.
    pub async fn restore(&self, backup: &Backup) -> anyhow::Result<()> {
        let from = backup.0.path().join("etcd");
        self.exchange(|data| {
            std::fs::remove_dir_all(data).context("cannot remove the data")?;
            copy(&from, data)
        })
        .await
    }

    /// Takes a snapshot while both servers run.
    ///
    /// # Errors
    /// The error of etcd, or one of the file system.
    pub async fn snapshot(&self) -> anyhow::Result<Snapshot> {
        let file = tempfile::Builder::new().prefix("snapshot-").tempfile_in(self.dir())?;
        let mut content = Vec::new();
        // It comes in parts, one a line, of which the last is the checksum that etcdutl compares.
        for part in self.etcd_text("/v3/maintenance/snapshot", &json!({})).await?.lines() {
            let part: Value = serde_json::from_str(part).context("etcd sends something else than a part")?;
            let blob = part["result"]["blob"].as_str().with_context(|| format!("etcd sends no data: {part}"))?;
            STANDARD.decode_vec(blob, &mut content).context("etcd sends data that cannot be decoded")?;
        }
        std::fs::write(file.path(), content).context("cannot write the snapshot")?;
        Ok(Snapshot(file))
    }

    /// Restores a snapshot as docs/operations.md says: versions continue far above all that clients have seen, and the history
    /// before counts as forgotten. Both servers restart.
    ///
    /// # Errors
    /// A server's error, that of etcdutl, or one of the file system.
    pub async fn restore_bumped(&self, snapshot: &Snapshot) -> anyhow::Result<()> {
        let etcdutl = tokio::task::spawn_blocking(|| Asset::Etcdutl.path()).await??;
        self.exchange(|data| {
            std::fs::remove_dir_all(data).context("cannot remove the data")?;
            let mut restore = Command::new(etcdutl);
            restore.args(["snapshot", "restore"]).arg(snapshot.0.path());
            restore.arg(format!("--bump-revision={BUMP}")).arg("--mark-compacted").args(self.layout.etcd_member());
            let out = restore.output().context("cannot run etcdutl")?;
            let said = String::from_utf8_lossy(&out.stderr);
            anyhow::ensure!(out.status.success(), "etcdutl cannot restore the snapshot: {}", said.trim());
            Ok(())
        })
        .await
    }

    /// Stops both servers, changes etcd's data, and starts them again.
    async fn exchange(&self, change: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
        self.stop_apiserver()?;
        self.servers().etcd.kill()?;
        change(&self.dir().join("etcd"))?;
        let etcd = self.layout.start_etcd()?;
        self.servers().etcd = etcd;
        self.start_apiserver().await
    }

    async fn etcd(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let text = self.etcd_text(path, body).await?;
        serde_json::from_str(&text).with_context(|| format!("etcd answers {path} with {text:?}"))
    }

    async fn etcd_text(&self, path: &str, body: &Value) -> anyhow::Result<String> {
        let client = reqwest::Client::builder().no_proxy().build()?;
        let url = format!("{}{path}", self.layout.etcd_url);
        let answer = client.post(&url).json(body).send().await?;
        let status = answer.status();
        let text = answer.text().await?;
        anyhow::ensure!(status.is_success(), "etcd answers {path} with {status}: {text}");
        Ok(text)
    }
}
