//! What exists.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What exists in OpenStack.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct KuryrLoadBalancerStatus {
    /// The load balancer. If it is unset, it is looked for in OpenStack, made if it is not found, and filled in again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loadbalancer: Option<StatusLoadBalancer>,
    /// Its listeners.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<StatusListener>,
    /// Its pools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<StatusPool>,
    /// Their members, cut above 2,000. If they are removed, they are looked for again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<StatusMember>,
    /// The floating IP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_pub_ip_info: Option<PublicIpInfo>,

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
    /// Number of members that exist.
    #[serde(
        rename = "memberCount",
        deserialize_with = "crate::integer::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub member_count: Option<i64>,
    /// Whether `members` lists only some of them.
    #[serde(rename = "membersTruncated", skip_serializing_if = "Option::is_none")]
    pub members_truncated: Option<bool>,
    /// The last refusal of OpenStack, in its words.
    #[serde(rename = "lastError", skip_serializing_if = "Option::is_none")]
    pub last_error: Option<Arc<str>>,

    /// Fields of Kuryr's time that have no meaning here.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: serde_json::Map<String, serde_json::Value>,
}

/// The load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct StatusLoadBalancer {
    /// ID.
    pub id: Arc<str>,
    /// Address of the VIP.
    pub ip: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Port of the VIP.
    pub port_id: Arc<str>,
    /// Project.
    pub project_id: Arc<str>,
    /// Provider.
    pub provider: Arc<str>,
    /// Security groups of the VIP's port.
    pub security_groups: Vec<Arc<str>>,
    /// Subnet of the VIP.
    pub subnet_id: Arc<str>,
}

/// A listener.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct StatusListener {
    /// ID.
    pub id: Arc<str>,
    /// Load balancer.
    pub loadbalancer_id: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Number.
    #[serde(deserialize_with = "crate::integer::integer")]
    pub port: i64,
    /// Project.
    pub project_id: Arc<str>,
    /// Protocol.
    pub protocol: Arc<str>,
    /// Milliseconds that a client may be silent.
    #[serde(default, deserialize_with = "crate::integer::optional", skip_serializing_if = "Option::is_none")]
    pub timeout_client_data: Option<i64>,
    /// Milliseconds that a member may be silent.
    #[serde(default, deserialize_with = "crate::integer::optional", skip_serializing_if = "Option::is_none")]
    pub timeout_member_data: Option<i64>,
}

/// A pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct StatusPool {
    /// ID.
    pub id: Arc<str>,
    /// Listener.
    pub listener_id: Arc<str>,
    /// Load balancer.
    pub loadbalancer_id: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Project.
    pub project_id: Arc<str>,
    /// Protocol.
    pub protocol: Arc<str>,
}

/// A member of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct StatusMember {
    /// ID.
    pub id: Arc<str>,
    /// Address.
    pub ip: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Pool.
    pub pool_id: Arc<str>,
    /// Number.
    #[serde(deserialize_with = "crate::integer::integer")]
    pub port: i64,
    /// Project.
    pub project_id: Arc<str>,
    /// Subnet.
    pub subnet_id: Arc<str>,
}

/// A floating IP.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PublicIpInfo {
    /// ID.
    pub ip_id: Arc<str>,
    /// Address.
    pub ip_addr: Arc<str>,
    /// user: it was asked for, and is not released; pool: it was taken from the pool.
    pub alloc_method: Arc<str>,
}

impl PublicIpInfo {
    /// A floating IP that a user asked for.
    pub const USER: &'static str = "user";
    /// A floating IP from the pool.
    pub const POOL: &'static str = "pool";
}

/// A condition, as everywhere in Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct StatusCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub type_: Arc<str>,
    /// True, False or Unknown.
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: Arc<str>,
    /// Why, for programs.
    pub reason: Arc<str>,
    /// Why, in words.
    pub message: Arc<str>,
    /// When the status last changed.
    #[serde(rename = "lastTransitionTime")]
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: Arc<str>,
    /// Generation of the spec that this is about.
    #[serde(
        default,
        rename = "observedGeneration",
        deserialize_with = "crate::integer::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub observed_generation: Option<i64>,
}
