//! The custom resources that users of Gimbal install, from `deploy/crds`.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use super::TestCluster;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SERVED_WITHIN: Duration = Duration::from_secs(30);

impl TestCluster {
    /// Installs the definitions in `deploy/crds`, and waits until the API server serves them.
    ///
    /// # Errors
    /// A file cannot be read, or the API server refuses it.
    pub async fn install_crds(&self) -> anyhow::Result<()> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
        for entry in std::fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))? {
            let path = entry?.path();
            let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let definition: Value =
                serde_saphyr::from_str(&text).with_context(|| format!("cannot parse {}", path.display()))?;
            self.admin.post(DEFINITIONS, &definition).await?;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let spec = &definition["spec"];
            let (group, version) = (text(&spec["group"]), text(&spec["versions"][0]["name"]));
            let objects = format!("/apis/{group}/{version}/{}", text(&spec["names"]["plural"]));
            crate::eventually("the definition is served", SERVED_WITHIN, async || {
                self.admin.get(&objects).await.map(drop).map_err(anyhow::Error::from)
            })
            .await?;
        }
        Ok(())
    }

    /// Removes the definitions that [`TestCluster::install_crds`] installed, with all their objects, and waits until the
    /// API server serves them no more.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn remove_crds(&self) -> anyhow::Result<()> {
        for definition in self.admin.items(DEFINITIONS).await? {
            let path = format!("{DEFINITIONS}/{}", definition["metadata"]["name"].as_str().unwrap_or_default());
            self.admin.delete(&path).await?;
            crate::eventually("the definition is gone", SERVED_WITHIN, async || match self.admin.get(&path).await {
                Err(error) if error.code == 404 => Ok(()),
                other => Err(anyhow::anyhow!("{other:?}")),
            })
            .await?;
        }
        Ok(())
    }
}
