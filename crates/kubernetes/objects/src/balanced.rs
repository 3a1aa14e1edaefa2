//! Services, slices and nodes with everything that a load balancer outside the cluster is made from.
//!
//! [`Service`](crate::Service) and [`EndpointSlice`](crate::EndpointSlice) leave most of this out, because those who mirror
//! Services parse far more of them and need none of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::meta::object;
use crate::{EndpointConditions, EndpointPort, IntOrString, LifecycleMeta, Meta};

/// `Service`, as a controller of load balancers reads it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BalancedService {
    /// Metadata.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub metadata: LifecycleMeta,
    /// Spec.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub spec: BalancedServiceSpec,
    /// Status.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub status: BalancedServiceStatus,
}

impl crate::Object for BalancedService {
    const KIND: crate::Kind = crate::Kind { kind: "Service", api_version: "v1", plural: "services" };
    fn meta(&self) -> &Meta {
        &self.metadata.meta
    }
}

/// `ServiceSpec`, without what only kube-proxy and the endpoint controllers need.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BalancedServiceSpec {
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`; unset means `ClusterIP`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<Arc<str>>,
    /// `None` for a headless Service.
    #[serde(rename = "clusterIP", skip_serializing_if = "Option::is_none")]
    pub cluster_ip: Option<Arc<str>>,
    /// One address per family; the first is [`cluster_ip`](Self::cluster_ip).
    #[serde(rename = "clusterIPs", skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::list")]
    pub cluster_ips: Vec<Arc<str>>,
    /// `IPv4` and `IPv6`, in the order of [`cluster_ips`](Self::cluster_ips).
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::list")]
    pub ip_families: Vec<Arc<str>>,
    /// Ports.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub ports: Vec<BalancedPort>,
    /// External addresses.
    #[serde(rename = "externalIPs", skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::list")]
    pub external_ips: Vec<Arc<str>>,
    /// The address that a user asks for.
    #[serde(rename = "loadBalancerIP", skip_serializing_if = "Option::is_none")]
    pub load_balancer_ip: Option<Arc<str>>,
    /// Who implements the Service; unset: the cluster's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer_class: Option<Arc<str>>,
    /// Ranges of clients that are let in.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::list")]
    pub load_balancer_source_ranges: Vec<Arc<str>>,
    /// `Cluster` or `Local`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<Arc<str>>,
    /// Where a node says whether it has endpoints of its own; set by the server for `Local`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_check_node_port: Option<i32>,
    /// `None` or `ClientIP`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_affinity: Option<Arc<str>>,
    /// Configuration of the affinity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_affinity_config: Option<SessionAffinityConfig>,
}

/// `ServicePort` with its node port.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BalancedPort {
    /// Name; required where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Number.
    #[serde(deserialize_with = "crate::text::null_is_default")]
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
    /// Port on every node; 0 or unset where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_port: Option<i32>,
}

/// `SessionAffinityConfig`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionAffinityConfig {
    /// For `ClientIP`.
    #[serde(rename = "clientIP", skip_serializing_if = "Option::is_none")]
    pub client_ip: Option<ClientIpConfig>,
}

/// `ClientIPConfig`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientIpConfig {
    /// How long a client keeps its endpoint; unset means three hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
}

/// `ServiceStatus`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BalancedServiceStatus {
    /// Where the load balancer is reached.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub load_balancer: LoadBalancerStatus,
    /// Conditions, of whoever sets them.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub conditions: Vec<ServiceCondition>,
}

/// `Condition` of a Service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceCondition {
    /// What it is about.
    #[serde(rename = "type", deserialize_with = "crate::text::text")]
    pub type_: Arc<str>,
    /// `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "crate::text::text")]
    pub status: Arc<str>,
    /// Generation of the spec that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When its status last changed.
    #[serde(deserialize_with = "crate::text::text")]
    pub last_transition_time: Arc<str>,
    /// Why, in one word.
    #[serde(deserialize_with = "crate::text::text")]
    pub reason: Arc<str>,
    /// Why, in words.
    #[serde(deserialize_with = "crate::text::text")]
    pub message: Arc<str>,
}

/// `LoadBalancerStatus`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadBalancerStatus {
    /// Addresses.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub ingress: Vec<LoadBalancerIngress>,
}

/// `LoadBalancerIngress`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerIngress {
    /// An address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<Arc<str>>,
    /// Or a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Arc<str>>,
    /// `VIP`: nodes may deliver to the endpoints without the load balancer; `Proxy`: they must not. Only with an address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_mode: Option<Arc<str>>,
    /// What became of each port.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub ports: Vec<PortStatus>,
}

/// `PortStatus`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PortStatus {
    /// Number.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    #[serde(deserialize_with = "crate::text::text")]
    pub protocol: Arc<str>,
    /// Why the port is not served: `CamelCase`, or that behind a domain and a slash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Arc<str>>,
}

/// `EndpointSlice`, with what its endpoints are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BalancedSlice {
    /// Metadata.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub metadata: Meta,
    /// `IPv4`, `IPv6` or `FQDN`. Cannot be changed.
    #[serde(deserialize_with = "crate::text::text")]
    pub address_type: Arc<str>,
    /// Endpoints.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub endpoints: Vec<BalancedEndpoint>,
    /// Ports that all endpoints share.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub ports: Vec<EndpointPort>,
}
object!(BalancedSlice, "EndpointSlice", "discovery.k8s.io/v1", "endpointslices");

