//! What `kubectl` calls the kinds, and what it shows of them.

use gimbal_kubernetes_definition::{Column, CustomKind, ObjectScope};

use crate::{
    KuryrL7Router, KuryrL7RouterSpec, KuryrL7RouterStatus, KuryrLoadBalancer, KuryrLoadBalancerSpec,
    KuryrLoadBalancerStatus, KuryrNetwork, KuryrNetworkSpec, KuryrNetworkStatus, KuryrPort, KuryrPortSpec,
    KuryrPortStatus,
};

const PACKAGE: &str = "crates/kuryr/crd";
const READY: &str = "Whether it is made, and as the spec says";

impl CustomKind for KuryrLoadBalancer {
    type Spec = KuryrLoadBalancerSpec;
    type Status = KuryrLoadBalancerStatus;
    const PACKAGE: &str = PACKAGE;
    const SCOPE: ObjectScope = ObjectScope::Namespaced;
    const SINGULAR: &str = "kuryrloadbalancer";
    const SHORT: &str = "klb";
    const DESCRIPTION: &str = "A load balancer in Octavia for one Service, of the same name and namespace.";
    const READY: &str = READY;
    const COLUMNS: &[Column] = &[
        Column::text("PROJECT-ID", "The ID of the PROJECT associated to the loadbalancer", ".spec.project_id"),
        Column::text("IP", "Address of the VIP", ".status.loadbalancer.ip"),
    ];
}

impl CustomKind for KuryrL7Router {
    type Spec = KuryrL7RouterSpec;
    type Status = KuryrL7RouterStatus;
    const PACKAGE: &str = PACKAGE;
    const SCOPE: ObjectScope = ObjectScope::Namespaced;
    const SINGULAR: &str = "kuryrl7router";
    const SHORT: &str = "klr";
    const DESCRIPTION: &str = "A load balancer in Octavia that leads the requests of Ingresses to their Services.";
    const READY: &str = READY;
    const COLUMNS: &[Column] = &[
        Column::text("IP", "Floating IP", ".status.service_pub_ip_info.ip_addr"),
        Column::text("VIP", "Address of the VIP", ".status.loadbalancer.ip"),
        Column::number("ROUTES", "Number of routes", ".status.routeCount"),
    ];
}

impl CustomKind for KuryrPort {
    type Spec = KuryrPortSpec;
    type Status = KuryrPortStatus;
    const PACKAGE: &str = PACKAGE;
    const SCOPE: ObjectScope = ObjectScope::Namespaced;
    const SINGULAR: &str = "kuryrport";
    const SHORT: &str = "kp";
    const DESCRIPTION: &str = "A port in Neutron for one Pod, of the same name and namespace.";
    const READY: &str = "Whether the Pod has a port that its node can plug";
    const COLUMNS: &[Column] = &[
        Column::text("PodUID", "UID of the Pod", ".spec.podUid"),
        Column::text("Nodename", "The node that the Pod runs on", ".spec.podNodeName"),
        Column::text("labels", "Labels of this object", ".metadata.labels"),
    ];
}

impl CustomKind for KuryrNetwork {
    type Spec = KuryrNetworkSpec;
    type Status = KuryrNetworkStatus;
    const PACKAGE: &str = PACKAGE;
    const SCOPE: ObjectScope = ObjectScope::Namespaced;
    const SINGULAR: &str = "kuryrnetwork";
    const SHORT: &str = "kns";
    const DESCRIPTION: &str = "A network and a subnet in Neutron for the Pods of one namespace, or of one node.";
    const READY: &str = READY;
    const COLUMNS: &[Column] = &[Column::text("SUBNET-CIDR", "Range of the subnet's addresses", ".status.subnetCIDR")];
}
