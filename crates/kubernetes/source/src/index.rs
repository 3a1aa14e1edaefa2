//! Services joined with their endpoints, kept up to date event by event.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use gimbal_kubernetes_objects::{self as objects, keys};
use gimbal_model::{Endpoints, Header, PortGroup, PortSet, Service, SourceKey};

use crate::header::header;
use crate::part::{Part, best};
use crate::pool::Pools;
use crate::relist::Listing;
use crate::selection::{Flavour, Selection};
use crate::skip::{Skip, Tally};

/// The Services of a Kubernetes source.
///
/// Events may come in any order and more than once; the outcome depends only on the last state of each object. An event
/// costs no more than the size of the Service it belongs to.
#[derive(Debug)]
pub struct KubernetesIndex {
    pub(crate) selection: Selection,
    pub(crate) entries: HashMap<SourceKey, Entry>,
    /// The Service of each slice: a delete names the slice alone, and a slice's label may change.
    pub(crate) owners: HashMap<SourceKey, SourceKey>,
    pub(crate) services: Listing,
    pub(crate) parts: Listing,
    touched: BTreeSet<SourceKey>,
    tally: Tally,
    pools: Pools,
    parts_current: bool,
}

/// What is known of one Service. Slices may be here before their Service.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) service: Option<Held>,
    /// By slice name, in order.
    pub(crate) parts: Vec<HeldPart>,
    offered: bool,
}

#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) epoch: u32,
    pub(crate) header: Result<Arc<Header>, Skip>,
    pub(crate) bad_ports: u64,
    /// It has a session affinity, which is not carried.
    pub(crate) affinity: bool,
}

#[derive(Debug)]
pub(crate) struct HeldPart {
    pub(crate) name: Arc<str>,
    pub(crate) epoch: u32,
    pub(crate) part: Part,
}

impl KubernetesIndex {
    /// An index that has seen nothing.
    #[must_use]
    pub fn new(selection: Selection) -> Self {
        Self {
            selection,
            entries: HashMap::new(),
            owners: HashMap::new(),
            services: Listing::default(),
            parts: Listing::default(),
            touched: BTreeSet::new(),
            tally: Tally::default(),
            pools: Pools::new(),
            parts_current: true,
        }
    }

    /// A Service is there, or changed. One that is being deleted counts until it is gone.
    pub fn apply_service(&mut self, service: objects::Service) {
        let key = self.key(&service.metadata);
        let (header, bad_ports, affinity) = match self.selection.against_service(&service) {
            Some(skip) => (Err(skip), 0, false),
            None => {
                let affinity = service.spec.session_affinity.as_deref().is_some_and(|affinity| affinity != "None");
                let (header, bad_ports) = header(service, &mut self.pools);
                (Ok(Arc::new(header)), bad_ports, affinity)
            }
        };
        let epoch = self.services.epoch();
        if let Some(held) = self.entries.get_mut(&key).and_then(|entry| entry.service.as_mut())
            && held.header == header
            && (held.bad_ports, held.affinity) == (bad_ports, affinity)
        {
            held.epoch = epoch;
            return;
        }
        let new = Held { epoch, header, bad_ports, affinity };
        new.tally(|skip, count| self.tally.add(skip, count));
        let old = self.entries.entry(key.clone()).or_default().service.replace(new);
        if let Some(old) = old {
            old.tally(|skip, count| self.tally.subtract(skip, count));
        }
        self.touched.insert(key);
    }

    /// A Service is gone.
    pub fn delete_service(&mut self, namespace: &str, name: &str) {
        self.remove_service(&SourceKey::new(namespace, name));
    }

    /// A slice is there, or changed.
    pub fn apply_slice(&mut self, slice: objects::EndpointSlice) {
        if self.ignores(Flavour::Slices, &slice.metadata.namespace) {
            return;
        }
        let key = self.key(&slice.metadata);
        match slice.metadata.labels.get(keys::SERVICE_NAME) {
            None => self.remove_part(&key),
            Some(service) => {
                let service = SourceKey { namespace: key.namespace.clone(), name: service.clone() };
                let part = Part::of_slice(slice, &mut self.pools);
                self.put_part(key, service, part);
            }
        }
    }

    /// A slice is gone.
    pub fn delete_slice(&mut self, namespace: &str, name: &str) {
        self.remove_part(&SourceKey::new(namespace, name));
    }

    /// Endpoints are there, or changed.
    pub fn apply_endpoints(&mut self, endpoints: objects::Endpoints) {
        if self.ignores(Flavour::Endpoints, &endpoints.metadata.namespace) {
            return;
        }
        let key = self.key(&endpoints.metadata);
        let part = Part::of_endpoints(endpoints, &mut self.pools);
        self.put_part(key.clone(), key, part);
    }

    /// Endpoints are gone.
    pub fn delete_endpoints(&mut self, namespace: &str, name: &str) {
        self.remove_part(&SourceKey::new(namespace, name));
    }

    /// Whether slices are being heard of. While they are not, a Service that was not offered yet and has no slices is
    /// held back: that it has none is not known. What is offered already stays as it is.
    pub fn set_slices_current(&mut self, current: bool) {
        self.parts_current = current;
    }

