//! What the writer says about the cloud, so that the controller needs no configuration of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use crate::{Algorithm, MemberMode, Text};

/// What the writer says about the cloud and about what it lets this cluster do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CloudFacts {
    /// Version of Octavia's API.
    pub api_version: ApiVersion,
    /// What each provider can do, as far as its answers have shown.
    pub providers: BTreeMap<Text, ProviderAbilities>,
    /// The provider that is used where nothing else is asked for; unset: Octavia's default.
    pub provider: Option<Text>,
    /// The project that load balancers are made in.
    pub project: Text,
    /// Further projects that an annotation may name.
    pub allowed_projects: BTreeSet<Text>,
    /// Subnets that are known by ID: of Services, of Pods, and those of the external network.
    pub subnets: BTreeMap<Text, SubnetFacts>,
    /// Subnets of VIPs, one for each family of the Services, the preferred first.
    pub service_subnets: Vec<Text>,
    /// Subnets that Pods are in.
    pub pod_subnets: Vec<Text>,
    /// Security groups of VIPs' ports.
    pub security_groups: Vec<Text>,
    /// Where floating IPs come from.
    pub external: Option<ExternalNetwork>,
    /// Whether VIPs are the cluster IPs.
    pub vip: VipMode,
    /// What members are.
    pub members: MemberMode,
    /// Defaults of load balancers.
    pub defaults: LoadBalancerDefaults,
    /// Defaults of classes, by name.
    pub classes: BTreeMap<Text, ClassDefaults>,
    /// What is left of the quota.
    pub quota: FreeQuota,
    /// Whether Ingresses are served.
    pub enable_ingress: bool,
    /// Floating IP of the shared router for Ingresses.
    pub l7_router_ip: Option<IpAddr>,
    /// Whether certificates of Ingresses are served.
    pub certificates: bool,
}

/// A version of an API. Ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ApiVersion {
    /// Before the dot.
    pub major: u16,
    /// After the dot.
    pub minor: u16,
}

impl ApiVersion {
    /// The first one where a batch of members may leave the others alone.
    pub const ADDITIVE_MEMBERS: Self = Self { major: 2, minor: 11 };
    /// The first one with several addresses for one load balancer.
    pub const ADDITIONAL_VIPS: Self = Self { major: 2, minor: 26 };
    /// The first one with ranges of clients.
    pub const CLIENT_RANGES: Self = Self { major: 2, minor: 12 };
    /// The first one where a TCP and a UDP listener may share a number.
    pub const SHARED_NUMBER: Self = Self { major: 2, minor: 13 };
    /// The first one with security groups for the port of the VIP.
    pub const VIP_GROUPS: Self = Self { major: 2, minor: 29 };
    /// The first one with SCTP.
    pub const SCTP: Self = Self { major: 2, minor: 23 };
}

/// What a provider can do. Everything, until an answer shows that it cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderAbilities {
    /// All members of a pool in one call.
    pub batch_members: bool,
    /// A load balancer with everything in it in one call.
    pub populated_create: bool,
    /// Weights of members.
    pub weights: bool,
    /// Ranges of clients.
    pub client_ranges: bool,
    /// Policies and rules.
    pub l7: bool,
    /// A port for the VIP that was made before.
    pub own_port: bool,
}

impl Default for ProviderAbilities {
    fn default() -> Self {
        Self {
            batch_members: true,
            populated_create: true,
            weights: true,
            client_ranges: true,
            l7: true,
            own_port: true,
        }
    }
}

/// A subnet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubnetFacts {
    /// Network that it is on.
    pub network: Text,
    /// Its addresses.
    pub cidr: IpNet,
    /// Name, for annotations that choose by it.
    pub name: Text,
    /// Tags, for annotations that choose by them.
    pub tags: BTreeSet<Text>,
    /// MTU of its network; 0: unknown.
    pub mtu: u32,
}

/// The network of floating IPs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExternalNetwork {
    /// ID.
    pub network: Text,
    /// The subnet that is used where nothing else is asked for.
    pub subnet: Option<Text>,
    /// Networks that may be asked for instead.
    pub allowed: BTreeSet<Text>,
    /// Whether an address may be asked for.
    pub user_addresses: bool,
}

/// Where the address of a VIP comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum VipMode {
    /// It is the cluster IP.
    #[default]
    ClusterIp,
    /// Neutron chooses it.
    Allocate,
}

/// How members are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum MemberAddressing {
    /// In the subnet of the Pods.
    L2,
    /// Routed, from the subnet of the VIP.
    #[default]
    L3,
}

/// Defaults of every load balancer of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadBalancerDefaults {
    /// How members are reached.
    pub addressing: MemberAddressing,
    /// How a member is chosen.
    pub algorithm: Option<Algorithm>,
    /// Milliseconds that a client may be silent; 0: what Octavia is configured for.
    pub timeout_client_data: u32,
    /// Milliseconds that a member may be silent; 0: what Octavia is configured for.
    pub timeout_member_data: u32,
}

/// Defaults of a class, which an annotation names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassDefaults {
    /// Network of floating IPs.
    pub floating_network: Option<Text>,
    /// Subnet of floating IPs.
    pub floating_subnet: Option<Text>,
    /// Subnets of floating IPs by tag: one of these is enough, unless the first begins with `&`.
    pub floating_subnet_tags: Vec<Text>,
    /// Network of VIPs.
    pub network: Option<Text>,
    /// Subnet of VIPs.
    pub subnet: Option<Text>,
    /// Subnet of members.
    pub member_subnet: Option<Text>,
    /// Provider.
    pub provider: Option<Text>,
    /// Flavor.
    pub flavor: Option<Text>,
    /// Availability zone.
    pub availability_zone: Option<Text>,
}

/// What is left of the quota; unset: unlimited or unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FreeQuota {
    /// Load balancers.
    pub load_balancers: Option<u32>,
    /// Listeners.
    pub listeners: Option<u32>,
    /// Pools.
    pub pools: Option<u32>,
    /// Members.
    pub members: Option<u32>,
    /// Ports.
    pub ports: Option<u32>,
    /// Floating IPs.
    pub floating_ips: Option<u32>,
}

impl CloudFacts {
    /// Returns what a provider can do: everything, for one that has not been asked for anything yet. `None`: Octavia's own choice,
    /// whose name is empty here.
    #[must_use]
    pub fn abilities(&self, provider: Option<&str>) -> ProviderAbilities {
        self.providers.get(provider.unwrap_or_default()).copied().unwrap_or_default()
    }

    /// Returns the first of these subnets that holds `address`.
    #[must_use]
    pub fn subnet_of<'a>(&self, subnets: impl IntoIterator<Item = &'a Text>, address: IpAddr) -> Option<&'a Text> {
        subnets.into_iter().find(|id| self.subnets.get(*id).is_some_and(|subnet| subnet.cidr.contains(&address)))
    }

    /// Whether `address` is one of a floating IP: of a subnet of the external network, or of one that may be asked for.
    #[must_use]
    pub fn is_external(&self, address: IpAddr) -> bool {
        let Some(external) = &self.external else { return false };
        let of_external =
            |subnet: &&SubnetFacts| subnet.network == external.network || external.allowed.contains(&subnet.network);
        self.subnets.values().filter(of_external).any(|subnet| subnet.cidr.contains(&address))
    }
}
