//! Annotations of Kuryr and of cloud-provider-openstack on a Service.

use std::collections::BTreeMap;

use gimbal_kuryr_crd::KlbProxyProtocol;
use gimbal_kuryr_crd::names::annotations as kuryr;
use gimbal_kuryr_model::{Algorithm, Text};

use crate::Finding;
use crate::finding::shown;

/// What the annotations ask for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "each field is the annotation of that name")]
pub struct Annotations {
    pub project: Option<Text>,
    pub timeout_client_data: Option<u32>,
    pub timeout_member_data: Option<u32>,
    pub timeout_member_connect: Option<u32>,
    pub timeout_tcp_inspect: Option<u32>,
    pub internal: Option<bool>,
    pub floating_network: Option<Text>,
    pub floating_subnet_name: Option<Text>,
    pub floating_subnet: Option<Text>,
    pub floating_subnet_tags: Option<Vec<Text>>,
    pub class: Option<Text>,
    pub subnet: Option<Text>,
    pub member_subnet: Option<Text>,
    pub network: Option<Text>,
    pub port: Option<Text>,
    pub connection_limit: Option<i32>,
    pub keep_floating_ip: Option<bool>,
    pub proxy_protocol: Option<KlbProxyProtocol>,
    pub x_forwarded_for: Option<bool>,
    pub algorithm: Option<Algorithm>,
    pub health_monitor: Option<bool>,
    pub monitor_delay: Option<u32>,
    pub monitor_timeout: Option<u32>,
    pub monitor_max_retries: Option<u32>,
    pub monitor_max_retries_down: Option<u32>,
    pub flavor: Option<Text>,
    pub availability_zone: Option<Text>,
    pub tls_container: Option<Text>,
    pub load_balancer: Option<Text>,
    pub shared_group: Option<Text>,
    pub hostname: Option<Text>,
    pub node_selector: Option<NodeSelector>,
}

/// Labels that a node must have; without a value: any.
pub type NodeSelector = BTreeMap<Text, Option<Text>>;

