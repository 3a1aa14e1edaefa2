//! Failures of a cluster that need etcd: compaction, backup and restoration.

use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::TestCluster;

/// A copy of a cluster's data.
pub struct Backup(tempfile::TempDir);

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
        let client = reqwest::Client::builder().no_proxy().build()?;
        let url = format!("{}{path}", self.layout.etcd_url);
        let answer = client.post(&url).json(body).send().await?;
        let status = answer.status();
        let text = answer.text().await?;
        anyhow::ensure!(status.is_success(), "etcd answers {path} with {status}: {text}");
        serde_json::from_str(&text).with_context(|| format!("etcd answers {path} with {text:?}"))
    }
}
