//! The Services that the sources offer, how they change, and how their policies affect them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use gimbal_model::{
    AddressRules, BackendName, Conditions, Endpoint, EndpointPort, Header, PortSet, Protocol, Service, ServicePort,
    SourceKey, TargetKey, service_name,
};
use gimbal_reconcile::{LossPolicy, NamespacePolicy, Policy};

use crate::Plan;
use crate::random::Random;

/// One source Service. `there` says whether it exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) there: bool,
    pub(crate) version: usize,
    pub(crate) port: u16,
    /// The hosts that it has, and whether each is ready.
    pub(crate) hosts: BTreeMap<u8, bool>,
}

/// The sources of all backends.
#[derive(Debug)]
pub(crate) struct Sources {
    services: usize,
    hosts: u8,
    offers: Vec<Vec<Offer>>,
    pub(crate) changes: u64,
}

/// The special feature of a backend's policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    /// The policy allows some addresses only.
    Addresses,
    /// The backend's namespaces are mapped to one that is created.
    Mapped,
    /// The endpoints become not ready when the backend is lost.
    NotReady,
    /// The endpoints are removed when the backend is lost.
    Drains,
}

fn kind(backend: usize) -> Kind {
    match backend % 8 {
        3 => Kind::Addresses,
        5 => Kind::Mapped,
        6 => Kind::NotReady,
        7 => Kind::Drains,
        _ => Kind::Plain,
    }
}

/// Whether the endpoints of the backend stay unchanged when it is lost.
pub(crate) fn keeps_endpoints(backend: usize) -> bool {
    kind(backend) != Kind::Drains
}

