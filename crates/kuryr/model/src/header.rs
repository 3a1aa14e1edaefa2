//! Everything about a load balancer except its members.

use std::net::IpAddr;

use gimbal_model::{Family, Protocol};
use ipnet::IpNet;

use crate::{ListenerId, Routing, Text};

/// Everything about a load balancer except its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadBalancerHeader {
    /// UID of the Service, or of the custom resource where it was made without one. Everything that is made carries it.
    pub owner: Text,
    /// Whether the status of the custom resource names what exists. If not, the writer asks OpenStack by the owner before
    /// it makes anything.
    pub known: bool,
    /// Where it is made. Cannot be changed in place.
    pub placement: LoadBalancerPlacement,
    /// Its address.
    pub vip: VipWish,
    /// Its floating IP, if one is wanted.
    pub floating: Option<Box<FloatingWish>>,
    /// Its ports, in the order of their [`ListenerId`]s, each once.
    pub listeners: Box<[ListenerWish]>,
    /// Who may connect.
    pub clients: ClientRanges,
    /// How members are chosen.
    pub balancing: Balancing,
    /// Timeouts and limits of every listener.
    pub timeouts: Timeouts,
    /// How members are probed, if at all.
    pub monitor: Option<Box<HealthMonitor>>,
    /// Containers of certificates in Barbican; the first is the default one.
    pub tls_containers: Box<[Text]>,
    /// The load balancer that it shares with others; unset: one of its own.
    pub shared_group: Option<Box<SharedGroup>>,
    /// An existing load balancer that is asked for.
    pub adopt: Option<Text>,
    /// How requests are led to Services. A load balancer that has it is a router; the others lead each listener to its own pool.
    pub routing: Option<Box<Routing>>,
}

/// The load balancer that several owners share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedGroup {
    /// The namespace and the name of the group, with a `/` in between.
    pub name: Text,
    /// When the owner was created, in UTC as RFC 3339 writes it. The older of two has a port that both want; who does not say is
    /// younger.
    pub created: Option<Text>,
}

/// What a load balancer keeps for its life.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadBalancerPlacement {
    /// Project.
    pub project: Text,
    /// Provider; unset: Octavia's default.
    pub provider: Option<Text>,
    /// Flavor.
    pub flavor: Option<Text>,
    /// Availability zone.
    pub availability_zone: Option<Text>,
}

/// The address that is wanted. At least one of subnet, network and port is set; a header with none of them names its owner, and the
/// writer refuses it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VipWish {
    /// Subnet.
    pub subnet: Option<Text>,
    /// Network, where the subnet does not matter.
    pub network: Option<Text>,
    /// Port that someone else made.
    pub port: Option<Text>,
    /// Address; unset: Neutron chooses.
    pub address: Option<IpAddr>,
    /// Subnets of further addresses.
    pub additional_subnets: Box<[Text]>,
    /// Further addresses, each in the additional subnet that holds it. In a subnet without one Neutron chooses.
    pub additional_addresses: Box<[IpAddr]>,
    /// Security groups of the port, sorted.
    pub security_groups: Box<[Text]>,
    /// Whether the Service is of type `LoadBalancer`, so that the port is made first and outlives the load balancer.
    pub from_outside: bool,
}

/// The floating IP that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FloatingWish {
    /// Network; unset: the cluster's external network.
    pub network: Option<Text>,
    /// Subnet.
    pub subnet: Option<Text>,
    /// Address; unset: any.
    pub address: Option<IpAddr>,
    /// Whether one from the pool is kept when the load balancer goes.
    pub keep: bool,
}

/// What a listener speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListenerKind {
    /// Its port's transport protocol.
    Plain,
    /// HTTP, with `X-Forwarded-For`.
    Http,
    /// HTTP behind a TLS connection that ends here.
    TerminatedHttps,
}

/// A listener, and the pool behind it. A router's listener has no pool of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerWish {
    /// Protocol and number that clients connect to.
    pub id: ListenerId,
    /// What it speaks.
    pub kind: ListenerKind,
    /// Name of the Service's port, for messages.
    pub name: Option<Text>,
}

/// Who may connect. An empty list and no list mean opposite things to people and the same to Octavia, so neither is a
/// value here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ClientRanges {
    /// Everyone.
    #[default]
    Everyone,
    /// These, sorted, at least one.
    Only(Box<[IpNet]>),
    /// No one: ranges were given and none of them can be used.
    NoOne,
}

/// How a member is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// In turn.
    RoundRobin,
    /// The one with the fewest connections.
    LeastConnections,
    /// By the client's address.
    SourceIp,
    /// By the client's address and port.
    SourceIpPort,
}

/// What members are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum MemberMode {
    /// Pods, by their own addresses.
    #[default]
    Pod,
    /// Nodes, by their node ports.
    Node,
}

/// Version of the PROXY header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProxyVersion {
    /// As text.
    V1,
    /// In binary.
    V2,
}

