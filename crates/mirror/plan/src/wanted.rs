//! The objects that one source Service becomes in the Gimbal cluster.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use gimbal_kubernetes_objects::{self as objects, IntOrString, Meta, keys};
use gimbal_model::{
    AddressRefusal, AddressRules, BackendName, Endpoint, Family, PortGroup, PortSet, Service, SourceKey, TargetKey,
    TargetPort, label_value,
};

use crate::print::{self, Fingerprint};
use crate::shape::{flat_not_ready, not_ready};
use crate::strip::{Sieve, is_kubernetes};
use crate::{AppProtocols, Keep, Lost, Observed, Strip, shape, valid};

type Map = BTreeMap<Arc<str>, Arc<str>>;

/// Which of the two APIs endpoints are written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndpointsApi {
    /// `discovery.k8s.io/v1`.
    #[default]
    EndpointSlices,
    /// `core/v1`.
    Endpoints,
    /// Both. The `Endpoints` object is labelled so that the mirroring controller ignores it.
    Both,
}

impl EndpointsApi {
    pub(crate) fn slices(self) -> bool {
        self != Self::Endpoints
    }

    pub(crate) fn endpoints(self) -> bool {
        self != Self::EndpointSlices
    }
}

/// The error for a text that names no [`EndpointsApi`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("endpoints API {0:?} is unknown: use endpointslices, endpoints or both")]
pub struct UnknownEndpointsApi(pub String);

impl FromStr for EndpointsApi {
    type Err = UnknownEndpointsApi;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "endpointslices" => Ok(Self::EndpointSlices),
            "endpoints" => Ok(Self::Endpoints),
            "both" => Ok(Self::Both),
            _ => Err(UnknownEndpointsApi(text.into())),
        }
    }
}

/// The part of a backend's policy that shapes objects.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// The labels and annotations that are left out.
    pub strip: &'a Strip,
    /// If set, the only labels and annotations that are kept.
    pub keep: &'a Keep,
    /// The application protocols that are renamed or dropped.
    pub app_protocols: &'a AppProtocols,
    /// The addresses that may be published.
    pub addresses: &'a AddressRules,
    /// The APIs that endpoints are written to.
    pub api: EndpointsApi,
}

/// Why a Service cannot be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnwantedReason {
    /// The API server would certainly reject it as invalid.
    Invalid,
    /// It is larger than the API server accepts.
    TooLarge,
}

/// The error for a Service that cannot be published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unwanted {
    /// The kind of reason.
    pub reason: UnwantedReason,
    /// The reason in words.
    pub message: String,
}

/// The wanted objects of one source Service. Built for a comparison, and dropped after it.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The addresses of the endpoints that are left out, and why.
    pub refused: Vec<(IpAddr, AddressRefusal)>,
    service: objects::Service,
    slice_meta: (Map, Map),
    slice_print: Fingerprint,
    api: EndpointsApi,
    groups: BTreeMap<(Family, PortSet), Vec<Endpoint>>,
    packed: Option<(Meta, Vec<PortGroup>)>,
    not_ready: bool,
}

impl Wanted {
    /// Applies the rules to a Service. An address that they refuse drops its endpoint, not the Service.
    ///
    /// # Errors
    /// Returns why the API server would certainly refuse the result.
    pub fn new(
        backend: &BackendName,
        source: &SourceKey,
        target: &TargetKey,
        service: &Service,
        rules: &Rules<'_>,
    ) -> Result<Self, Unwanted> {
        let service = &*rules.app_protocols.apply(service);
        let frame = Frame::new(backend, source, target, service, rules);
        frame.check(target, service)?;
        Ok(frame.around(backend, target, service, rules))
    }

    /// Checks whether [`Wanted::new`] would succeed.
    ///
    /// # Errors
    /// Returns why it would not.
    pub fn check(
        backend: &BackendName,
        source: &SourceKey,
        target: &TargetKey,
        service: &Service,
        rules: &Rules<'_>,
    ) -> Result<(), Unwanted> {
        let service = &*rules.app_protocols.apply(service);
        Frame::new(backend, source, target, service, rules).check(target, service)
    }

