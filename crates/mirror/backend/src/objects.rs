//! The Backends that a cluster has, and what of them is in force.
//!
//! One object that cannot be used stops no other: the last spec that could be used stays in force, and the object has a
//! [`BackendProblem`]. A backend leaves only when somebody deleted its object: what goes with the definition, or with a list that is
//! suddenly empty, stays as it was known. One that is being deleted
//! stays for as long as its object is there.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gimbal_model::BackendName;

use crate::status::IDENTITY_TAKEN;
use crate::{
    BackendAnswer, BackendOrder, BackendResource, BackendResourceStatus, BackendSpec, ConditionType, InvalidSpec,
    RemovalPhase,
};

/// Why what an object says is not in force.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackendProblem {
    /// Its spec cannot be used.
    #[error(transparent)]
    Spec(#[from] InvalidSpec),
    /// A certificate with this identity would be that of two backends.
    #[error("spec.identity: backend {0} has the same: each needs its own")]
    Identity(BackendName),
}

/// Whether an object is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    There,
    /// It is gone, and it is not known yet whether its definition went, too.
    Missing,
    /// It went without being deleted.
    Kept,
}

#[derive(Debug)]
struct Entry {
    uid: Arc<str>,
    resource_version: Arc<str>,
    /// Names of those who must be done before it goes.
    finalizers: Vec<Arc<str>>,
    is_leaving: bool,
    generation: i64,
    created: Option<Arc<str>>,
    spec: Result<Arc<BackendSpec>, InvalidSpec>,
    /// The backend that has the identity of the spec.
    conflict: Option<BackendName>,
    /// What is in force: the spec, or the last one that could be.
    in_force: Option<Arc<BackendSpec>>,
    /// What the writer said of it last.
    status: Option<BackendResourceStatus>,
    /// What its annotations decide.
    orders: BTreeMap<BackendOrder, String>,
    /// Annotations that were taken away and whose answers its status still has. One that is set again counts once that is gone, however
    /// soon it came.
    taken_back: BTreeSet<BackendOrder>,
    /// UID of the definition by which it was read.
    definition: Arc<str>,
    presence: Presence,
}

impl Entry {
    /// Whether another one had its identity when its status was written.
    fn was_refused(&self) -> bool {
        let conditions = self.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|one| one.type_ == ConditionType::Stalled && one.reason == IDENTITY_TAKEN)
    }

    /// Whether nothing of it was left before its object went, so that nothing of it has to be kept.
    fn is_removed(&self) -> bool {
        let removal = self.status.as_ref().and_then(|status| status.removal.as_ref());
        self.is_leaving && removal.is_some_and(|removal| removal.phase == RemovalPhase::Removed)
    }
}

/// A backend as its object is known.
#[derive(Debug, Clone)]
pub struct KnownObject<'a> {
    /// UID of the object.
    pub uid: &'a str,
    /// Generation of its spec.
    pub generation: i64,
    /// What is in force of it.
    pub in_force: Option<&'a BackendSpec>,
    /// Why that is not its spec.
    pub problem: Option<BackendProblem>,
    /// What the writer said of it last.
    pub status: Option<&'a BackendResourceStatus>,
    /// What its annotations decide, and the values of these.
    pub orders: &'a BTreeMap<BackendOrder, String>,
    /// Whether the backend stays although its object is not there.
    pub is_kept: bool,
    /// Whether its object is being deleted.
    pub is_leaving: bool,
    /// Version of the object.
    pub resource_version: &'a str,
    /// Names of those who must be done before the object goes.
    pub finalizers: &'a [Arc<str>],
}

/// The Backends of a cluster. Events of a watch go in; [`BackendObjects::known`] is what follows from them.
#[derive(Debug, Default)]
pub struct BackendObjects {
    entries: BTreeMap<BackendName, Entry>,
    /// UID of the definition by which objects are read now.
    definition: Arc<str>,
    /// The list that is being read.
    list: Option<OpenList>,
    /// How often the cluster's store was put back to an older state.
    restorations: u64,
}

#[derive(Debug)]
struct OpenList {
    /// Who was known before and has not been listed.
    unlisted: BTreeSet<BackendName>,
    /// Whether it is empty so far.
    is_empty: bool,
}

impl BackendObjects {
    /// Begins a list, by the definition that has this UID.
    pub fn list_begin(&mut self, definition: &str) {
        self.definition = definition.into();
        let there = self.entries.iter().filter(|(_, entry)| entry.presence != Presence::Kept);
        let unlisted = there.map(|(name, _)| name.clone()).collect();
        self.list = Some(OpenList { unlisted, is_empty: true });
    }

    /// Takes an object that is listed, new or changed.
    ///
    /// # Errors
    /// Returns why its name is not a backend's. It is not known then.
    pub fn apply(&mut self, object: &BackendResource) -> Result<(), InvalidSpec> {
        let name = object.name()?;
        if let Some(list) = &mut self.list {
            list.is_empty = false;
            list.unlisted.remove(&name);
        }
        let meta = &object.metadata;
        // Another object of this name begins anew, unless the one before went without being deleted.
        let is_same = |entry: &Entry| entry.uid == meta.meta.uid || entry.presence == Presence::Kept;
        let before = self.entries.remove(&name).filter(is_same);
        let mut orders = BackendOrder::among(&meta.meta.annotations);
        let was_taken_back = before.as_ref().map_or_else(BTreeSet::new, |entry| entry.taken_back.clone());
        let answers = object.status.iter().flat_map(|status| &status.answers);
        let taken_back: BTreeSet<BackendOrder> = answers
            .filter_map(BackendAnswer::order)
            .filter(|order| !orders.contains_key(order) || was_taken_back.contains(order))
            .collect();
        orders.retain(|order, _| !taken_back.contains(order));
        let in_force = before.and_then(|entry| entry.in_force);
        let entry = Entry {
            uid: meta.meta.uid.clone(),
            resource_version: meta.meta.resource_version.clone(),
            finalizers: meta.finalizers.clone(),
            is_leaving: meta.is_being_deleted(),
            generation: meta.generation,
            created: meta.creation_timestamp.clone(),
            spec: object.read_spec().map(Arc::new),
            conflict: None,
            in_force,
            status: object.status.clone(),
            orders,
            taken_back,
            definition: self.definition.clone(),
            presence: Presence::There,
        };
        self.entries.insert(name, entry);
        // The order of a list says nothing about whose an identity is.
        if self.list.is_none() {
            self.settle();
        }
        Ok(())
    }

