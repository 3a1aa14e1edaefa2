//! The content of a cluster, in lines that can be compared: the source's and the Gimbal cluster's must be equal.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kubernetes_client::{Cluster, WatchScope};
use gimbal_kubernetes_objects::{Endpoint, EndpointPort, EndpointSlice, IntOrString, Meta, Service, keys};

use crate::BACKEND;

/// Services by source namespace and name.
pub type View = BTreeMap<String, Seen>;

/// One Service.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// `namespace/name` of the Service.
    pub name: String,
    /// Ports, and endpoints by address.
    pub lines: BTreeSet<String>,
    /// The objects that it consists of, with their versions.
    pub versions: BTreeSet<String>,
    /// Human-readable ports: `http 80/TCP, ...`.
    pub ports: String,
    /// Number of endpoints.
    pub endpoints: usize,
    /// Number of ready endpoints.
    pub ready: usize,
}

/// Returns the content that the source offers in `namespaces`.
pub async fn source(cluster: &Cluster, namespaces: &[String]) -> anyhow::Result<View> {
    let (mut services, mut slices) = (Vec::new(), Vec::new());
    for namespace in namespaces {
        let scope = WatchScope { namespace: Some(namespace.clone()), ..WatchScope::default() };
        services.extend(cluster.list::<Service>(&scope).await?);
        slices.extend(cluster.list::<EndpointSlice>(&scope).await?);
    }
    // One cluster may be both ends, and mirrors are not offered again. ExternalName Services have no endpoints to
    // offer.
    let offered = |service: &Service| {
        !service.metadata.labels.contains_key(keys::BACKEND) && service.spec.type_.as_deref() != Some("ExternalName")
    };
    services.retain(offered);
    Ok(join(&services, &slices, |meta| Some(path(meta))))
}

/// Returns the published content of the Gimbal cluster.
pub async fn target(cluster: &Cluster) -> anyhow::Result<View> {
    let services = cluster.list::<Service>(&scope(keys::MANAGED_BY)).await?;
    let slices = cluster.list::<EndpointSlice>(&scope(keys::SLICE_MANAGED_BY)).await?;
    Ok(written(&services, &slices))
}

/// Selects the objects of the Gimbal cluster that the writer owns, by this mark of ownership.
pub fn scope(mark: &str) -> WatchScope {
    let selector = format!("{mark}={},{}={BACKEND}", keys::MANAGER, keys::BACKEND);
    WatchScope { label_selector: Some(selector), ..WatchScope::default() }
}

/// As [`target`], from objects that were read already.
pub fn written<'a>(
    services: impl IntoIterator<Item = &'a Service>,
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
) -> View {
    join(services, slices, |meta| meta.annotations.get(keys::SOURCE).map(ToString::to_string))
}

fn join<'a>(
    services: impl IntoIterator<Item = &'a Service>,
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    key: impl Fn(&Meta) -> Option<String>,
) -> View {
    let slices: Vec<&EndpointSlice> = slices.into_iter().collect();
    let mut view = View::new();
    for service in services {
        let meta = &service.metadata;
        let own = |slice: &&EndpointSlice| {
            slice.metadata.namespace == meta.namespace
                && slice.metadata.labels.get(keys::SERVICE_NAME) == Some(&meta.name)
        };
        let key = key(meta).unwrap_or_else(|| format!("{} without a source", path(meta)));
        view.insert(key, see(service, slices.iter().copied().filter(own)));
    }
    view
}

