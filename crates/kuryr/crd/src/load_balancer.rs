//! The kind itself.

use gimbal_kubernetes_objects::{Kind, LifecycleMeta, Meta, Object};
use serde::{Deserialize, Serialize};

use crate::{KuryrLoadBalancerSpec, KuryrLoadBalancerStatus};

/// A load balancer in Octavia for one Service, of the same name and namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KuryrLoadBalancer {
    /// Metadata.
    pub metadata: LifecycleMeta,
    /// What is wanted.
    pub spec: KuryrLoadBalancerSpec,
    /// What exists. A create drops it: it is written through the subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<KuryrLoadBalancerStatus>,
}

impl Object for KuryrLoadBalancer {
    const KIND: Kind =
        Kind { kind: "KuryrLoadBalancer", api_version: "openstack.org/v1", plural: "kuryrloadbalancers" };

    fn meta(&self) -> &Meta {
        &self.metadata.meta
    }
}
