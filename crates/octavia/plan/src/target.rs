//! What is wanted, in Octavia's words.

use std::borrow::Cow;
use std::net::IpAddr;

use gimbal_kuryr_model::{
    Algorithm, ClientRanges, CloudFacts, DesiredKey, DesiredLoadBalancer, DesiredMember, HealthMonitor, ListenerId,
    ListenerKind, LoadBalancerHeader, MonitorKind, PoolId, ProxyVersion, Text,
};
use gimbal_model::{Family, Protocol};
use serde_json::{Map, Value, json};

use crate::abilities::UsableAbilities;
use crate::fields::{ALGORITHM, TIMES, with_fields};
use crate::mark::{Mark, owner_tag_of, port_tag, replaces_tag, tag_of_pool};
use crate::routing::early::RedirectsForNow;
use crate::sharing::Sharing;
use crate::tags::member_tags;

/// The protocol of listeners with certificates.
pub(crate) const TERMINATED_HTTPS: &str = "TERMINATED_HTTPS";
/// What a pool gets where nothing is asked for, and where the provider knows nothing else.
pub(crate) const ROUND_ROBIN: &str = "ROUND_ROBIN";
pub(crate) const SOURCE_IP_PORT: &str = "SOURCE_IP_PORT";

/// What is wanted under a key, and what renders it.
pub(crate) struct WantedBalancer<'a> {
    pub(crate) key: &'a DesiredKey,
    pub(crate) wanted: &'a DesiredLoadBalancer,
    pub(crate) facts: &'a CloudFacts,
    pub(crate) mark: &'a Mark,
    pub(crate) resource_tags: &'a [Text],
    pub(crate) abilities: UsableAbilities,
    /// Whether the load balancer has one address where two are wanted.
    pub(crate) has_one_address: bool,
    pub(crate) sharing: Option<&'a Sharing>,
    /// What the TLS listeners of a router refer to, the default first.
    pub(crate) certificates: Vec<String>,
    /// Which clients a router may send to HTTPS.
    pub(crate) redirects: RedirectsForNow<'a>,
    /// A floating IP that is to go still leads there: no port is opened before it has gone.
    pub(crate) is_exposed: bool,
}

/// A wanted listener.
pub(crate) struct WantedListener {
    pub(crate) id: ListenerId,
    pub(crate) name: String,
    pub(crate) protocol: &'static str,
    pub(crate) up: bool,
    /// Ranges of clients; `None`: any will do, for the listener is closed.
    pub(crate) allowed: Option<Vec<String>>,
    /// Fields that are compared only because they are wanted.
    pub(crate) options: Map<String, Value>,
}

/// A wanted pool.
pub(crate) struct WantedPool {
    pub(crate) id: PoolId,
    pub(crate) name: String,
    pub(crate) protocol: &'static str,
    pub(crate) algorithm: &'static str,
    /// Whether the algorithm was asked for.
    pub(crate) is_chosen: bool,
    pub(crate) persistence: Value,
    pub(crate) monitor: Option<Map<String, Value>>,
}

/// A wanted member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WantedMember {
    pub(crate) address: String,
    pub(crate) port: u16,
    pub(crate) weight: u32,
    pub(crate) name: String,
    pub(crate) subnet: Option<String>,
    pub(crate) monitor_port: Option<u16>,
}