pub(crate) fn name(backend: usize) -> BackendName {
    let text = format!("node{backend:04}");
    BackendName::parse(&text).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn key(backend: usize, service: usize) -> SourceKey {
    let namespace = match kind(backend) {
        Kind::Mapped => "app".to_owned(),
        _ => format!("team{}", (backend * 7 + service) % 40),
    };
    // A name that must be shortened, while others need not.
    let long =
        if backend.is_multiple_of(5) && service == 0 { "-with-a-name-that-is-longer-than-others-have-it" } else { "" };
    SourceKey::new(namespace, format!("service{service}{long}"))
}

/// Returns the target of a Service under its backend's policy.
pub(crate) fn target(backend: usize, service: usize) -> TargetKey {
    let key = key(backend, service);
    let namespace = match kind(backend) {
        Kind::Mapped => format!("own{backend}").into(),
        _ => key.namespace,
    };
    TargetKey::new(namespace, service_name(&name(backend), &key.name))
}

/// Whether the policy reacts to a loss of the backend. If so, the time of the loss is stored.
pub(crate) fn follows_loss(backend: usize) -> bool {
    matches!(kind(backend), Kind::NotReady | Kind::Drains)
}

/// Returns the namespaces that exist from the start.
pub(crate) fn namespaces() -> impl Iterator<Item = String> {
    (0..40).map(|number| format!("team{number}"))
}

pub(crate) fn policies(backends: usize) -> BTreeMap<BackendName, Policy> {
    (0..backends).map(|backend| (name(backend), policy(backend))).collect()
}

fn policy(backend: usize) -> Policy {
    let mut policy = Policy::default();
    match kind(backend) {
        Kind::Plain => {}
        Kind::Addresses => {
            policy.addresses = AddressRules { allowed: Some(vec![allowed()]), ..AddressRules::default() }
        }
        Kind::Mapped => {
            let map = [("app".to_owned(), format!("own{backend}"))].into();
            policy.namespaces = NamespacePolicy { map, create: true, ..NamespacePolicy::default() };
        }
        Kind::NotReady | Kind::Drains => {
            let drain_after = (kind(backend) == Kind::Drains).then_some(Duration::from_secs(90));
            let not_ready_after = Some(Duration::from_secs(60));
            policy.on_loss = LossPolicy { not_ready_after, drain_after, source_stale_after: None };
        }
    }
    policy
}

fn allowed() -> ipnet::IpNet {
    ipnet::Ipv4Net::new_assert([10, 0, 0, 0].into(), 8).into()
}

pub(crate) fn address(backend: usize, service: usize, host: u8) -> IpAddr {
    let byte = |number: usize| u8::try_from(number % 256).unwrap_or(0);
    // Host 1 of each Service has an address that some policies refuse.
    let net = if host == 1 { [192, 168] } else { [10, byte(backend >> 8)] };
    IpAddr::from([net[0], net[1], byte(backend), byte(service * 16) + host])
}

/// Whether the backend's policy allows the address of a host.
pub(crate) fn is_let_through(backend: usize, host: u8) -> bool {
    kind(backend) != Kind::Addresses || host != 1
}

/// Returns the ports of a Service: name, number, and the number at which its endpoints listen, counted from `base`.
pub(crate) fn ports(service: usize, base: u16) -> Vec<(&'static str, u16, u16)> {
    let both = [("http", 80, base), ("admin", 81, base + 1)];
    both[..if service % 4 == 3 { 2 } else { 1 }].to_vec()
}

/// The Services of one backend's source that have changed.
pub(crate) struct Changed {
    pub(crate) backend: usize,
    pub(crate) services: Vec<usize>,
}

impl Sources {
    pub(crate) fn new(plan: &Plan) -> Self {
        let hosts = (0..plan.endpoints).map(|host| (host, true)).collect();
        let offer = Offer { there: true, version: 0, port: 8080, hosts };
        Self {
            services: plan.services,
            hosts: plan.endpoints,
            offers: vec![vec![offer; plan.services]; plan.backends],
            changes: 0,
        }
    }

    pub(crate) fn offers(&self) -> impl Iterator<Item = (usize, usize, &Offer)> {
        let each = |(backend, offers)| Iterator::map(IntoIterator::into_iter(offers), move |o| (backend, o));
        let all = self.offers.iter().enumerate().flat_map(move |(b, offers)| each((b, offers.iter().enumerate())));
        all.map(|(backend, (service, offer))| (backend, service, offer))
    }

    pub(crate) fn offer(&self, backend: usize, service: usize) -> &Offer {
        &self.offers[backend][service]
    }

    pub(crate) fn services(&self) -> usize {
        self.services
    }

    /// Returns a Service as an agent reads it; `None` if it does not exist.
    pub(crate) fn service(&self, backend: usize, service: usize) -> Option<Arc<Service>> {
        let offer = self.offer(backend, service);
        offer.there.then(|| render(backend, service, offer))
    }

    /// Changes a random source.
    pub(crate) fn change(&mut self, random: &mut Random) -> Changed {
        let backend = random.below(self.offers.len());
        let services = match random.below(200) {
            // All Services disappear, or all are back. The guard holds such a removal until a person approves it.
            0 => {
                let there = !self.offers[backend].iter().any(|offer| offer.there);
                self.offers[backend].iter_mut().for_each(|offer| offer.there = there);
                (0..self.services).collect()
            }
            _ => {
                let service = random.below(self.services);
                self.change_one(backend, service, random);
                vec![service]
            }
        };
        self.changes += services.len() as u64;
        Changed { backend, services }
    }

    fn change_one(&mut self, backend: usize, service: usize, random: &mut Random) {
        let host = u8::try_from(random.below(self.hosts.into())).unwrap_or(0);
        let offer = &mut self.offers[backend][service];
        match random.below(20) {
            0..8 => {
                if let Some(ready) = offer.hosts.get_mut(&host) {
                    *ready = !*ready;
                }
            }
            8..15 => {
                if offer.hosts.remove(&host).is_none() {
                    offer.hosts.insert(host, true);
                }
            }
            15 | 16 => offer.version += 1,
            17 => offer.port = 8080 + u16::from(offer.port == 8080),
            _ => offer.there = !offer.there,
        }
    }

    /// Sets every source to its final state, which does not depend on the earlier ones: the last Service of each is
    /// gone.
    pub(crate) fn end(&mut self) -> Vec<Changed> {
        let mut changed = Vec::new();
        for (backend, offers) in self.offers.iter_mut().enumerate() {
            let mut services = Vec::new();
            for (service, offer) in offers.iter_mut().enumerate() {
                let left_out = (backend + service) % usize::from(self.hosts);
                let hosts = (0..self.hosts).filter(|host| usize::from(*host) != left_out).map(|host| (host, true));
                let last = Offer {
                    there: service + 1 < self.services,
                    version: usize::MAX,
                    port: 8080,
                    hosts: hosts.collect(),
                };
                if std::mem::replace(offer, last.clone()) != last {
                    services.push(service);
                }
            }
            self.changes += services.len() as u64;
            changed.push(Changed { backend, services });
        }
        changed
    }
}

fn render(backend: usize, service: usize, offer: &Offer) -> Arc<Service> {
    let ports = ports(service, offer.port);
    let header = Header {
        labels: [("version".into(), offer.version.to_string().into())].into(),
        annotations: [("note".into(), "kept".into()), ("cert-manager.io/issuer".into(), "left out".into())].into(),
        ports: ports
            .iter()
            .map(|(name, port, _)| ServicePort {
                name: (*name).into(),
                port: *port,
                protocol: Protocol::Tcp,
                app_protocol: None,
                target_port: None,
            })
            .collect(),
    };
    let set = PortSet::new(
        ports
            .iter()
            .map(|(name, _, port)| EndpointPort {
                name: (*name).into(),
                port: Some(*port),
                protocol: Protocol::Tcp,
                app_protocol: None,
            })
            .collect(),
    );
    let endpoints = offer.hosts.iter().map(|(host, ready)| {
        let conditions = if *ready { Conditions::READY } else { Conditions::NOT_READY };
        (set.clone(), Endpoint { address: address(backend, service, *host), conditions, detail: None })
    });
    Arc::new(Service::new(Arc::new(header), endpoints))
}
