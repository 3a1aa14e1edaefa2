//! The rows of Octavia's and neutron-lbaas' lists, with the fields that we use.
//!
//! Octavia names the owner of an object `project_id` and repeats it as `tenant_id`; neutron-lbaas knows `tenant_id` alone. It
//! has no times, gives statuses of load balancers only, and knows neither `backup` nor `tls_enabled`. A field that a row lacks
//! gets Octavia's default, so that callers handle one shape.
//!
//! Each row type has a `DISCOVERY_FIELDS`: the fields that discovery asks for with `fields=`, which saves 90 % of the bytes.

mod read;
mod status;

use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;

pub use status::{OperatingStatus, Protocol, ProvisioningStatus};

use crate::Id;
use read::{L7PolicyOnTheWire, Reference, ids, on, port, text, time};

/// A project, as Keystone lists it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Project {
    /// The ID of the object.
    pub id: Id,
    /// The name, which is unique only within a domain.
    #[serde(default, deserialize_with = "text")]
    pub name: Arc<str>,
}

/// A load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "read::LoadBalancer")]
pub struct LoadBalancer {
    /// The ID of the object.
    pub id: Id,
    /// The name; empty if there is none. Names are not unique.
    pub name: Arc<str>,
    /// The project that owns the load balancer.
    pub project: Id,
    /// Whether an administrator has left the object switched on. Default: true.
    pub admin_state_up: bool,
    /// The progress of the last change.
    pub provisioning: ProvisioningStatus,
    /// The IDs of its listeners.
    pub listeners: Vec<Id>,
    /// The IDs of its pools.
    pub pools: Vec<Id>,
}

impl LoadBalancer {
    /// The fields that discovery asks for.
    pub const DISCOVERY_FIELDS: &[&str] =
        &["id", "name", "project_id", "tenant_id", "admin_state_up", "provisioning_status", "listeners", "pools"];
}

/// A listener: one port of a load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Listener {
    /// The ID of the object.
    pub id: Id,
    /// The protocol that the listener accepts.
    pub protocol: Protocol,
    /// The port that clients connect to; `None` if the row has no valid one.
    #[serde(rename = "protocol_port", default, deserialize_with = "port")]
    pub port: Option<u16>,
    /// Whether an administrator has left the object switched on. Default: true.
    #[serde(default = "on", deserialize_with = "read::on_unless_false")]
    pub admin_state_up: bool,
    /// The progress of the last change.
    #[serde(rename = "provisioning_status", default)]
    pub provisioning: ProvisioningStatus,
    /// The pool that gets the traffic, unless an L7 policy redirects it.
    #[serde(default)]
    pub default_pool_id: Option<Id>,
    /// The load balancer that the object belongs to. Both APIs send a list.
    #[serde(rename = "loadbalancers", default, deserialize_with = "ids")]
    pub load_balancers: Vec<Id>,
    /// The IDs of its L7 policies; `None` if the row does not say (neutron-lbaas). Then only the list of policies does.
    #[serde(rename = "l7policies", alias = "l7_policies", default, deserialize_with = "read::said_ids")]
    pub l7_policies: Option<Vec<Id>>,
    /// Whether only some client addresses may connect (`allowed_cidrs`).
    #[serde(rename = "allowed_cidrs", default, deserialize_with = "read::is_not_empty")]
    pub restricted: bool,
    /// The time of the last change, by the server's clock, in whole seconds.
    #[serde(default, deserialize_with = "time")]
    pub updated_at: Option<Timestamp>,
}