impl WantedBalancer<'_> {
    fn header(&self) -> &LoadBalancerHeader {
        &self.wanted.header
    }

    /// Returns what is wanted of one port.
    fn header_of(&self, id: ListenerId) -> &LoadBalancerHeader {
        let part = self.sharing.and_then(|sharing| sharing.parts.get(&id));
        part.map_or_else(|| self.header(), |part| &part.header)
    }

    /// Returns who may connect to a port. Octavia refuses ranges of a family that the load balancer has no address of.
    pub(crate) fn clients(&self, id: ListenerId) -> Cow<'_, ClientRanges> {
        let clients = &self.header_of(id).clients;
        match clients {
            ClientRanges::Only(ranges) if self.has_one_address => {
                let family = self.header().balancing.family;
                let left: Box<[_]> = ranges.iter().filter(|one| Family::of(one.addr()) == family).copied().collect();
                Cow::Owned(if left.is_empty() { ClientRanges::NoOne } else { ClientRanges::Only(left) })
            }
            clients => Cow::Borrowed(clients),
        }
    }

    fn part_name(&self, id: ListenerId) -> String {
        let part = self.sharing.and_then(|sharing| sharing.parts.get(&id));
        let key = part.map_or(self.key, |part| &part.key);
        LoadBalancerHeader::listener_name(&key.namespace, &key.name, id)
    }

    pub(crate) fn name(&self) -> String {
        LoadBalancerHeader::display_name(&self.key.namespace, &self.key.name)
    }

    /// Returns the tags of the load balancer.
    pub(crate) fn tags(&self) -> impl Iterator<Item = String> {
        self.own_tags().chain(self.sharing.into_iter().flat_map(Sharing::owner_tags))
    }

    pub(crate) fn own_tags(&self) -> impl Iterator<Item = String> {
        self.mark.tags().into_iter().chain(self.resource_tags.iter().map(ToString::to_string))
    }

    /// Returns the tags of a pool.
    pub(crate) fn pool_tags(&self, id: &PoolId) -> Vec<String> {
        match id {
            PoolId::Listener(id) => self.part_tags(*id),
            PoolId::Service(_) => std::iter::once(tag_of_pool(id)).chain(self.own_tags()).collect(),
        }
    }

    /// Returns the tags of a listener, and of its pool.
    pub(crate) fn part_tags(&self, id: ListenerId) -> Vec<String> {
        let part = self.sharing.and_then(|sharing| sharing.parts.get(&id));
        let owner = part.map(|part| owner_tag_of(&part.owner));
        std::iter::once(port_tag(id)).chain(self.own_tags()).chain(owner).collect()
    }

    pub(crate) fn listener(&self, id: ListenerId) -> Option<WantedListener> {
        let header = self.header_of(id);
        let wish = header.listener(id)?;
        let mut options = Map::new();
        let timeouts = &header.timeouts;
        let limits = [
            ("timeout_client_data", timeouts.client_data.map(i64::from)),
            ("timeout_member_data", timeouts.member_data.map(i64::from)),
            ("timeout_member_connect", timeouts.member_connect.map(i64::from)),
            ("timeout_tcp_inspect", timeouts.tcp_inspect.map(i64::from)),
            ("connection_limit", timeouts.connection_limit.map(i64::from)),
        ];
        options.extend(limits.into_iter().filter_map(|(key, limit)| Some((key.to_owned(), json!(limit?)))));
        if wish.kind != ListenerKind::Plain {
            options.insert("insert_headers".into(), json!({"X-Forwarded-For": "true"}));
        }
        if wish.kind == ListenerKind::TerminatedHttps {
            let mut references = match self.is_router() {
                true => self.certificates.iter().map(|one| json!(one)).collect::<Vec<_>>(),
                false => header.tls_containers.iter().map(|one| json!(&**one)).collect(),
            }
            .into_iter();
            // One that has any and is to have others keeps them until those are there.
            if let Some(first) = references.next() {
                options.insert("default_tls_container_ref".into(), first);
                options.insert("sni_container_refs".into(), references.collect());
            }
        }
        let (up, allowed) = match &*self.clients(id) {
            ClientRanges::Everyone => (true, Some(Vec::new())),
            ClientRanges::Only(ranges) => (true, Some(ranges.iter().map(ToString::to_string).collect())),
            // For Octavia an empty list means everybody.
            ClientRanges::NoOne => (false, None),
        };
        let name = self.part_name(id);
        Some(WantedListener { id, name, protocol: listener_protocol(id, wish.kind), up, allowed, options })
    }

    /// Returns a wanted pool; `None` for one that there is not to be. A router's listener has no pool of its own.
    pub(crate) fn pool(&self, id: &PoolId) -> Option<WantedPool> {
        let (header, kind, transport, name) = match id {
            PoolId::Listener(id) => {
                let header = self.header_of(*id);
                let wish = header.listener(*id).filter(|_| !self.is_router())?;
                (header, wish.kind, id.protocol, self.part_name(*id))
            }
            PoolId::Service(id) => (self.header(), ListenerKind::Http, Protocol::Tcp, self.service_pool_name(id)?),
        };
        let balancing = &header.balancing;
        let protocol = match (kind, balancing.proxy, transport) {
            (_, _, Protocol::Udp) => "UDP",
            (_, _, Protocol::Sctp) => "SCTP",
            (_, Some(ProxyVersion::V1), _) => "PROXY",
            (_, Some(ProxyVersion::V2), _) => "PROXYV2",
            (ListenerKind::Plain, None, _) => "TCP",
            (ListenerKind::Http | ListenerKind::TerminatedHttps, None, _) => "HTTP",
        };
        let datagrams = transport != Protocol::Tcp;
        let persistence = match balancing.affinity_seconds {
            None => Value::Null,
            // Only pools of datagrams have a time of their own; haproxy's table has Octavia's.
            Some(seconds) if datagrams => json!({"type": "SOURCE_IP", "persistence_timeout": seconds}),
            Some(_) => json!({"type": "SOURCE_IP"}),
        };
        let usual = if self.abilities.provider.weights { ROUND_ROBIN } else { SOURCE_IP_PORT };
        let (algorithm, is_chosen) = (balancing.algorithm.map_or(usual, algorithm), balancing.algorithm.is_some());
        let monitor = header.monitor.as_deref().map(|wanted| {
            let mut body = monitor(wanted, transport);
            body.insert("name".into(), json!(name));
            body.insert("tags".into(), json!(self.pool_tags(id)));
            body
        });
        Some(WantedPool { id: id.clone(), name, protocol, algorithm, is_chosen, persistence, monitor })
    }

    /// Returns the members of a pool, in order. A provider without weights takes no connections away from one that drains.
    pub(crate) fn members(&self, id: &PoolId) -> Vec<WantedMember> {
        let header = id.listener().map_or_else(|| self.header(), |id| self.header_of(id));
        let monitor_port = header.monitor.as_deref().and_then(|monitor| monitor.port);
        self.wanted.members.of(id).iter().map(|one| self.member(one, monitor_port)).collect()
    }

    fn member(&self, member: &DesiredMember, monitor_port: Option<u16>) -> WantedMember {
        WantedMember {
            address: member.id.address.to_string(),
            port: member.id.port,
            weight: if self.abilities.provider.weights { member.weight.into() } else { 1 },
            name: member.name.as_deref().unwrap_or_default().to_owned(),
            subnet: member.subnet.as_deref().map(str::to_owned),
            monitor_port,
        }
    }

    /// Returns the further addresses of the VIP: subnets, and addresses where they are decided.
    pub(crate) fn additional_vips(&self) -> Vec<(&str, Option<IpAddr>)> {
        let vip = &self.header().vip;
        if !self.abilities.additional_vips {
            return Vec::new();
        }
        let address = |subnet: &gimbal_kuryr_model::Text| {
            let cidr = self.facts.subnets.get(subnet)?.cidr;
            vip.additional_addresses.iter().find(|address| cidr.contains(*address)).copied()
        };
        vip.additional_subnets.iter().map(|subnet| (&**subnet, address(subnet))).collect()
    }

    /// Returns why a port cannot be served, if that is known before it is tried.
    pub(crate) fn refusal(&self, id: ListenerId) -> Option<&'static str> {
        let restricted = matches!(*self.clients(id), ClientRanges::Only(_));
        match (restricted, self.abilities.speaks_ranges, self.abilities.provider.client_ranges) {
            (true, false, _) => Some("ranges of clients need version 2.12 of Octavia's API"),
            (true, true, false) => Some("the provider cannot restrict a listener to ranges of clients"),
            _ => None,
        }
    }

    /// Returns the body of the load balancer's creation, on a port and in the place of another one if they are given.
    /// `populated`: with all that belongs below it, but the ports `without`.
    pub(crate) fn balancer(
        &self,
        vip_port: Option<&str>,
        replaces: Option<&str>,
        populated: bool,
        without: &[ListenerId],
    ) -> Value {
        let header = self.header();
        let tags: Vec<String> = self.tags().chain(replaces.map(replaces_tag)).collect();
        let mut body = json!({
            "name": self.name(),
            "project_id": &*header.placement.project,
            "tags": tags,
            "description": self.mark.description(),
        });
        let vip = &header.vip;
        let more = self.additional_vips();
        match vip_port {
            Some(port) => {
                body["vip_port_id"] = json!(port);
                // Which of the port's addresses is the first one.
                if let Some(subnet) = vip.subnet.as_deref().filter(|_| !more.is_empty()) {
                    body["vip_subnet_id"] = json!(subnet);
                }
            }
            None => {
                let given = [
                    ("vip_port_id", vip.port.as_deref().map(|one| json!(one))),
                    ("vip_subnet_id", vip.subnet.as_deref().map(|one| json!(one))),
                    ("vip_network_id", vip.network.as_deref().map(|one| json!(one))),
                    ("vip_address", vip.address.map(|address| json!(address))),
                ];
                for (key, value) in given {
                    if let Some(value) = value {
                        body[key] = value;
                    }
                }
            }
        }
        // Also with a port of ours: Octavia sets its groups.
        if let Some(groups) = self.octavias_groups().filter(|groups| !groups.is_empty()) {
            body["vip_sg_ids"] = groups.iter().map(|one| json!(&**one)).collect();
        }
        if !more.is_empty() {
            body["additional_vips"] = more.iter().map(|(subnet, address)| fixed_ip(subnet, *address)).collect();
        }
        let placement = &header.placement;
        let chosen = [
            ("provider", &placement.provider),
            ("flavor_id", &placement.flavor),
            ("availability_zone", &placement.availability_zone),
        ];
        for (key, value) in chosen {
            if let Some(value) = value {
                body[key] = json!(&**value);
            }
        }
        if populated {
            let ids = || header.listeners.iter().map(|wish| wish.id).filter(|id| !without.contains(id));
            let pools = self.pool_ids(&ids().collect::<Vec<_>>());
            let pools = pools.iter().filter_map(|id| {
                let pool = self.pool(id)?;
                let mut body = pool.body(&self.pool_tags(id));
                // The name is what listeners and policies refer to, and has to be unique.
                let members = self.members(id);
                if !members.is_empty() {
                    let tags = member_tags(self.mark, self.resource_tags);
                    body["members"] = members.iter().map(|member| member.body(&tags)).collect();
                }
                if let Some(monitor) = pool.monitor {
                    body["healthmonitor"] = Value::Object(monitor);
                }
                Some(body)
            });
            body["pools"] = pools.collect();
            let listeners = ids().filter_map(|id| {
                let listener = self.listener(id)?;
                let mut body = listener.body(&self.part_tags(id));
                if self.is_router() {
                    self.add_routes(id, &mut body);
                } else {
                    body["default_pool"] = json!({"name": listener.name});
                }
                Some(body)
            });
            body["listeners"] = listeners.collect();
        }
        body
    }
}

