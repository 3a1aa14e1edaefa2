//! `networking.k8s.io/v1`: who may talk to whom.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::meta::object;
use crate::{IntOrString, Meta};

/// `NetworkPolicy`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkPolicy {
    /// Metadata.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub metadata: Meta,
    /// Spec.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub spec: NetworkPolicySpec,
}
object!(NetworkPolicy, "NetworkPolicy", "networking.k8s.io/v1", "networkpolicies");

/// `NetworkPolicySpec`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkPolicySpec {
    /// The Pods of its namespace that it isolates.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub pod_selector: LabelSelector,
    /// `Ingress`, `Egress` or both. If empty: `Ingress`, and `Egress` if there is a rule for it.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::list")]
    pub policy_types: Vec<Arc<str>>,
    /// Whom the Pods may be reached by.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub ingress: Vec<NetworkPolicyIngressRule>,
    /// Whom the Pods may reach.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub egress: Vec<NetworkPolicyEgressRule>,
}

/// `NetworkPolicyIngressRule`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkPolicyIngressRule {
    /// Ports of the Pods; empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub ports: Vec<NetworkPolicyPort>,
    /// Sources; empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub from: Vec<NetworkPolicyPeer>,
}

/// `NetworkPolicyEgressRule`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkPolicyEgressRule {
    /// Ports of the destinations; empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub ports: Vec<NetworkPolicyPort>,
    /// Destinations; empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub to: Vec<NetworkPolicyPeer>,
}

/// `NetworkPolicyPort`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkPolicyPort {
    /// `TCP`, `UDP` or `SCTP`; unset means `TCP`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Arc<str>>,
    /// A number, or the name of a container's port; unset: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<IntOrString>,
    /// The last port of a range that begins with `port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_port: Option<i32>,
}

/// `NetworkPolicyPeer`: a range of addresses, or Pods by their labels and those of their namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkPolicyPeer {
    /// Pods; unset beside a `namespaceSelector`: all of those namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
    /// Their namespaces; unset beside a `podSelector`: that of the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// A range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_block: Option<IpBlock>,
}

/// `IPBlock`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct IpBlock {
    /// The range.
    #[serde(deserialize_with = "crate::text::text")]
    pub cidr: Arc<str>,
    /// Ranges within it that do not count.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::list")]
    pub except: Vec<Arc<str>>,
}

/// `LabelSelector` of `meta/v1`. An empty one selects everything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that must be there with these values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "crate::text::map")]
    pub match_labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Requirements that must hold beside.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// `LabelSelectorRequirement`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LabelSelectorRequirement {
    /// Key of the label.
    #[serde(deserialize_with = "crate::text::text")]
    pub key: Arc<str>,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    #[serde(deserialize_with = "crate::text::text")]
    pub operator: Arc<str>,
    /// Values; empty for `Exists` and `DoesNotExist`.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::list")]
    pub values: Vec<Arc<str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_and_written() {
        let json = serde_json::json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "podSelector": {"matchLabels": {"app": "web"}},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [{
                    "ports": [{"protocol": "TCP", "port": "http"}, {"protocol": "SCTP", "port": 100, "endPort": 200}],
                    "from": [
                        {"podSelector": {}},
                        {"namespaceSelector": {"matchExpressions": [
                            {"key": "team", "operator": "In", "values": ["a", "b"]},
                            {"key": "old", "operator": "DoesNotExist"},
                        ]}},
                        {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
                    ],
                }],
                "egress": [{}],
            },
        });
        let policy: NetworkPolicy = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&policy).unwrap(), json);
    }

    #[test]
    fn null_is_as_unset_and_an_empty_selector_is_not() {
        let json = r#"{"metadata":null,"spec":{"podSelector":null,"policyTypes":null,"ingress":null,"egress":null}}"#;
        assert_eq!(serde_json::from_str::<NetworkPolicy>(json).unwrap(), NetworkPolicy::default());
        let rule = r#"{"ports":null,"from":null}"#;
        assert_eq!(
            serde_json::from_str::<NetworkPolicyIngressRule>(rule).unwrap(),
            NetworkPolicyIngressRule::default()
        );
        let selector = r#"{"matchLabels":null,"matchExpressions":null}"#;
        assert_eq!(serde_json::from_str::<LabelSelector>(selector).unwrap(), LabelSelector::default());
        let peer: NetworkPolicyPeer = serde_json::from_str(r#"{"podSelector":{},"namespaceSelector":null}"#).unwrap();
        assert_eq!((peer.pod_selector, peer.namespace_selector), (Some(LabelSelector::default()), None));
    }
}
