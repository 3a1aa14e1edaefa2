//! Rules of NetworkPolicies. An empty list of ports or peers means all of them; a list of which nothing could be read means none.

use gimbal_kubernetes_objects::{
    IntOrString, IpBlock, LabelSelector, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
    NetworkPolicyPort,
};
use gimbal_kuryr_model::Text;
use gimbal_model::Protocol;

use crate::address_set::{AddressSet, parse_range};
use crate::finding::{FindingList, PolicyProblem};
use crate::open_ports::EVERY_PORT;
use crate::policy::{PolicyPeer, PolicyPort, PolicyRule};
use crate::selector::{ReadSelector, Selector};

pub(crate) fn read_ingress(rules: &[NetworkPolicyIngressRule], findings: &mut FindingList) -> Vec<PolicyRule> {
    let mut read = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        let field = format!("spec.ingress[{at}]");
        let peers = peers(&rule.from, &format!("{field}.from"), findings);
        read.push(PolicyRule { ports: ports(&rule.ports, &field, findings), peers });
    }
    read
}

pub(crate) fn read_egress(rules: &[NetworkPolicyEgressRule], findings: &mut FindingList) -> Vec<PolicyRule> {
    let mut read = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        let field = format!("spec.egress[{at}]");
        let peers = peers(&rule.to, &format!("{field}.to"), findings);
        read.push(PolicyRule { ports: ports(&rule.ports, &field, findings), peers });
    }
    read
}

fn ports(ports: &[NetworkPolicyPort], field: &str, findings: &mut FindingList) -> Option<Vec<PolicyPort>> {
    let mut read = Vec::new();
    for (at, written) in ports.iter().enumerate() {
        match port(written, format!("{field}.ports[{at}]")) {
            Ok(port) => read.push(port),
            Err((field, problem)) => findings.add(field, problem),
        }
    }
    (!ports.is_empty()).then_some(read)
}

fn port(written: &NetworkPolicyPort, field: String) -> Result<PolicyPort, (String, PolicyProblem)> {
    let protocol = match &written.protocol {
        None => Protocol::Tcp,
        Some(text) => match Protocol::parse(text) {
            Some(protocol) => protocol,
            None => return Err((format!("{field}.protocol"), PolicyProblem::Protocol(text.clone()))),
        },
    };
    match (&written.port, written.end_port) {
        (None, None) => Ok(PolicyPort::Numbers(protocol, EVERY_PORT.0, EVERY_PORT.1)),
        (None | Some(IntOrString::String(_)), Some(_)) => {
            Err((format!("{field}.endPort"), PolicyProblem::EndWithoutNumber))
        }
        (Some(IntOrString::String(name)), None) => {
            Ok(PolicyPort::Named { name: name.clone(), protocol, field: format!("{field}.port") })
        }
        (Some(IntOrString::Int(written)), end) => {
            let port = number(*written).map_err(|problem| (format!("{field}.port"), problem))?;
            let field = format!("{field}.endPort");
            match end {
                None => Ok(PolicyPort::Numbers(protocol, port, port)),
                Some(end) if end < port.into() => Err((field, PolicyProblem::EndBelowPort { port, end })),
                Some(end) => {
                    let last = number(end).map_err(|problem| (field, problem))?;
                    Ok(PolicyPort::Numbers(protocol, port, last))
                }
            }
        }
    }
}

fn number(written: i32) -> Result<u16, PolicyProblem> {
    u16::try_from(written).ok().filter(|port| *port > 0).ok_or(PolicyProblem::PortNumber(written))
}

fn peers(peers: &[NetworkPolicyPeer], field: &str, findings: &mut FindingList) -> Option<Vec<PolicyPeer>> {
    let mut read = Vec::new();
    for (at, written) in peers.iter().enumerate() {
        read.extend(peer(written, &format!("{field}[{at}]"), findings));
    }
    (!peers.is_empty()).then_some(read)
}

fn peer(written: &NetworkPolicyPeer, field: &str, findings: &mut FindingList) -> Option<PolicyPeer> {
    let NetworkPolicyPeer { pod_selector, namespace_selector, ip_block } = written;
    match (ip_block, pod_selector, namespace_selector) {
        (None, None, None) => {
            findings.add(field.to_owned(), PolicyProblem::NoKindOfPeer);
            None
        }
        (Some(block), None, None) => range(block, &format!("{field}.ipBlock"), findings).map(PolicyPeer::Addresses),
        (Some(_), ..) => {
            findings.add(field.to_owned(), PolicyProblem::TwoKindsOfPeer);
            None
        }
        (None, pods, namespaces) => {
            let mut whole = |selector: &LabelSelector, name| {
                let read = ReadSelector::read(selector, &format!("{field}.{name}"), findings);
                read.is_whole.then_some(read.selector)
            };
            let pods = pods.as_ref().map_or_else(|| Some(Selector::default()), |pods| whole(pods, "podSelector"));
            let namespaces = match namespaces {
                Some(namespaces) => whole(namespaces, "namespaceSelector").map(Some),
                None => Some(None),
            };
            Some(PolicyPeer::Pods { namespaces: namespaces?, pods: pods? })
        }
    }
}

/// The range without its exceptions. With one that cannot be read, what is left of it is not known.
fn range(block: &IpBlock, field: &str, findings: &mut FindingList) -> Option<AddressSet> {
    let mut read = |text: &Text, field: String| {
        let range = parse_range(text);
        if range.is_none() {
            findings.add(field, PolicyProblem::Range(text.clone()));
        }
        range
    };
    let range = read(&block.cidr, format!("{field}.cidr"));
    let excepts: Vec<_> =
        block.except.iter().enumerate().map(|(at, text)| read(text, format!("{field}.except[{at}]"))).collect();
    let range = range?;
    for (at, except) in excepts.iter().enumerate() {
        if except.is_some_and(|except| !range.contains(&except)) {
            findings.add(format!("{field}.except[{at}]"), PolicyProblem::ExceptOutside(block.except[at].clone()));
        }
    }
    let excepts: Option<AddressSet> = excepts.into_iter().collect();
    Some(AddressSet::from_iter([range]).subtract(&excepts?))
}