fn see<'a>(service: &Service, slices: impl Iterator<Item = &'a EndpointSlice>) -> Seen {
    let mut seen = Seen { name: path(&service.metadata), ..Seen::default() };
    seen.versions.insert(version("Service", &service.metadata));
    let mut ports = Vec::new();
    for port in &service.spec.ports {
        let name = port.name.as_deref().unwrap_or_default();
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let target = match &port.target_port {
            Some(IntOrString::Int(number)) => number.to_string(),
            Some(IntOrString::String(name)) => name.to_string(),
            None => port.port.to_string(),
        };
        let app = port.app_protocol.as_deref().map(|app| format!(" as {app}")).unwrap_or_default();
        seen.lines.insert(format!("port {name} {}/{protocol} to {target}{app}", port.port));
        ports.push(format!("{name} {}/{protocol}", port.port));
    }
    seen.ports = ports.join(", ");
    for slice in slices {
        seen.versions.insert(version("EndpointSlice", &slice.metadata));
        let mut ports: Vec<String> = slice.ports.iter().map(port_line).collect();
        ports.sort();
        for endpoint in &slice.endpoints {
            let conditions = endpoint.conditions;
            seen.endpoints += 1;
            seen.ready += usize::from(conditions.ready.unwrap_or(true));
            seen.lines.insert(endpoint_line(endpoint, &ports.join(",")));
        }
    }
    seen
}

fn port_line(port: &EndpointPort) -> String {
    let number = port.port.map(|number| number.to_string()).unwrap_or_default();
    let app = port.app_protocol.as_deref().map(|app| format!(" as {app}")).unwrap_or_default();
    format!("{}:{number}/{}{app}", port.name.as_deref().unwrap_or_default(), port.protocol.as_deref().unwrap_or("TCP"))
}

fn endpoint_line(endpoint: &Endpoint, ports: &str) -> String {
    let conditions = endpoint.conditions;
    let ready = conditions.ready.unwrap_or(true);
    let words = [
        (ready, "ready"),
        (conditions.serving.unwrap_or(ready), "serving"),
        (conditions.terminating.unwrap_or(false), "terminating"),
    ];
    let mut line = format!("endpoint {} on {ports}", endpoint.addresses.join("+"));
    for (_, word) in words.iter().filter(|(is, _)| *is) {
        line.push(' ');
        line.push_str(word);
    }
    for (name, value) in [("hostname", &endpoint.hostname), ("zone", &endpoint.zone)] {
        if let Some(value) = value {
            line.push_str(&format!(" {name}={value}"));
        }
    }
    line
}

fn version(kind: &str, meta: &Meta) -> String {
    format!("{kind} {} {} {}", path(meta), meta.uid, meta.resource_version)
}

fn path(meta: &Meta) -> String {
    format!("{}/{}", meta.namespace, meta.name)
}

/// Returns missing and unexpected lines; empty if both views are equal.
pub fn differences(expected: &View, found: &View) -> Vec<String> {
    let empty = Seen::default();
    let mut lines = Vec::new();
    let keys: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    for key in keys {
        match (expected.get(key), found.get(key)) {
            (Some(_), None) => lines.push(format!("{key}: expected, and is not there")),
            (None, Some(seen)) => lines.push(format!("{key}: is there as {}, and not expected", seen.name)),
            (expected, found) => {
                let (expected, found) = (expected.unwrap_or(&empty), found.unwrap_or(&empty));
                let missing = expected.lines.difference(&found.lines).map(|line| format!("{key}: expected {line}"));
                let extra = found.lines.difference(&expected.lines).map(|line| format!("{key}: there is {line}"));
                lines.extend(missing.chain(extra));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill;

    fn view(change: impl Fn(&mut Vec<EndpointSlice>)) -> View {
        let mut services = Vec::new();
        let mut slices = Vec::new();
        for offer in fill::offers() {
            services.push(offer.service);
            slices.extend(offer.slices);
        }
        change(&mut slices);
        join(&services, &slices, |meta| Some(path(meta)))
    }

    #[test]
    fn equal_views_differ_in_nothing() {
        assert_eq!(differences(&view(|_| ()), &view(|slices| slices.reverse())), Vec::<String>::new());
    }

    #[test]
    fn every_difference_is_named() {
        let found = view(|slices| slices[0].endpoints[0].conditions.ready = Some(false));
        let differences = differences(&view(|_| ()), &found);
        let ports = "on http:8080/TCP,https:8443/TCP,metrics:9090/TCP";
        assert_eq!(
            differences,
            [
                format!("gimbal-demo-shop/web: expected endpoint 10.20.1.1 {ports} ready serving zone=zone-a"),
                format!("gimbal-demo-shop/web: there is endpoint 10.20.1.1 {ports} serving zone=zone-a"),
            ]
        );
    }
}