impl WantedListener {
    /// Returns the times that are asked for.
    pub(crate) fn times(&self) -> Vec<&'static str> {
        TIMES.into_iter().filter(|time| self.options.contains_key(*time)).collect()
    }

    /// Returns the body of a creation, without the pool.
    pub(crate) fn body(&self, tags: &[String]) -> Value {
        let mut body = Map::new();
        body.insert("name".into(), json!(self.name));
        body.insert("protocol".into(), json!(self.protocol));
        body.insert("protocol_port".into(), json!(self.id.port));
        body.insert("admin_state_up".into(), json!(self.up));
        body.insert("tags".into(), json!(with_fields(tags, &self.times())));
        if let Some(allowed) = self.allowed.as_ref().filter(|allowed| !allowed.is_empty()) {
            body.insert("allowed_cidrs".into(), json!(allowed));
        }
        body.extend(self.options.clone());
        Value::Object(body)
    }
}

impl WantedPool {
    /// Returns what is asked for of what has a value without that too.
    pub(crate) fn asked(&self) -> &'static [&'static str] {
        if self.is_chosen { &[ALGORITHM] } else { &[] }
    }

    /// Returns the body of a creation, without members and monitor.
    pub(crate) fn body(&self, tags: &[String]) -> Value {
        let mut body = json!({
            "name": self.name,
            "protocol": self.protocol,
            "lb_algorithm": self.algorithm,
            "admin_state_up": true,
            "tags": with_fields(tags, self.asked()),
        });
        if !self.persistence.is_null() {
            body["session_persistence"] = self.persistence.clone();
        }
        body
    }
}

