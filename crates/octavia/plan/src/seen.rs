//! What OpenStack was seen to have for one owner.

use serde_json::Value;

use crate::mark::{KEEP, is_kept};
use crate::secret::SeenSecret;
use crate::seen_policy::SeenPolicy;

/// The progress of a load balancer's, or a part's, last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // Octavia's own words.
pub enum Provisioning {
    #[default]
    Active,
    PendingCreate,
    PendingUpdate,
    PendingDelete,
    Error,
}

impl Provisioning {
    /// Reads Octavia's word. A word that is not known counts as `ACTIVE`: the next change tells.
    #[must_use]
    pub fn read(word: &str) -> Self {
        match word {
            "PENDING_CREATE" => Self::PendingCreate,
            "PENDING_UPDATE" => Self::PendingUpdate,
            "PENDING_DELETE" => Self::PendingDelete,
            "ERROR" => Self::Error,
            _ => Self::Active,
        }
    }

    /// Whether a change is in progress.
    #[must_use]
    pub fn is_pending(self) -> bool {
        matches!(self, Self::PendingCreate | Self::PendingUpdate | Self::PendingDelete)
    }
}

/// Everything that carries one owner's mark, with everything in its load balancers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Seen {
    /// Load balancers, in any order.
    pub balancers: Vec<SeenBalancer>,
    /// Ports of Neutron.
    pub ports: Vec<SeenPort>,
    /// Floating IPs.
    pub floating: Vec<SeenFloatingIp>,
    /// Secrets of the key manager; only those of routers are looked for.
    pub secrets: Vec<SeenSecret>,
    /// Why the key manager did not show what it has; unset: it did.
    pub secrets_hidden: Option<HiddenSecrets>,
}

/// Why the key manager did not show what it has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HiddenSecrets {
    /// The reason in words.
    pub words: String,
    /// It does not let itself be asked; else it may answer next time.
    pub is_refused: bool,
}

/// A load balancer.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs)] // Octavia's own fields.
pub struct SeenBalancer {
    pub id: String,
    pub provisioning: Provisioning,
    pub operating: String,
    pub created_at: String,
    pub name: String,
    pub description: String,
    pub tags: Vec<String>,
    pub admin_state_up: bool,
    pub project: String,
    pub provider: String,
    pub flavor: String,
    pub zone: String,
    pub vip_address: String,
    pub vip_port: String,
    pub vip_subnet: String,
    /// Subnets and addresses.
    pub additional_vips: Vec<(String, String)>,
    /// The security groups that Octavia gives the port of the VIP.
    pub security_groups: Vec<String>,
    pub listeners: Vec<SeenListener>,
    pub pools: Vec<SeenPool>,
}

/// A listener.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs)] // Octavia's own fields.
pub struct SeenListener {
    pub id: String,
    pub provisioning: Provisioning,
    pub name: String,
    pub tags: Vec<String>,
    pub protocol: String,
    pub port: u16,
    pub default_pool: Option<String>,
    pub admin_state_up: bool,
    pub allowed_cidrs: Vec<String>,
    /// Policies, in their order.
    pub policies: Vec<SeenPolicy>,
    /// The fields of the row that are compared only where they are wanted.
    pub row: Value,
}

/// A pool.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs)] // Octavia's own fields.
pub struct SeenPool {
    pub id: String,
    pub provisioning: Provisioning,
    pub name: String,
    pub tags: Vec<String>,
    pub protocol: String,
    pub algorithm: String,
    pub admin_state_up: bool,
    pub persistence: Value,
    pub monitor: Option<SeenMonitor>,
    pub members: Vec<SeenMember>,
}

/// A health monitor.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SeenMonitor {
    /// The ID.
    pub id: String,
    /// The progress of the last change.
    pub provisioning: Provisioning,
    /// The whole row.
    pub row: Value,
}

/// A member.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs)] // Octavia's own fields.
pub struct SeenMember {
    /// Empty between a batch and the next look: a batch answers without IDs.
    pub id: String,
    pub provisioning: Provisioning,
    pub name: String,
    pub address: String,
    pub port: u16,
    pub weight: u32,
    pub backup: bool,
    pub admin_state_up: bool,
    pub subnet: Option<String>,
    pub monitor_port: Option<u16>,
    pub monitor_address: Option<String>,
    pub tags: Vec<String>,
}

/// A port of Neutron.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SeenPort {
    /// The ID.
    pub id: String,
    /// The subnet of its first address.
    pub subnet: String,
    /// Its first address.
    pub address: String,
    /// All its addresses, with their subnets.
    pub fixed: Vec<(String, String)>,
    /// Its project.
    pub project: String,
    /// Its name.
    pub name: String,
    /// What uses it, in the words of whoever does.
    pub device: String,
    /// The kind of what uses it.
    pub device_owner: String,
    /// Its security groups.
    pub security_groups: Vec<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its description: the mark, and what a person has added.
    pub description: String,
    /// The number of its last change.
    pub revision: Option<u64>,
    /// The load balancer that has it as its VIP and is not the owner's, for instance since somebody took the mark off; empty if
    /// none is known. A row of Neutron's does not say so: it comes of [`SeenPort::has_user`].
    pub user: String,
    /// Whether that load balancer is being deleted: the port will be free.
    pub user_goes: bool,
}