    /// Ends a list. Whether what it lacks was deleted is known after [`BackendObjects::definition_is`].
    pub fn list_end(&mut self) {
        // That everything was deleted at once is the least likely of what an empty list can mean.
        let Some(OpenList { unlisted, is_empty }) = self.list.take() else { return };
        for name in unlisted {
            if let Some(entry) = self.entries.get_mut(&name) {
                let is_kept = is_empty && !entry.is_removed();
                entry.presence = if is_kept { Presence::Kept } else { Presence::Missing };
            }
        }
        self.settle();
    }

    /// Takes an object that is gone. Whether it was deleted is known after [`BackendObjects::definition_is`].
    pub fn gone(&mut self, object: &BackendResource) {
        let meta = &object.metadata.meta;
        let entry = object.name().ok().and_then(|name| self.entries.get_mut(&name));
        if let Some(entry) = entry.filter(|entry| entry.uid == meta.uid) {
            entry.presence = Presence::Missing;
        }
    }

    /// Whether it has to be found out by which definition the objects are served now.
    #[must_use]
    pub fn awaits_definition(&self) -> bool {
        self.entries.values().any(|entry| entry.presence == Presence::Missing)
    }

    /// Says which definition is served, found out after the last event: its UID, or `None` if there is none, or it is being
    /// deleted. Whose object is missing was deleted if the definition is the one by which it was read. Otherwise it went with
    /// the definition, and stays in force.
    pub fn definition_is(&mut self, served: Option<&str>) {
        self.entries.retain(|_, entry| {
            if entry.presence != Presence::Missing {
                return true;
            }
            entry.presence = Presence::Kept;
            served != Some(&*entry.definition) && !entry.is_removed()
        });
        self.settle();
    }

    /// Notes that the cluster's store was put back to an older state. A list follows.
    pub fn went_back(&mut self) {
        self.restorations += 1;
    }

    /// Returns how often the cluster's store was put back to an older state.
    #[must_use]
    pub fn restorations(&self) -> u64 {
        self.restorations
    }

    /// Returns every backend that is known.
    pub fn known(&self) -> impl Iterator<Item = (&BackendName, KnownObject<'_>)> {
        self.entries.iter().map(|(name, entry)| {
            let problem = match (&entry.spec, &entry.conflict) {
                (Err(invalid), _) => Some(BackendProblem::Spec(invalid.clone())),
                (Ok(_), Some(other)) => Some(BackendProblem::Identity(other.clone())),
                (Ok(_), None) => None,
            };
            let known = KnownObject {
                uid: &entry.uid,
                generation: entry.generation,
                in_force: entry.in_force.as_deref(),
                problem,
                status: entry.status.as_ref(),
                orders: &entry.orders,
                is_kept: entry.presence == Presence::Kept,
                is_leaving: entry.is_leaving,
                resource_version: &entry.resource_version,
                finalizers: &entry.finalizers,
            };
            (name, known)
        })
    }

    /// Decides what is in force. Of two backends with one identity it stays with the one that has it; if none has, it goes to the
    /// older object, but not to one whose status says that it was refused: a writer that starts decides as the one before.
    fn settle(&mut self) {
        // Who is refused keeps what it has, which may be what another one wants.
        let mut refused = BTreeMap::<BackendName, BackendName>::new();
        loop {
            let more = self.conflicts(&refused);
            if more.is_empty() {
                break;
            }
            refused.extend(more);
        }
        for (name, entry) in &mut self.entries {
            entry.conflict = refused.remove(name);
            if let (Ok(spec), None) = (&entry.spec, &entry.conflict) {
                entry.in_force = Some(spec.clone());
            }
        }
    }

    /// Returns who cannot have the identity of its spec, and which backend has it, if these were refused before.
    fn conflicts(&self, refused: &BTreeMap<BackendName, BackendName>) -> Vec<(BackendName, BackendName)> {
        let next = |name: &BackendName, entry: &Entry| match &entry.spec {
            Ok(spec) if !refused.contains_key(name) => Some(identity(spec)),
            _ => entry.in_force.as_deref().map(identity),
        };
        let mut order: Vec<_> = self.entries.iter().collect();
        order.sort_by_key(|(name, entry)| {
            let stays = entry.in_force.as_deref().is_some_and(|now| next(name, entry) == Some(identity(now)));
            (!stays, entry.was_refused(), &entry.created, *name)
        });
        let mut holders = BTreeMap::new();
        let mut conflicts = Vec::new();
        for (name, entry) in order {
            let Some(identity) = next(name, entry) else { continue };
            let holder: &BackendName = holders.entry(identity).or_insert(name);
            if holder != name {
                conflicts.push((name.clone(), holder.clone()));
            }
        }
        conflicts
    }
}

/// Returns the identity as it is compared: as if it were a DNS name.
fn identity(spec: &BackendSpec) -> String {
    spec.identity.0.to_ascii_lowercase()
}