impl WantedMember {
    /// Returns the member complete: what a batch leaves out, Octavia resets.
    pub(crate) fn body(&self, tags: &[String]) -> Value {
        let mut body = json!({
            "address": self.address,
            "protocol_port": self.port,
            "weight": self.weight,
            "name": self.name,
            "backup": false,
            "admin_state_up": true,
            "monitor_port": self.monitor_port,
            "monitor_address": null,
            "tags": tags,
        });
        if let Some(subnet) = &self.subnet {
            body["subnet_id"] = json!(subnet);
        }
        body
    }
}

/// Returns an address in a subnet, as Neutron and Octavia take it.
pub(crate) fn fixed_ip(subnet: &str, address: Option<IpAddr>) -> Value {
    match address {
        Some(address) => json!({"subnet_id": subnet, "ip_address": address}),
        None => json!({"subnet_id": subnet}),
    }
}

fn listener_protocol(id: ListenerId, kind: ListenerKind) -> &'static str {
    match (id.protocol, kind) {
        (Protocol::Udp, _) => "UDP",
        (Protocol::Sctp, _) => "SCTP",
        (Protocol::Tcp, ListenerKind::Plain) => "TCP",
        (Protocol::Tcp, ListenerKind::Http) => "HTTP",
        (Protocol::Tcp, ListenerKind::TerminatedHttps) => TERMINATED_HTTPS,
    }
}

