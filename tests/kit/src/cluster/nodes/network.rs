//! The addresses of a cluster with nodes.

use super::ip;

/// One of several networks in a site. Servers and nodes have addresses of 172.30.N.0/24, Pods of 10.(200+N).0.0/16, and
/// Services of 10.(100+N).0.0/16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(u8);

impl Network {
    /// The first network.
    pub const FIRST: Self = Self(1);
    /// The second network.
    pub const SECOND: Self = Self(2);

    /// Returns the address of the servers, which is the nodes' gateway.
    #[must_use]
    pub fn servers(self) -> String {
        format!("172.30.{}.1", self.0)
    }

    /// Returns a node's address; nodes count from 1.
    #[must_use]
    pub fn node(self, number: u8) -> String {
        format!("172.30.{}.{}", self.0, 10 + number)
    }

    /// Returns the range of all Pods.
    #[must_use]
    pub fn pods(self) -> String {
        format!("10.{}.0.0/16", 200 + self.0)
    }

    /// Returns the range of the Pods of a node.
    #[must_use]
    pub fn pods_of(self, node: u8) -> String {
        format!("10.{}.{node}.0/24", 200 + self.0)
    }

    /// Returns the range of the Services.
    #[must_use]
    pub fn services(self) -> String {
        format!("10.{}.0.0/16", 100 + self.0)
    }

    /// Returns the API server's address as a Service.
    #[must_use]
    pub fn api_service(self) -> String {
        format!("10.{}.0.1", 100 + self.0)
    }

    pub(super) fn bridge(self) -> String {
        format!("gimbal{}", self.0)
    }

    /// Connects the servers with the nodes that are going to be.
    pub(super) fn make_bridge(self) -> anyhow::Result<()> {
        let (bridge, servers) = (self.bridge(), self.servers());
        ip(&format!("link add {bridge} type bridge"))?;
        ip(&format!("addr add {servers}/24 dev {bridge}"))?;
        ip(&format!("link set {bridge} up"))
    }

    /// Connects a node whose process has a network namespace of its own, and leads to its Pods.
    pub(super) fn connect(self, node: u8, process: u32) -> anyhow::Result<()> {
        let (bridge, address) = (self.bridge(), self.node(node));
        let end = format!("{bridge}n{node}");
        ip(&format!("link add {end} type veth peer name eth0 netns {process}"))?;
        ip(&format!("link set {end} master {bridge} up"))?;
        ip(&format!("route add {} via {address}", self.pods_of(node)))
    }
}