/// `Endpoint` of a slice, with its node and what it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BalancedEndpoint {
    /// One address; more are allowed and mean the same endpoint.
    #[serde(deserialize_with = "crate::text::list")]
    pub addresses: Vec<Arc<str>>,
    /// Conditions.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub conditions: EndpointConditions,
    /// Host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Arc<str>>,
    /// The node that it runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Arc<str>>,
    /// What it is, mostly a Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetReference>,
}

/// `ObjectReference` of an endpoint, without its version: that changes without meaning.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetReference {
    /// Kind, mostly `Pod`.
    #[serde(deserialize_with = "crate::text::text")]
    pub kind: Arc<str>,
    /// Namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Arc<str>>,
    /// Name.
    #[serde(deserialize_with = "crate::text::text")]
    pub name: Arc<str>,
    /// UID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<Arc<str>>,
}

/// `Node`: its addresses and what keeps load balancers away from it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Metadata.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub metadata: Meta,
    /// Spec.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub spec: NodeSpec,
    /// Status.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub status: NodeStatus,
}
object!(Node, "Node", "v1", "nodes");

/// `NodeSpec`: taints alone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// Taints.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub taints: Vec<Taint>,
}

/// `Taint`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// Key.
    #[serde(deserialize_with = "crate::text::text")]
    pub key: Arc<str>,
    /// Effect.
    #[serde(deserialize_with = "crate::text::text")]
    pub effect: Arc<str>,
}

/// `NodeStatus`: addresses alone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// Addresses.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub addresses: Vec<NodeAddress>,
}

/// `NodeAddress`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeAddress {
    /// `InternalIP`, `ExternalIP`, `Hostname` and the like.
    #[serde(rename = "type", deserialize_with = "crate::text::text")]
    pub type_: Arc<str>,
    /// The address.
    #[serde(deserialize_with = "crate::text::text")]
    pub address: Arc<str>,
}

impl BalancedService {
    /// The annotations.
    #[must_use]
    pub fn annotations(&self) -> &BTreeMap<Arc<str>, Arc<str>> {
        &self.metadata.meta.annotations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_read_and_written() {
        let json = serde_json::json!({
            "metadata": {"name": "web", "finalizers": ["a/b"], "annotations": {"c": "d"}},
            "spec": {
                "type": "LoadBalancer", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"],
                "ports": [{"name": "http", "port": 80, "protocol": "TCP", "appProtocol": "http", "targetPort": "web",
                           "nodePort": 30080}],
                "externalIPs": ["192.0.2.1"], "loadBalancerIP": "192.0.2.2", "loadBalancerClass": "c",
                "loadBalancerSourceRanges": ["10.0.0.0/8"], "externalTrafficPolicy": "Local", "healthCheckNodePort": 31000,
                "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
            },
            "status": {"loadBalancer": {"ingress": [
                {"ip": "192.0.2.2", "ipMode": "VIP", "ports": [{"port": 80, "protocol": "TCP", "error": "a.b/C"}]},
            ]}, "conditions": [
                {"type": "T", "status": "True", "observedGeneration": 2, "lastTransitionTime": "t", "reason": "R", "message": "m"},
            ]},
        });
        let service: BalancedService = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&service).unwrap(), json);
        assert_eq!(service.annotations().len(), 1);
    }

    #[test]
    fn the_version_of_a_target_is_not_read() {
        let slice = |version: &str| {
            let json = format!(
                r#"{{"addressType":"IPv4","ports":null,"endpoints":[{{"addresses":["10.0.0.1"],"nodeName":"n",
                "targetRef":{{"kind":"Pod","name":"p","namespace":"a","uid":"u","resourceVersion":"{version}"}}}}]}}"#
            );
            serde_json::from_str::<BalancedSlice>(&json).unwrap()
        };
        assert_eq!(slice("1"), slice("2"));
        assert_eq!(slice("1").endpoints[0].node_name.as_deref(), Some("n"));
    }

    #[test]
    fn null_is_as_unset() {
        let nulls = |fields: &[&str]| {
            fields.iter().map(|field| ((*field).to_owned(), serde_json::Value::Null)).collect::<serde_json::Value>()
        };
        let service = serde_json::json!({
            "metadata": null, "status": {"loadBalancer": null},
            "spec": nulls(&["type", "clusterIP", "clusterIPs", "ipFamilies", "ports", "externalIPs", "loadBalancerIP",
                "loadBalancerSourceRanges", "externalTrafficPolicy", "healthCheckNodePort", "sessionAffinityConfig"]),
        });
        assert_eq!(serde_json::from_value::<BalancedService>(service).unwrap(), BalancedService::default());
        let slice = nulls(&["metadata", "addressType", "endpoints", "ports"]);
        assert_eq!(serde_json::from_value::<BalancedSlice>(slice).unwrap(), BalancedSlice::default());
        let endpoint = nulls(&["addresses", "conditions", "targetRef"]);
        assert_eq!(serde_json::from_value::<BalancedEndpoint>(endpoint).unwrap(), BalancedEndpoint::default());
        let node = serde_json::json!({"spec": {"taints": null}, "status": {"addresses": null}});
        assert_eq!(serde_json::from_value::<Node>(node).unwrap(), Node::default());
    }
}