fn algorithm(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::RoundRobin => ROUND_ROBIN,
        Algorithm::LeastConnections => "LEAST_CONNECTIONS",
        Algorithm::SourceIp => "SOURCE_IP",
        Algorithm::SourceIpPort => SOURCE_IP_PORT,
    }
}

fn monitor(wanted: &HealthMonitor, protocol: Protocol) -> Map<String, Value> {
    let HealthMonitor { kind, port: _, delay, timeout, rise, fall, path, codes } = wanted;
    let kind = match (kind, protocol) {
        (MonitorKind::Http, _) => "HTTP",
        (MonitorKind::Https, _) => "HTTPS",
        (MonitorKind::TlsHello, _) => "TLS-HELLO",
        (MonitorKind::Ping, _) => "PING",
        (MonitorKind::Connect, Protocol::Tcp) => "TCP",
        (MonitorKind::Connect, Protocol::Udp) => "UDP-CONNECT",
        (MonitorKind::Connect, Protocol::Sctp) => "SCTP",
    };
    let mut body = Map::new();
    body.insert("type".into(), json!(kind));
    body.insert("delay".into(), json!(delay));
    body.insert("timeout".into(), json!(timeout));
    body.insert("max_retries".into(), json!(rise));
    body.insert("max_retries_down".into(), json!(fall));
    if matches!(kind, "HTTP" | "HTTPS") {
        // What is not asked for is as Octavia fills it in, for it may have been asked for before.
        body.insert("url_path".into(), json!(path.as_deref().unwrap_or("/")));
        body.insert("expected_codes".into(), json!(codes.as_deref().unwrap_or("200")));
    }
    body
}
