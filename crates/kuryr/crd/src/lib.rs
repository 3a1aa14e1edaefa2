//! The custom resources of [Kuryr](https://opendev.org/openstack/kuryr-kubernetes), group `openstack.org`, as Gimbal's
//! controller for the opposite direction reads and writes them.
//!
//! What Kuryr named keeps its name, its type and its place, so that objects of its time stay valid. What is added is
//! optional. The definition that is applied to a cluster, `deploy/crds/kuryrloadbalancer.yaml`, is [generated](yaml) from
//! the types.

mod definition;
mod endpoints;
mod integer;
mod load_balancer;
pub mod names;
mod schema;
mod spec;
mod status;

pub use definition::{DefinitionError, yaml};
pub use endpoints::{KlbEndpoint, KlbEndpointConditions, KlbPort, KlbSlice, KlbSlicePort, KlbTarget};
pub use load_balancer::KuryrLoadBalancer;
pub use spec::{
    KlbAlgorithm, KlbHealthMonitor, KlbIpFamily, KlbMemberMode, KlbProxyProtocol, KlbTrafficPolicy,
    KuryrLoadBalancerSpec,
};
pub use status::{
    KuryrLoadBalancerStatus, PublicIpInfo, StatusCondition, StatusListener, StatusLoadBalancer, StatusMember,
    StatusPool,
};