/// The port that has an address.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AddressHolder {
    /// The port.
    pub port: SeenPort,
    /// Whether the load balancer of [`AddressHolder::balancer`] exists, or any that has the port, or that cannot be known. Two
    /// reads say so, for the port is somebody else's. False without one.
    pub in_use: bool,
}

impl AddressHolder {
    /// Returns the ID of the load balancer that Octavia made a port for.
    #[must_use]
    pub fn balancer(port: &SeenPort) -> Option<&str> {
        let id = port.device.strip_prefix("lb-")?;
        (port.device_owner == "Octavia" && port.name.strip_prefix("octavia-lb-") == Some(id)).then_some(id)
    }
}

/// A floating IP.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SeenFloatingIp {
    /// The ID.
    pub id: String,
    /// The address.
    pub address: String,
    /// The port that it leads to.
    pub port: Option<String>,
    /// Its project.
    pub project: String,
    /// Its network.
    pub network: String,
    /// Its description, with the mark of whoever it was made for.
    pub description: String,
    /// The number of its last change.
    pub revision: Option<u64>,
    /// Its tags.
    pub tags: Vec<String>,
}

impl SeenBalancer {
    /// Whether its operating status says that it serves clients, or has done so. Where Octavia hears nothing of its amphorae, and
    /// with providers that report none, one that serves says `OFFLINE` as well.
    pub(crate) fn says_that_it_served(&self) -> bool {
        !matches!(self.operating.as_str(), "OFFLINE" | "")
    }

    /// Reads a row, without what is below it: rows of lists name only IDs there.
    #[must_use]
    pub fn read(row: &Value) -> Self {
        Self {
            id: text(row, "id"),
            provisioning: status(row),
            operating: text(row, "operating_status"),
            created_at: text(row, "created_at"),
            name: text(row, "name"),
            description: text(row, "description"),
            tags: texts(row, "tags"),
            admin_state_up: row["admin_state_up"] != false,
            project: text(row, "project_id"),
            provider: text(row, "provider"),
            flavor: text(row, "flavor_id"),
            zone: text(row, "availability_zone"),
            vip_address: text(row, "vip_address"),
            vip_port: text(row, "vip_port_id"),
            vip_subnet: text(row, "vip_subnet_id"),
            additional_vips: addresses(row, "additional_vips"),
            security_groups: texts(row, "vip_sg_ids"),
            listeners: Vec::new(),
            pools: Vec::new(),
        }
    }

    /// Reads the answer to a creation, which has everything in it.
    #[must_use]
    pub fn read_tree(row: &Value) -> Self {
        let all = |key: &str| row[key].as_array().cloned().unwrap_or_default();
        let listeners = all("listeners").iter().map(SeenListener::read_tree).collect();
        let pools = all("pools").iter().map(SeenPool::read_tree).collect();
        Self { listeners, pools, ..Self::read(row) }
    }
}

impl SeenListener {
    /// Reads a row, without its policies.
    #[must_use]
    pub fn read(row: &Value) -> Self {
        Self {
            id: text(row, "id"),
            provisioning: status(row),
            name: text(row, "name"),
            tags: texts(row, "tags"),
            protocol: text(row, "protocol"),
            port: port(row, "protocol_port").unwrap_or_default(),
            default_pool: row["default_pool_id"].as_str().map(str::to_owned),
            admin_state_up: row["admin_state_up"] != false,
            allowed_cidrs: texts(row, "allowed_cidrs"),
            policies: Vec::new(),
            row: without(row, &LISTENER_FIELDS),
        }
    }

    fn read_tree(row: &Value) -> Self {
        let policies = row["l7policies"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut listener = Self { policies: policies.iter().map(SeenPolicy::read_tree).collect(), ..Self::read(row) };
        listener.order_policies();
        listener
    }
}

impl SeenPool {
    /// Reads a row, without its members and monitor.
    #[must_use]
    pub fn read(row: &Value) -> Self {
        Self {
            id: text(row, "id"),
            provisioning: status(row),
            name: text(row, "name"),
            tags: texts(row, "tags"),
            protocol: text(row, "protocol"),
            algorithm: text(row, "lb_algorithm"),
            admin_state_up: row["admin_state_up"] != false,
            persistence: row["session_persistence"].clone(),
            monitor: None,
            members: Vec::new(),
        }
    }

