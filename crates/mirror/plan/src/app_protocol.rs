//! What becomes of the application protocols that a source names.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gimbal_model::{EndpointPort, Header, PortSet, Service, ServicePort};

use crate::valid;

/// Values of `appProtocol` that are written otherwise than the source has them: under another name, or not at all. A consumer
/// may read more into one than its source meant: in Contour any value switches off `upstream-protocol.*`, and one that a
/// Gateway API implementation does not know gets its route rejected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppProtocols(BTreeMap<Arc<str>, Option<Arc<str>>>);

impl FromIterator<(Arc<str>, Option<Arc<str>>)> for AppProtocols {
    fn from_iter<T: IntoIterator<Item = (Arc<str>, Option<Arc<str>>)>>(from: T) -> Self {
        Self(from.into_iter().collect())
    }
}

impl AppProtocols {
    /// Whether the API server takes this as an `appProtocol`.
    #[must_use]
    pub fn is_valid(text: &str) -> bool {
        valid::is_qualified(text)
    }

    fn written(&self, protocol: Option<&Arc<str>>) -> Option<Arc<str>> {
        let protocol = protocol?;
        self.0.get(protocol).cloned().unwrap_or_else(|| Some(protocol.clone()))
    }

    fn concerns(&self, service: &Service) -> bool {
        let named = |protocol: &Option<Arc<str>>| protocol.as_ref().is_some_and(|name| self.0.contains_key(name));
        !self.0.is_empty()
            && (service.header.ports.iter().any(|port| named(&port.app_protocol))
                || service.groups().iter().flat_map(|group| group.ports.ports()).any(|port| named(&port.app_protocol)))
    }

    /// The Service with the protocols that are written. Port sets that differ in nothing else become one.
    pub(crate) fn apply<'a>(&self, service: &'a Service) -> Cow<'a, Service> {
        if !self.concerns(service) {
            return Cow::Borrowed(service);
        }
        let port =
            |port: &ServicePort| ServicePort { app_protocol: self.written(port.app_protocol.as_ref()), ..port.clone() };
        let ports = service.header.ports.iter().map(port).collect();
        let header = Header { ports, ..(*service.header).clone() };
        let port = |port: &EndpointPort| EndpointPort {
            app_protocol: self.written(port.app_protocol.as_ref()),
            ..port.clone()
        };
        let set = |ports: &PortSet| PortSet::new(ports.ports().iter().map(port).collect());
        let endpoints = service.endpoints().map(|(ports, endpoint)| (set(ports), endpoint));
        Cow::Owned(Service::new(Arc::new(header), endpoints))
    }

    /// What is written otherwise, a sentence for each value.
    pub(crate) fn told(&self, service: &Service) -> Vec<String> {
        let ports = service.header.ports.iter().map(|port| &port.app_protocol);
        let values: BTreeSet<&Arc<str>> = ports.flatten().collect();
        let sentence = |value: &Arc<str>| {
            Some(match self.0.get(value)? {
                Some(other) => {
                    format!("appProtocol {value} is written as {other} (appProtocol of the backend's policy)")
                }
                None => format!("appProtocol {value} is left out (appProtocol of the backend's policy)"),
            })
        };
        values.into_iter().filter_map(sentence).collect()
    }
}
