//! Rows of the lists, as Octavia and neutron-lbaas send them, with the fields that we use.
//!
//! Octavia names an owner `project_id` (and `tenant_id` beside it), neutron-lbaas `tenant_id` alone; neutron-lbaas has no
//! times, statuses of load balancers only, and neither `backup` nor `tls_enabled`
//! (research/openstack-testbed.md 2, research/openstack-direction.md 2.10). What is missing has the value that it has by
//! default, so that the rest of this crate knows one shape.
//!
//! Each row has `FIELDS`, what to ask for with `fields=`: it saves 90 % of the bytes.

mod read;
mod status;

use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;

pub use status::{Operating, Protocol, Provisioning};

use crate::Id;
use read::{Reference, WithoutOwner, ids, on, port, text, time};

/// A project, from Keystone.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Project {
    /// ID.
    pub id: Id,
    /// Name, unique only in its domain.
    #[serde(default, deserialize_with = "text")]
    pub name: Arc<str>,
}

/// A load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "read::LoadBalancer")]
pub struct LoadBalancer {
    /// ID.
    pub id: Id,
    /// Name; empty where it has none.
    pub name: Arc<str>,
    /// The project that owns it.
    pub project: Id,
    /// Switched on.
    pub admin_state_up: bool,
    /// How far its last change has come.
    pub provisioning: Provisioning,
    /// Its listeners.
    pub listeners: Vec<Id>,
    /// Its pools.
    pub pools: Vec<Id>,
}

impl LoadBalancer {
    /// What to ask for.
    pub const FIELDS: &[&str] =
        &["id", "name", "project_id", "tenant_id", "admin_state_up", "provisioning_status", "listeners", "pools"];
}

/// A listener: a port of a load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Listener {
    /// ID.
    pub id: Id,
    /// What it accepts.
    pub protocol: Protocol,
    /// Its port; `None` where there is none that is a port.
    #[serde(rename = "protocol_port", default, deserialize_with = "port")]
    pub port: Option<u16>,
    /// Switched on.
    #[serde(default = "on", deserialize_with = "read::on_unless_false")]
    pub admin_state_up: bool,
    /// How far its last change has come.
    #[serde(rename = "provisioning_status", default)]
    pub provisioning: Provisioning,
    /// Where its traffic goes, unless an L7 policy says otherwise.
    #[serde(default)]
    pub default_pool_id: Option<Id>,
    /// The load balancer that it belongs to; a list in both dialects.
    #[serde(rename = "loadbalancers", default, deserialize_with = "ids")]
    pub load_balancers: Vec<Id>,
    /// Its L7 policies; `None` where the row does not say (neutron-lbaas), so that only their list does.
    #[serde(rename = "l7policies", alias = "l7_policies", default, deserialize_with = "read::said_ids")]
    pub l7_policies: Option<Vec<Id>>,
    /// Whether it takes connections of some addresses only (`allowed_cidrs`).
    #[serde(rename = "allowed_cidrs", default, deserialize_with = "read::is_not_empty")]
    pub restricted: bool,
    /// When it was changed last, by the server's clock, to a second.
    #[serde(default, deserialize_with = "time")]
    pub updated_at: Option<Timestamp>,
}

impl Listener {
    /// What to ask for.
    pub const FIELDS: &[&str] = &[
        "id",
        "protocol",
        "protocol_port",
        "admin_state_up",
        "provisioning_status",
        "default_pool_id",
        "loadbalancers",
        "l7policies",
        "l7_policies",
        "allowed_cidrs",
        "updated_at",
    ];
}

