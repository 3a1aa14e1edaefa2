//! A load balancer that leads requests by host and path.

use std::sync::Arc;

use gimbal_kubernetes_objects::{Kind, LifecycleMeta, Meta, Object};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{KlbAlgorithm, KlbMemberMode, KlbSlice, KuryrLoadBalancerStatus};

/// A load balancer in Octavia that leads the requests of Ingresses to their Services.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KuryrL7Router {
    /// Metadata.
    pub metadata: LifecycleMeta,
    /// What is wanted.
    pub spec: KuryrL7RouterSpec,
    /// What exists. A create drops it: it is written through the subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<KuryrL7RouterStatus>,
}

impl Object for KuryrL7Router {
    const KIND: Kind = Kind { kind: "KuryrL7Router", api_version: "openstack.org/v1", plural: "kuryrl7routers" };

    fn meta(&self) -> &Meta {
        &self.metadata.meta
    }
}

/// What is wanted of a router. IDs are those of OpenStack.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KuryrL7RouterSpec {
    /// Floating IP that is asked for; unset: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l7_router_ip: Option<Arc<str>>,
    /// Subnet that the floating IP is from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_svc_subnet: Option<Arc<str>>,
    /// Network of the floating IP; unset: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floating_network_id: Option<Arc<str>>,
    /// Subnet of the VIP. Cannot be changed in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet_id: Option<Arc<str>>,
    /// Project of the load balancer. Cannot be changed in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<Arc<str>>,
    /// Security groups of the VIP's port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_groups_ids: Vec<Arc<str>>,
    /// Provider in Octavia, one that has policies. Cannot be changed in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Arc<str>>,
    /// Whether members are Pods or nodes; unset means Pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member_mode: Option<KlbMemberMode>,
    /// How a member is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lb_algorithm: Option<KlbAlgorithm>,
    /// Milliseconds that a client may be silent; 0 or unset: what Octavia is configured for.
    #[serde(deserialize_with = "crate::integer::optional", skip_serializing_if = "Option::is_none")]
    pub timeout_client_data: Option<i64>,
    /// Milliseconds that a member may be silent; 0 or unset: what Octavia is configured for.
    #[serde(deserialize_with = "crate::integer::optional", skip_serializing_if = "Option::is_none")]
    pub timeout_member_data: Option<i64>,
    /// Class of the Ingresses, if all have one.
    #[serde(rename = "ingressClassName", skip_serializing_if = "Option::is_none")]
    pub ingress_class_name: Option<Arc<str>>,
    /// Certificates, the default one first. Those of a router that was not made for Ingresses are not served.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tls: Vec<KlrTls>,
    /// Whether HTTP requests are sent to HTTPS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect_http: Option<bool>,
    /// Routes, in the order in which they are tried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<KlrRoute>,
    /// Pools that routes lead to, by Service and port, each once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<KlrPool>,
    /// Name of the pool of requests that no route takes; unset: they are answered with 503.
    #[serde(rename = "defaultPool", skip_serializing_if = "Option::is_none")]
    pub default_pool: Option<Arc<str>>,
    /// The Ingress that has these requests, as NAMESPACE/NAME.
    #[serde(rename = "defaultIngress", skip_serializing_if = "Option::is_none")]
    pub default_ingress: Option<Arc<str>>,
}

/// A certificate.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KlrTls {
    /// Hosts that Ingresses name it for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Arc<str>>,
    /// Secret with the certificate and its key, as NAMESPACE/NAME.
    #[serde(rename = "secretName", skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<Arc<str>>,
    /// Hash of the Secret's content.
    #[serde(rename = "contentHash", skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<Arc<str>>,
}

/// A route: which requests, and where to. One without Service and redirect answers with 503.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KlrRoute {
    /// The Ingress that it is of, as NAMESPACE/NAME.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<Arc<str>>,
    /// Host in lower case, or with a star for its first label; unset: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Arc<str>>,
    /// Path, without a slash at its end if it is a prefix; unset: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Arc<str>>,
    /// How the path is compared; unset: as a prefix.
    #[serde(rename = "pathType", skip_serializing_if = "Option::is_none")]
    pub path_type: Option<KlrPathType>,
    /// The Service, as NAMESPACE/NAME.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<Arc<str>>,
    /// Port of the Service.
    #[serde(deserialize_with = "crate::integer::optional", skip_serializing_if = "Option::is_none")]
    pub port: Option<i64>,
    /// Where requests are sent instead, for instance `https://www.example.com`. The path stays. Where HTTPS requests take this
    /// route as well, HTTP ones alone are sent there, and only while HTTPS is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect: Option<Arc<str>>,
    /// Whether HTTPS requests take this route as well.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub https: bool,
}

/// How a path is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum KlrPathType {
    /// As it is.
    Exact,
    /// By segments: /a is a prefix of /a/b, and not of /ab.
    Prefix,
}

/// The pool of one port of a Service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KlrPool {
    /// Name of the pool.
    pub name: Arc<str>,
    /// The Service, as NAMESPACE/NAME.
    pub service: Arc<str>,
    /// Port of the Service.
    #[serde(deserialize_with = "crate::integer::integer")]
    pub port: i64,
    /// Endpoints, each with the one port that this pool leads to.
    #[serde(rename = "endpointSlices", skip_serializing_if = "Vec::is_empty")]
    pub endpoint_slices: Vec<Arc<KlbSlice>>,
}

/// What exists in OpenStack.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KuryrL7RouterStatus {
    /// Load balancer, listeners, pools and members, and how it is with them. The pool of a Service has no listener.
    #[serde(flatten)]
    pub balancer: KuryrLoadBalancerStatus,
    /// Policies of the listeners.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<StatusPolicy>,
    /// Certificates in Barbican.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<StatusSecret>,
    /// Number of routes in the spec.
    #[serde(
        rename = "routeCount",
        deserialize_with = "crate::integer::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub route_count: Option<i64>,
}

/// A policy of a listener.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct StatusPolicy {
    /// ID.
    pub id: Arc<str>,
    /// Listener.
    pub listener_id: Arc<str>,
    /// Position, from 1.
    #[serde(deserialize_with = "crate::integer::integer")]
    pub position: i64,
    /// Name.
    pub name: Arc<str>,
}

/// A certificate in Barbican.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct StatusSecret {
    /// Reference.
    #[serde(rename = "ref")]
    pub reference: Arc<str>,
    /// Hash of its content.
    #[serde(rename = "contentHash")]
    pub content_hash: Arc<str>,
}
