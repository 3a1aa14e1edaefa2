//! The payload of discovery: the Services of a source. It has no reports, facts or contents.

use std::borrow::Cow;
use std::sync::Arc;

use gimbal_model::{
    Change as ServiceChange, Detail, Digest, Endpoint, EndpointChange, EndpointPort, Header, PortGroup, PortSet,
    Service, ServicePort, SourceKey, TargetPort,
};

use crate::size::{FIELD, entry_len};
use crate::{AgentEnd, Entry, EntryChange, Key, Never, Payload, Reason, WriterEnd, capability};

/// Overhead of a map entry in bytes: tag and length of the entry, of its key and of its value.
const ENTRY: usize = 3 * FIELD;
/// Bytes of a port's or an endpoint's numbers and flags, with its own tag and length.
const NUMBERS: usize = 24;

/// Services with their endpoints, by namespace and name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Services;

impl Payload for Services {
    type Key = SourceKey;
    type Entry = Service;
    type Kept = Arc<Service>;
    type Header = Header;
    type Part = (PortSet, Endpoint);
    type PartChange = EndpointChange;
    type Reason = RejectReason;
    type Report = Never;
    type StoredReport = Arc<Never>;
    type Facts = Never;
    type Hash = Never;
    type Content = Never;

    const AN_ENTRY: &'static str = "a Service";
    const ENTRIES: &'static str = "Services";
    const PARTS: &'static str = "endpoints";
    const INDIVISIBLE: &'static str = "header, or ports and details of one endpoint,";
    const CAPABILITIES: &'static [Cow<'static, str>] =
        &[Cow::Borrowed(capability::CHANGE_AGE), Cow::Borrowed(capability::TRACE)];

    fn report_len(report: &Never) -> usize {
        match *report {}
    }

    fn facts_len(facts: &Never) -> usize {
        match *facts {}
    }
}

impl Key for SourceKey {
    fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    fn first_in(namespace: Arc<str>) -> Self {
        Self::new(namespace, "")
    }

    fn text_len(&self) -> usize {
        self.namespace.len() + self.name.len()
    }
}

impl Entry<Services> for Service {
    type Changes<'a> = LastGroups<'a>;

    fn new(header: Arc<Header>, parts: Vec<(PortSet, Endpoint)>) -> Self {
        Self::new(header, parts)
    }

    fn header(&self) -> Arc<Header> {
        self.header.clone()
    }

    fn parts(&self) -> impl Iterator<Item = (PortSet, Endpoint)> {
        self.endpoints().map(|(ports, endpoint)| (ports.clone(), endpoint))
    }

    fn part_count(&self) -> usize {
        self.endpoint_count()
    }

    fn digest(&self, key: &SourceKey) -> Digest {
        self.digest(key)
    }

    fn between(old: Option<&Self>, new: Option<&Self>) -> Option<EntryChange<Services>> {
        ServiceChange::between(old, new).map(|change| match change {
            ServiceChange::Replace(service) => EntryChange::Replace(service),
            ServiceChange::Update { header, endpoints } => EntryChange::Update { header, parts: endpoints },
            ServiceChange::Remove => EntryChange::Remove,
        })
    }

    fn update(
        &mut self,
        key: &SourceKey,
        digest: &mut Digest,
        header: Option<Arc<Header>>,
        parts: Vec<EndpointChange>,
    ) {
        self.update(key, digest, header, parts);
    }

    fn header_len(header: &Header) -> usize {
        let Header { labels, annotations, ports } = header;
        let maps = labels.iter().chain(annotations);
        let entries: usize = maps.map(|(key, value)| ENTRY + key.len() + value.len()).sum();
        FIELD + entries + ports.iter().map(service_port_len).sum::<usize>()
    }

    fn part_len(before: Option<&(PortSet, Endpoint)>, (ports, endpoint): &(PortSet, Endpoint)) -> usize {
        group_len(before.map(|(ports, _)| ports), ports) + endpoint_len(endpoint)
    }

    fn change_len<'a>(frame: &mut LastGroups<'a>, change: &'a EndpointChange) -> usize {
        match change {
            EndpointChange::Set(ports, endpoint) => group_len(frame.set.replace(ports), ports) + endpoint_len(endpoint),
            EndpointChange::Gone(ports, _) => group_len(frame.gone.replace(ports), ports) + NUMBERS,
        }
    }

    fn largest_len(&self) -> usize {
        let groups = self.groups().iter().map(|group| {
            let endpoint = group.endpoints.iter().map(|endpoint| endpoint_len(&endpoint)).max().unwrap_or(0);
            ports_len(&group.ports) + endpoint
        });
        groups.chain([Self::header_len(&self.header)]).max().unwrap_or(0)
    }
}