    /// Services and slices have each been listed once.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.services.is_complete() && self.parts.is_complete()
    }

    /// The Services touched since the last call, in order, with their newest state; `None` is one that is not, or no
    /// longer, offered. Nothing before the source [is complete](Self::is_complete).
    pub fn drain(&mut self) -> Vec<(SourceKey, Option<Arc<Service>>)> {
        if !self.is_complete() {
            return Vec::new();
        }
        let mut drained = Vec::new();
        for key in std::mem::take(&mut self.touched) {
            let Some(entry) = self.entries.get_mut(&key) else {
                drained.push((key, None));
                continue;
            };
            let service = entry.service();
            if service.is_some() && !self.parts_current && !entry.offered && entry.parts.is_empty() {
                self.touched.insert(key);
                continue;
            }
            entry.offered = service.is_some();
            drained.push((key, service));
        }
        drained
    }

    /// How much is left out now, by reason.
    #[must_use]
    pub fn skipped(&self) -> &BTreeMap<Skip, u64> {
        self.tally.counts()
    }

    fn ignores(&self, flavour: Flavour, namespace: &str) -> bool {
        self.selection.flavour != flavour || self.selection.against_namespace(namespace).is_some()
    }

    fn key(&mut self, meta: &objects::Meta) -> SourceKey {
        SourceKey { namespace: self.pools.text(meta.namespace.clone()), name: meta.name.clone() }
    }

    pub(crate) fn remove_service(&mut self, key: &SourceKey) {
        let Some(held) = self.entries.get_mut(key).and_then(|entry| entry.service.take()) else { return };
        held.tally(|skip, count| self.tally.subtract(skip, count));
        self.forget_if_empty(key);
        self.touched.insert(key.clone());
    }

    fn put_part(&mut self, key: SourceKey, service: SourceKey, part: Part) {
        if self.owners.get(&key).is_some_and(|owner| *owner != service) {
            self.remove_part(&key);
        }
        // One copy of a key's text, whichever of Service and slice came first.
        let service = self.entries.get_key_value(&service).map_or(service, |(held, _)| held.clone());
        let epoch = self.parts.epoch();
        let parts = &mut self.entries.entry(service.clone()).or_default().parts;
        match parts.binary_search_by(|held| held.name.cmp(&key.name)) {
            Ok(at) => {
                parts[at].epoch = epoch;
                if parts[at].part == part {
                    return;
                }
                part.tally(|skip, count| self.tally.add(skip, count));
                let old = std::mem::replace(&mut parts[at].part, part);
                old.tally(|skip, count| self.tally.subtract(skip, count));
            }
            Err(at) => {
                part.tally(|skip, count| self.tally.add(skip, count));
                parts.reserve_exact(1);
                parts.insert(at, HeldPart { name: key.name.clone(), epoch, part });
                self.owners.insert(key, service.clone());
            }
        }
        self.touched.insert(service);
    }

    pub(crate) fn remove_part(&mut self, key: &SourceKey) {
        let Some(service) = self.owners.remove(key) else { return };
        if let Some(entry) = self.entries.get_mut(&service)
            && let Ok(at) = entry.parts.binary_search_by(|held| held.name.cmp(&key.name))
        {
            let old = entry.parts.remove(at);
            old.part.tally(|skip, count| self.tally.subtract(skip, count));
        }
        self.forget_if_empty(&service);
        self.touched.insert(service);
    }

    fn forget_if_empty(&mut self, key: &SourceKey) {
        if self.entries.get(key).is_some_and(|entry| entry.service.is_none() && entry.parts.is_empty()) {
            self.entries.remove(key);
        }
    }
}

impl Entry {
    /// The Service as it is offered. Where one part alone has a port set, its endpoints are shared.
    pub(crate) fn service(&self) -> Option<Arc<Service>> {
        let header = self.service.as_ref()?.header.as_ref().ok()?;
        let mut groups: BTreeMap<&PortSet, Vec<&Endpoints>> = BTreeMap::new();
        for (ports, endpoints) in self.parts.iter().flat_map(|held| &held.part.groups) {
            groups.entry(ports).or_default().push(endpoints);
        }
        let groups = groups.into_iter().map(|(ports, parts)| PortGroup {
            ports: ports.clone(),
            endpoints: match parts.as_slice() {
                [part] => (*part).clone(),
                parts => best(parts.iter().flat_map(|part| part.iter()).collect()),
            },
        });
        Some(Arc::new(Service::of_groups(header.clone(), groups)))
    }
}

impl Held {
    fn tally(&self, mut count: impl FnMut(Skip, u64)) {
        count(Skip::BadPort, self.bad_ports);
        count(Skip::SessionAffinity, self.affinity.into());
        if let Err(skip) = self.header {
            count(skip, 1);
        }
    }
}

impl Part {
    fn tally(&self, mut count: impl FnMut(Skip, u64)) {
        count(Skip::BadAddress, self.bad_addresses);
        if let Some(skip) = self.skip {
            count(skip, 1);
        }
    }
}