/// Why an annotation is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each says what it is")]
pub enum AnnotationProblem {
    #[error("it is empty")]
    Empty,
    #[error("it is neither true nor false")]
    Flag,
    #[error("it is not a whole number between {0} and {1}")]
    Number(i64, i64),
    #[error("it is not one of {0}")]
    Choice(&'static str),
    #[error("it has a character that no ID has, or is longer than 255 bytes")]
    Id,
    #[error("it is not a host name")]
    Hostname,
    #[error("it is not a name such as web, or team1/web for a group of another namespace")]
    Group,
    #[error("it is not a list such as key=value,key")]
    Selector,
    #[error("regular expressions and negations are not understood; a name with * is")]
    Pattern,
    #[error("only Services of type LoadBalancer share a load balancer")]
    NotShared,
    #[error("there is no such class")]
    NoSuchClass,
    #[error("no subnet of the external network is known by it")]
    NoSuchSubnet,
    #[error("this cluster may not use it")]
    NotAllowed,
}

type Map = BTreeMap<Text, Text>;

impl Annotations {
    /// Reads what is understood. A value that cannot be read is left out and reported.
    #[must_use]
    pub fn parse(map: &Map) -> (Self, Vec<Finding>) {
        let mut from = Reader { map, findings: Vec::new() };
        // Both names are read, so that either is reported if it cannot be; Kuryr's own wins.
        let kuryr_client = from.read(kuryr::TIMEOUT_CLIENT_DATA, timeout);
        let client = from.read("loadbalancer.openstack.org/timeout-client-data", timeout);
        let kuryr_member = from.read(kuryr::TIMEOUT_MEMBER_DATA, timeout);
        let member = from.read("loadbalancer.openstack.org/timeout-member-data", timeout);
        let annotations = Self {
            project: from.read(kuryr::PROJECT, id),
            timeout_client_data: kuryr_client.or(client),
            timeout_member_data: kuryr_member.or(member),
            timeout_member_connect: from.read("loadbalancer.openstack.org/timeout-member-connect", timeout),
            timeout_tcp_inspect: from.read("loadbalancer.openstack.org/timeout-tcp-inspect", timeout),
            // Whoever writes it may want a load balancer that is not public.
            internal: from.true_unless_false(kuryr::INTERNAL),
            floating_network: from.read("loadbalancer.openstack.org/floating-network-id", id),
            floating_subnet_name: from.read("loadbalancer.openstack.org/floating-subnet", pattern),
            floating_subnet: from.read("loadbalancer.openstack.org/floating-subnet-id", id),
            floating_subnet_tags: from.read("loadbalancer.openstack.org/floating-subnet-tags", tags),
            class: from.read("loadbalancer.openstack.org/class", text),
            subnet: from.read("loadbalancer.openstack.org/subnet-id", id),
            member_subnet: from.read("loadbalancer.openstack.org/member-subnet-id", id),
            network: from.read("loadbalancer.openstack.org/network-id", id),
            port: from.read("loadbalancer.openstack.org/port-id", id),
            connection_limit: from.read("loadbalancer.openstack.org/connection-limit", limit),
            // An address that is let go is lost for good.
            keep_floating_ip: from.true_unless_false("loadbalancer.openstack.org/keep-floatingip"),
            proxy_protocol: from.read("loadbalancer.openstack.org/proxy-protocol", proxy),
            x_forwarded_for: from.read("loadbalancer.openstack.org/x-forwarded-for", flag),
            algorithm: from.read("loadbalancer.openstack.org/lb-method", algorithm),
            health_monitor: from.read("loadbalancer.openstack.org/enable-health-monitor", flag),
            monitor_delay: from.read("loadbalancer.openstack.org/health-monitor-delay", seconds),
            monitor_timeout: from.read("loadbalancer.openstack.org/health-monitor-timeout", seconds),
            monitor_max_retries: from.read("loadbalancer.openstack.org/health-monitor-max-retries", retries),
            monitor_max_retries_down: from.read("loadbalancer.openstack.org/health-monitor-max-retries-down", retries),
            flavor: from.read("loadbalancer.openstack.org/flavor-id", id),
            availability_zone: from.read("loadbalancer.openstack.org/availability-zone", text),
            tls_container: from.read("loadbalancer.openstack.org/default-tls-container-ref", text),
            load_balancer: from.read("loadbalancer.openstack.org/load-balancer-id", id),
            shared_group: from.read(kuryr::SHARED_GROUP, group),
            hostname: from.read("loadbalancer.openstack.org/hostname", hostname),
            node_selector: from.read(kuryr::NODE_SELECTOR, selector),
        };
        (annotations, from.findings)
    }
}

struct Reader<'a> {
    map: &'a Map,
    findings: Vec<Finding>,
}

impl Reader<'_> {
    fn read<T>(&mut self, name: &'static str, parse: fn(&str) -> Result<T, AnnotationProblem>) -> Option<T> {
        let value = self.map.get(name)?;
        parse(value.trim())
            .map_err(|problem| self.findings.push(Finding::Annotation { name, value: shown(value), problem }))
            .ok()
    }

    /// Reads a flag of which a value that cannot be read means true.
    fn true_unless_false(&mut self, name: &'static str) -> Option<bool> {
        let value = self.map.get(name)?;
        let read = flag(value.trim()).ok();
        if read.is_none() {
            self.findings.push(Finding::TakenForTrue { name, value: shown(value) });
        }
        Some(read.unwrap_or(true))
    }
}

fn text(value: &str) -> Result<Text, AnnotationProblem> {
    match value {
        "" => Err(AnnotationProblem::Empty),
        value if value.len() > 255 || value.chars().any(char::is_control) => Err(AnnotationProblem::Id),
        value => Ok(value.into()),
    }
}

fn id(value: &str) -> Result<Text, AnnotationProblem> {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if value.bytes().all(inner) { text(value) } else { Err(AnnotationProblem::Id) }
}

/// As Go's `strconv.ParseBool` without its abbreviations, and as cloud-provider-openstack.
fn flag(value: &str) -> Result<bool, AnnotationProblem> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        "" => Err(AnnotationProblem::Empty),
        _ => Err(AnnotationProblem::Flag),
    }
}