impl Listener {
    /// The fields that discovery asks for.
    pub const DISCOVERY_FIELDS: &[&str] = &[
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

/// A pool: the members that share a listener's traffic.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Pool {
    /// The ID of the object.
    pub id: Id,
    /// The protocol that the members speak.
    pub protocol: Protocol,
    /// Whether the load balancer connects to the members over TLS.
    #[serde(default, deserialize_with = "read::off_unless_true")]
    pub tls_enabled: bool,
    /// Whether an administrator has left the object switched on. Default: true.
    #[serde(default = "on", deserialize_with = "read::on_unless_false")]
    pub admin_state_up: bool,
    /// The progress of the last change.
    #[serde(rename = "provisioning_status", default)]
    pub provisioning: ProvisioningStatus,
    /// Whether the object works, as far as a health monitor knows.
    #[serde(rename = "operating_status", default)]
    pub operating: OperatingStatus,
    /// Whether a health monitor checks the members.
    #[serde(rename = "healthmonitor_id", default, deserialize_with = "read::is_some")]
    pub monitored: bool,
    /// Whether a client's connections stay with one member (`session_persistence`).
    #[serde(rename = "session_persistence", default, deserialize_with = "read::is_set")]
    pub sticky: bool,
    /// The IDs of the members. A member's address and port never change, so this list decides which endpoints exist.
    #[serde(default, deserialize_with = "ids")]
    pub members: Vec<Id>,
    /// The load balancer that the object belongs to. Both APIs send a list.
    #[serde(rename = "loadbalancers", default, deserialize_with = "ids")]
    pub load_balancers: Vec<Id>,
    /// The time of the last change of the pool or of one of its members, by the server's clock, in whole seconds. `None` until
    /// the first change, and always with neutron-lbaas.
    #[serde(default, deserialize_with = "time")]
    pub updated_at: Option<Timestamp>,
}

impl Pool {
    /// The fields that discovery asks for.
    pub const DISCOVERY_FIELDS: &[&str] = &[
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

/// The address of a member.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Address {
    /// A valid IP address.
    Ip(IpAddr),
    /// A text that is not an IP address.
    Unreadable(Arc<str>),
    /// No address.
    #[default]
    Missing,
}

/// A member of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Member {
    /// The ID of the object.
    pub id: Id,
    /// The address, which never changes.
    #[serde(default, deserialize_with = "read::address")]
    pub address: Address,
    /// The port that the member listens on, which never changes; `None` if the row has no valid one.
    #[serde(rename = "protocol_port", default, deserialize_with = "port")]
    pub port: Option<u16>,
    /// The member's share of the traffic; 0 for none. Default: 1.
    #[serde(default = "read::one", deserialize_with = "read::weight")]
    pub weight: u32,
    /// Whether an administrator has left the object switched on. Default: true.
    #[serde(default = "on", deserialize_with = "read::on_unless_false")]
    pub admin_state_up: bool,
    /// Whether the member takes traffic only while no other member can.
    #[serde(default, deserialize_with = "read::off_unless_true")]
    pub backup: bool,
    /// The progress of the last change.
    #[serde(rename = "provisioning_status", default)]
    pub provisioning: ProvisioningStatus,
    /// Whether the object works, as far as a health monitor knows.
    #[serde(rename = "operating_status", default)]
    pub operating: OperatingStatus,
}

impl Member {
    /// The fields that discovery asks for.
    pub const DISCOVERY_FIELDS: &[&str] = &[
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

/// An L7 policy: redirects a part of a listener's traffic.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "L7PolicyOnTheWire")]
pub struct L7Policy {
    /// The ID of the object.
    pub id: Id,
    /// The listener that the policy belongs to. The `l7_policies` of the listener's row take precedence.
    pub listener: Option<Id>,
    /// The pool that the policy redirects to, if it redirects to a pool.
    pub redirect_pool: Option<Id>,
    /// Whether an administrator has left the object switched on. Default: true.
    pub admin_state_up: bool,
    /// The progress of the last change.
    pub provisioning: ProvisioningStatus,
}

impl L7Policy {
    /// The fields that discovery asks for.
    pub const DISCOVERY_FIELDS: &[&str] =
        &["id", "listener_id", "listeners", "action", "redirect_pool_id", "admin_state_up", "provisioning_status"];
}

/// Returns the IDs in `[{"id": ".."}, ..]`.
fn ids_of(references: Vec<Reference>) -> Vec<Id> {
    references.into_iter().map(|reference| reference.id).collect()
}