/// What [`Entry::change_len`] has seen of an update. An update has two lists of endpoints, one of those that are set
/// and one of those that are gone. In each, endpoints that follow each other with the same ports share one group, which
/// carries the ports once.
#[derive(Debug, Default)]
pub struct LastGroups<'a> {
    set: Option<&'a PortSet>,
    gone: Option<&'a PortSet>,
}

fn group_len(before: Option<&PortSet>, ports: &PortSet) -> usize {
    if before == Some(ports) { 0 } else { ports_len(ports) }
}

fn service_port_len(port: &ServicePort) -> usize {
    let ServicePort { name, port: _, protocol: _, app_protocol, target_port } = port;
    let target = match target_port {
        Some(TargetPort::Name(name)) => name.len(),
        Some(TargetPort::Number(_)) | None => 0,
    };
    NUMBERS + 3 * FIELD + name.len() + app_protocol.as_deref().map_or(0, str::len) + target
}

fn ports_len(ports: &PortSet) -> usize {
    let port_len = |port: &EndpointPort| {
        let EndpointPort { name, port: _, protocol: _, app_protocol } = port;
        NUMBERS + 2 * FIELD + name.len() + app_protocol.as_deref().map_or(0, str::len)
    };
    FIELD + ports.ports().iter().map(port_len).sum::<usize>()
}

fn endpoint_len(endpoint: &Endpoint) -> usize {
    let Endpoint { address: _, conditions: _, detail } = endpoint;
    let detail = detail.as_deref().map_or(0, |detail| {
        let Detail { hostname, zone, for_zones } = detail;
        let names = [hostname, zone].into_iter().flatten().chain(for_zones);
        names.map(|name| FIELD + name.len()).sum()
    });
    2 * FIELD + NUMBERS + detail
}

/// Returns the bytes that a whole Service takes on the wire; never less than it really does.
#[must_use]
pub fn service_len(key: &SourceKey, service: &Service) -> usize {
    let group = |group: &PortGroup| {
        ports_len(&group.ports) + group.endpoints.iter().map(|endpoint| endpoint_len(&endpoint)).sum::<usize>()
    };
    entry_len(key) + Service::header_len(&service.header) + service.groups().iter().map(group).sum::<usize>()
}

impl AgentEnd<Services> {
    /// Returns everything the source offers, in order of its keys.
    pub fn services(&self) -> impl Iterator<Item = (&SourceKey, &Arc<Service>)> {
        self.entries()
    }

    /// Returns the Service that the source offers under a key.
    #[must_use]
    pub fn service(&self, key: &SourceKey) -> Option<&Arc<Service>> {
        self.entry(key)
    }
}

impl WriterEnd<Services> {
    /// Returns everything held, in order of its keys.
    pub fn services(&self) -> impl Iterator<Item = (&SourceKey, &Arc<Service>)> {
        self.entries()
    }

    /// Returns the Service that is held under a key.
    #[must_use]
    pub fn service(&self, key: &SourceKey) -> Option<&Arc<Service>> {
        self.entry(key)
    }
}

/// Why a Service, or a part of it, is not in the Gimbal cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RejectReason {
    /// The name belongs to another object or to another source Service.
    NameConflict,
    /// The namespace does not exist in the Gimbal cluster.
    NamespaceMissing,
    /// The policy does not let this backend into the namespace.
    NamespaceForbidden,
    /// An address may not be published.
    AddressRefused,
    /// The API server would refuse it.
    Invalid,
    /// The Gimbal cluster cannot represent it.
    Unsupported,
    /// It is larger than a frame, or than the API server accepts.
    TooLarge,
    /// The backend's quota is used up.
    Quota,
    /// The API server refused the write or did not answer.
    ApiError,
    /// The mass-change guard holds a removal.
    Held,
    /// The backend is in quarantine.
    Quarantined,
}

impl RejectReason {
    /// Returns the name for metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NameConflict => "NameConflict",
            Self::NamespaceMissing => "NamespaceMissing",
            Self::NamespaceForbidden => "NamespaceForbidden",
            Self::AddressRefused => "AddressRefused",
            Self::Invalid => "Invalid",
            Self::Unsupported => "Unsupported",
            Self::TooLarge => "TooLarge",
            Self::Quota => "Quota",
            Self::ApiError => "ApiError",
            Self::Held => "Held",
            Self::Quarantined => "Quarantined",
        }
    }
}

impl Reason for RejectReason {
    const INVALID: Self = Self::Invalid;
    const TOO_LARGE: Self = Self::TooLarge;
}
