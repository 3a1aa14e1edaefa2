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

impl WayBack {
    /// Makes the class of [`WayBack::make_ingress`], which is the controller's.
    ///
    /// # Errors
    /// The API server's refusal.
    pub async fn make_ingress_class(&self) -> Result<Value, Refused> {
        let class = json!({"metadata": {"name": CLASS}, "spec": {"controller": "kuryr.openstack.org/ingress"}});
        self.cluster.admin().post(CLASSES, &class).await
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
