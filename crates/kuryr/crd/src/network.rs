//! The network of a namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use gimbal_kubernetes_objects::{Kind, LifecycleMeta, Meta, Object};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::StatusCondition;

/// A network and a subnet in Neutron for the Pods of one namespace, or of one node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KuryrNetwork {
    /// Metadata.
    pub metadata: LifecycleMeta,
    /// What is wanted.
    pub spec: KuryrNetworkSpec,
    /// What exists. A create drops it: it is written through the subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<KuryrNetworkStatus>,
}

impl Object for KuryrNetwork {
    const KIND: Kind = Kind { kind: "KuryrNetwork", api_version: "openstack.org/v1", plural: "kuryrnetworks" };

    fn meta(&self) -> &Meta {
        &self.metadata.meta
    }
}

/// What is wanted of a network. IDs are those of OpenStack.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["nsName", "projectId", "nsLabels"]))]
pub struct KuryrNetworkSpec {
    /// The namespace.
    #[serde(rename = "nsName")]
    pub ns_name: Arc<str>,
    /// Project of the network. Cannot be changed in place.
    #[serde(rename = "projectId")]
    pub project_id: Arc<str>,
    /// Labels of the namespace.
    #[serde(rename = "nsLabels")]
    pub ns_labels: BTreeMap<Arc<str>, Arc<str>>,

    /// UID of the namespace, which owns everything that is made; of the node, if there is one.
    #[serde(rename = "ownerUid", skip_serializing_if = "Option::is_none")]
    pub owner_uid: Option<Arc<str>>,
    /// The node that all of its Pods run on; unset: any.
    #[serde(rename = "nodeName", skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Arc<str>>,
    /// Where the addresses of the subnet come from.
    #[serde(rename = "subnetPool", skip_serializing_if = "Option::is_none")]
    pub subnet_pool: Option<Arc<str>>,
    /// The router that leads to other networks.
    #[serde(rename = "routerId", skip_serializing_if = "Option::is_none")]
    pub router_id: Option<Arc<str>>,
}

/// What exists in OpenStack.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct KuryrNetworkStatus {
    /// The network.
    #[serde(rename = "netId", skip_serializing_if = "Option::is_none")]
    pub net_id: Option<Arc<str>>,
    /// Whether ports are ready for its Pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub populated: Option<bool>,
    /// The router that the subnet is connected to.
    #[serde(rename = "routerId", skip_serializing_if = "Option::is_none")]
    pub router_id: Option<Arc<str>>,
    /// Range of the subnet's addresses.
    #[serde(rename = "subnetCIDR", skip_serializing_if = "Option::is_none")]
    pub subnet_cidr: Option<Arc<str>>,
    /// The subnet.
    #[serde(rename = "subnetId", skip_serializing_if = "Option::is_none")]
    pub subnet_id: Option<Arc<str>>,
    /// Labels of the namespace that groups have been made for.
    #[serde(rename = "nsLabels", skip_serializing_if = "Option::is_none")]
    pub ns_labels: Option<BTreeMap<Arc<str>, Arc<str>>>,

    /// Generation of the spec that this is about.
    #[serde(
        rename = "observedGeneration",
        deserialize_with = "crate::integer::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub observed_generation: Option<i64>,
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<StatusCondition>,

    /// Fields of Kuryr's time that have no meaning here.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: serde_json::Map<String, serde_json::Value>,
}
