//! A cloud that filters packets as Neutron does, and clusters with any policies.

mod any_cluster;
mod cloud;

pub use any_cluster::{
    LabelsOf, NAMESPACES, NODES, OUTSIDE, PODS, PORTS, any_namespace, any_pod, any_policy, node, node_addresses,
};
pub use cloud::{FilteringCloud, Packet};
