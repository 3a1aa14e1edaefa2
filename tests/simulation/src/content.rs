//! The content of the Gimbal cluster, and the content that it should have according to the sources and policies:
//! without UIDs, versions and names of slices, which depend on what existed before.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use gimbal_kubernetes_objects::{EndpointSlice, Service, keys};
use gimbal_model::{TargetKey, label_value};
use gimbal_plan::Body;

use crate::server::{Server, is_marked};
use crate::sources::{self, Sources};

type Map = BTreeMap<String, String>;

/// The mirror of one source Service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Mirror {
    /// Its labels.
    pub labels: Map,
    /// Its annotations.
    pub annotations: Map,
    /// Name and number of each port.
    pub ports: Vec<(String, i32)>,
    /// Whether each endpoint is ready, by its address and ports.
    pub endpoints: BTreeMap<String, bool>,
}

/// The mirrors by namespace and name.
pub type Content = BTreeMap<(String, String), Mirror>;

pub(crate) fn hash(content: &Content) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}

/// Describes the first difference.
pub(crate) fn difference(found: &Content, expected: &Content) -> Option<String> {
    let names: BTreeSet<_> = found.keys().chain(expected.keys()).collect();
    let differs = |name: &&&(String, String)| found.get(**name) != expected.get(**name);
    let different = names.iter().filter(differs).count();
    let name = names.iter().find(differs)?;
    Some(format!(
        "{different} Services differ; {}/{} is\n  {:?}\nand should be\n  {:?}",
        name.0,
        name.1,
        found.get(*name),
        expected.get(*name)
    ))
}

/// Reads all objects that carry our mark.
///
/// # Errors
/// Returns an error for a slice without its Service, or an endpoint in two slices.
pub fn read(server: &Server) -> Result<Content, String> {
    let mut content = Content::new();
    let text = |map: &BTreeMap<std::sync::Arc<str>, std::sync::Arc<str>>| {
        map.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect::<Map>()
    };
    let marked = || server.objects.values().filter(|body| is_marked(body));
    for body in marked() {
        if let Body::Service(Service { metadata: meta, spec }) = body {
            let ports = spec.ports.iter().map(|port| (port.name.as_deref().unwrap_or_default().to_owned(), port.port));
            let mirror = Mirror {
                labels: text(&meta.labels),
                annotations: text(&meta.annotations),
                ports: ports.collect(),
                endpoints: BTreeMap::new(),
            };
            content.insert((meta.namespace.to_string(), meta.name.to_string()), mirror);
        }
    }
    for body in marked() {
        if let Body::Slice(slice) = body {
            let name = slice.metadata.labels.get(keys::SERVICE_NAME).map(ToString::to_string).unwrap_or_default();
            let at = (slice.metadata.namespace.to_string(), name);
            let mirror = content.get_mut(&at);
            let mirror = mirror.ok_or_else(|| format!("slice {} is there without its Service", slice.metadata.name))?;
            for (endpoint, ready) in endpoints(slice) {
                if let Some(twice) = mirror.endpoints.insert(endpoint.clone(), ready) {
                    return Err(format!("{endpoint} is in two slices of {at:?}, ready: {twice} and {ready}"));
                }
            }
        }
    }
    Ok(content)
}

fn endpoints(slice: &EndpointSlice) -> impl Iterator<Item = (String, bool)> {
    let mut ports: Vec<String> = slice
        .ports
        .iter()
        .map(|port| format!("{}={}", port.name.as_deref().unwrap_or_default(), port.port.unwrap_or_default()))
        .collect();
    ports.sort();
    slice.endpoints.iter().map(move |endpoint| {
        let address = endpoint.addresses.first().map(ToString::to_string).unwrap_or_default();
        (format!("{address} {}", ports.join(" ")), endpoint.conditions.ready == Some(true))
    })
}

/// Returns the content according to the sources and their policies, computed without the code under test.
pub(crate) fn expected(from: &Sources) -> Content {
    from.offers()
        .filter(|(_, _, offer)| offer.there)
        .map(|(backend, service, offer)| {
            let (key, TargetKey { namespace, name }) =
                (sources::key(backend, service), sources::target(backend, service));
            let labels = [
                ("version".to_owned(), offer.version.to_string()),
                (keys::BACKEND.to_owned(), sources::name(backend).to_string()),
                (keys::SERVICE.to_owned(), label_value(&key.name)),
                (keys::MANAGED_BY.to_owned(), keys::MANAGER.to_owned()),
                (keys::HEADLESS.to_owned(), String::new()),
            ];
            let annotations = [("note".to_owned(), "kept".to_owned()), (keys::SOURCE.to_owned(), key.to_string())];
            let ports = sources::ports(service, offer.port);
            let mut listens: Vec<String> = ports.iter().map(|(name, _, port)| format!("{name}={port}")).collect();
            listens.sort();
            let hosts = offer.hosts.iter().filter(|(host, _)| sources::is_let_through(backend, **host));
            let mirror = Mirror {
                labels: labels.into(),
                annotations: annotations.into(),
                ports: ports.iter().map(|(name, port, _)| ((*name).to_owned(), i32::from(*port))).collect(),
                endpoints: hosts
                    .map(|(host, ready)| {
                        (format!("{} {}", sources::address(backend, service, *host), listens.join(" ")), *ready)
                    })
                    .collect(),
            };
            ((namespace.to_string(), name.to_string()), mirror)
        })
        .collect()
}
