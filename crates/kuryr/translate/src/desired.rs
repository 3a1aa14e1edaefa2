//! The spec of a KuryrLoadBalancer, as the API server accepted it, as what is streamed.

use std::collections::BTreeSet;
use std::sync::Arc;

use gimbal_kuryr_crd::names::conditions;
use gimbal_kuryr_crd::{
    KlbAlgorithm, KlbHealthMonitor, KlbMemberMode, KlbPort, KlbProxyProtocol, KuryrLoadBalancer, KuryrLoadBalancerSpec,
};
use gimbal_kuryr_model::{
    Algorithm, ApiVersion, Balancing, ClientRanges, CloudFacts, DesiredLoadBalancer, DesiredMembers, FloatingWish,
    HealthMonitor, ListenerId, ListenerKind, ListenerWish, LoadBalancerHeader, LoadBalancerPlacement, MOST_NAME,
    MemberMode, MonitorKind, ProxyVersion, SharedGroup, Text, Timeouts, VipWish, owner_problem, words_problem,
};
use gimbal_model::{Family, Protocol};
use ipnet::IpNet;

use crate::address::address;
use crate::bounds::listed_len;
use crate::finding::shown;
use crate::members::members;
use crate::spec::primary_family;
use crate::vip::vip;
use crate::{Finding, MOST_LISTED, PortProblem, RangeProblem, status_knowledge};

/// What is streamed of an object, and what was left out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Streamed {
    /// What is streamed.
    pub wanted: DesiredLoadBalancer,
    /// What was left out.
    pub findings: Vec<Finding>,
}

/// Why an object is not streamed, not tried, or not as it is wanted. What was streamed of it before stays as it is: taking it out of the
/// stream would be a wish to remove it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotStreamed {
    /// The writer has not said yet where load balancers are made.
    #[error("it has no project or no subnet yet")]
    WaitingForWriter,
    /// It belongs to no Service, and only a Service's is given what it lacks.
    #[error(
        "it has no `project_id`, or none of `subnet_id`, `vip_network_id` and `vip_port_id`: without a Service, whoever makes it has to \
         write them"
    )]
    NotPlaced,
    /// Neutron could only refuse it.
    #[error("its address {address} is not in subnet {subnet} ({cidr})")]
    VipOutsideSubnet {
        /// The address.
        address: Text,
        /// The subnet.
        subnet: Text,
        /// The addresses of the subnet.
        cidr: IpNet,
    },
    /// It is no address.
    #[error("its address {0:?} cannot be read")]
    VipUnreadable(Text),
    /// It has a text that the writer would not read.
    #[error("its {field} {value:?} is not one that OpenStack has")]
    Invalid {
        /// What it is.
        field: &'static str,
        /// The text, cut to 64 characters.
        value: Text,
    },
    /// It has more than can be sent.
    #[error(
        "its {ports} ports, {ranges} source ranges and other lists take {len} bytes, and no more than {} can be sent",
        crate::MOST_LISTED
    )]
    TooLarge {
        /// Its ports.
        ports: usize,
        /// Its ranges of clients.
        ranges: usize,
        /// What all lists take at most.
        len: usize,
    },
    /// It has more than can be sent.
    #[error(
        "its {routes} routes to {pools} pools take {len} bytes, and no more than {} can be sent",
        crate::MOST_LISTED
    )]
    TooManyRoutes {
        /// Its routes.
        routes: usize,
        /// Its pools.
        pools: usize,
        /// What all lists take at most.
        len: usize,
    },
    /// The writer's configuration has no leave for it.
    #[error("openstack-writer does not serve Ingresses of this cluster (enable_ingress)")]
    NotEnabled,
    /// It is streamed, and the writer does not try to make it.
    #[error("{message}")]
    Rejected {
        /// Why, in `CamelCase`.
        reason: &'static str,
        /// Why, in words.
        message: Text,
    },
    /// It is not as it is wanted, for the API server refuses to set that. What it was before is streamed.
    #[error("the API server refuses to {what}: {words}")]
    NotTaken {
        /// What was to be written.
        what: &'static str,
        /// Why, in the API server's words.
        words: Text,
    },
}

impl NotStreamed {
    /// The reason where the API server refuses what is wanted. There was an Event when it did.
    pub const NOT_TAKEN: &str = "WriteRefused";

