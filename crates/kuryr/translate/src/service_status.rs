//! A report as the status of the Service.

use gimbal_kubernetes_objects::{BalancedService, LoadBalancerIngress, LoadBalancerStatus, PortStatus};
use gimbal_kuryr_crd::names::GROUP;
use gimbal_kuryr_crd::{KlbProxyProtocol, KuryrLoadBalancerSpec, KuryrLoadBalancerStatus};
use gimbal_kuryr_model::{ListenerKind, LoadBalancerReport, Phase, ReportedCondition, Text};
use gimbal_model::Protocol;

use crate::Finding;
use crate::desired::{listener_id, listener_kind};

/// What a Service is to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceOutcome {
    /// Its `status.loadBalancer`.
    pub load_balancer: LoadBalancerStatus,
    /// Message of its condition `LoadBalancerPortsError`, if that is true.
    pub ports_error: Option<String>,
}

/// Returns what a Service is to show. Addresses appear when the load balancer serves, be it only some of the ports, stay while it is
/// changed or serves badly, and are gone before it goes. Only type `LoadBalancer` has them: the API server refuses them elsewhere.
#[must_use]
pub fn service_status(
    service: &BalancedService,
    spec: &KuryrLoadBalancerSpec,
    hostname: Option<&Text>,
    report: Option<&LoadBalancerReport>,
    findings: &[Finding],
) -> ServiceOutcome {
    let previous = &service.status.load_balancer;
    let outside = service.spec.type_.as_deref() == Some("LoadBalancer");
    let going = service.metadata.is_being_deleted();
    let Some(report) = report.filter(|_| outside && !going) else {
        let load_balancer = if outside && !going { previous.clone() } else { LoadBalancerStatus::default() };
        return ServiceOutcome { load_balancer, ports_error: None };
    };
    let ports: Vec<PortStatus> = service.spec.ports.iter().map(|port| port_status(port, report, findings)).collect();
    let errors: Vec<String> = ports.iter().filter_map(ports_error).collect();
    let ports_error = (!errors.is_empty()).then(|| errors.join("; "));
    let is_shown = match report.phase {
        Phase::Removing | Phase::Gone => return ServiceOutcome { load_balancer: Default::default(), ports_error },
        // In a group the oldest Service decides whether there is a floating IP.
        Phase::Ready => true,
        Phase::Blocked => serves_no_port(report) || serves(spec, report),
        // What is repaired may have no port for a while.
        Phase::Degraded if serves_no_port(report) => !says_not_serving(report),
        // One that has never been ready may never have been ACTIVE: the writer says `Ready` before it hears how members are.
        Phase::Degraded => !previous.ingress.is_empty() && serves(spec, report),
        Phase::Waiting | Phase::Making | Phase::Held => false,
    };
    let load_balancer =
        if is_shown { shown(spec, hostname, report, ports).unwrap_or_default() } else { previous.clone() };
    ServiceOutcome { load_balancer, ports_error }
}

/// Returns what a Service or an Ingress shows without the addresses of these load balancers: another controller may show its own
/// already.
#[must_use]
pub fn without_addresses<'a>(
    shown: &LoadBalancerStatus,
    made: impl Iterator<Item = &'a KuryrLoadBalancerStatus>,
) -> LoadBalancerStatus {
    let addresses = made.flat_map(|status| {
        let floating = status.service_pub_ip_info.as_ref().map(|floating| &floating.ip_addr);
        floating.into_iter().chain(status.loadbalancer.as_ref().map(|made| &made.ip))
    });
    let ours: Vec<&Text> = addresses.collect();
    let is_others = |one: &&LoadBalancerIngress| one.ip.as_ref().is_none_or(|address| !ours.contains(&address));
    LoadBalancerStatus { ingress: shown.ingress.iter().filter(is_others).cloned().collect() }
}

/// Whether there is a load balancer that answers no client.
fn serves_no_port(report: &LoadBalancerReport) -> bool {
    report.objects.load_balancer.is_some() && report.objects.listeners.is_empty()
}

