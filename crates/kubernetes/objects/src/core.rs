//! `core/v1`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Meta;
use crate::meta::object;

/// `Service`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Service {
    /// Metadata.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub metadata: Meta,
    /// Spec.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub spec: ServiceSpec,
}
object!(Service, "Service", "v1", "services");

/// `ServiceSpec`: the fields that Gimbal sets, and those that a manual edit could have set instead.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<Arc<str>>,
    /// `None` for a headless Service.
    #[serde(rename = "clusterIP", skip_serializing_if = "Option::is_none")]
    pub cluster_ip: Option<Arc<str>>,
    /// Selector.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub selector: BTreeMap<Arc<str>, Arc<str>>,
    /// Ports.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub ports: Vec<ServicePort>,
    /// External name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_name: Option<Arc<str>>,
    /// External addresses.
    #[serde(
        rename = "externalIPs",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::text::null_is_default"
    )]
    pub external_ips: Vec<Arc<str>>,
    /// Session affinity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_affinity: Option<Arc<str>>,
    /// Whether endpoints that are not ready are published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publish_not_ready_addresses: Option<bool>,
}

/// `ServicePort`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    /// Name; required where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Number.
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`; unset means `TCP`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Arc<str>>,
    /// Application protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Arc<str>>,
    /// Port on the endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_port: Option<IntOrString>,
}

/// `IntOrString`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number.
    Int(i32),
    /// A name.
    String(Arc<str>),
}

/// `Endpoints`, the older API.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Endpoints {
    /// Metadata.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub metadata: Meta,
    /// Groups of addresses that share their ports.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub subsets: Vec<EndpointSubset>,
}
object!(Endpoints, "Endpoints", "v1", "endpoints");

/// `EndpointSubset`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSubset {
    /// Ready.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub addresses: Vec<EndpointAddress>,
    /// Not ready.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub not_ready_addresses: Vec<EndpointAddress>,
    /// Ports.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub ports: Vec<SubsetPort>,
}

/// `EndpointAddress`, without `nodeName` and `targetRef`: they mean nothing outside their cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointAddress {
    /// Address.
    pub ip: Arc<str>,
    /// Host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Arc<str>>,
}

/// `EndpointPort` of `core/v1`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubsetPort {
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Number.
    pub port: i32,
    /// Protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Arc<str>>,
    /// Application protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Arc<str>>,
}

/// `Namespace`. Only its metadata is read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Namespace {
    /// Metadata.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub metadata: Meta,
}
object!(Namespace, "Namespace", "v1", "namespaces");

/// `ConfigMap`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfigMap {
    /// Metadata.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub metadata: Meta,
    /// Data.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub data: BTreeMap<String, String>,
}
object!(ConfigMap, "ConfigMap", "v1", "configmaps");
