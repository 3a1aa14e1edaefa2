//! `core/v1`: Pods, as far as a network knows them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Meta;
use crate::meta::object;

/// `Pod`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Metadata.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub metadata: Meta,
    /// Spec.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub spec: PodSpec,
    /// Status.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub status: PodStatus,
}
object!(Pod, "Pod", "v1", "pods");

/// `PodSpec`: where it runs and what it listens on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Its node, once there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Arc<str>>,
    /// Whether it shares the network of its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_network: Option<bool>,
    /// Containers.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub containers: Vec<PodContainer>,
    /// Containers that run before the others, or beside them if they are restarted always.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub init_containers: Vec<PodContainer>,
}

/// `Container`: its ports alone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodContainer {
    /// Ports.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub ports: Vec<ContainerPort>,
    /// `Always` for an init container that runs as long as the Pod does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<Arc<str>>,
}

/// `ContainerPort`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Number.
    pub container_port: i32,
    /// `TCP`, `UDP` or `SCTP`; unset means `TCP`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Arc<str>>,
}

/// `PodStatus`: its phase and addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Arc<str>>,
    /// Its first address.
    #[serde(rename = "podIP", skip_serializing_if = "Option::is_none")]
    pub pod_ip: Option<Arc<str>>,
    /// Its addresses, one of each family at most.
    #[serde(
        rename = "podIPs",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::text::null_is_default"
    )]
    pub pod_ips: Vec<PodIp>,
}

/// `PodIP`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PodIp {
    /// The address.
    #[serde(deserialize_with = "crate::text::text")]
    pub ip: Arc<str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_read_and_written() {
        let json = serde_json::json!({
            "metadata": {"name": "web-0", "namespace": "shop", "labels": {"app": "web"}},
            "spec": {
                "nodeName": "n", "hostNetwork": true,
                "containers": [{"ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]}],
                "initContainers": [{"restartPolicy": "Always", "ports": [{"containerPort": 9090}]}],
            },
            "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]},
        });
        let pod: Pod = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&pod).unwrap(), json);
    }

    #[test]
    fn null_is_as_unset() {
        let json = r#"{"metadata":null,"spec":{"nodeName":null,"containers":null,"initContainers":null},
            "status":{"phase":null,"podIP":null,"podIPs":null}}"#;
        assert_eq!(serde_json::from_str::<Pod>(json).unwrap(), Pod::default());
        assert_eq!(serde_json::from_str::<PodContainer>(r#"{"ports":null}"#).unwrap(), PodContainer::default());
    }
}
