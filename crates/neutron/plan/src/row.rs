//! A port as Neutron shows it.

use std::collections::BTreeSet;

use gimbal_kuryr_model::Text;
use serde_json::Value;

/// A port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodPort {
    /// ID.
    pub id: Text,
    /// Its project.
    pub project: Text,
    /// Its network.
    pub network: Text,
    /// IDs of its security groups.
    pub groups: BTreeSet<Text>,
    /// MAC address.
    pub mac: Text,
    /// Its addresses: the subnet of each, and the address.
    pub addresses: Vec<(Text, Text)>,
    /// How its node plugs it; unset: Neutron does not show that to everyone.
    pub vif_type: Option<Text>,
    /// VLAN on the trunk of its node, if it is a subport.
    pub vlan: Option<u64>,
    /// Its name in DNS; unset: this Neutron has none.
    pub dns_name: Option<Text>,
    /// Whether it is wired.
    pub active: bool,
    /// The number of its last change.
    pub revision: u64,
    /// The mark.
    pub description: Text,
    /// Its tags.
    pub tags: Vec<Text>,
    /// When it was made, in RFC 3339.
    pub created_at: Text,
}

impl PodPort {
    /// Reads a row; `None` if it has no ID.
    #[must_use]
    pub fn read(row: &Value) -> Option<Self> {
        let fixed = row["fixed_ips"].as_array().into_iter().flatten();
        Some(Self {
            id: row["id"].as_str().filter(|id| !id.is_empty())?.into(),
            project: text(row, "project_id"),
            network: text(row, "network_id"),
            groups: texts(row, "security_groups").collect(),
            mac: text(row, "mac_address"),
            addresses: fixed.map(|one| (text(one, "subnet_id"), text(one, "ip_address"))).collect(),
            vif_type: row["binding:vif_type"].as_str().map(Text::from),
            vlan: row["binding:profile"]["vlan_id"].as_u64(),
            dns_name: row["dns_name"].as_str().map(Text::from),
            active: row["status"] == "ACTIVE",
            revision: row["revision_number"].as_u64().unwrap_or_default(),
            description: text(row, "description"),
            tags: texts(row, "tags").collect(),
            created_at: text(row, "created_at"),
        })
    }

    /// Whether the node can plug it.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.vif_type.as_deref().is_none_or(|kind| kind != "unbound" && kind != "binding_failed")
    }

    /// Whether Neutron could not bind it to its node. It stays so.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.vif_type.as_deref() == Some("binding_failed")
    }

    /// Whether another row says the same to the node.
    pub(crate) fn plugs_like(&self, other: &Self) -> bool {
        let what =
            |one: &Self| (one.id.clone(), one.mac.clone(), one.addresses.clone(), one.vif_type.clone(), one.vlan);
        what(self) == what(other) && self.active == other.active
    }
}

fn text(row: &Value, field: &str) -> Text {
    row[field].as_str().unwrap_or_default().into()
}

fn texts<'a>(row: &'a Value, field: &str) -> impl Iterator<Item = Text> + use<'a> {
    row[field].as_array().into_iter().flatten().filter_map(Value::as_str).map(Text::from)
}