/// A pool: members that share traffic.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Pool {
    /// ID.
    pub id: Id,
    /// What its members speak.
    pub protocol: Protocol,
    /// Whether its members are spoken to over TLS.
    #[serde(default, deserialize_with = "read::off_unless_true")]
    pub tls_enabled: bool,
    /// Switched on.
    #[serde(default = "on", deserialize_with = "read::on_unless_false")]
    pub admin_state_up: bool,
    /// How far its last change has come.
    #[serde(rename = "provisioning_status", default)]
    pub provisioning: Provisioning,
    /// Whether it works.
    #[serde(rename = "operating_status", default)]
    pub operating: Operating,
    /// Whether a health monitor looks at its members.
    #[serde(rename = "healthmonitor_id", default, deserialize_with = "read::is_some")]
    pub monitored: bool,
    /// Whether a client's connections go to one member (`session_persistence`).
    #[serde(rename = "session_persistence", default, deserialize_with = "read::is_set")]
    pub sticky: bool,
    /// Its members. Address and port of a member never change, so this decides which endpoints there are.
    #[serde(default, deserialize_with = "ids")]
    pub members: Vec<Id>,
    /// The load balancer that it belongs to; a list in both dialects.
    #[serde(rename = "loadbalancers", default, deserialize_with = "ids")]
    pub load_balancers: Vec<Id>,
    /// When it, or a member of it, was changed last, by the server's clock, to a second. `None` until its first change,
    /// and always in neutron-lbaas.
    #[serde(default, deserialize_with = "time")]
    pub updated_at: Option<Timestamp>,
}

impl Pool {
    /// What to ask for.
    pub const FIELDS: &[&str] = &[
        "id",
        "protocol",
        "tls_enabled",
        "admin_state_up",
        "provisioning_status",
        "operating_status",
        "healthmonitor_id",
        "session_persistence",
        "members",
        "loadbalancers",
        "updated_at",
    ];
}

/// Where a member is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Address {
    /// An address.
    Ip(IpAddr),
    /// A text that is none.
    Unreadable(Arc<str>),
    /// Nothing.
    #[default]
    Missing,
}

/// A member of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Member {
    /// ID.
    pub id: Id,
    /// Where it is. It never changes.
    #[serde(default, deserialize_with = "read::address")]
    pub address: Address,
    /// The port that it listens on; `None` where there is none that is a port. It never changes.
    #[serde(rename = "protocol_port", default, deserialize_with = "port")]
    pub port: Option<u16>,
    /// Its share of the traffic; 0: none.
    #[serde(default = "read::one", deserialize_with = "read::weight")]
    pub weight: u32,
    /// Switched on.
    #[serde(default = "on", deserialize_with = "read::on_unless_false")]
    pub admin_state_up: bool,
    /// Takes traffic only while no other member does.
    #[serde(default, deserialize_with = "read::off_unless_true")]
    pub backup: bool,
    /// How far its last change has come.
    #[serde(rename = "provisioning_status", default)]
    pub provisioning: Provisioning,
    /// Whether it works.
    #[serde(rename = "operating_status", default)]
    pub operating: Operating,
}

impl Member {
    /// What to ask for.
    pub const FIELDS: &[&str] = &[
        "id",
        "address",
        "protocol_port",
        "weight",
        "admin_state_up",
        "backup",
        "provisioning_status",
        "operating_status",
    ];
}

/// An L7 policy: where a part of a listener's traffic goes instead.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "WithoutOwner")]
pub struct L7Policy {
    /// ID.
    pub id: Id,
    /// The listener that it belongs to. The listener's own row outranks it.
    pub listener: Option<Id>,
    /// The pool that it sends traffic to, if that is what it does.
    pub redirect_pool: Option<Id>,
    /// Switched on.
    pub admin_state_up: bool,
    /// How far its last change has come.
    pub provisioning: Provisioning,
}

impl L7Policy {
    /// What to ask for.
    pub const FIELDS: &[&str] =
        &["id", "listener_id", "listeners", "action", "redirect_pool_id", "admin_state_up", "provisioning_status"];
}

/// The IDs in `[{"id": ".."}, ..]`.
fn of_references(references: Vec<Reference>) -> Vec<Id> {
    references.into_iter().map(|reference| reference.id).collect()
}
