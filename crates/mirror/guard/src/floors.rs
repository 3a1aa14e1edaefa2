//! What must be left of a namespace or a Service, whatever its share of the backend. Off by default.

use std::collections::BTreeMap;

use crate::GuardKey;

/// A removal that takes a namespace or a Service from this many endpoints or more to fewer is held; 0: never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Floors {
    /// Endpoints that the backend has in one namespace of the Gimbal cluster.
    pub endpoints_per_namespace: u64,
    /// Endpoints of one Service.
    pub endpoints_per_service: u64,
}

/// What waits to go from one target.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Part {
    /// Endpoints that it has.
    pub(crate) of: u64,
    /// Of those, how many are to go.
    pub(crate) loss: u64,
    /// Of those, how many wait and are not released.
    pub(crate) waiting: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Namespace {
    total: u64,
    loss: u64,
    waiting: u64,
    /// The part of `waiting` that its Services' floors hold.
    below: u64,
}

/// Sums, kept up to date with each change so that a mass change costs no more than its size.
#[derive(Debug, Clone)]
pub(crate) struct Levels<K: GuardKey> {
    floors: Floors,
    namespaces: BTreeMap<K::Group, Namespace>,
    held: u64,
}

impl<K: GuardKey> Levels<K> {
    pub(crate) fn new(floors: Floors) -> Self {
        Self { floors, namespaces: BTreeMap::new(), held: 0 }
    }

    /// Other floors, from now on. `parts` is all that waits.
    pub(crate) fn configure<'a>(&mut self, floors: Floors, parts: impl Iterator<Item = (&'a K, Part)>)
    where
        K: 'a,
    {
        self.floors = floors;
        for namespace in self.namespaces.values_mut() {
            *namespace = Namespace { total: namespace.total, ..Namespace::default() };
        }
        self.held = 0;
        for (target, part) in parts {
            self.change(target, Part::default(), part);
        }
    }

    /// The backend has so many endpoints more, or fewer, under a target.
    pub(crate) fn holds(&mut self, target: &K, before: u64, after: u64) {
        self.update(target.group(), |namespace, _| {
            namespace.total = namespace.total.saturating_sub(before) + after;
        });
    }

    /// What waits to go from a target is another number.
    pub(crate) fn change(&mut self, target: &K, old: Part, new: Part) {
        self.update(target.group(), |namespace, floors| {
            let below = |part: Part| if floors.service(part) { part.waiting } else { 0 };
            namespace.loss = namespace.loss + new.loss - old.loss;
            namespace.waiting = namespace.waiting + new.waiting - old.waiting;
            namespace.below = namespace.below + below(new) - below(old);
        });
    }

    /// Endpoints that floors hold.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Whether a floor holds what waits to go from a target.
    pub(crate) fn holds_back(&self, target: &K, part: Part) -> bool {
        let namespace = self.namespaces.get(target.group()).is_some_and(|namespace| self.floors.namespace(namespace));
        part.waiting > 0 && (namespace || self.floors.service(part))
    }

    fn update(&mut self, name: &K::Group, change: impl FnOnce(&mut Namespace, &Floors)) {
        let namespace = self.namespaces.entry(name.clone()).or_default();
        let before = self.floors.held(namespace);
        change(namespace, &self.floors);
        self.held = self.held + self.floors.held(namespace) - before;
        if namespace.total == 0 && namespace.loss == 0 {
            self.namespaces.remove(name);
        }
    }
}

impl Floors {
    fn crosses(floor: u64, of: u64, loss: u64) -> bool {
        floor > 0 && of >= floor && of.saturating_sub(loss) < floor
    }

    fn service(&self, part: Part) -> bool {
        Self::crosses(self.endpoints_per_service, part.of, part.loss)
    }

    fn namespace(&self, namespace: &Namespace) -> bool {
        Self::crosses(self.endpoints_per_namespace, namespace.total, namespace.loss)
    }

    fn held(&self, namespace: &Namespace) -> u64 {
        if self.namespace(namespace) { namespace.waiting } else { namespace.below }
    }
}
