//! The state of Gimbal's processes and of the Gimbal cluster, as a test observes it.

use std::collections::BTreeMap;
use std::future::Future;

use anyhow::Context as _;
use gimbal_testkit::eventually;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{Discoverer, Grpcurl, SOON, Scene, Writer, metric};

/// Runs many requests, with limited concurrency.
///
/// # Errors
/// The error of the first request that fails.
pub async fn in_parallel<F>(requests: impl IntoIterator<Item = F>) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let mut running = JoinSet::new();
    for request in requests {
        if running.len() >= 32 {
            running.join_next().await.context("nothing runs")???;
        }
        running.spawn(request);
    }
    while let Some(done) = running.join_next().await {
        done??;
    }
    Ok(())
}

impl Writer {
    /// Waits until `backends` backends are completely known, no write is pending, and a whole comparison has been made
    /// after that, which must have found no difference. Needs `--comparison-interval 1s`.
    ///
    /// # Errors
    /// That does not happen in time, or the comparison found a difference.
    pub async fn settled(&self, backends: usize) -> anyhow::Result<()> {
        let read = async |name: &str| metric(self.admin_port, &format!("gimbal_writer_{name}"), "").await;
        eventually("the writer is at rest", SOON, async || {
            let complete = read("backend_complete").await?;
            anyhow::ensure!(complete == backends as f64, "{complete} backends are complete");
            let waiting = read("pending").await? + read("in_flight").await?;
            anyhow::ensure!(waiting == 0.0, "{waiting} targets wait");
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        let before = read("comparisons").await?;
        eventually("everything is compared", SOON, async || {
            let now = read("comparisons").await?;
            // The first comparison that ends may have begun before.
            anyhow::ensure!(now >= before + 2.0, "{now} comparisons after {before}");
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        let differences = read("comparison_differences").await?;
        anyhow::ensure!(differences == 0.0, "{differences} differences\n{}", self.process.log_tail());
        Ok(())
    }
}

impl Scene {
    /// Returns every Service, slice and Endpoints object of the Gimbal cluster, with its version.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn published(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let mut found = BTreeMap::new();
        for path in ["/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices", "/api/v1/endpoints"] {
            for object in self.gimbal.admin().items(path).await? {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
                let name = format!("{path} {}/{}", text("namespace"), text("name"));
                found.insert(name, format!("{} {}", text("uid"), text("resourceVersion")));
            }
        }
        Ok(found)
    }
}

impl Discoverer {
    /// Returns a client of this discoverer.
    #[must_use]
    pub fn ask(&self) -> Grpcurl {
        Grpcurl::plaintext(self.port)
    }
}

impl Grpcurl {
    /// Returns the entry of a source Service in `ListServices`; null if it is not listed.
    ///
    /// # Errors
    /// The error that grpcurl prints.
    pub fn status(&self, backend: &str, namespace: &str, name: &str) -> anyhow::Result<Value> {
        let request = json!({"backend": backend, "namespace": namespace});
        let answer = self.call("InspectionService/ListServices", &request)?;
        let services = answer["services"].as_array().cloned().unwrap_or_default();
        Ok(services.into_iter().find(|service| service["source"]["name"] == name).unwrap_or_default())
    }

    /// Waits until a source Service is rejected for a reason, for instance `NAME_CONFLICT`. Returns the message.
    ///
    /// # Errors
    /// It is not in time.
    pub async fn expect_rejected(
        &self,
        backend: &str,
        namespace: &str,
        name: &str,
        reason: &str,
    ) -> anyhow::Result<String> {
        eventually(&format!("{namespace}/{name} of {backend} is rejected"), SOON, async || {
            let status = self.status(backend, namespace, name)?;
            let rejected = status["state"] == "SERVICE_STATE_REJECTED";
            let as_told = status["rejectReason"] == format!("REJECT_REASON_{reason}");
            anyhow::ensure!(rejected && as_told, "its status is {status}");
            Ok::<_, anyhow::Error>(status["message"].as_str().unwrap_or_default().to_owned())
        })
        .await
    }

    /// Waits until a source Service is published as desired.
    ///
    /// # Errors
    /// It is not in time.
    pub async fn expect_synced(&self, backend: &str, namespace: &str, name: &str) -> anyhow::Result<()> {
        eventually(&format!("{namespace}/{name} of {backend} is synced"), SOON, async || {
            let status = self.status(backend, namespace, name)?;
            let bad = status["state"] != "SERVICE_STATE_SYNCED" || status.get("rejectReason").is_some();
            anyhow::ensure!(!bad, "its status is {status}");
            Ok::<_, anyhow::Error>(())
        })
        .await
    }
}
