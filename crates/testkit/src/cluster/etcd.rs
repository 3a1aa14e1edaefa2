//! What only etcd can do to a test's victim.

use anyhow::Context as _;
use serde_json::{Value, json};

use super::TestCluster;

impl TestCluster {
    /// Forgets all history, so that a watch from any version that was seen before answers 410, and so does the next page of
    /// a list that was begun before.
    ///
    /// The API server restarts for it: it serves both from a memory of its own, which a compaction of etcd does not touch.
    ///
    /// # Errors
    /// What either server says.
    pub async fn compact(&self) -> anyhow::Result<()> {
        // Without a change since, the version that a client saw last would still be the present one.
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
