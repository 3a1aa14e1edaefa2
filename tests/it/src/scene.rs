//! Two clusters, and the programs between them.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use gimbal_testkit::{PooledCluster, Rights, TestCluster};
use serde_json::{Value, json};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use crate::Programs;

/// The clusters, certificates and files of one test; see the crate. Everything ends when it is dropped.
pub struct Scene {
    /// The cluster that Services are read from.
    pub source: PooledCluster,
    /// The cluster that they are published in.
    pub gimbal: PooledCluster,
    programs: Programs,
    // Dropped last: another scene starts only after the clusters are free again.
    _turn: Turn,
}

/// How a scene runs: beside others, or alone.
enum Turn {
    Shared { _guard: OwnedRwLockReadGuard<()> },
    Alone { _guard: OwnedRwLockWriteGuard<()> },
}

/// Shared by all scenes, held exclusively by one that measures times.
static TURNS: LazyLock<Arc<RwLock<()>>> = LazyLock::new(Arc::default);

impl Deref for Scene {
    type Target = Programs;

    fn deref(&self) -> &Programs {
        &self.programs
    }
}

/// Where the writer keeps its Lease and ConfigMaps by default.
const WRITER_NAMESPACE: &str = "kube-system";

/// Returns the rights of a discoverer in `deploy/rbac`.
///
/// # Errors
/// The files cannot be read.
pub fn discoverer_rights() -> anyhow::Result<Rights> {
    Rights::deployed(&["gimbal-kubernetes-discoverer"])
}

/// Returns the rights in `deploy/rbac` of a writer that runs in its default namespace.
///
/// # Errors
/// The files cannot be read.
pub fn writer_rights() -> anyhow::Result<Rights> {
    Ok(Rights::deployed(&["gimbal-writer"])?.in_namespace(WRITER_NAMESPACE))
}

impl Scene {
    /// Takes both clusters from the pool, creates namespace `team1` in each, and grants the rights.
    ///
    /// A test may hold only one scene at a time: a second one would deadlock with a test that waits to run alone.
    ///
    /// # Errors
    /// A server's error.
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_in_turn(Turn::Shared { _guard: TURNS.clone().read_owned().await }).await
    }

    /// As [`Scene::start`], without other scenes at the same time: for tests whose result depends on how fast servers
    /// answer.
    ///
    /// # Errors
    /// As [`Scene::start`].
    pub async fn start_alone() -> anyhow::Result<Self> {
        Self::start_in_turn(Turn::Alone { _guard: TURNS.clone().write_owned().await }).await
    }

    async fn start_in_turn(turn: Turn) -> anyhow::Result<Self> {
        let (source, gimbal) = tokio::try_join!(PooledCluster::start(), PooledCluster::start())?;
        let scene = Self { source, gimbal, programs: Programs::new(None)?, _turn: turn };
        let (discoverer, writer) = (scene.source.user("discoverer")?, scene.gimbal.user("writer")?);
        let (discoverer_rights, writer_rights) = (discoverer_rights()?, writer_rights()?);
        tokio::try_join!(
            scene.source.bind(&discoverer, &discoverer_rights),
            scene.gimbal.bind(&writer, &writer_rights)
        )?;
        for cluster in [&scene.source, &scene.gimbal] {
            cluster.namespace("team1").await?;
        }
        // The Lease as a writer leaves it at a clean stop. Without it, the first writer would wait for a lease
        // duration.
        let lease = json!({"metadata": {"name": "gimbal-writer"}, "spec": {}});
        scene.gimbal.admin().post("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", &lease).await?;
        Ok(scene)
    }

    /// From now on, programs are taken from this folder; `None`: those of this commit.
    pub fn take_programs_from(&mut self, bin_dir: Option<PathBuf>) {
        self.programs.take_from(bin_dir);
    }

    /// Creates or replaces an object in the source.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn put(&self, object: &Value) -> anyhow::Result<()> {
        put(&self.source, object).await
    }

    /// Deletes a Service and its slices in the source, slices first, as the source's controllers would.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn remove(&self, namespace: &str, name: &str) -> anyhow::Result<()> {
        let api = self.source.admin();
        for slice in api.items(&format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices")).await? {
            if slice["metadata"]["labels"]["kubernetes.io/service-name"] == name {
                let slice = slice["metadata"]["name"].as_str().unwrap_or_default();
                api.delete(&format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{slice}")).await?;
            }
        }
        api.delete(&format!("/api/v1/namespaces/{namespace}/services/{name}")).await?;
        Ok(())
    }

    /// Returns the writes to Services, slices and Endpoints that the writer has made since `mark` (see
    /// `TestCluster::audit_mark`), including conflicts and refusals.
    ///
    /// # Errors
    /// The audit log cannot be read.
    pub async fn writes_since(&self, mark: usize) -> anyhow::Result<Vec<String>> {
        let entries = self.gimbal.audit_since(mark).await?;
        let publications = entries.iter().filter(|entry| entry.is_publication() && entry.user == "writer");
        Ok(publications.map(|e| format!("{} {} {}/{} {}", e.verb, e.resource, e.namespace, e.name, e.code)).collect())
    }
}

/// Creates or replaces an object, whether or not it exists.
///
/// # Errors
/// The API server's error.
pub async fn put(cluster: &TestCluster, object: &Value) -> anyhow::Result<()> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
    let collection = match object["kind"].as_str() {
        Some("Service") => format!("/api/v1/namespaces/{namespace}/services"),
        Some("Endpoints") => format!("/api/v1/namespaces/{namespace}/endpoints"),
        Some("EndpointSlice") => format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"),
        other => anyhow::bail!("unknown kind {other:?}"),
    };
    let api = cluster.admin();
    match api.get(&format!("{collection}/{name}")).await {
        Ok(there) => {
            let mut object = object.clone();
            object["metadata"]["resourceVersion"] = json!(there["metadata"]["resourceVersion"]);
            if object["kind"] == "Service" {
                for field in ["clusterIP", "clusterIPs"] {
                    object["spec"][field] = there["spec"][field].clone();
                }
            }
            api.put(&format!("{collection}/{name}"), &object).await?;
        }
        Err(_) => {
            api.post(&collection, object).await?;
        }
    }
    Ok(())
}
