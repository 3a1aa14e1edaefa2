//! The objects in the Gimbal cluster that stand for a source Service.

use std::collections::BTreeSet;
use std::time::Duration;

use gimbal_testkit::{TestCluster, eventually};
use serde_json::Value;

use crate::SOON;

/// A Service of the Gimbal cluster with the objects that belong to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Mirror {
    /// The Service.
    pub service: Value,
    /// Its slices, by name.
    pub slices: Vec<Value>,
    /// Its Endpoints object, if there is one.
    pub endpoints: Option<Value>,
}

/// Returns `address:port` of every endpoint, with `!` before one that is not ready, and `~` before one that is
/// terminating.
#[must_use]
pub fn addresses(slices: &[Value]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for slice in slices {
        for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
            for port in slice["ports"].as_array().into_iter().flatten() {
                let conditions = &endpoint["conditions"];
                let mark = match (conditions["terminating"] == true, conditions["ready"] == true) {
                    (true, _) => "~",
                    (false, false) => "!",
                    (false, true) => "",
                };
                let address = endpoint["addresses"][0].as_str().unwrap_or_default();
                found.insert(format!("{mark}{address}:{}", port["port"]));
            }
        }
    }
    found
}

impl Mirror {
    /// Returns the current objects; `None` if the Service does not exist.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn get(cluster: &TestCluster, namespace: &str, name: &str) -> anyhow::Result<Option<Self>> {
        let api = cluster.admin();
        let services = api.items(&format!("/api/v1/namespaces/{namespace}/services")).await?;
        let Some(service) = services.into_iter().find(|service| service["metadata"]["name"] == name) else {
            return Ok(None);
        };
        let path = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
        let mut slices = api.items(&path).await?;
        slices.retain(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == name);
        let endpoints = api.items(&format!("/api/v1/namespaces/{namespace}/endpoints")).await?;
        let endpoints = endpoints.into_iter().find(|endpoints| endpoints["metadata"]["name"] == name);
        Ok(Some(Self { service, slices, endpoints }))
    }

    /// Returns `address:port` of every endpoint in the slices; see [`addresses`].
    #[must_use]
    pub fn addresses(&self) -> BTreeSet<String> {
        addresses(&self.slices)
    }

    /// Waits until the Service exists with exactly these endpoints.
    ///
    /// # Errors
    /// It does not in time; the message has what exists instead.
    pub async fn expect(
        cluster: &TestCluster,
        namespace: &str,
        name: &str,
        endpoints: &[&str],
    ) -> anyhow::Result<Self> {
        let wanted: BTreeSet<String> = endpoints.iter().map(ToString::to_string).collect();
        Self::expect_that(cluster, namespace, name, |mirror| {
            let there = mirror.addresses();
            anyhow::ensure!(there == wanted, "endpoints are {there:?}, not {wanted:?}");
            Ok(())
        })
        .await
    }

    /// Waits until the Service exists with `count` endpoints.
    ///
    /// # Errors
    /// It does not in time.
    pub async fn expect_count(
        cluster: &TestCluster,
        namespace: &str,
        name: &str,
        count: usize,
    ) -> anyhow::Result<Self> {
        Self::expect_that(cluster, namespace, name, |mirror| {
            let there = mirror.addresses().len();
            anyhow::ensure!(there == count, "there are {there} endpoints, not {count}");
            Ok(())
        })
        .await
    }

    /// Waits until the Service exists and `holds` accepts it.
    ///
    /// # Errors
    /// It does not in time; the message has the last reason.
    pub async fn expect_that(
        cluster: &TestCluster,
        namespace: &str,
        name: &str,
        holds: impl Fn(&Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        eventually(&format!("Service {namespace}/{name} in the Gimbal cluster"), SOON, async || {
            let mirror = Self::get(cluster, namespace, name).await?;
            let mirror = mirror.ok_or_else(|| anyhow::anyhow!("it is not there"))?;
            holds(&mirror)?;
            Ok::<_, anyhow::Error>(mirror)
        })
        .await
    }

    /// Waits until neither the Service nor a slice of it exists.
    ///
    /// # Errors
    /// They do not disappear in time.
    pub async fn expect_gone(cluster: &TestCluster, namespace: &str, name: &str) -> anyhow::Result<()> {
        eventually(&format!("Service {namespace}/{name} is gone"), SOON, async || {
            anyhow::ensure!(Self::get(cluster, namespace, name).await?.is_none(), "it is still there");
            let path = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
            let slices = cluster.admin().items(&path).await?;
            let left = slices.iter().filter(|s| s["metadata"]["labels"]["kubernetes.io/service-name"] == name).count();
            anyhow::ensure!(left == 0, "{left} slices of it are still there");
            Ok::<_, anyhow::Error>(())
        })
        .await
    }

    /// Checks for a while that the Service does not change: there is no event to wait for if something must not happen.
    ///
    /// # Errors
    /// It changed; the message has both states.
    pub async fn expect_unchanged(&self, cluster: &TestCluster, for_so_long: Duration) -> anyhow::Result<()> {
        let text = |field: &str| self.service["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        let deadline = tokio::time::Instant::now() + for_so_long;
        while tokio::time::Instant::now() < deadline {
            let now = Self::get(cluster, &namespace, &name).await?;
            anyhow::ensure!(now.as_ref() == Some(self), "{namespace}/{name} changed from {self:?} to {now:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }
}
