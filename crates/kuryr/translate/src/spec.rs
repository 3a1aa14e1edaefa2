//! A Service and what belongs to it, as the spec of a KuryrLoadBalancer.

use std::net::IpAddr;
use std::sync::Arc;

use gimbal_kubernetes_objects::{BalancedPort, BalancedService, IntOrString};
use gimbal_kuryr_crd::names::annotations;
use gimbal_kuryr_crd::{
    KlbAlgorithm, KlbHealthMonitor, KlbIpFamily, KlbMemberMode, KlbPort, KlbTrafficPolicy, KuryrLoadBalancerSpec,
};
use gimbal_kuryr_model::{Algorithm, ApiVersion, CloudFacts, MemberMode, Text, VipMode};
use gimbal_model::Family;
use ipnet::IpNet;

use crate::address::{address, canonical};
use crate::bounds::bound;
use crate::finding::shown;
use crate::wanted::unwanted;
use crate::{
    AnnotationProblem, Annotations, Chosen, ControllerSettings, Finding, Joined, Nodes, NotBalanced, RangeProblem,
    SlicePart,
};

mod choices;

use choices::Choices;

/// What a spec is made from.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The Service with its slices.
    pub joined: &'a Joined,
    /// The nodes of the cluster; they matter only where members are nodes.
    pub nodes: &'a Nodes,
    /// What the writer said; `None` before it spoke. Without facts there is no project, subnet and provider, and such an
    /// object is not streamed.
    pub facts: Option<&'a CloudFacts>,
    /// How the controller was started.
    pub settings: &'a ControllerSettings,
    /// Whether the KuryrLoadBalancer exists and is to stay. One that exists does not go because its endpoints went, or because
    /// of a setting.
    pub exists: bool,
    /// What was chosen for it before, if it exists.
    pub chosen: Option<&'a Chosen>,
}

/// The spec of a KuryrLoadBalancer, and what was left out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Translated {
    /// The spec.
    pub spec: KuryrLoadBalancerSpec,
    /// What was left out, in the order of the Service's fields.
    pub findings: Vec<Finding>,
    /// The name that the status of the Service shows instead of an address.
    pub hostname: Option<Text>,
}

/// Returns the spec of a Service's KuryrLoadBalancer. The order in which slices and nodes arrived does not matter.
///
/// # Errors
/// Why the Service has no load balancer.
pub fn translate(input: &Input<'_>) -> Result<Translated, NotBalanced> {
    let anew = made(&Input { chosen: None, ..*input })?;
    let (Some(facts), Some(chosen)) = (input.facts, input.chosen) else { return Ok(anew) };
    // Many clusters have no external network, and never had one.
    let loses_address = (chosen.floating_network.is_some() && anew.spec.floating_network_id.is_none())
        || takes_another_address(input.joined, chosen, &anew.spec);
    let is_reduced = loses_address || chosen.subnet_that_is_gone(facts).is_some();
    if !is_reduced && !anew.findings.iter().any(Finding::is_of_choice) {
        return Ok(anew);
    }
    let as_before = made(input)?;
    Ok(if as_before.spec == anew.spec { anew } else { as_before })
}

/// Whether the floating IP would be another one of several external IPs than before: the present one is lost when it is let go.
fn takes_another_address(joined: &Joined, chosen: &Chosen, spec: &KuryrLoadBalancerSpec) -> bool {
    let is_asked =
        |address: &Text| joined.service.spec.external_ips.iter().filter_map(canonical).any(|asked| asked == *address);
    let before = chosen.floating_address.as_ref().filter(|address| is_asked(address));
    before.is_some_and(|before| spec.lb_ip.as_ref().is_some_and(|now| now != before && is_asked(now)))
}

