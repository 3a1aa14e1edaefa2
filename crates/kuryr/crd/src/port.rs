//! The port of a Pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use gimbal_kubernetes_objects::{Kind, LifecycleMeta, Meta, Object};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::StatusCondition;

/// A port in Neutron for one Pod, of the same name and namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KuryrPort {
    /// Metadata.
    pub metadata: LifecycleMeta,
    /// What is wanted.
    pub spec: KuryrPortSpec,
    /// What exists. A create drops it: it is written through the subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<KuryrPortStatus>,
}

impl Object for KuryrPort {
    const KIND: Kind = Kind { kind: "KuryrPort", api_version: "openstack.org/v1", plural: "kuryrports" };

    fn meta(&self) -> &Meta {
        &self.metadata.meta
    }
}

/// What is wanted of a port. IDs are those of OpenStack.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["podUid", "podNodeName"]))]
pub struct KuryrPortSpec {
    /// UID of the Pod, which owns everything that is made.
    #[serde(rename = "podUid")]
    pub pod_uid: Arc<str>,
    /// The node that it runs on.
    #[serde(rename = "podNodeName")]
    pub pod_node_name: Arc<str>,
    /// Whether it is a static Pod, which kubelet runs without the API server.
    #[serde(rename = "podStatic", skip_serializing_if = "Option::is_none")]
    pub pod_static: Option<bool>,

    /// UID of the node: a port that is ready for any of its Pods belongs to it.
    #[serde(rename = "podNodeUid", skip_serializing_if = "Option::is_none")]
    pub pod_node_uid: Option<Arc<str>>,
    /// Project of the port. Cannot be changed in place.
    #[serde(rename = "projectId", skip_serializing_if = "Option::is_none")]
    pub project_id: Option<Arc<str>>,
    /// Network of the port. Cannot be changed in place.
    #[serde(rename = "networkId", skip_serializing_if = "Option::is_none")]
    pub network_id: Option<Arc<str>>,
    /// Its security groups that were made for this cluster: of each its KuryrNetworkPolicy, as NAMESPACE/NAME.
    #[serde(rename = "securityGroups", skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<Arc<str>>,
    /// Its security groups that somebody else made, by their IDs.
    #[serde(rename = "securityGroupIds", skip_serializing_if = "Vec::is_empty")]
    pub security_group_ids: Vec<Arc<str>>,
}

/// What exists in OpenStack, and what the node says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true, "required" = ["vifs"]))]
pub struct KuryrPortStatus {
    /// What the interfaces of the Pod are plugged into, by their names. Empty until there is a port.
    pub vifs: BTreeMap<Arc<str>, KpInterface>,

    /// Generation of the spec that this is about.
    #[serde(
        rename = "observedGeneration",
        deserialize_with = "crate::integer::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub observed_generation: Option<i64>,
    /// Conditions. `Plugged` is the node's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<StatusCondition>,

    /// Fields of Kuryr's time that have no meaning here.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: serde_json::Map<String, serde_json::Value>,
}

/// An interface of a Pod.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KpInterface {
    /// Whether the default route leads through it.
    pub default: bool,
    /// What it is plugged into.
    pub vif: KpVif,
}

/// A port. Kuryr kept a versioned object here: it stays as it is, and is not read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct KpVif {
    /// ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Arc<str>>,
    /// Its MAC address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Arc<str>>,
    /// Its network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<KpNetwork>,
    /// How the node plugs it: Neutron's binding:vif_type, for instance ovs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_type: Option<Arc<str>>,
    /// VLAN of a subport on the trunk of its node.
    #[serde(deserialize_with = "crate::integer::optional", skip_serializing_if = "Option::is_none")]
    pub vlan_id: Option<i64>,
    /// Whether Neutron has wired it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,

    /// The versioned object of Kuryr's time.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: serde_json::Map<String, serde_json::Value>,
}

/// The network of a port.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KpNetwork {
    /// ID.
    pub id: Arc<str>,
    /// Bytes that a frame may carry.
    #[serde(deserialize_with = "crate::integer::optional", skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,
    /// Subnets that the port has addresses in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<KpSubnet>,
}

/// A subnet, and the addresses that a port has in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KpSubnet {
    /// ID.
    pub id: Arc<str>,
    /// Range of its addresses.
    pub cidr: Arc<str>,
    /// Where packets to other subnets go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Arc<str>>,
    /// Addresses of the port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<Arc<str>>,
}
