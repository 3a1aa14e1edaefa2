//! `discovery.k8s.io/v1`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Meta;
use crate::meta::object;

/// `EndpointSlice`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    /// Metadata.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub metadata: Meta,
    /// `IPv4`, `IPv6` or `FQDN`. Cannot be changed.
    #[serde(deserialize_with = "crate::text::text")]
    pub address_type: Arc<str>,
    /// Endpoints. Written even when empty: the field is required.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub endpoints: Vec<Endpoint>,
    /// Ports that all endpoints share.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub ports: Vec<EndpointPort>,
}
object!(EndpointSlice, "EndpointSlice", "discovery.k8s.io/v1", "endpointslices");

/// `Endpoint`, without `nodeName` and `targetRef`: they mean nothing outside their cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Endpoint {
    /// One address; more are allowed and mean the same endpoint.
    #[serde(deserialize_with = "crate::text::list")]
    pub addresses: Vec<Arc<str>>,
    /// Conditions.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub conditions: EndpointConditions,
    /// Host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Arc<str>>,
    /// Zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Arc<str>>,
    /// Hints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<EndpointHints>,
}

/// `EndpointConditions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointConditions {
    /// Unset means ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Unset means as ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    /// Unset means not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

/// `EndpointHints`, without `forNodes`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointHints {
    /// Zones.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub for_zones: Vec<ForZone>,
}

/// `ForZone`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ForZone {
    /// Zone.
    pub name: Arc<str>,
}

/// `EndpointPort` of `discovery.k8s.io/v1`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointPort {
    /// Name; the server defaults it to the empty string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Number; unset means all ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// `TCP`, `UDP` or `SCTP`; unset means `TCP`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Arc<str>>,
    /// Application protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Arc<str>>,
}
