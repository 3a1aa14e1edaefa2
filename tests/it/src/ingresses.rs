//! Ingresses on the stage of the way back, and their class.

use gimbal_testkit::cluster::Refused;
use serde_json::{Value, json};

use crate::{NAMESPACE, WayBack};

/// The Ingresses of [`NAMESPACE`].
pub const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses";
/// The KuryrL7Routers of all namespaces.
pub const ROUTERS: &str = "/apis/openstack.org/v1/kuryrl7routers";
const CLASSES: &str = "/apis/networking.k8s.io/v1/ingressclasses";
const CLASS: &str = "kuryr";
/// Where members of [`WayBack::make_backend`] listen.
const TARGET: u16 = 8080;

impl WayBack {
    /// Makes the class of [`WayBack::make_ingress`], which is the controller's.
    ///
    /// # Errors
    /// The API server's refusal.
    pub async fn make_ingress_class(&self) -> Result<Value, Refused> {
        self.make_class_of(CLASS, "kuryr.openstack.org/ingress").await
    }

    /// Makes a class of some controller.
    ///
    /// # Errors
    /// The API server's refusal.
    pub async fn make_class_of(&self, name: &str, controller: &str) -> Result<Value, Refused> {
        let class = json!({"metadata": {"name": name}, "spec": {"controller": controller}});
        self.cluster.admin().post(CLASSES, &class).await
    }

    /// Makes a Service in [`NAMESPACE`] that has a load balancer only where an Ingress leads to it: port 80, and members of these
    /// names at these addresses.
    ///
    /// # Errors
    /// The API server's refusal, or there is no data plane.
    pub async fn make_backend(&self, name: &str, members: &[(&str, &str)]) -> anyhow::Result<()> {
        for (member, address) in members {
            self.plane()?.member(address, TARGET, member).await?;
        }
        let port = json!({"name": "http", "port": 80, "targetPort": TARGET, "protocol": "TCP"});
        let service = json!({"metadata": {"name": name}, "spec": {"ports": [port]}});
        self.cluster.admin().post(&format!("/api/v1/namespaces/{NAMESPACE}/services"), &service).await?;
        let addresses: Vec<&str> = members.iter().map(|(_, address)| *address).collect();
        self.set_members(name, &addresses, &[("http", TARGET)]).await
    }

    /// Makes an Ingress of the controller's class in [`NAMESPACE`].
    ///
    /// # Errors
    /// The API server's refusal.
    pub async fn make_ingress(&self, name: &str, rules: &Value) -> Result<Value, Refused> {
        let spec = json!({"ingressClassName": CLASS, "rules": rules});
        let ingress = json!({"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec});
        self.cluster.admin().post(INGRESSES, &ingress).await
    }
}

/// Returns a path of an Ingress' rule that leads to port 80 of a Service.
#[must_use]
pub fn ingress_path(path: &str, kind: &str, service: &str) -> Value {
    let backend = json!({"service": {"name": service, "port": {"number": 80}}});
    json!({"path": path, "pathType": kind, "backend": backend})
}