    /// Like [`Wanted::new`], without the checks for what the API server would certainly refuse, and without invalid
    /// details of endpoints. The result is not written as it is: [`around`](crate::Plan::around) uses it to find what
    /// must be removed.
    #[must_use]
    pub fn unchecked(
        backend: &BackendName,
        source: &SourceKey,
        target: &TargetKey,
        service: &Service,
        rules: &Rules<'_>,
    ) -> Self {
        let service = &*rules.app_protocols.apply(service);
        let mut made = Frame::new(backend, source, target, service, rules).around(backend, target, service, rules);
        for endpoint in made.groups.values_mut().flatten() {
            endpoint.detail.take_if(|detail| !valid::is_detail(detail));
        }
        if let Some((_, groups)) = &mut made.packed {
            *groups = packed(&made.groups);
        }
        made
    }

    /// Returns the objects as they are while the backend is lost: with all endpoints not ready, including those that
    /// the guard keeps, or without endpoints.
    #[must_use]
    pub fn lost(mut self, lost: Lost) -> Self {
        let packed = self.packed.as_mut().map(|(_, groups)| groups);
        match lost {
            Lost::NotReady => {
                let endpoints = self.groups.values_mut().flatten();
                endpoints.for_each(|endpoint| *endpoint = not_ready(endpoint));
                packed.into_iter().for_each(|groups| *groups = shape::group(&flat_not_ready(shape::ungroup(groups))));
                self.not_ready = true;
            }
            Lost::Drained => {
                self.groups.clear();
                packed.into_iter().for_each(Vec::clear);
            }
        }
        self
    }

    /// Returns the objects with every endpoint that is observed as ready kept ready.
    pub(crate) fn keeping_ready(&self, observed: &Observed) -> Self {
        let mut kept = self.clone();
        for ((_, ports), endpoints) in &mut kept.groups {
            for endpoint in endpoints.iter_mut().filter(|endpoint| !endpoint.conditions.ready) {
                endpoint.conditions = observed.ready(ports, endpoint.address).unwrap_or(endpoint.conditions);
            }
        }
        if let Some((_, groups)) = &mut kept.packed {
            *groups = packed(&kept.groups);
        }
        kept
    }

    /// Whether endpoints that stay are marked not ready.
    pub(crate) fn is_not_ready(&self) -> bool {
        self.not_ready
    }

    /// Returns how many endpoints the Gimbal cluster will hold, counted as [`crate::Observed::endpoint_count`] counts
    /// them.
    #[must_use]
    pub fn endpoint_count(&self) -> usize {
        if self.api.slices() { self.slice_count() } else { self.packed_count() }
    }

    /// Returns the count for slices, whether or not slices are written.
    pub(crate) fn slice_count(&self) -> usize {
        self.groups.values().map(Vec::len).sum()
    }

    /// Returns the count for an `Endpoints` object, whether or not one is written.
    pub(crate) fn packed_count(&self) -> usize {
        let count = |groups: &[PortGroup]| groups.iter().map(|group| group.endpoints.len()).sum();
        self.packed.as_ref().map_or_else(|| count(&packed(&self.groups)), |(_, groups)| count(groups))
    }

    pub(crate) fn service(&self) -> &objects::Service {
        &self.service
    }

    /// Returns all endpoints, sorted by address within each group, whether or not slices are written.
    pub(crate) fn groups(&self) -> &BTreeMap<(Family, PortSet), Vec<Endpoint>> {
        &self.groups
    }

    pub(crate) fn api(&self) -> EndpointsApi {
        self.api
    }

    pub(crate) fn slice_print(&self) -> Fingerprint {
        self.slice_print
    }

