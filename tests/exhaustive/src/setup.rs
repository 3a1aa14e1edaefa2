//! The definition of a small world: its backends, the changes in their sources, and the possible troubles.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use gimbal_kubernetes_objects::Kind;
use gimbal_model::{
    BackendName, Conditions, Endpoint, EndpointPort, Header, PortSet, Protocol, Service, ServicePort, SourceKey,
    TargetKey, service_name,
};
use gimbal_reconcile::Policy;

/// A world before anything has happened in it.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Name of the world in reports.
    pub name: &'static str,
    /// The backends; at most two, or there are too many states.
    pub backends: Vec<Backend>,
    /// The possible troubles; at most one of them happens on each path.
    pub troubles: Vec<Trouble>,
    /// How often time may pass on a path, besides at its end.
    pub waits: u8,
    /// The objects of the sources exist in the Gimbal cluster at the beginning. Otherwise it is empty and no agent is
    /// connected.
    pub filled: bool,
    /// So few endpoints are missing at any moment that the guard must hold nothing.
    pub everyday: bool,
}

/// A backend.
#[derive(Debug, Clone)]
pub struct Backend {
    /// Its name.
    pub name: BackendName,
    /// Its policy.
    pub policy: Policy,
    /// The Services in its source at the beginning.
    pub has: Vec<(SourceKey, Offer)>,
    /// The changes in its source, in order; `None` removes the Service.
    pub script: Vec<(SourceKey, Option<Offer>)>,
}

/// A Service of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offer {
    /// The value of a label.
    pub label: u8,
    /// Its endpoints, and whether they are ready.
    pub hosts: BTreeMap<u8, bool>,
    /// It has two ports with the same name, which every API server refuses.
    pub invalid: bool,
}

/// A trouble: something that may go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// A stream ends, and the messages on their way are lost.
    Cut(usize),
    /// A stream ends, and the messages on their way to the writer still arrive, one by one.
    HalfOpen(usize),
    /// An agent loses its memory.
    KillAgent(usize),
    /// The writer loses its memory, and its unsent writes are never sent. It takes its own lease again.
    KillWriter,
    /// Another process takes the lease. Writes of the previous one arrive later, or never.
    OtherWriter,
    /// The lease was not renewed in time; the same process gets it back later.
    LateLease,
    /// A write is carried out, and its answer lost.
    LostAnswer,
    /// A write fails once.
    FailedWrite,
    /// The state of a backend cannot be stored once.
    FailedKeep,
    /// The state of a backend can never be stored.
    RefusedKeep(usize),
    /// The Gimbal cluster is restored to its state at the beginning.
    PutBack,
    /// A namespace of a source cannot be seen for a while.
    Unknown(usize, &'static str),
    /// Writes of one kind for one backend are refused, for good or until everything else is done.
    Refused {
        /// Index of the backend.
        backend: usize,
        /// The refused writes.
        writes: Writes,
        /// The refusal never ends.
        for_good: bool,
    },
    /// Every replace and patch for one backend meets a conflict, forever.
    Conflicts(usize),
    /// Time passes while something is under way.
    Pause,
}

/// Writes that an admission policy of the Gimbal cluster may refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// Changes of existing Services.
    ServiceChanges,
    /// Creations of Services.
    NewServices,
    /// Creations of slices.
    NewSlices,
    /// Changes of all existing objects.
    All,
}

impl Writes {
    pub(crate) fn include(self, create: bool, kind: Kind) -> bool {
        match self {
            Self::ServiceChanges => !create && kind.kind == "Service",
            Self::NewServices => create && kind.kind == "Service",
            Self::NewSlices => create && kind.kind == "EndpointSlice",
            Self::All => !create,
        }
    }
}

impl Backend {
    /// Returns a backend with this policy and an empty source.
    #[must_use]
    pub fn new(name: &str, policy: Policy) -> Self {
        let name = BackendName::parse(name).unwrap_or_else(|error| panic!("{error}"));
        Self { name, policy, has: Vec::new(), script: Vec::new() }
    }

    /// Adds a Service that the source has at the beginning.
    #[must_use]
    pub fn has(mut self, key: (&str, &str), offer: Offer) -> Self {
        self.has.push((SourceKey::new(key.0, key.1), offer));
        self
    }

    /// Adds the next change of the source.
    #[must_use]
    pub fn then(mut self, key: (&str, &str), offer: impl Into<Option<Offer>>) -> Self {
        self.script.push((SourceKey::new(key.0, key.1), offer.into()));
        self
    }

    /// Returns the target of a Service under the backend's policy.
    pub(crate) fn target(&self, key: &SourceKey) -> TargetKey {
        let map = &self.policy.namespaces.map;
        let namespace = map.get(&*key.namespace).map_or_else(|| key.namespace.clone(), |to| to.as_str().into());
        TargetKey::new(namespace, service_name(&self.name, &key.name))
    }
}

/// A Service with ready endpoints.
#[must_use]
pub fn hosts(hosts: &[u8]) -> Offer {
    Offer { hosts: hosts.iter().map(|host| (*host, true)).collect(), ..Offer::default() }
}

impl Offer {
    /// Changes the header.
    #[must_use]
    pub fn label(self, label: u8) -> Self {
        Self { label, ..self }
    }

    /// Makes the Service invalid, so that it cannot be written.
    #[must_use]
    pub fn invalid(self) -> Self {
        Self { invalid: true, ..self }
    }

    pub(crate) fn service(&self) -> Arc<Service> {
        let port = |name: &str, number| ServicePort {
            name: name.into(),
            port: number,
            protocol: Protocol::Tcp,
            app_protocol: None,
            target_port: None,
        };
        let mut ports = vec![port("http", 80)];
        if self.invalid {
            ports.push(port("http", 81));
        }
        let labels = [("label".into(), self.label.to_string().into())].into();
        let header = Header { labels, annotations: BTreeMap::new(), ports };
        let listens = PortSet::new(vec![EndpointPort {
            name: "http".into(),
            port: Some(8080),
            protocol: Protocol::Tcp,
            app_protocol: None,
        }]);
        let endpoints = self.hosts.iter().map(|(host, ready)| {
            let conditions = if *ready { Conditions::READY } else { Conditions::NOT_READY };
            (listens.clone(), Endpoint { address: address(*host), conditions, detail: None })
        });
        Arc::new(Service::new(Arc::new(header), endpoints))
    }
}

pub(crate) fn address(host: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, host])
}
