//! Checks for what the API server would certainly reject. Rejecting it here saves the request, and the message names
//! the field and says how to correct it. The API server decides about everything else.

use std::collections::BTreeSet;

use gimbal_kubernetes_objects as objects;
use gimbal_model::{
    Detail, Endpoint, EndpointPort, Header, PortGroup, ServicePort, TargetKey, TargetPort, is_label, is_label_value,
    is_qualified_name,
};

use crate::{Unwanted, UnwantedReason};

/// Limit of Kubernetes for all annotations of an object together: bytes of keys and values.
const ANNOTATION_BYTES: usize = 256 * 1024;
/// Limit of Kubernetes for `hints.forZones` of one endpoint.
const ZONES: usize = 8;

/// Shortens text from a source to 80 characters, so that it fits into a message.
pub(crate) fn brief(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.into(),
    }
}

fn invalid(message: String) -> Unwanted {
    Unwanted { reason: UnwantedReason::Invalid, message }
}

pub(crate) fn target(key: &TargetKey) -> Result<(), Unwanted> {
    if !is_label(&key.namespace) {
        return Err(invalid(format!("namespace {:?} is no DNS label; map it to one", brief(&key.namespace))));
    }
    // Kubernetes 1.36 lets a Service's name begin with a digit; ours begins with a backend's name, which begins with a
    // letter.
    if !is_label(&key.name) || !key.name.starts_with(|c: char| c.is_ascii_lowercase()) {
        return Err(invalid(format!("name {:?} is no DNS label; rename the source", brief(&key.name))));
    }
    Ok(())
}

pub(crate) fn service(object: &objects::Service) -> Result<(), Unwanted> {
    for (key, value) in &object.metadata.labels {
        if !is_qualified_name(key) {
            return Err(invalid(format!("label key {:?} is invalid; correct it, or strip it", brief(key))));
        }
        if !is_label_value(value) {
            return Err(invalid(format!(
                "label {key:?} has the invalid value {:?}; correct it, or strip the label",
                brief(value)
            )));
        }
    }
    let mut bytes = 0;
    for (key, value) in &object.metadata.annotations {
        // An annotation's key may be written in capitals too.
        if !is_qualified_name(&key.to_ascii_lowercase()) {
            return Err(invalid(format!("annotation key {:?} is invalid; correct it, or strip it", brief(key))));
        }
        bytes += key.len() + value.len();
    }
    if bytes > ANNOTATION_BYTES {
        let message = format!("annotations have {bytes} bytes, {ANNOTATION_BYTES} are allowed; strip the largest");
        return Err(Unwanted { reason: UnwantedReason::TooLarge, message });
    }
    Ok(())
}

pub(crate) fn header(header: &Header) -> Result<(), Unwanted> {
    let mut names = BTreeSet::new();
    let mut numbers = BTreeSet::new();
    // The other maps are checked as the object has them, with the changes of the policy.
    let Header { labels: _, annotations: _, ports } = header;
    for port in ports {
        let ServicePort { name, port: number, protocol, app_protocol, target_port } = port;
        let what = format!("port {:?} ({number}/{})", brief(name), protocol.as_str());
        if name.is_empty() && ports.len() > 1 {
            return Err(invalid(format!("{what} has no name, and there are several; name each")));
        }
        if !name.is_empty() && !is_label(name) {
            return Err(invalid(format!("{what} has a name that is no DNS label; rename it")));
        }
        if *number == 0 {
            return Err(invalid(format!("{what} has the number 0; use 1 to 65535")));
        }
        if !names.insert(name) {
            return Err(invalid(format!("{what} has the name of another port; rename one")));
        }
        if !numbers.insert((number, protocol)) {
            return Err(invalid(format!("{what} has number and protocol of another port; change one")));
        }
        app(&what, app_protocol.as_deref())?;
        let target = match target_port {
            Some(TargetPort::Number(0)) => Some("0"),
            Some(TargetPort::Name(name)) if !is_port_name(name) => Some(&**name),
            _ => None,
        };
        if let Some(target) = target {
            return Err(invalid(format!("{what} has the invalid targetPort {:?}; correct it", brief(target))));
        }
    }
    Ok(())
}

pub(crate) fn group(group: &PortGroup) -> Result<(), Unwanted> {
    let mut names = BTreeSet::new();
    let PortGroup { ports, endpoints } = group;
    for EndpointPort { name, port, protocol, app_protocol } in ports.ports() {
        let number = port.unwrap_or_default();
        let what = format!("endpoint port {:?} ({number}/{})", brief(name), protocol.as_str());
        if !name.is_empty() && !is_label(name) {
            return Err(invalid(format!("{what} has a name that is no DNS label; rename it")));
        }
        if !names.insert(name) {
            return Err(invalid(format!("{what} has the name of another port of its set; rename one")));
        }
        if *port == Some(0) {
            return Err(invalid(format!("{what} has the number 0; use 1 to 65535")));
        }
        app(&what, app_protocol.as_deref())?;
    }
    for Endpoint { address, conditions: _, detail } in endpoints.iter() {
        if let Some(detail) = &detail {
            check_detail(&address.to_string(), detail)?;
        }
    }
    Ok(())
}

pub(crate) fn is_detail(detail: &Detail) -> bool {
    check_detail("", detail).is_ok()
}

fn check_detail(address: &str, Detail { hostname, zone: _, for_zones }: &Detail) -> Result<(), Unwanted> {
    if let Some(name) = hostname.as_deref().filter(|name| !is_label(name)) {
        return Err(invalid(format!(
            "endpoint {address} has the hostname {:?}, which is no DNS label; correct it",
            brief(name)
        )));
    }
    if for_zones.len() > ZONES {
        return Err(invalid(format!(
            "endpoint {address} has hints for {} zones, {ZONES} are allowed",
            for_zones.len()
        )));
    }
    let mut seen = BTreeSet::new();
    match for_zones.iter().find(|zone| !is_label_value(zone) || !seen.insert(*zone)) {
        Some(zone) => {
            Err(invalid(format!("endpoint {address} has the hint {:?} twice, or it is no label", brief(zone))))
        }
        None => Ok(()),
    }
}

fn app(what: &str, protocol: Option<&str>) -> Result<(), Unwanted> {
    match protocol.filter(|protocol| !is_qualified_name(protocol)) {
        Some(protocol) => Err(invalid(format!("{what} has the invalid appProtocol {:?}; correct it", brief(protocol)))),
        None => Ok(()),
    }
}

/// Whether `text` is a valid name of a container port (an IANA service name).
fn is_port_name(text: &str) -> bool {
    is_label(text) && text.len() <= 15 && !text.contains("--") && text.bytes().any(|c| c.is_ascii_lowercase())
}