/// How members are chosen and reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balancing {
    /// Family of the members. A pool holds one.
    pub family: Family,
    /// What members are.
    pub members: MemberMode,
    /// Algorithm; unset: what fits the provider.
    pub algorithm: Option<Algorithm>,
    /// Seconds that a client stays with its member; unset: no affinity.
    pub affinity_seconds: Option<u32>,
    /// Header that members get.
    pub proxy: Option<ProxyVersion>,
}

/// Milliseconds, and a limit. Unset: what Octavia is configured for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timeouts {
    /// A client may be silent.
    pub client_data: Option<u32>,
    /// A member may be silent.
    pub member_data: Option<u32>,
    /// A connection to a member may take.
    pub member_connect: Option<u32>,
    /// Content to inspect is waited for.
    pub tcp_inspect: Option<u32>,
    /// Connections of a listener at a time; -1: no limit.
    pub connection_limit: Option<i32>,
}

/// How a monitor asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MonitorKind {
    /// By what fits the port: TCP, `UDP-CONNECT` or SCTP.
    Connect,
    /// By HTTP.
    Http,
    /// By HTTPS.
    Https,
    /// By the first message of TLS.
    TlsHello,
    /// By ICMP.
    Ping,
}

/// How members are probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthMonitor {
    /// How it asks.
    pub kind: MonitorKind,
    /// Port that is asked; unset: the member's.
    pub port: Option<u16>,
    /// Seconds between two probes.
    pub delay: u32,
    /// Seconds that a probe may take.
    pub timeout: u32,
    /// Successes until a member is up.
    pub rise: u8,
    /// Failures until a member is down.
    pub fall: u8,
    /// Path, for HTTP.
    pub path: Option<Text>,
    /// Answers that count as success, for HTTP.
    pub codes: Option<Text>,
}

impl LoadBalancerHeader {
    /// Returns the listener with this identity.
    #[must_use]
    pub fn listener(&self, id: ListenerId) -> Option<&ListenerWish> {
        self.listeners.binary_search_by_key(&id, |listener| listener.id).ok().map(|at| &self.listeners[at])
    }

    /// Puts lists into the order that their fields promise. Called by whoever makes a header of unsorted input; two
    /// headers that mean the same are then equal and have one digest.
    pub fn sort(&mut self) {
        sort(&mut self.listeners, |a, b| a.id.cmp(&b.id), |a, b| a.id == b.id);
        sort(&mut self.vip.security_groups, Ord::cmp, PartialEq::eq);
        if let ClientRanges::Only(ranges) = &mut self.clients {
            sort(ranges, Ord::cmp, PartialEq::eq);
            if ranges.is_empty() {
                self.clients = ClientRanges::NoOne;
            }
        }
        if let Some(routing) = &mut self.routing {
            sort(&mut routing.pools, |a, b| a.id.cmp(&b.id), |a, b| a.id == b.id);
            // The order of a listener's routes has a meaning, and stays.
            sort(&mut routing.routes, |a, b| a.listener.cmp(&b.listener), |_, _| false);
        }
    }

    /// Returns what is wanted of that which a load balancer keeps for its life, with names for people; `None`: whatever it is.
    #[must_use]
    pub fn kept_for_life(&self) -> [(&'static str, Option<Text>); 7] {
        let Self { placement, vip, .. } = self;
        [
            ("project", Some(placement.project.clone())),
            ("provider", placement.provider.clone()),
            ("flavor", placement.flavor.clone()),
            ("availability zone", placement.availability_zone.clone()),
            ("subnet", vip.subnet.clone()),
            ("address", vip.address.map(|address| address.to_string().into())),
            ("port", vip.port.clone()),
        ]
    }

    /// Returns a name, cut to what OpenStack takes.
    #[must_use]
    pub fn cut(mut name: String) -> String {
        const LIMIT: usize = 255;
        if name.len() > LIMIT {
            name.truncate(name.floor_char_boundary(LIMIT));
        }
        name
    }

    /// Returns a name from outside as it is sent: without control characters, and cut.
    #[must_use]
    pub fn clean_name(name: &str) -> Text {
        Self::cut(name.chars().filter(|one| !one.is_control()).collect()).into()
    }

    /// Returns the name for people.
    #[must_use]
    pub fn display_name(namespace: &str, name: &str) -> String {
        Self::cut(format!("{namespace}/{name}"))
    }

    /// Returns the name of a listener and its pool.
    #[must_use]
    pub fn listener_name(namespace: &str, name: &str, id: ListenerId) -> String {
        Self::cut(format!("{namespace}/{name}:{}:{}", id.protocol.as_str(), id.port))
    }
}

/// The order of equal elements is kept, and the first of them stays.
fn sort<T>(list: &mut Box<[T]>, order: impl Fn(&T, &T) -> std::cmp::Ordering, same: impl Fn(&T, &T) -> bool) {
    let mut sorted = std::mem::take(list).into_vec();
    sorted.sort_by(order);
    sorted.dedup_by(|later, first| same(later, first));
    *list = sorted.into_boxed_slice();
}

impl ListenerId {
    /// Returns the identity of a listener.
    #[must_use]
    pub fn new(protocol: Protocol, port: u16) -> Self {
        Self { protocol, port }
    }
}
