//! What the watches on the Gimbal cluster showed besides the targets' own objects: namespaces, which target each
//! slice belongs to, and which kinds have been listed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use gimbal_kubernetes_objects::{EndpointSlice, Endpoints, Kind, Object as _, Service};
use gimbal_model::TargetKey;

use crate::creation::Creations;

/// A kind that is watched in the Gimbal cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Watched {
    /// Services with our mark.
    Services,
    /// `EndpointSlices` with our mark.
    Slices,
    /// `Endpoints` with our mark.
    Endpoints,
    /// All namespaces.
    Namespaces,
}

impl Watched {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Services, Self::Slices, Self::Endpoints, Self::Namespaces];

    fn of(kind: Kind) -> Self {
        match kind {
            Service::KIND => Self::Services,
            EndpointSlice::KIND => Self::Slices,
            Endpoints::KIND => Self::Endpoints,
            _ => Self::Namespaces,
        }
    }

    /// Returns the kind of object. `None` for namespaces, which belong to no target.
    pub(crate) fn kind(self) -> Option<Kind> {
        match self {
            Self::Services => Some(Service::KIND),
            Self::Slices => Some(EndpointSlice::KIND),
            Self::Endpoints => Some(Endpoints::KIND),
            Self::Namespaces => None,
        }
    }
}

/// How many lists of each kind had begun at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ListsBegun([u64; Watched::ALL.len()]);

/// What the watches showed.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchedCluster {
    begun: ListsBegun,
    /// The kinds for which a list began, and for which one was completed, since the process started or since
    /// everything had to be listed again.
    asked: [bool; Watched::ALL.len()],
    done: [bool; Watched::ALL.len()],
    /// The namespaces that exist and are not being deleted.
    namespaces: BTreeSet<Arc<str>>,
    /// The namespaces that neither the list that began last nor an event since then has named.
    unlisted: BTreeSet<Arc<str>>,
    /// Missing namespaces that may be created.
    creations: Creations,
    /// The target that each slice belongs to, by the slice's namespace and name.
    slices: HashMap<(Arc<str>, Arc<str>), TargetKey>,
}

impl WatchedCluster {
    /// Whether every kind has been listed, since the start and since the cluster's store was found to be restored to
    /// an older state. Before that, nothing is decided.
    pub(crate) fn is_listed(&self) -> bool {
        self.done.iter().all(|done| *done)
    }

    pub(crate) fn lists_begun(&self) -> ListsBegun {
        self.begun
    }

    /// Whether a list of a kind began since `then`.
    pub(crate) fn list_began_since(&self, then: ListsBegun, kind: Kind) -> bool {
        let kind = Watched::of(kind) as usize;
        self.begun.0[kind] != then.0[kind]
    }

    /// A list of a kind begins.
    pub(crate) fn list_begin(&mut self, kind: Watched) {
        self.begun.0[kind as usize] += 1;
        self.asked[kind as usize] = true;
        if kind == Watched::Namespaces {
            self.unlisted.clone_from(&self.namespaces);
        }
    }

    /// A list of a kind is complete. If it is of namespaces, those that it did not name are gone.
    pub(crate) fn list_end(&mut self, kind: Watched) {
        self.done[kind as usize] |= self.asked[kind as usize];
        if kind == Watched::Namespaces {
            let gone = std::mem::take(&mut self.unlisted);
            self.namespaces.retain(|name| !gone.contains(name));
        }
    }

    /// Requires every kind to be listed again.
    pub(crate) fn forget_lists(&mut self) {
        (self.asked, self.done) = Default::default();
    }

    /// Whether a namespace exists and is not being deleted.
    pub(crate) fn has_namespace(&self, name: &str) -> bool {
        self.namespaces.contains(name)
    }

    /// Applies what a watch shows of a namespace. Returns whether Services can be created in it that could not before.
    pub(crate) fn apply_namespace(&mut self, name: &Arc<str>, being_deleted: bool) -> bool {
        self.unlisted.remove(name);
        if being_deleted {
            self.namespaces.remove(name);
            return false;
        }
        let new = self.namespaces.insert(name.clone());
        if new {
            self.creations.remove(name);
        }
        new
    }

    /// A namespace is gone.
    pub(crate) fn delete_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
        self.creations.remove(name);
    }

    /// Returns the creations of missing namespaces.
    pub(crate) fn creations(&mut self) -> &mut Creations {
        &mut self.creations
    }

    /// See [`Creations::is_creatable`].
    pub(crate) fn is_creatable(&self, namespace: &str) -> bool {
        self.creations.is_creatable(namespace)
    }

    /// See [`Creations::why_missing`].
    pub(crate) fn why_missing(&self, namespace: &str) -> String {
        self.creations.why_missing(namespace)
    }

    /// Returns the target that a known slice belongs to.
    pub(crate) fn target_of_slice(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<&TargetKey> {
        self.slices.get(&(namespace.clone(), name.clone()))
    }

    /// Records the target that a slice belongs to.
    pub(crate) fn put_slice(&mut self, namespace: &Arc<str>, name: &Arc<str>, target: &TargetKey) {
        self.slices.insert((namespace.clone(), name.clone()), target.clone());
    }

    /// Forgets a slice.
    pub(crate) fn remove_slice(&mut self, namespace: &Arc<str>, name: &str) {
        self.slices.remove(&(namespace.clone(), name.into()));
    }
}