fn made(input: &Input<'_>) -> Result<Translated, NotBalanced> {
    let Input { joined, nodes, facts, settings, exists, chosen } = *input;
    let service: &BalancedService = &joined.service;
    let unwanted = unwanted(service, settings, facts);
    if let Some(unwanted) = unwanted.filter(|unwanted| !exists || !unwanted.leaves_what_exists()) {
        return Err(unwanted);
    }
    let has_endpoints = joined.slices.iter().any(|part| part.has_endpoints);
    if settings.require_endpoints && !exists && !has_endpoints {
        return Err(NotBalanced::NoEndpoints);
    }
    let (mut annotations, mut findings) = Annotations::parse(service.annotations());
    if let Some(chosen) = chosen {
        chosen.stand_in(&mut annotations, &mut findings);
    }
    findings.extend(unwanted.map(Finding::Kept));
    let hostname = annotations.hostname.clone();
    let mut spec = of_service(service, &annotations, facts, &mut findings);
    if let Some(facts) = facts {
        Choices { service, annotations: &annotations, facts, chosen, findings: &mut findings }.fill(&mut spec);
    }
    internal_address(&mut spec, facts, &mut findings);
    let family = primary_family(&spec);
    if spec.member_mode == Some(KlbMemberMode::Node) {
        let without = spec.ports.iter().filter(|port| port.node_port.is_none());
        findings.extend(without.map(|port| Finding::NoNodePort {
            name: port.name.clone().unwrap_or_default(),
            port: port.port,
            protocol: shown(&port.protocol),
        }));
        spec.endpoint_slices = vec![Arc::new(nodes.slice(family, annotations.node_selector.as_ref(), &spec.ports))];
    } else {
        spec.endpoint_slices = of_family(&joined.slices, family);
    }
    spec.health_monitor = health_monitor(&spec, &annotations);
    findings.extend(bound(&mut spec));
    Ok(Translated { spec, findings, hostname })
}

/// What the Service and its annotations say, whatever the cloud is.
fn of_service(
    service: &BalancedService,
    annotations: &Annotations,
    facts: Option<&CloudFacts>,
    findings: &mut Vec<Finding>,
) -> KuryrLoadBalancerSpec {
    let from = &service.spec;
    let type_ = from.type_.clone().unwrap_or_else(|| "ClusterIP".into());
    let outside = &*type_ == "LoadBalancer";
    let algorithm = annotations.algorithm.or_else(|| facts.and_then(|facts| facts.defaults.algorithm));
    let timeout = |asked: Option<u32>, default: Option<u32>| asked.or(default).filter(|time| *time > 0).map(i64::from);
    let local = from.external_traffic_policy.as_deref() == Some("Local");
    let group = annotations.shared_group.as_ref().filter(|_| outside).cloned();
    if let Some(name) = annotations.shared_group.as_ref().filter(|_| !outside) {
        findings.push(Finding::Annotation {
            name: annotations::SHARED_GROUP,
            value: shown(name),
            problem: AnnotationProblem::NotShared,
        });
    }
    KuryrLoadBalancerSpec {
        // The address of a group is the cluster IP of no Service: it stays when the Service with that one goes.
        ip: cluster_ip(service, facts).filter(|_| group.is_none()),
        lb_ip: outside.then(|| load_balancer_ip(service, findings)).flatten(),
        ports: from.ports.iter().map(port).collect(),
        timeout_client_data: timeout(
            annotations.timeout_client_data,
            facts.map(|facts| facts.defaults.timeout_client_data),
        ),
        timeout_member_data: timeout(
            annotations.timeout_member_data,
            facts.map(|facts| facts.defaults.timeout_member_data),
        ),
        timeout_member_connect: timeout(annotations.timeout_member_connect, None),
        timeout_tcp_inspect: timeout(annotations.timeout_tcp_inspect, None),
        service_uid: Some(service.metadata.meta.uid.clone()),
        load_balancer_class: from.load_balancer_class.clone(),
        internal: annotations.internal.filter(|internal| outside || *internal),
        ip_families: families(service),
        source_ranges: source_ranges(service, outside, findings),
        external_traffic_policy: outside.then_some(if local {
            KlbTrafficPolicy::Local
        } else {
            KlbTrafficPolicy::Cluster
        }),
        health_check_node_port: from.health_check_node_port.filter(|port| *port > 0).map(i64::from),
        lb_algorithm: algorithm.map(klb_algorithm),
        session_affinity_timeout: affinity(service),
        proxy_protocol: annotations.proxy_protocol,
        connection_limit: annotations.connection_limit.map(i64::from),
        keep_floating_ip: annotations.keep_floating_ip,
        tls_container_refs: annotations.tls_container.iter().cloned().collect(),
        vip_network_id: annotations.network.clone(),
        vip_port_id: annotations.port.clone(),
        x_forwarded_for: annotations.x_forwarded_for,
        load_balancer_id: annotations.load_balancer.clone(),
        service_created: group.as_ref().and_then(|_| service.metadata.creation_timestamp.clone()),
        shared_group: group,
        type_: Some(type_),
        ..KuryrLoadBalancerSpec::default()
    }
}

