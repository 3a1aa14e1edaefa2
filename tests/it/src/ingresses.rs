//! Ingresses on the stage of the way back, and their class.

use anyhow::Context as _;
use gimbal_testkit::cluster::Refused;
use gimbal_testkit::openstack::Service;
use gimbal_testkit::{San, fingerprint};
use serde_json::{Value, json};

use crate::{NAMESPACE, WayBack};

/// The Ingresses of [`NAMESPACE`].
pub const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses";
/// The KuryrL7Routers of all namespaces.
pub const ROUTERS: &str = "/apis/openstack.org/v1/kuryrl7routers";
/// The Secrets of [`NAMESPACE`].
pub const SECRETS: &str = "/api/v1/namespaces/shop/secrets";
const CLASSES: &str = "/apis/networking.k8s.io/v1/ingressclasses";
/// The writer's leave for Ingresses, in the cluster's configuration.
pub(crate) const ENABLE_INGRESS: &str = "kubernetes: {enable_ingress: true}";
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

    /// Adds a subnet of this range to the network of floating IPs, and makes a floating IP there as an administrator does. The
    /// configuration of writers that are started later has both: floating IPs come from there, and this one is the shared router's.
    ///
    /// # Errors
    /// Neutron's error.
    pub async fn reserve_router_address(&mut self, range: &str, address: &str) -> anyhow::Result<()> {
        let neutron = self.cloud.neutron(Service::Neutron)?;
        let networks = neutron.get("/networks?router:external=true").await?;
        let network = &networks["networks"][0]["id"];
        let subnet = json!({"network_id": network, "ip_version": 4, "cidr": range, "enable_dhcp": false});
        let subnet = neutron.post("/subnets", &json!({"subnet": subnet})).await?;
        let subnet = subnet["subnet"]["id"].as_str().context("a subnet without an ID")?;
        let floating =
            json!({"floating_network_id": network, "floating_ip_address": address, "project_id": self.project});
        neutron.post("/floatingips", &json!({"floatingip": floating})).await?;
        let keys = format!("neutron_defaults: {{external_svc_subnet: {subnet}, l7_router_ip: {address}, ");
        self.settings = self.settings.replace("neutron_defaults: {", &keys);
        self.configure(ENABLE_INGRESS)
    }

    /// Makes a Secret in [`NAMESPACE`] with a certificate that has these names. Returns its SHA-256, in hexadecimal digits.
    ///
    /// # Errors
    /// The API server's refusal.
    pub async fn make_certificate(&self, secret: &str, names: &[&str]) -> anyhow::Result<String> {
        let (content, fingerprint) = self.issue(secret, names)?;
        let body = json!({"metadata": {"name": secret}, "type": "kubernetes.io/tls", "stringData": content});
        self.cluster.admin().post(SECRETS, &body).await?;
        Ok(fingerprint)
    }

    /// Puts another certificate with these names into a Secret of [`NAMESPACE`]. Returns its SHA-256, in hexadecimal digits.
    ///
    /// # Errors
    /// The API server's refusal.
    pub async fn renew_certificate(&self, secret: &str, names: &[&str]) -> anyhow::Result<String> {
        let (content, fingerprint) = self.issue(secret, names)?;
        self.cluster.admin().patch(&format!("{SECRETS}/{secret}"), &json!({"stringData": content})).await?;
        Ok(fingerprint)
    }

    fn issue(&self, secret: &str, names: &[&str]) -> anyhow::Result<(Value, String)> {
        let names: Vec<San<'_>> = names.iter().map(|name| San::Dns(name)).collect();
        let pair = self.programs.pki.issue(secret, &names)?;
        let (cert, key) = (std::fs::read_to_string(&pair.cert)?, std::fs::read_to_string(&pair.key)?);
        Ok((json!({"tls.crt": cert, "tls.key": key}), fingerprint(&pair.cert)?))
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
