//! Renames or drops the `appProtocol` values of a source, as the backend's policy says.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gimbal_model::{EndpointPort, Header, PortSet, Service, ServicePort, is_qualified_name};

/// Maps values of `appProtocol` to the values that are written; `None` drops the value. Values without an entry are
/// written unchanged. A policy needs this where a consumer reads more into a value than the source meant: in Contour
/// any value switches off `upstream-protocol.*`, and a Gateway API implementation rejects a route with a value that
/// it does not know.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppProtocols(BTreeMap<Arc<str>, Option<Arc<str>>>);

impl FromIterator<(Arc<str>, Option<Arc<str>>)> for AppProtocols {
    fn from_iter<T: IntoIterator<Item = (Arc<str>, Option<Arc<str>>)>>(from: T) -> Self {
        Self(from.into_iter().collect())
    }
}

impl AppProtocols {
    /// Whether the API server accepts `text` as an `appProtocol`.
    #[must_use]
    pub fn is_valid(text: &str) -> bool {
        is_qualified_name(text)
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

    /// Returns the ports of a Service with the values that are written, if one of these is another.
    #[must_use]
    pub fn changed_ports(&self, ports: &[ServicePort]) -> Option<Vec<ServicePort>> {
        let names = |port: &ServicePort| port.app_protocol.as_ref().is_some_and(|name| self.0.contains_key(name));
        ports.iter().any(names).then(|| self.ports(ports))
    }

    fn ports(&self, ports: &[ServicePort]) -> Vec<ServicePort> {
        let port =
            |port: &ServicePort| ServicePort { app_protocol: self.written(port.app_protocol.as_ref()), ..port.clone() };
        ports.iter().map(port).collect()
    }

    /// Returns the Service with the values that are written. Port sets that are equal afterwards are merged.
    pub(crate) fn apply<'a>(&self, service: &'a Service) -> Cow<'a, Service> {
        if !self.concerns(service) {
            return Cow::Borrowed(service);
        }
        let header = Header { ports: self.ports(&service.header.ports), ..(*service.header).clone() };
        let port = |port: &EndpointPort| EndpointPort {
            app_protocol: self.written(port.app_protocol.as_ref()),
            ..port.clone()
        };
        let set = |ports: &PortSet| PortSet::new(ports.ports().iter().map(port).collect());
        let endpoints = service.endpoints().map(|(ports, endpoint)| (set(ports), endpoint));
        Cow::Owned(Service::new(Arc::new(header), endpoints))
    }

    /// Returns one sentence for each value of a Service port that is renamed or dropped.
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