fn cluster_ip(service: &BalancedService, facts: Option<&CloudFacts>) -> Option<Text> {
    let inside = service.spec.type_.as_deref().unwrap_or("ClusterIP") == "ClusterIP";
    let own = inside || facts.is_none_or(|facts| facts.vip == VipMode::ClusterIp);
    service.spec.cluster_ip.as_ref().filter(|_| own).and_then(canonical)
}

fn load_balancer_ip(service: &BalancedService, findings: &mut Vec<Finding>) -> Option<Text> {
    let asked = service.spec.load_balancer_ip.as_ref().filter(|text| !text.is_empty())?;
    let canonical = canonical(asked);
    if canonical.is_none() {
        findings.push(Finding::Address { field: "loadBalancerIP", value: shown(asked) });
    }
    canonical
}

/// The address that is asked for is that of a floating IP. An internal load balancer has none: there it is that of the VIP, as
/// with cloud-provider-openstack, unless the cluster IP is.
fn internal_address(spec: &mut KuryrLoadBalancerSpec, facts: Option<&CloudFacts>, findings: &mut Vec<Finding>) {
    if spec.internal != Some(true) {
        return;
    }
    let Some(asked) = spec.lb_ip.take() else { return };
    if spec.shared_group.is_some() || facts.is_some_and(|facts| facts.vip == VipMode::Allocate) {
        spec.ip = Some(asked);
    } else if spec.ip.as_ref() != Some(&asked) {
        findings.push(Finding::InternalAddress { address: asked });
    }
}

fn port(port: &BalancedPort) -> KlbPort {
    let BalancedPort { name, port, protocol, app_protocol, target_port, node_port } = port;
    KlbPort {
        name: name.clone().filter(|name| !name.is_empty()),
        port: i64::from(*port),
        protocol: protocol.clone().unwrap_or_else(|| "TCP".into()),
        target_port: match target_port {
            Some(IntOrString::Int(number)) if *number != 0 => number.to_string().into(),
            Some(IntOrString::String(name)) if !name.is_empty() => name.clone(),
            _ => port.to_string().into(),
        },
        node_port: node_port.filter(|port| *port > 0).map(i64::from),
        app_protocol: app_protocol.clone(),
    }
}

fn families(service: &BalancedService) -> Vec<KlbIpFamily> {
    let named: Vec<_> = service.spec.ip_families.iter().filter_map(|family| klb_family(family)).collect();
    if !named.is_empty() {
        return named;
    }
    let address = service.spec.cluster_ip.as_deref().and_then(address);
    address.map(|address| if address.is_ipv4() { KlbIpFamily::IPv4 } else { KlbIpFamily::IPv6 }).into_iter().collect()
}

fn klb_family(name: &str) -> Option<KlbIpFamily> {
    match name {
        "IPv4" => Some(KlbIpFamily::IPv4),
        "IPv6" => Some(KlbIpFamily::IPv6),
        _ => None,
    }
}