    /// Returns the reason of the condition `Ready`, which is false.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::WaitingForWriter => "WaitingForWriter",
            Self::NotPlaced => "NotPlaced",
            Self::VipOutsideSubnet { .. } => "VipOutsideSubnet",
            Self::VipUnreadable(_) => "InvalidAddress",
            Self::Invalid { .. } => "Invalid",
            Self::TooLarge { .. } | Self::TooManyRoutes { .. } => "TooLarge",
            Self::NotEnabled => "NotEnabled",
            Self::Rejected { reason, .. } => reason,
            Self::NotTaken { .. } => Self::NOT_TAKEN,
        }
    }

    /// Returns the type of the condition that says why, beside `Ready`.
    #[must_use]
    pub fn condition(&self) -> Option<&'static str> {
        match self {
            Self::WaitingForWriter | Self::NotEnabled => None,
            Self::VipOutsideSubnet { .. } | Self::VipUnreadable(_) | Self::NotTaken { .. } => {
                Some(conditions::CONFLICT)
            }
            Self::Invalid { .. } | Self::NotPlaced => Some(conditions::UNSUPPORTED),
            Self::TooLarge { .. } | Self::TooManyRoutes { .. } => Some(conditions::TOO_LARGE),
            Self::Rejected { reason, .. } => match *reason {
                "OwnerConflict" => Some(conditions::CONFLICT),
                "Unsupported" => Some(conditions::UNSUPPORTED),
                "Quota" => Some(conditions::QUOTA_EXCEEDED),
                "TooLarge" => Some(conditions::TOO_LARGE),
                // The policy of the writer forbids it: no condition has a name for that.
                _ => None,
            },
        }
    }
}

/// Returns what is streamed of an object.
///
/// # Errors
/// Why it is not streamed.
pub fn desired(object: &KuryrLoadBalancer, facts: &CloudFacts) -> Result<Streamed, NotStreamed> {
    let (spec, meta) = (&object.spec, &object.metadata);
    let project = spec.project_id.clone().ok_or_else(|| not_placed(spec))?;
    let mut findings = Vec::new();
    let vip = vip(object, facts, &mut findings)?;
    let family = primary_family(spec);
    let ports = ports(spec, facts, &mut findings);
    let listeners = ports.iter().map(|(id, port)| listener(*id, port, spec)).collect();
    let mut header = LoadBalancerHeader {
        owner: named_service(spec).unwrap_or(&meta.meta.uid).clone(),
        known: !status_knowledge(object).needs_discovery(),
        placement: LoadBalancerPlacement {
            project,
            provider: spec.provider.clone(),
            flavor: spec.flavor_id.clone(),
            availability_zone: spec.availability_zone.clone(),
        },
        vip,
        floating: floating(spec, facts, &mut findings),
        listeners,
        clients: clients(spec, family, &mut findings),
        balancing: balancing(spec, family),
        timeouts: timeouts(spec),
        monitor: spec.health_monitor.as_ref().map(|monitor| Box::new(health_monitor(monitor, spec))),
        tls_containers: spec.tls_container_refs.iter().cloned().collect(),
        shared_group: shared_group(object),
        adopt: spec.load_balancer_id.clone(),
        routing: None,
    };
    header.sort();
    let len = listed_len(&header);
    if len > MOST_LISTED {
        let ranges = spec.source_ranges.as_ref().map_or(0, Vec::len);
        return Err(NotStreamed::TooLarge { ports: header.listeners.len(), ranges, len });
    }
    let members = members(spec, &ports, family, facts, &mut findings);
    let wanted = DesiredLoadBalancer { generation: meta.generation, header: Arc::new(header), members };
    if let Some((field, value)) = wanted.bad_text() {
        return Err(NotStreamed::Invalid { field, value: shown(value) });
    }
    Ok(Streamed { wanted, findings })
}

/// Returns an entry that names the owner of an object, if there is one, and wants nothing: the writer refuses it, for it says
/// nowhere where a load balancer would be, and what exists for the owner stays as it is. Without it, that would be an orphan's.
#[must_use]
pub fn owner_alone(object: Option<&KuryrLoadBalancer>, owner: &Text) -> DesiredLoadBalancer {
    let known = object.is_some_and(|object| !status_knowledge(object).needs_discovery());
    let mut header = header_of_owner(owner, known);
    let is_sent = |group: &SharedGroup| words_problem(&group.name, MOST_NAME).is_none();
    // What its group has is no orphan's either.
    header.shared_group = object.and_then(shared_group).filter(|group| is_sent(group)).map(|group| {
        let SharedGroup { name, created: _ } = *group;
        Box::new(SharedGroup { name, created: None })
    });
    let generation = object.map_or(0, |object| object.metadata.generation);
    DesiredLoadBalancer { generation, header: Arc::new(header), members: DesiredMembers::default() }
}

