//! What the writer says about one entry.

use std::net::IpAddr;

use crate::{CertificateHash, ListenerId, ReportedRoutes, Text};

/// How far the writer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// It has not begun.
    Waiting,
    /// It is at work.
    Making,
    /// Made, ACTIVE, and as it is wanted.
    Ready,
    /// Made, and it serves badly or not at all.
    Degraded,
    /// It cannot go on; the conditions say why.
    Blocked,
    /// The guard holds a removal.
    Held,
    /// It is being removed.
    Removing,
    /// Nothing of this owner is left. Only this removes finalizers.
    Gone,
}

impl Phase {
    /// Returns the name of the phase, as it appears as the reason of a condition.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Making => "Making",
            Self::Ready => "Ready",
            Self::Degraded => "Degraded",
            Self::Blocked => "Blocked",
            Self::Held => "Held",
            Self::Removing => "Removing",
            Self::Gone => "Gone",
        }
    }
}

/// What the writer says about one entry. The latest one of a key replaces those before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadBalancerReport {
    /// UID of the owner that this is about.
    pub owner: Text,
    /// Generation that this is about.
    pub generation: i64,
    /// How far the writer is.
    pub phase: Phase,
    /// Conditions that are true, each type once. A type that is missing is false.
    pub conditions: Vec<ReportedCondition>,
    /// Ports that are not served.
    pub refused_ports: Vec<PortRefusal>,
    /// What exists.
    pub objects: ReportedObjects,
    /// The last refusal of OpenStack, in its words.
    pub last_error: Option<Text>,
    /// What somebody else has removed, the latest at least. It stays here after it is made again.
    pub missing: Option<Box<ReportedMissing>>,
}

/// IDs of what the writer has seen in OpenStack, has not removed, and has not found any more. What went with something larger is not
/// named beside that.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReportedMissing {
    /// Load balancers.
    pub load_balancers: Vec<Text>,
    /// Listeners.
    pub listeners: Vec<Text>,
    /// Pools.
    pub pools: Vec<Text>,
    /// Members.
    pub members: Vec<Text>,
}

/// A condition that is true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedCondition {
    /// Its type, for instance `QuotaExceeded`.
    pub kind: Text,
    /// Why, in `CamelCase`.
    pub reason: Text,
    /// Why, in words.
    pub message: Text,
}

impl ReportedCondition {
    /// The reason where the load balancer is in ERROR, or Octavia says that it does not serve.
    pub const NOT_SERVING: &str = "NotServing";
    /// The reason where one in ERROR was repaired too often.
    pub const REPAIR_BUDGET: &str = "RepairBudget";
}

/// A port that is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortRefusal {
    /// Which port.
    pub listener: ListenerId,
    /// Why, in `CamelCase`.
    pub reason: Text,
    /// Why, in words.
    pub message: Text,
}

/// What exists in OpenStack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReportedObjects {
    /// The load balancer.
    pub load_balancer: Option<ReportedLoadBalancer>,
    /// Its listeners.
    pub listeners: Vec<ReportedListener>,
    /// Its pools.
    pub pools: Vec<ReportedPool>,
    /// Members, perhaps not all of them.
    pub members: Vec<ReportedMember>,
    /// Number of members that exist.
    pub member_count: u32,
    /// Its floating IP.
    pub floating_ip: Option<ReportedFloatingIp>,
    /// Policies of its listeners, by listener and position.
    pub policies: Vec<ReportedPolicy>,
    /// How far the routes of a router are; unset: that is not known.
    pub routes: Option<ReportedRoutes>,
    /// Certificates of a router in Barbican, in use or not.
    pub certificates: Vec<ReportedCertificate>,
}

/// A certificate that is stored in Barbican.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedCertificate {
    /// Its reference.
    pub reference: Text,
    /// Hash of its content.
    pub hash: CertificateHash,
}

/// A load balancer that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedLoadBalancer {
    /// ID.
    pub id: Text,
    /// Name.
    pub name: Text,
    /// Address of its VIP.
    pub address: IpAddr,
    /// Port of its VIP.
    pub port: Text,
    /// Subnet of its VIP.
    pub subnet: Text,
    /// Project.
    pub project: Text,
    /// Provider.
    pub provider: Text,
    /// Security groups of the VIP's port.
    pub security_groups: Vec<Text>,
}

/// A listener that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedListener {
    /// ID.
    pub id: Text,
    /// Name.
    pub name: Text,
    /// Protocol, in Octavia's words.
    pub protocol: Text,
    /// Number.
    pub port: u16,
    /// Milliseconds that a client may be silent.
    pub timeout_client_data: Option<u32>,
    /// Milliseconds that a member may be silent.
    pub timeout_member_data: Option<u32>,
}

/// A pool that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedPool {
    /// ID.
    pub id: Text,
    /// The listener that leads there by default; empty: only routes of a router do.
    pub listener: Text,
    /// Name.
    pub name: Text,
    /// Protocol, in Octavia's words.
    pub protocol: Text,
}

/// A policy that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedPolicy {
    /// ID.
    pub id: Text,
    /// Its listener.
    pub listener: Text,
    /// Its place among the policies of the listener, from 1.
    pub position: u32,
    /// Name.
    pub name: Text,
}

/// A member that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedMember {
    /// ID.
    pub id: Text,
    /// Its pool.
    pub pool: Text,
    /// Name.
    pub name: Text,
    /// Address.
    pub address: IpAddr,
    /// Port.
    pub port: u16,
    /// Subnet.
    pub subnet: Text,
}

/// Where a floating IP came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FloatingAllocation {
    /// A user asked for it; it is not released.
    User,
    /// From the pool.
    Pool,
}

/// A floating IP that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedFloatingIp {
    /// ID.
    pub id: Text,
    /// Address.
    pub address: IpAddr,
    /// Where it came from.
    pub allocation: FloatingAllocation,
}