/// The family of the members: the first one of the Service.
pub(crate) fn primary_family(spec: &KuryrLoadBalancerSpec) -> Family {
    match spec.ip_families.first() {
        Some(KlbIpFamily::IPv4) => Family::V4,
        Some(KlbIpFamily::IPv6) => Family::V6,
        None => spec.ip.as_deref().and_then(address).map_or(Family::V4, Family::of),
    }
}

/// `None` where no range was given, neither in the spec nor in the older annotation. Ranges that were given and cannot be read
/// leave a list without them, and not `None`; so does a list of nothing but blanks and commas.
fn source_ranges(service: &BalancedService, outside: bool, findings: &mut Vec<Finding>) -> Option<Vec<Text>> {
    let mut given: Vec<&str> = service.spec.load_balancer_source_ranges.iter().map(|range| &**range).collect();
    if given.is_empty() {
        let older = service.annotations().get(annotations::SOURCE_RANGES).map(|text| &**text).unwrap_or_default();
        given = older.split(',').map(str::trim).filter(|range| !range.is_empty()).collect();
        if given.is_empty() && !older.is_empty() {
            given.push(older);
        }
    }
    if given.is_empty() || !outside {
        return None;
    }
    let mut ranges = Vec::new();
    for range in given {
        match range.trim().parse::<IpNet>() {
            Ok(net) => ranges.push(net.trunc()),
            Err(_) => {
                findings.push(Finding::SourceRange { value: shown(range), problem: RangeProblem::Unreadable });
            }
        }
    }
    ranges.sort_unstable();
    ranges.dedup();
    Some(ranges.into_iter().map(|range| range.to_string().into()).collect())
}

fn affinity(service: &BalancedService) -> Option<i64> {
    /// The server's default: three hours.
    const DEFAULT: i32 = 10_800;
    if service.spec.session_affinity.as_deref() != Some("ClientIP") {
        return None;
    }
    let config = service.spec.session_affinity_config.and_then(|config| config.client_ip);
    let seconds = config.and_then(|config| config.timeout_seconds).unwrap_or(DEFAULT);
    (seconds > 0).then_some(seconds.into())
}

pub(crate) fn klb_algorithm(algorithm: Algorithm) -> KlbAlgorithm {
    match algorithm {
        Algorithm::RoundRobin => KlbAlgorithm::RoundRobin,
        Algorithm::LeastConnections => KlbAlgorithm::LeastConnections,
        Algorithm::SourceIp => KlbAlgorithm::SourceIp,
        Algorithm::SourceIpPort => KlbAlgorithm::SourceIpPort,
    }
}

/// Slices without endpoints are left out: they come and go without meaning.
fn of_family(slices: &[Arc<SlicePart>], family: Family) -> Vec<Arc<gimbal_kuryr_crd::KlbSlice>> {
    slices.iter().filter(|part| part.family == family && part.has_endpoints).map(|part| part.slice()).collect()
}

/// Pods have readiness of Kubernetes, and no monitor unless one is asked for. Nodes have one. With the policy `Local` a node
/// without endpoints of its own drops what it gets, so the monitor asks for exactly that and cannot be switched off.
fn health_monitor(spec: &KuryrLoadBalancerSpec, annotations: &Annotations) -> Option<KlbHealthMonitor> {
    let nodes = spec.member_mode == Some(KlbMemberMode::Node);
    let local =
        nodes && spec.external_traffic_policy == Some(KlbTrafficPolicy::Local) && spec.health_check_node_port.is_some();
    if !local && !annotations.health_monitor.unwrap_or(nodes) {
        return None;
    }
    let number = |asked: Option<u32>, default: u32| Some(asked.unwrap_or(default).into());
    Some(KlbHealthMonitor {
        type_: local.then(|| "HTTP".into()),
        // The defaults of cloud-provider-openstack.
        delay: number(annotations.monitor_delay, 5),
        timeout: number(annotations.monitor_timeout, 3),
        max_retries: number(annotations.monitor_max_retries, 1),
        max_retries_down: number(annotations.monitor_max_retries_down, 3),
        url_path: local.then(|| "/healthz".into()),
        expected_codes: local.then(|| "200".into()),
    })
}