/// A header that names its owner and wants nothing.
pub(crate) fn header_of_owner(owner: &Text, known: bool) -> LoadBalancerHeader {
    LoadBalancerHeader {
        owner: owner.clone(),
        known,
        placement: LoadBalancerPlacement::default(),
        vip: VipWish::default(),
        floating: None,
        listeners: Box::default(),
        clients: ClientRanges::NoOne,
        balancing: Balancing {
            family: Family::V4,
            members: MemberMode::Pod,
            algorithm: None,
            affinity_seconds: None,
            proxy: None,
        },
        timeouts: Timeouts::default(),
        monitor: None,
        tls_containers: Box::default(),
        shared_group: None,
        adopt: None,
        routing: None,
    }
}

/// Says that a load balancer cannot be made anywhere yet.
pub(crate) fn not_placed(spec: &KuryrLoadBalancerSpec) -> NotStreamed {
    match named_service(spec) {
        Some(_) => NotStreamed::WaitingForWriter,
        None => NotStreamed::NotPlaced,
    }
}

/// Returns the UID of the Service that a spec names. What is no UID names none: there is no such Service, and the writer would not
/// read the entry.
#[must_use]
pub fn named_service(spec: &KuryrLoadBalancerSpec) -> Option<&Text> {
    spec.service_uid.as_ref().filter(|uid| is_uid(uid))
}

/// Whether a text may be the UID of an owner.
#[must_use]
pub fn is_uid(text: &str) -> bool {
    owner_problem(text).is_none()
}