    /// Returns a slice as it is written.
    pub(crate) fn slice(
        &self,
        name: Arc<str>,
        family: Family,
        ports: &PortSet,
        endpoints: &[Endpoint],
    ) -> objects::EndpointSlice {
        let (labels, annotations) = self.slice_meta.clone();
        let namespace = self.service.metadata.namespace.clone();
        objects::EndpointSlice {
            metadata: Meta { name, namespace, labels, annotations, ..Meta::default() },
            address_type: family.as_str().into(),
            endpoints: endpoints.iter().map(shape::slice_endpoint).collect(),
            ports: shape::slice_ports(ports),
        }
    }

    /// Returns the metadata and content of the `Endpoints` object, if one is wanted.
    pub(crate) fn packed(&self) -> Option<(&Meta, &[PortGroup])> {
        self.packed.as_ref().map(|(meta, groups)| (meta, groups.as_slice()))
    }
}

/// The Service, and the metadata that its other objects share.
struct Frame {
    labels: Map,
    origin: Map,
    service: objects::Service,
}

impl Frame {
    fn new(
        backend: &BackendName,
        source: &SourceKey,
        target: &TargetKey,
        service: &Service,
        rules: &Rules<'_>,
    ) -> Self {
        let labels = labels(backend, source, service, rules);
        let origin: Map = [(keys::SOURCE.into(), source.to_string().into())].into();
        let service = service_object(target, service, &labels, &origin, rules);
        Self { labels, origin, service }
    }

    fn check(&self, target: &TargetKey, service: &Service) -> Result<(), Unwanted> {
        valid::target(target)?;
        valid::header(&service.header)?;
        for group in service.groups() {
            valid::group(group)?;
        }
        valid::service(&self.service)
    }

    fn around(self, backend: &BackendName, target: &TargetKey, service: &Service, rules: &Rules<'_>) -> Wanted {
        let Self { labels, origin, service: object } = self;
        let mut refused = BTreeMap::new();
        let mut allowed = Vec::with_capacity(service.groups().len());
        for group in service.groups() {
            let endpoints = group.endpoints.iter().filter(|endpoint| {
                let verdict = rules.addresses.check(endpoint.address);
                verdict.map_err(|refusal| refused.insert(endpoint.address, refusal)).is_ok()
            });
            allowed.push((group.ports.clone(), endpoints.collect()));
        }
        let groups = by_family(allowed);
        let packed = rules.api.endpoints().then(|| (packed_meta(target, &labels, &origin, rules.api), packed(&groups)));
        let slice_meta = (slice_labels(backend, target, &labels), origin);
        Wanted {
            refused: refused.into_iter().collect(),
            service: object,
            slice_print: print::meta(&slice_meta.0, &slice_meta.1),
            slice_meta,
            api: rules.api,
            groups,
            packed,
            not_ready: false,
        }
    }
}

/// Describes the parts of a Service that its backend's policy changes or leaves out, one sentence for each.
#[must_use]
pub fn left_out(service: &Service, rules: &Rules<'_>) -> Vec<String> {
    let Service { header, .. } = service;
    let mut told = Sieve::of_labels(rules.strip, rules.keep).told("labels", &header.labels);
    told.extend(Sieve::of_annotations(rules.strip, rules.keep).told("annotations", &header.annotations));
    told.extend(rules.app_protocols.told(service));
    told
}

/// Returns the labels that all objects of a Service carry, without the mark. A mark that the source has set is
/// removed, because it would give the object to us or to another controller.
fn labels(backend: &BackendName, source: &SourceKey, service: &Service, rules: &Rules<'_>) -> Map {
    let mut labels = Sieve::of_labels(rules.strip, rules.keep).sieve(&service.header.labels);
    labels.remove(keys::MANAGED_BY);
    labels.remove(keys::SLICE_MANAGED_BY);
    labels.remove(keys::SOURCE_CLUSTER);
    labels.insert(keys::BACKEND.into(), backend.as_str().into());
    labels.insert(keys::SERVICE.into(), label_value(&source.name).into());
    labels
}

