//! What is wanted.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::endpoints::{KlbPort, KlbSlice};

/// What is wanted of a load balancer. IDs are those of OpenStack.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KuryrLoadBalancerSpec {
    /// Address of the VIP: the cluster IP of the Service. If unset, Neutron chooses one. Cannot be changed in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<Arc<str>>,
    /// Floating IP that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lb_ip: Option<Arc<str>>,
    /// Ports of the Service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<KlbPort>,
    /// Endpoints of the Service.
    #[serde(rename = "endpointSlices", skip_serializing_if = "Vec::is_empty")]
    pub endpoint_slices: Vec<Arc<KlbSlice>>,
    /// Project of the load balancer. Cannot be changed in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<Arc<str>>,
    /// Subnet of the VIP. Cannot be changed in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet_id: Option<Arc<str>>,
    /// Security groups of the VIP's port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_groups_ids: Vec<Arc<str>>,
    /// Type of the Service, ClusterIP or LoadBalancer.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<Arc<str>>,
    /// Provider in Octavia. Cannot be changed in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Arc<str>>,
    /// Milliseconds that a client may be silent; 0 or unset: what Octavia is configured for.
    #[serde(deserialize_with = "crate::integer::optional", skip_serializing_if = "Option::is_none")]
    pub timeout_client_data: Option<i64>,
    /// Milliseconds that a member may be silent; 0 or unset: what Octavia is configured for.
    #[serde(deserialize_with = "crate::integer::optional", skip_serializing_if = "Option::is_none")]
    pub timeout_member_data: Option<i64>,

    /// UID of the Service, which owns everything that is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_uid: Option<Arc<str>>,
    /// Class of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer_class: Option<Arc<str>>,
    /// Whether members are Pods or nodes; unset means Pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member_mode: Option<KlbMemberMode>,
    /// Whether a load balancer of type LoadBalancer goes without a floating IP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub internal: Option<bool>,
    /// Families of the VIPs; members are of the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ip_families: Vec<KlbIpFamily>,
    /// Subnets of further VIPs, on the network of the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub additional_vip_subnet_ids: Vec<Arc<str>>,
    /// Addresses of further VIPs, each in the subnet that holds it: the second cluster IP of the Service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub additional_ips: Vec<Arc<str>>,
    /// Ranges of clients that are let in; unset: all. An empty list lets no client in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_ranges: Option<Vec<Arc<str>>>,
    /// External traffic policy of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<KlbTrafficPolicy>,
    /// Where a node says whether it has endpoints of its own.
    #[serde(deserialize_with = "crate::integer::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub health_check_node_port: Option<i64>,
    /// How members are probed; unset: not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_monitor: Option<KlbHealthMonitor>,
    /// How a member is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lb_algorithm: Option<KlbAlgorithm>,
    /// Seconds that a client stays with its member; unset: no affinity.
    #[serde(deserialize_with = "crate::integer::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub session_affinity_timeout: Option<i64>,
    /// Whether members get a PROXY header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<KlbProxyProtocol>,
    /// Milliseconds that a connection to a member may take.
    #[serde(deserialize_with = "crate::integer::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub timeout_member_connect: Option<i64>,
    /// Milliseconds that are waited for content to inspect.
    #[serde(deserialize_with = "crate::integer::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub timeout_tcp_inspect: Option<i64>,
    /// Connections of one listener at a time; -1: no limit.
    #[serde(deserialize_with = "crate::integer::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1))]
    pub connection_limit: Option<i64>,
    /// Flavor. Cannot be changed in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flavor_id: Option<Arc<str>>,
    /// Availability zone. Cannot be changed in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<Arc<str>>,
    /// Network of the floating IP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floating_network_id: Option<Arc<str>>,
    /// Subnet of the floating IP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floating_subnet_id: Option<Arc<str>>,
    /// Whether a floating IP that was taken from the pool stays when the load balancer goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_floating_ip: Option<bool>,
    /// Services of one group share a load balancer: the name of a group of this namespace, or NAMESPACE/NAME.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_group: Option<Arc<str>>,
    /// When the Service was created, where it shares: of two that want one port the older one has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_created: Option<Arc<str>>,
    /// Barbican containers of the certificates of TERMINATED_HTTPS listeners.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tls_container_refs: Vec<Arc<str>>,

    /// Network of the VIP, where the subnet is of no matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vip_network_id: Option<Arc<str>>,
    /// Port of the VIP, made by someone else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vip_port_id: Option<Arc<str>>,
    /// Subnet of the members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member_subnet_id: Option<Arc<str>>,
    /// Whether TCP listeners are HTTP and add X-Forwarded-For.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x_forwarded_for: Option<bool>,
    /// An existing load balancer that is asked for. Taken only if it carries the cluster's tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer_id: Option<Arc<str>>,
}

/// What members are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KlbMemberMode {
    /// Pods, by their own addresses.
    Pod,
    /// Nodes, by their node ports.
    Node,
}

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum KlbIpFamily {
    /// IPv4.
    IPv4,
    /// IPv6.
    IPv6,
}

/// Where traffic from outside may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum KlbTrafficPolicy {
    /// To every endpoint.
    Cluster,
    /// To endpoints on the node that it came to.
    Local,
}

/// How a member is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum KlbAlgorithm {
    /// In turn.
    RoundRobin,
    /// The one with the fewest connections.
    LeastConnections,
    /// By the client's address.
    SourceIp,
    /// By the client's address and port.
    SourceIpPort,
}

/// Version of the PROXY header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KlbProxyProtocol {
    /// There is none.
    None,
    /// As text.
    V1,
    /// In binary.
    V2,
}

/// How members are probed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KlbHealthMonitor {
    /// TCP, HTTP, HTTPS, TLS-HELLO, PING, UDP-CONNECT or SCTP; unset: what fits the port's protocol.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<Arc<str>>,
    /// Seconds between two probes.
    #[serde(deserialize_with = "crate::integer::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub delay: Option<i64>,
    /// Seconds that a probe may take.
    #[serde(deserialize_with = "crate::integer::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout: Option<i64>,
    /// Successes until a member is up.
    #[serde(deserialize_with = "crate::integer::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10))]
    pub max_retries: Option<i64>,
    /// Failures until a member is down.
    #[serde(deserialize_with = "crate::integer::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10))]
    pub max_retries_down: Option<i64>,
    /// Path that HTTP asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_path: Option<Arc<str>>,
    /// Answers of HTTP that count as success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_codes: Option<Arc<str>>,
}