/// Each number and protocol once: the first port by name has it.
fn ports<'a>(
    spec: &'a KuryrLoadBalancerSpec,
    facts: &CloudFacts,
    findings: &mut Vec<Finding>,
) -> Vec<(ListenerId, &'a KlbPort)> {
    let mut by_name: Vec<&KlbPort> = spec.ports.iter().collect();
    by_name.sort_by(|a, b| a.name.cmp(&b.name));
    let (mut taken, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    let mut ports = Vec::new();
    for port in by_name {
        let problem = match listener_id(port) {
            Err(problem) => problem,
            Ok(id) if taken.contains(&id) => PortProblem::Duplicate,
            Ok(id) if id.protocol == Protocol::Sctp && facts.api_version < ApiVersion::SCTP => PortProblem::Sctp,
            Ok(id) if numbers.contains(&id.port) && facts.api_version < ApiVersion::SHARED_NUMBER => {
                PortProblem::SharedNumber
            }
            Ok(id) => {
                taken.insert(id);
                numbers.insert(id.port);
                ports.push((id, port));
                continue;
            }
        };
        let name = port.name.clone().unwrap_or_default();
        findings.push(Finding::Port { name, port: port.port, protocol: shown(&port.protocol), problem });
    }
    ports
}

pub(crate) fn listener_id(port: &KlbPort) -> Result<ListenerId, PortProblem> {
    let number = u16::try_from(port.port).ok().filter(|number| *number > 0).ok_or(PortProblem::Number)?;
    let protocol = Protocol::parse(&port.protocol).ok_or(PortProblem::Protocol)?;
    Ok(ListenerId::new(protocol, number))
}

fn listener(id: ListenerId, port: &KlbPort, spec: &KuryrLoadBalancerSpec) -> ListenerWish {
    let kind = listener_kind(id, port, spec);
    let name = port.name.as_deref().filter(|name| !name.is_empty());
    ListenerWish { id, kind, name: name.map(LoadBalancerHeader::clean_name) }
}

/// TLS ends at a TCP listener that has certificates, unless its port says that it is plain HTTP.
pub(crate) fn listener_kind(id: ListenerId, port: &KlbPort, spec: &KuryrLoadBalancerSpec) -> ListenerKind {
    let plain_http = port.app_protocol.as_deref() == Some("http");
    if id.protocol != Protocol::Tcp {
        ListenerKind::Plain
    } else if !spec.tls_container_refs.is_empty() && !plain_http {
        ListenerKind::TerminatedHttps
    } else if spec.x_forwarded_for == Some(true) {
        ListenerKind::Http
    } else {
        ListenerKind::Plain
    }
}

/// A name without a namespace is that of a group in the object's own.
fn shared_group(object: &KuryrLoadBalancer) -> Option<Box<SharedGroup>> {
    let (spec, meta) = (&object.spec, &object.metadata);
    let name = spec.shared_group.as_ref().filter(|name| !name.is_empty())?;
    let name = if name.contains('/') { name.clone() } else { format!("{}/{name}", meta.meta.namespace).into() };
    let created = match named_service(spec) {
        Some(_) => spec.service_created.clone(),
        None => meta.creation_timestamp.clone(),
    };
    Some(Box::new(SharedGroup { name, created }))
}

/// Wanted by type `LoadBalancer`, and by whoever asks for an address, but for what is internal.
fn floating(
    spec: &KuryrLoadBalancerSpec,
    facts: &CloudFacts,
    findings: &mut Vec<Finding>,
) -> Option<Box<FloatingWish>> {
    if spec.internal == Some(true) {
        return None;
    }
    let text = spec.lb_ip.as_ref().filter(|text| !text.is_empty());
    let asked = text.and_then(|text| address(text));
    if let (Some(text), None) = (text, asked) {
        findings.push(Finding::Address { field: "lb_ip", value: shown(text) });
    }
    let wanted = asked.is_some() || spec.type_.as_deref() == Some("LoadBalancer");
    let can_be_had = spec.floating_network_id.is_some() || facts.external.is_some();
    if wanted && !can_be_had {
        findings.push(Finding::NoExternalNetwork);
    }
    (wanted && can_be_had).then(|| {
        Box::new(FloatingWish {
            network: spec.floating_network_id.clone(),
            subnet: spec.floating_subnet_id.clone(),
            address: asked,
            keep: spec.keep_floating_ip.unwrap_or(false),
        })
    })
}

/// Ranges that were given and of which none is left let no one in.
fn clients(spec: &KuryrLoadBalancerSpec, family: Family, findings: &mut Vec<Finding>) -> ClientRanges {
    let Some(given) = &spec.source_ranges else { return ClientRanges::Everyone };
    let mut ranges = Vec::new();
    for text in given {
        let problem = match text.parse::<IpNet>() {
            Ok(net) if Family::of(net.addr()) == family || !spec.additional_vip_subnet_ids.is_empty() => {
                ranges.push(net.trunc());
                continue;
            }
            Ok(_) => RangeProblem::OtherFamily,
            Err(_) => RangeProblem::Unreadable,
        };
        findings.push(Finding::SourceRange { value: shown(text), problem });
    }
    ClientRanges::Only(ranges.into())
}

fn balancing(spec: &KuryrLoadBalancerSpec, family: Family) -> Balancing {
    Balancing {
        family,
        members: match spec.member_mode {
            Some(KlbMemberMode::Node) => MemberMode::Node,
            Some(KlbMemberMode::Pod) | None => MemberMode::Pod,
        },
        algorithm: spec.lb_algorithm.map(model_algorithm),
        affinity_seconds: positive(spec.session_affinity_timeout),
        proxy: match spec.proxy_protocol {
            Some(KlbProxyProtocol::V1) => Some(ProxyVersion::V1),
            Some(KlbProxyProtocol::V2) => Some(ProxyVersion::V2),
            Some(KlbProxyProtocol::None) | None => None,
        },
    }
}

pub(crate) fn model_algorithm(algorithm: KlbAlgorithm) -> Algorithm {
    match algorithm {
        KlbAlgorithm::RoundRobin => Algorithm::RoundRobin,
        KlbAlgorithm::LeastConnections => Algorithm::LeastConnections,
        KlbAlgorithm::SourceIp => Algorithm::SourceIp,
        KlbAlgorithm::SourceIpPort => Algorithm::SourceIpPort,
    }
}

fn timeouts(spec: &KuryrLoadBalancerSpec) -> Timeouts {
    Timeouts {
        client_data: positive(spec.timeout_client_data),
        member_data: positive(spec.timeout_member_data),
        member_connect: positive(spec.timeout_member_connect),
        tcp_inspect: positive(spec.timeout_tcp_inspect),
        connection_limit: spec
            .connection_limit
            .and_then(|limit| i32::try_from(limit).ok())
            .filter(|limit| *limit >= -1),
    }
}

fn health_monitor(monitor: &KlbHealthMonitor, spec: &KuryrLoadBalancerSpec) -> HealthMonitor {
    let kind = match monitor.type_.as_deref() {
        Some("HTTP") => MonitorKind::Http,
        Some("HTTPS") => MonitorKind::Https,
        Some("TLS-HELLO") => MonitorKind::TlsHello,
        Some("PING") => MonitorKind::Ping,
        _ => MonitorKind::Connect,
    };
    let count = |count: Option<i64>, default: u8| {
        count.and_then(|count| u8::try_from(count).ok()).filter(|count| (1..=10).contains(count)).unwrap_or(default)
    };
    let nodes = spec.member_mode == Some(KlbMemberMode::Node);
    HealthMonitor {
        kind,
        // Only nodes have that port.
        port: spec
            .health_check_node_port
            .filter(|_| nodes && kind == MonitorKind::Http)
            .and_then(|port| port.try_into().ok()),
        delay: positive(monitor.delay).unwrap_or(5),
        timeout: positive(monitor.timeout).unwrap_or(3),
        rise: count(monitor.max_retries, 1),
        fall: count(monitor.max_retries_down, 3),
        path: monitor.url_path.clone(),
        codes: monitor.expected_codes.clone(),
    }
}

/// 0 means what Octavia is configured for, and so does what cannot be meant.
pub(crate) fn positive(number: Option<i64>) -> Option<u32> {
    number.and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0)
}