fn number(value: &str, least: i64, most: i64) -> Result<i64, AnnotationProblem> {
    let number = value.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or(if value.is_empty() { AnnotationProblem::Empty } else { AnnotationProblem::Number(least, most) })
}

fn unsigned(value: &str, least: u32, most: u32) -> Result<u32, AnnotationProblem> {
    number(value, least.into(), most.into()).map(|number| u32::try_from(number).unwrap_or(most))
}

fn timeout(value: &str) -> Result<u32, AnnotationProblem> {
    unsigned(value, 0, u32::MAX)
}

fn limit(value: &str) -> Result<i32, AnnotationProblem> {
    number(value, -1, i32::MAX.into()).map(|number| i32::try_from(number).unwrap_or(i32::MAX))
}

fn seconds(value: &str) -> Result<u32, AnnotationProblem> {
    unsigned(value, 1, 24 * 3600)
}

fn retries(value: &str) -> Result<u32, AnnotationProblem> {
    unsigned(value, 1, 10)
}

fn proxy(value: &str) -> Result<KlbProxyProtocol, AnnotationProblem> {
    match value {
        "v1" | "true" => Ok(KlbProxyProtocol::V1),
        "v2" => Ok(KlbProxyProtocol::V2),
        "false" => Ok(KlbProxyProtocol::None),
        _ => Err(AnnotationProblem::Choice("v1, v2, true and false")),
    }
}

fn algorithm(value: &str) -> Result<Algorithm, AnnotationProblem> {
    match value {
        "ROUND_ROBIN" => Ok(Algorithm::RoundRobin),
        "LEAST_CONNECTIONS" => Ok(Algorithm::LeastConnections),
        "SOURCE_IP" => Ok(Algorithm::SourceIp),
        "SOURCE_IP_PORT" => Ok(Algorithm::SourceIpPort),
        _ => Err(AnnotationProblem::Choice("ROUND_ROBIN, LEAST_CONNECTIONS, SOURCE_IP and SOURCE_IP_PORT")),
    }
}

fn pattern(value: &str) -> Result<Text, AnnotationProblem> {
    if value.starts_with(['~', '!']) { Err(AnnotationProblem::Pattern) } else { text(value) }
}

/// One of them is enough, unless the first begins with `&`.
fn tags(value: &str) -> Result<Vec<Text>, AnnotationProblem> {
    pattern(value)?;
    let (all, list) = value.strip_prefix('&').map_or(("", value), |list| ("&", list));
    let mut tags: Vec<Text> = list.split(',').map(str::trim).filter(|tag| !tag.is_empty()).map(Into::into).collect();
    let first = tags.first_mut().ok_or(AnnotationProblem::Empty)?;
    *first = format!("{all}{first}").into();
    Ok(tags)
}

/// A name as in RFC 1123, for it is written into the status of the Service.
fn hostname(value: &str) -> Result<Text, AnnotationProblem> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let label = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    let right = value.len() <= 253 && value.split('.').all(label) && crate::address::address(value).is_none();
    if right { Ok(value.into()) } else { Err(AnnotationProblem::Hostname) }
}

/// A label as in RFC 1123, and perhaps one before it: the name is a tag in OpenStack.
fn group(value: &str) -> Result<Text, AnnotationProblem> {
    let right = match value.split_once('/') {
        Some((namespace, name)) => gimbal_model::is_label(namespace) && gimbal_model::is_label(name),
        None => gimbal_model::is_label(value),
    };
    if right { Ok(value.into()) } else { Err(AnnotationProblem::Group) }
}

fn selector(value: &str) -> Result<NodeSelector, AnnotationProblem> {
    let mut selector = NodeSelector::new();
    for part in value.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').map_or((part, None), |(key, value)| (key.trim(), Some(value.trim())));
        if key.is_empty() || value.is_some_and(|value| value.contains('=')) {
            return Err(AnnotationProblem::Selector);
        }
        selector.insert(key.into(), value.map(Into::into));
    }
    if selector.is_empty() { Err(AnnotationProblem::Empty) } else { Ok(selector) }
}

#[cfg(test)]
mod tests;