fn service_object(
    target: &TargetKey,
    service: &Service,
    labels: &Map,
    origin: &Map,
    rules: &Rules<'_>,
) -> objects::Service {
    let mut labels = labels.clone();
    labels.insert(keys::MANAGED_BY.into(), keys::MANAGER.into());
    labels.insert(keys::HEADLESS.into(), "".into());
    let mut annotations = Sieve::of_annotations(rules.strip, rules.keep).sieve(&service.header.annotations);
    annotations.extend(origin.clone());
    let port = |port: &gimbal_model::ServicePort| objects::ServicePort {
        name: (!port.name.is_empty()).then(|| port.name.clone()),
        port: port.port.into(),
        protocol: Some(port.protocol.as_str().into()),
        app_protocol: port.app_protocol.clone(),
        target_port: port.target_port.as_ref().map(|target| match target {
            TargetPort::Number(number) => IntOrString::Int((*number).into()),
            TargetPort::Name(name) => IntOrString::String(name.clone()),
        }),
    };
    objects::Service {
        metadata: meta(target, labels, annotations),
        spec: objects::ServiceSpec {
            type_: Some("ClusterIP".into()),
            cluster_ip: Some("None".into()),
            ports: service.header.ports.iter().map(port).collect(),
            ..objects::ServiceSpec::default()
        },
    }
}

fn meta(target: &TargetKey, labels: Map, annotations: Map) -> Meta {
    let (namespace, name) = (target.namespace.clone(), target.name.clone());
    Meta { name, namespace, labels, annotations, ..Meta::default() }
}

fn slice_labels(backend: &BackendName, target: &TargetKey, labels: &Map) -> Map {
    let mut labels = labels.clone();
    labels.retain(|key, _| !is_kubernetes(key));
    labels.insert(keys::SERVICE_NAME.into(), target.name.clone());
    labels.insert(keys::SLICE_MANAGED_BY.into(), keys::MANAGER.into());
    labels.insert(keys::SOURCE_CLUSTER.into(), backend.as_str().into());
    labels.insert(keys::HEADLESS.into(), "".into());
    labels
}

fn packed_meta(target: &TargetKey, labels: &Map, origin: &Map, api: EndpointsApi) -> Meta {
    let mut labels = labels.clone();
    // These keys steer the controllers of endpoints. For example, a source's `skip-mirror` would hide its endpoints
    // from every consumer of slices.
    labels.retain(|key, _| {
        !key.starts_with("endpoints.kubernetes.io/") && !key.starts_with("endpointslice.kubernetes.io/")
    });
    labels.insert(keys::MANAGED_BY.into(), keys::MANAGER.into());
    labels.insert(keys::HEADLESS.into(), "".into());
    if api == EndpointsApi::Both {
        labels.insert(keys::SKIP_MIRROR.into(), "true".into());
    }
    meta(target, labels, origin.clone())
}

pub(crate) fn packed(groups: &BTreeMap<(Family, PortSet), Vec<Endpoint>>) -> Vec<PortGroup> {
    let mut flat = shape::Flat::new();
    for ((_, ports), endpoints) in groups {
        for endpoint in endpoints {
            if endpoint.conditions.ready || !endpoint.conditions.terminating {
                let hostname = endpoint.detail.as_ref().and_then(|detail| detail.hostname.clone());
                let state = shape::AddressState { ready: endpoint.conditions.ready, hostname };
                shape::add_flat(&mut flat, endpoint.address, ports, &state);
            }
        }
    }
    shape::group(&flat)
}

pub(crate) fn by_family(groups: Vec<(PortSet, Vec<Endpoint>)>) -> BTreeMap<(Family, PortSet), Vec<Endpoint>> {
    let mut slices = BTreeMap::new();
    for (ports, mut endpoints) in groups {
        let v6 = endpoints.split_off(endpoints.partition_point(|endpoint| endpoint.address.is_ipv4()));
        for (family, endpoints) in [(Family::V4, endpoints), (Family::V6, v6)] {
            if !endpoints.is_empty() {
                slices.insert((family, ports.clone()), endpoints);
            }
        }
    }
    slices
}
