//! Minimum number of endpoints of a namespace or a Service, whatever its share of the backend. Off by default.

use std::collections::BTreeMap;

use crate::GuardKey;

/// A removal that takes a namespace or a Service from at least this many endpoints to fewer is held; 0 disables the
/// floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Floors {
    /// Floor for the endpoints of the backend in one namespace of the Gimbal cluster.
    pub endpoints_per_namespace: u64,
    /// Floor for the endpoints of one Service.
    pub endpoints_per_service: u64,
}

/// The pending loss of one target.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TargetSums {
    /// Endpoints that the target has.
    pub(crate) of: u64,
    /// Endpoints of these that are to be removed.
    pub(crate) loss: u64,
    /// Endpoints of `loss` that are not released.
    pub(crate) waiting: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Namespace {
    total: u64,
    loss: u64,
    waiting: u64,
    /// The part of `waiting` that the floors of Services hold.
    below: u64,
}

/// Sums for each namespace, updated with each change, so that a mass change costs no more than its size.
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

    /// Replaces the floors. `parts` are the pending losses of all targets.
    pub(crate) fn configure<'a>(&mut self, floors: Floors, parts: impl Iterator<Item = (&'a K, TargetSums)>)
    where
        K: 'a,
    {
        self.floors = floors;
        for namespace in self.namespaces.values_mut() {
            *namespace = Namespace { total: namespace.total, ..Namespace::default() };
        }
        self.held = 0;
        for (target, part) in parts {
            self.change(target, TargetSums::default(), part);
        }
    }

    /// Records that the target's endpoint count went from `before` to `after`.
    pub(crate) fn holds(&mut self, target: &K, before: u64, after: u64) {
        self.update(target.group(), |namespace, _| {
            namespace.total = namespace.total.saturating_sub(before) + after;
        });
    }

    /// Records that the target's pending loss changed from `old` to `new`.
    pub(crate) fn change(&mut self, target: &K, old: TargetSums, new: TargetSums) {
        self.update(target.group(), |namespace, floors| {
            let below = |part: TargetSums| if floors.service(part) { part.waiting } else { 0 };
            namespace.loss = namespace.loss + new.loss - old.loss;
            namespace.waiting = namespace.waiting + new.waiting - old.waiting;
            namespace.below = namespace.below + below(new) - below(old);
        });
    }

    /// Returns how many endpoints the floors hold.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Returns whether a floor holds the target's pending loss.
    pub(crate) fn holds_back(&self, target: &K, part: TargetSums) -> bool {
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

    fn service(&self, part: TargetSums) -> bool {
        Self::crosses(self.endpoints_per_service, part.of, part.loss)
    }

    fn namespace(&self, namespace: &Namespace) -> bool {
        Self::crosses(self.endpoints_per_namespace, namespace.total, namespace.loss)
    }

    fn held(&self, namespace: &Namespace) -> u64 {
        if self.namespace(namespace) { namespace.waiting } else { namespace.below }
    }
}
