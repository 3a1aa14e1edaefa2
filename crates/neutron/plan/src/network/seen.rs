//! What Neutron was seen to have of an owner.

use gimbal_kuryr_model::Text;
use serde_json::Value;

use super::{NetworkChange, PortInTheWay};

/// Whose ports go with their network by themselves.
const DHCP: &str = "network:dhcp";
/// Whose ports are interfaces of routers: of plain, distributed and highly available ones.
const INTERFACES: [&str; 3] =
    ["network:router_interface", "network:router_interface_distributed", "network:ha_router_replicated_interface"];

/// A network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenNetwork {
    /// ID.
    pub id: Text,
    /// When it was made, in RFC 3339.
    pub created_at: Text,
    /// Bytes that a frame may carry; 0: unknown.
    pub mtu: u64,
    /// Its subnets that carry the mark, the oldest first.
    pub subnets: Vec<SeenSubnet>,
    /// Ports in it that are in the way of its removal.
    pub(crate) users: Vec<PortInTheWay>,
    /// Interfaces of routers in it.
    pub(crate) interfaces: Vec<SeenInterface>,
}

/// The interface of a router in a subnet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeenInterface {
    pub(crate) router: Text,
    pub(crate) subnet: Text,
    pub(crate) port: PortInTheWay,
}

/// A subnet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenSubnet {
    /// ID.
    pub id: Text,
    /// Range of its addresses.
    pub cidr: Text,
    /// Where packets to other subnets go.
    pub gateway: Text,
    /// When it was made, in RFC 3339.
    pub created_at: Text,
}

/// Everything of one owner.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NetworkSeen {
    pub(crate) networks: Vec<SeenNetwork>,
}

impl NetworkSeen {
    /// Reads rows: networks with the mark, and the subnets and ports of these networks, whoever made them. `is_ours` says of a
    /// description whether it is the mark of the owner.
    pub(crate) fn read(networks: &[Value], subnets: &[Value], ports: &[Value], is_ours: impl Fn(&str) -> bool) -> Self {
        let marked = |row: &&Value| row["description"].as_str().is_some_and(&is_ours);
        let mut found: Vec<SeenNetwork> = networks
            .iter()
            .filter(marked)
            .map(|row| {
                let id = text(row, "id");
                let in_it = |one: &&Value| one["network_id"] == *id;
                let mut own: Vec<SeenSubnet> =
                    subnets.iter().filter(in_it).filter(marked).map(SeenSubnet::read).collect();
                own.sort_by(|a, b| (&a.created_at, &a.id).cmp(&(&b.created_at, &b.id)));
                let ports = || ports.iter().filter(in_it);
                let users = ports().filter(|port| !goes_by_itself(port)).map(PortInTheWay::read).collect();
                let interfaces = ports().filter(|port| is_interface(port)).flat_map(interfaces).collect();
                let (created_at, mtu) = (text(row, "created_at"), row["mtu"].as_u64().unwrap_or_default());
                SeenNetwork { id, created_at, mtu, subnets: own, users, interfaces }
            })
            .collect();
        found.sort_by(|a, b| (&a.created_at, &a.id).cmp(&(&b.created_at, &b.id)));
        Self { networks: found }
    }

    /// Takes what a change has made of it.
    pub(crate) fn apply(&mut self, change: &NetworkChange, answer: &Value) {
        match change {
            NetworkChange::CreateNetwork { .. } => {
                let row = &answer["network"];
                self.networks.push(SeenNetwork {
                    id: text(row, "id"),
                    created_at: text(row, "created_at"),
                    mtu: row["mtu"].as_u64().unwrap_or_default(),
                    subnets: Vec::new(),
                    users: Vec::new(),
                    interfaces: Vec::new(),
                });
            }
            NetworkChange::CreateSubnet { .. } => {
                let row = &answer["subnet"];
                let network = self.networks.iter_mut().find(|network| row["network_id"] == *network.id);
                network.into_iter().for_each(|network| network.subnets.push(SeenSubnet::read(row)));
            }
            NetworkChange::AddInterface { router, subnet } => {
                let port = PortInTheWay { id: text(answer, "port_id"), ..PortInTheWay::default() };
                let interface = SeenInterface { router: router.clone(), subnet: subnet.clone(), port };
                let has = |network: &&mut SeenNetwork| network.subnets.iter().any(|one| one.id == *subnet);
                self.networks.iter_mut().find(has).into_iter().for_each(|one| one.interfaces.push(interface.clone()));
            }
            NetworkChange::RemoveInterface { router, subnet } => {
                let is_it = |one: &SeenInterface| one.router == *router && one.subnet == *subnet;
                self.networks.iter_mut().for_each(|network| network.interfaces.retain(|one| !is_it(one)));
            }
            NetworkChange::DeleteSubnet { id } => {
                self.networks.iter_mut().for_each(|network| network.subnets.retain(|subnet| subnet.id != *id));
            }
            NetworkChange::DeleteNetwork { id } => self.networks.retain(|network| network.id != *id),
        }
    }
}

impl SeenSubnet {
    fn read(row: &Value) -> Self {
        Self {
            id: text(row, "id"),
            cidr: text(row, "cidr"),
            gateway: text(row, "gateway_ip"),
            created_at: text(row, "created_at"),
        }
    }
}

/// The interfaces that a port is: one in each of its subnets.
fn interfaces(port: &Value) -> Vec<SeenInterface> {
    let fixed = port["fixed_ips"].as_array().into_iter().flatten();
    let interface = |one: &Value| SeenInterface {
        router: text(port, "device_id"),
        subnet: text(one, "subnet_id"),
        port: PortInTheWay::read(port),
    };
    fixed.map(interface).collect()
}

fn is_interface(port: &Value) -> bool {
    port["device_owner"].as_str().is_some_and(|owner| INTERFACES.contains(&owner))
}

fn goes_by_itself(port: &Value) -> bool {
    port["device_owner"] == DHCP || is_interface(port)
}

fn text(row: &Value, field: &str) -> Text {
    row[field].as_str().unwrap_or_default().into()
}
