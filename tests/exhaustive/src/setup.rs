//! What a small world is made of: its backends, what happens in their sources, and what may go wrong.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use gimbal_kubernetes_objects::Kind;
use gimbal_model::{
    BackendName, Conditions, Endpoint, EndpointPort, Header, PortSet, Protocol, Service, ServicePort, SourceKey,
    TargetKey, service_name,
};
use gimbal_reconcile::Policy;

/// A world, before anything happens in it.
#[derive(Debug, Clone)]
pub struct Setup {
    /// For people.
    pub name: &'static str,
    /// Two of them at most, or there is too much to see.
    pub backends: Vec<Backend>,
    /// What may go wrong: at most one of these on each path.
    pub troubles: Vec<Trouble>,
    /// How often time may pass on a path, besides at its end.
    pub waits: u8,
    /// The sources' state is in the Gimbal cluster at the beginning. Otherwise that is empty, and nobody is connected.
    pub filled: bool,
    /// So little is missing at any moment that nothing may be held.
    pub everyday: bool,
}

/// A backend.
#[derive(Debug, Clone)]
pub struct Backend {
    /// Its name.
    pub name: BackendName,
    /// Its policy.
    pub policy: Policy,
    /// What its source has at the beginning.
    pub has: Vec<(SourceKey, Offer)>,
    /// What happens there, in order; `None`: the Service is gone.
    pub script: Vec<(SourceKey, Option<Offer>)>,
}

/// A Service of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offer {
    /// The value of a label.
    pub label: u8,
    /// Its endpoints, and whether they are ready.
    pub hosts: BTreeMap<u8, bool>,
    /// It has two ports of one name, which no API server takes.
    pub invalid: bool,
}

/// What may go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// A stream ends, and what was on its way is lost.
    Cut(usize),
    /// As that, but what was on its way to the writer arrives by and by.
    HalfOpen(usize),
    /// An agent loses its memory.
    KillAgent(usize),
    /// The writer loses its memory, and what it has not sent is never sent. It takes its own lease back.
    KillWriter,
    /// Another process takes the lease; writes of the one before arrive by and by, or never.
    OtherWriter,
    /// The lease was not renewed in time; the same process has it again by and by.
    LateLease,
    /// A write is carried out, and its answer lost.
    LostAnswer,
    /// A write fails once.
    FailedWrite,
    /// What is to be kept of a backend is not kept, once.
    FailedKeep,
    /// What is to be kept of a backend is never kept.
    RefusedKeep(usize),
    /// The Gimbal cluster is as it was at the beginning.
    PutBack,
    /// A namespace of a source cannot be seen for a while.
    Unknown(usize, &'static str),
    /// Writes of one kind for one backend are refused. For good, or until all else is done.
    Refused {
        /// Whose.
        backend: usize,
        /// Which.
        writes: Writes,
        /// For good.
        for_good: bool,
    },
    /// Whatever is changed for one backend meets a conflict, for good.
    Conflicts(usize),
    /// Time passes while something is under way.
    Pause,
}

/// Writes that a policy of the Gimbal cluster may refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// Of Services that are there.
    ServiceChanges,
    /// Of Services that are not.
    NewServices,
    /// Of slices that are not there.
    NewSlices,
    /// Of all that is there.
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
    /// A backend under a policy.
    #[must_use]
    pub fn new(name: &str, policy: Policy) -> Self {
        let name = BackendName::parse(name).unwrap_or_else(|error| panic!("{error}"));
        Self { name, policy, has: Vec::new(), script: Vec::new() }
    }

    /// Its source has this at the beginning.
    #[must_use]
    pub fn has(mut self, key: (&str, &str), offer: Offer) -> Self {
        self.has.push((SourceKey::new(key.0, key.1), offer));
        self
    }

    /// Then this.
    #[must_use]
    pub fn then(mut self, key: (&str, &str), offer: impl Into<Option<Offer>>) -> Self {
        self.script.push((SourceKey::new(key.0, key.1), offer.into()));
        self
    }

    /// Where its policy wants a Service.
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
    /// Its header is another.
    #[must_use]
    pub fn label(self, label: u8) -> Self {
        Self { label, ..self }
    }

    /// It cannot be written.
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