/// Whether the load balancer is being repaired, or none of its members answers.
fn says_not_serving(report: &LoadBalancerReport) -> bool {
    report.conditions.iter().any(|condition| *condition.reason == *ReportedCondition::NOT_SERVING)
}

/// Whether a load balancer that is not as it should be serves what was made of it, at the address that is wanted.
fn serves(spec: &KuryrLoadBalancerSpec, report: &LoadBalancerReport) -> bool {
    let objects = &report.objects;
    let wants_floating_ip = spec.internal != Some(true) && spec.floating_network_id.is_some();
    let has_address = objects.floating_ip.is_some() || !wants_floating_ip;
    objects.load_balancer.is_some() && has_address
}

/// The floating IP, else the VIP; or the name that was asked for. `None` where no client would be answered.
fn shown(
    spec: &KuryrLoadBalancerSpec,
    hostname: Option<&Text>,
    report: &LoadBalancerReport,
    ports: Vec<PortStatus>,
) -> Option<LoadBalancerStatus> {
    if serves_no_port(report) {
        return None;
    }
    let floating = report.objects.floating_ip.as_ref().map(|floating| floating.address);
    let address = floating.or_else(|| report.objects.load_balancer.as_ref().map(|balancer| balancer.address))?;
    // What comes past the load balancer would lack the PROXY header, and would speak TLS to a member that does not.
    let proxy = !matches!(spec.proxy_protocol, None | Some(KlbProxyProtocol::None)) || ends_tls(spec);
    let ingress = match hostname {
        Some(hostname) => LoadBalancerIngress { hostname: Some(hostname.clone()), ports, ..Default::default() },
        None => LoadBalancerIngress {
            ip: Some(address.to_string().into()),
            hostname: None,
            ip_mode: Some(if proxy { "Proxy" } else { "VIP" }.into()),
            ports,
        },
    };
    Some(LoadBalancerStatus { ingress: vec![ingress] })
}

/// Whether TLS ends at one of the listeners.
fn ends_tls(spec: &KuryrLoadBalancerSpec) -> bool {
    let ends = |port| listener_id(port).is_ok_and(|id| listener_kind(id, port, spec) == ListenerKind::TerminatedHttps);
    spec.ports.iter().any(ends)
}

fn port_status(
    port: &gimbal_kubernetes_objects::BalancedPort,
    report: &LoadBalancerReport,
    findings: &[Finding],
) -> PortStatus {
    let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".into());
    let refused = report.refused_ports.iter().find(|refused| {
        i32::from(refused.listener.port) == port.port && Some(refused.listener.protocol) == Protocol::parse(&protocol)
    });
    let found = findings.iter().find_map(|finding| match finding {
        Finding::Port { name, port: number, protocol: other, problem }
            if *number == i64::from(port.port)
                && **other == *protocol
                && **name == *port.name.as_deref().unwrap_or_default() =>
        {
            Some(problem.reason())
        }
        Finding::NoNodePort { name, port: number, protocol: other }
            if *number == i64::from(port.port)
                && **other == *protocol
                && **name == *port.name.as_deref().unwrap_or_default() =>
        {
            Some(finding.reason())
        }
        _ => None,
    });
    let error = refused.map(|refused| &*refused.reason).or(found);
    PortStatus { port: port.port, protocol, error: error.map(error_name) }
}

/// A domain and one word, which is what the API server takes.
fn error_name(reason: &str) -> Text {
    let right = !reason.is_empty() && reason.len() <= 63 && reason.bytes().all(|byte| byte.is_ascii_alphanumeric());
    format!("kuryr.{GROUP}/{}", if right { reason } else { "Unsupported" }).into()
}

fn ports_error(port: &PortStatus) -> Option<String> {
    let error = port.error.as_ref()?;
    Some(format!("{}/{}: {error}", port.port, port.protocol))
}