    fn read_tree(row: &Value) -> Self {
        let members = row["members"].as_array().cloned().unwrap_or_default();
        let monitor = Some(&row["healthmonitor"]).filter(|row| row.is_object()).map(SeenMonitor::read);
        Self { members: members.iter().map(SeenMember::read).collect(), monitor, ..Self::read(row) }
    }
}

impl SeenMonitor {
    /// Reads a row.
    #[must_use]
    pub fn read(row: &Value) -> Self {
        Self { id: text(row, "id"), provisioning: status(row), row: without(row, &["pools", "pool_id"]) }
    }
}

impl SeenMember {
    /// Reads a row.
    #[must_use]
    pub fn read(row: &Value) -> Self {
        Self {
            id: text(row, "id"),
            provisioning: status(row),
            name: text(row, "name"),
            address: text(row, "address"),
            port: port(row, "protocol_port").unwrap_or_default(),
            weight: row["weight"].as_u64().and_then(|weight| u32::try_from(weight).ok()).unwrap_or(1),
            backup: row["backup"] == true,
            admin_state_up: row["admin_state_up"] != false,
            subnet: row["subnet_id"].as_str().map(str::to_owned),
            monitor_port: port(row, "monitor_port"),
            monitor_address: row["monitor_address"].as_str().map(str::to_owned),
            tags: texts(row, "tags"),
        }
    }
}

impl SeenPort {
    /// Reads a row.
    #[must_use]
    pub fn read(row: &Value) -> Self {
        let fixed = &row["fixed_ips"][0];
        Self {
            id: text(row, "id"),
            subnet: text(fixed, "subnet_id"),
            address: text(fixed, "ip_address"),
            fixed: addresses(row, "fixed_ips"),
            project: text(row, "project_id"),
            name: text(row, "name"),
            device: text(row, "device_id"),
            device_owner: text(row, "device_owner"),
            security_groups: texts(row, "security_groups"),
            tags: texts(row, "tags"),
            description: text(row, "description"),
            revision: row["revision_number"].as_u64(),
            user: String::new(),
            user_goes: false,
        }
    }

    /// Takes the row of the load balancer that has it although it is not the owner's.
    pub fn has_user(&mut self, balancer: &Value) {
        self.user = text(balancer, "id");
        self.user_goes = status(balancer) == Provisioning::PendingDelete;
    }

    /// Whether a load balancer that is not the owner's has it: then it is neither used nor deleted.
    pub(crate) fn is_anothers(&self) -> bool {
        !self.user.is_empty()
    }

    /// Neutron counts a change of tags as one of the object, and answers without the number.
    pub(crate) fn retag(&mut self, tags: &Value) {
        (self.tags, self.revision) = (text_list(tags), None);
    }
}

impl SeenFloatingIp {
    pub(crate) fn retag(&mut self, tags: &Value) {
        (self.tags, self.revision) = (text_list(tags), None);
    }

    /// Whether it is to be left where it is, or stays when its owner goes: its tags or its description say so.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.tags.iter().any(|tag| tag == KEEP) || is_kept(&self.description)
    }

    /// Reads a row.
    #[must_use]
    pub fn read(row: &Value) -> Self {
        let port = row["port_id"].as_str().map(str::to_owned);
        Self {
            id: text(row, "id"),
            address: text(row, "floating_ip_address"),
            port,
            project: text(row, "project_id"),
            network: text(row, "floating_network_id"),
            description: text(row, "description"),
            revision: row["revision_number"].as_u64(),
            tags: texts(row, "tags"),
        }
    }
}

pub(crate) fn text(row: &Value, key: &str) -> String {
    row[key].as_str().unwrap_or_default().to_owned()
}

pub(crate) fn texts(row: &Value, key: &str) -> Vec<String> {
    text_list(&row[key])
}

fn text_list(list: &Value) -> Vec<String> {
    let all = list.as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

fn addresses(row: &Value, key: &str) -> Vec<(String, String)> {
    let all = row[key].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().map(|one| (text(one, "subnet_id"), text(one, "ip_address"))).collect()
}

fn port(row: &Value, key: &str) -> Option<u16> {
    row[key].as_u64().and_then(|port| u16::try_from(port).ok())
}

pub(crate) fn status(row: &Value) -> Provisioning {
    Provisioning::read(row["provisioning_status"].as_str().unwrap_or_default())
}

/// What a listener's row has beside the fields of [`SeenListener`], and nothing is compared with. A row takes thousands of bytes.
const LISTENER_FIELDS: [&str; 20] = [
    "id",
    "provisioning_status",
    "operating_status",
    "name",
    "description",
    "tags",
    "protocol",
    "protocol_port",
    "default_pool_id",
    "admin_state_up",
    "allowed_cidrs",
    "loadbalancers",
    "l7policies",
    "project_id",
    "tenant_id",
    "created_at",
    "updated_at",
    "tls_ciphers",
    "tls_versions",
    "alpn_protocols",
];

/// Returns a row without these fields, and without what is unset.
fn without(row: &Value, fields: &[&str]) -> Value {
    let Some(row) = row.as_object() else { return Value::Null };
    let kept = row.iter().filter(|(key, value)| !value.is_null() && !fields.contains(&key.as_str()));
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}
