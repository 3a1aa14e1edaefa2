//! The custom resources of [Kuryr](https://opendev.org/openstack/kuryr-kubernetes), group `openstack.org`, as Gimbal's
//! controller for the opposite direction reads and writes them.
//!
//! What Kuryr named keeps its name, its type and its place, so that objects of its time stay valid. What is added is
//! optional. The definitions that are applied to a cluster, in `deploy/crds`, are
//! [generated](gimbal_kubernetes_definition::yaml) from the types.

mod definition;
mod endpoints;
mod integer;
mod load_balancer;
pub mod names;
mod network;
mod port;
mod router;
mod spec;
mod status;

pub use endpoints::{KlbEndpoint, KlbEndpointConditions, KlbPort, KlbSlice, KlbSlicePort, KlbTarget};
pub use load_balancer::KuryrLoadBalancer;
pub use network::{KuryrNetwork, KuryrNetworkSpec, KuryrNetworkStatus};
pub use port::{KpInterface, KpNetwork, KpSubnet, KpVif, KuryrPort, KuryrPortSpec, KuryrPortStatus};
pub use router::{
    KlrPathType, KlrPool, KlrRoute, KlrTls, KuryrL7Router, KuryrL7RouterSpec, KuryrL7RouterStatus, StatusPolicy,
    StatusSecret,
};
pub use spec::{
    KlbAlgorithm, KlbHealthMonitor, KlbIpFamily, KlbMemberMode, KlbProxyProtocol, KlbTrafficPolicy,
    KuryrLoadBalancerSpec,
};
pub use status::{
    KuryrLoadBalancerStatus, PublicIpInfo, StatusCondition, StatusListener, StatusLoadBalancer, StatusMember,
    StatusPool,
};
