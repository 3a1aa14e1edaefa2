//! Removes everything that a test has put into a cluster.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use super::{Api, TestCluster, users};

/// Collections that are emptied, without the objects that [`is_initial`] names.
const EMPTIED: [&str; 11] = [
    "/api/v1/services",
    "/apis/discovery.k8s.io/v1/endpointslices",
    "/api/v1/endpoints",
    "/api/v1/configmaps",
    "/apis/coordination.k8s.io/v1/leases",
    "/api/v1/events",
    "/api/v1/secrets",
    "/api/v1/serviceaccounts",
    "/api/v1/pods",
    "/apis/networking.k8s.io/v1/ingresses",
    "/apis/networking.k8s.io/v1/networkpolicies",
];

/// Collections whose objects have effects that outlive them for seconds: a cluster with one of them is not used again.
const LASTING: [&str; 9] = [
    "/api/v1/resourcequotas",
    "/api/v1/limitranges",
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
];

const NAMESPACES: &str = "/api/v1/namespaces";
const INITIAL_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// Above this number of objects, a new cluster is quicker.
const MANY: usize = 800;
const REMOVED_WITHIN: Duration = Duration::from_secs(20);

impl TestCluster {
    /// Whether [`TestCluster::empty`] would leave it as it was at its start: no server was stopped or changed.
    pub(super) fn is_reusable(&self) -> bool {
        !self.changed.load(Ordering::SeqCst)
    }

    /// Revokes the rights of all users, removes what tests created, and begins a new audit.
    ///
    /// # Errors
    /// An API server's error, or the cluster has objects that cannot be removed without a trace.
    pub(super) async fn empty(&mut self) -> anyhow::Result<()> {
        // Connections belong to the runtime of the test that opened them.
        self.admin = Api::connect(&self.layout.url, users::ADMIN_TOKEN, &self.layout.ca)?;
        for collection in LASTING {
            let objects = self.admin.items(collection).await?;
            anyhow::ensure!(objects.is_empty(), "{collection} has {} objects", objects.len());
        }
        for collection in EMPTIED {
            let found = self.admin.items(collection).await?.len();
            anyhow::ensure!(found <= MANY, "{collection} has {found} objects");
        }
        // First, so that no process of an earlier test writes again what is removed.
        self.revoke_all().await?;
        crate::eventually("the cluster is empty", REMOVED_WITHIN, async || {
            let left = self.remove_all().await?;
            anyhow::ensure!(left == 0, "{left} objects were there");
            anyhow::Ok(())
        })
        .await?;
        self.begin_audit().await
    }

    /// Removes what is there and returns how much that was.
    async fn remove_all(&self) -> anyhow::Result<usize> {
        let mut found = 0;
        for collection in EMPTIED {
            let mut objects = self.admin.items(collection).await?;
            objects.retain(|object| !is_initial(collection, object));
            found += objects.len();
            let (before, resource) = collection.rsplit_once('/').context("a collection has a parent")?;
            let namespaces: BTreeSet<&str> = objects.iter().map(|object| text(object, "namespace")).collect();
            for namespace in namespaces {
                let there = format!("{before}/namespaces/{namespace}/{resource}");
                if INITIAL_NAMESPACES.contains(&namespace) {
                    for object in objects.iter().filter(|object| text(object, "namespace") == namespace) {
                        self.remove(&format!("{there}/{}", text(object, "name"))).await?;
                    }
                } else {
                    self.remove(&there).await?;
                }
            }
        }
        for namespace in self.admin.items(NAMESPACES).await? {
            let name = text(&namespace, "name");
            if !INITIAL_NAMESPACES.contains(&name) {
                found += 1;
                self.remove_namespace(name).await?;
            }
        }
        Ok(found)
    }

    async fn remove_namespace(&self, name: &str) -> anyhow::Result<()> {
        let path = format!("{NAMESPACES}/{name}");
        self.remove(&path).await?;
        // A controller would do this when the namespace is empty.
        let Ok(mut namespace) = self.admin.get(&path).await else { return Ok(()) };
        namespace["spec"]["finalizers"] = serde_json::json!([]);
        self.admin.put(&format!("{path}/finalize"), &namespace).await?;
        Ok(())
    }

    async fn remove(&self, path: &str) -> anyhow::Result<()> {
        match self.admin.delete(path).await {
            Err(error) if error.code != 404 => Err(error).with_context(|| format!("cannot delete {path}")),
            _ => Ok(()),
        }
    }
}

/// Whether the API server itself creates the object, at its start or again whenever it is missing.
fn is_initial(collection: &str, object: &Value) -> bool {
    let (namespace, name) = (text(object, "namespace"), text(object, "name"));
    match collection.rsplit_once('/').map(|(_, resource)| resource) {
        Some("services") => (namespace, name) == ("default", "kubernetes"),
        Some("configmaps") => (namespace, name) == ("kube-system", "extension-apiserver-authentication"),
        Some("leases") => namespace == "kube-system" && name.starts_with("apiserver-"),
        _ => false,
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}
