//! Ports and endpoints in the spec.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One port of the Service: one listener and one pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct KlbPort {
    /// Name of the port. Endpoints belong to it by this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Number that clients connect to.
    #[serde(deserialize_with = "crate::integer::integer")]
    pub port: i64,
    /// TCP, UDP or SCTP.
    pub protocol: Arc<str>,
    /// Number or name on the endpoints.
    #[serde(rename = "targetPort")]
    pub target_port: Arc<str>,
    /// Number on every node.
    #[serde(default, deserialize_with = "crate::integer::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub node_port: Option<i64>,
    /// Application protocol of the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Arc<str>>,
}

/// Endpoints that share their ports, in the order of the EndpointSlices' names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KlbSlice {
    /// Endpoints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<KlbEndpoint>,
    /// Ports of each of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<KlbSlicePort>,
}

/// One endpoint: a Pod, or a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KlbEndpoint {
    /// Its address; more than one mean the same endpoint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Arc<str>>,
    /// Its conditions.
    #[serde(skip_serializing_if = "KlbEndpointConditions::are_unset")]
    pub conditions: KlbEndpointConditions,
    /// Its host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Arc<str>>,
    /// The node that it runs on.
    #[serde(rename = "nodeName", skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Arc<str>>,
    /// The object that it is. Left out of large load balancers.
    #[serde(rename = "targetRef", skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<KlbTarget>,
    /// Kuryr's; read and kept, never written.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "gimbal_kubernetes_definition::any_object")]
    pub topology: Option<Box<serde_json::Map<String, serde_json::Value>>>,
}

/// Conditions of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KlbEndpointConditions {
    /// Whether it takes new connections; unset means that it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Whether it still serves the connections that it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    /// Whether it is being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

impl KlbEndpointConditions {
    fn are_unset(&self) -> bool {
        *self == Self::default()
    }
}

/// The object behind an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KlbTarget {
    /// Pod, or Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Arc<str>>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Arc<str>>,
    /// Kuryr's; never written, for it changes without meaning.
    #[serde(rename = "resourceVersion", skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<Arc<str>>,
    /// Its UID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<Arc<str>>,
}

/// A port that endpoints have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KlbSlicePort {
    /// Name of the Service's port that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Number; unset means all ports.
    #[serde(deserialize_with = "crate::integer::optional", skip_serializing_if = "Option::is_none")]
    pub port: Option<i64>,
    /// TCP, UDP or SCTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Arc<str>>,
}
