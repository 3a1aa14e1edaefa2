//! The removal of everything that a backend published, ordered by an admin, whether or not its agent is connected. It
//! is written like any other change, slices before their Service, and continues after a restart of the writer.

mod inventory;
mod order;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gimbal_model::{BackendName, TargetKey};
use gimbal_session::{Goodbye, GoodbyeReason};

pub use inventory::Inventory;
pub use order::{Decommission, DecommissionOrder, Withdrawal};

use crate::target::Target;
use crate::{Backend, BackendState, Output, Reconciler, Urgency};

/// What becomes of a backend that is to leave, or that is being removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemovalState {
    /// An admin has to order its removal.
    Awaited {
        /// What would be removed.
        inventory: Inventory,
        /// The first of the targets.
        first: Vec<TargetKey>,
    },
    /// Its removal was ordered, and that is not stored yet. Until it is, the backend is as it was.
    Ordered {
        /// What will be removed.
        inventory: Inventory,
    },
    /// Its removal was ordered, and its endpoints are not ready until then. Nothing is deleted yet.
    NotReady {
        /// What will be removed.
        inventory: Inventory,
        /// When, by the wall clock; `None` while endpoints are still being made not ready.
        until: Option<SystemTime>,
    },
    /// It is being removed.
    UnderWay {
        /// What is left to remove.
        left: Inventory,
    },
    /// Nothing of it is left.
    Over,
    /// It has objects, and this writer keeps no record of it: they belong to another writer.
    OfAnotherWriter {
        /// The objects.
        inventory: Inventory,
    },
}

/// How often the targets are checked while a backend is removed.
const LOOK: Duration = Duration::from_secs(1);

/// Why a removal is not ordered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotDecommissioned {
    /// This process does not lead, or has not listed all objects yet.
    #[error("this writer does not lead, or has not seen the whole Gimbal cluster yet; try again")]
    NotReady,
    /// The figures, or the targets, are not those of the preview.
    #[error("{id:?} is not the id of what backend {backend} has now; ask for another preview (dry_run)")]
    OtherFigures {
        /// The backend.
        backend: BackendName,
        /// The id that was given.
        id: String,
    },
    /// The removal is under way already.
    #[error("backend {0} is being decommissioned already")]
    UnderWay(BackendName),
    /// A newer writer stored the state of the backend, and an order beside it could not be stored.
    #[error("the order to remove backend {backend} cannot be stored: {why}")]
    Withheld {
        /// The backend.
        backend: BackendName,
        /// Why that state must not be used.
        why: String,
    },
    /// No agent of the backend ever connected to this writer.
    #[error(
        "this writer keeps no record of backend {0} (ConfigMap gimbal-backend-{0} in its namespace): it belongs to another writer; order it there"
    )]
    Unrecorded(BackendName),
}

impl Reconciler {
    /// Returns how many objects [`Reconciler::decommission`] would remove.
    #[must_use]
    pub fn inventory(&self, name: &BackendName) -> Inventory {
        let mut inventory = Inventory::default();
        let theirs = self.targets.of(name.as_str()).filter(|(key, target)| self.stands_for(key, target, name));
        theirs.for_each(|(key, target)| inventory.add(key, target));
        inventory
    }

    /// Orders the removal of everything that a backend published and of its stored state. It begins once the order is stored, and ends
    /// the backend's stream then. The caller has to refuse this for a backend that the configuration admits. `id` is the
    /// [`Inventory::id`] that the admin has seen.
    ///
    /// # Errors
    /// Returns why nothing is removed.
    pub fn decommission(&mut self, name: &BackendName, id: &str) -> Result<Inventory, NotDecommissioned> {
        if !self.leadership.holds_lease() || !self.cluster.is_listed() {
            return Err(NotDecommissioned::NotReady);
        }
        if self.desired.get(name).is_some_and(|backend| backend.decommission().is_some()) {
            return Err(NotDecommissioned::UnderWay(name.clone()));
        }
        if let Some(why) = self.desired.get(name).and_then(Backend::withheld) {
            return Err(NotDecommissioned::Withheld { backend: name.clone(), why: why.to_owned() });
        }
        // The state is first stored when an agent says Hello, by the writer that the backend belongs to.
        if self.desired.get(name).is_none_or(|backend| *backend.state() == BackendState::default()) {
            return Err(NotDecommissioned::Unrecorded(name.clone()));
        }
        let inventory = self.inventory(name);
        if inventory.id(name) != id {
            return Err(NotDecommissioned::OtherFigures { backend: name.clone(), id: id.to_owned() });
        }
        let object = self.objects.get(name).cloned();
        if let Some(backend) = self.desired.get_mut(name) {
            backend.order_decommission(id.to_owned(), object, &mut self.outputs);
        }
        Ok(inventory)
    }

    /// Returns what becomes of a backend that is to leave, or that is being removed, with at most `most` targets by name; `None` if
    /// that is not known, because this process does not lead or has not listed all objects yet.
    #[must_use]
    pub fn removal(&self, name: &BackendName, most: usize) -> Option<RemovalState> {
        if !self.leadership.holds_lease() || !self.cluster.is_listed() {
            return None;
        }
        let backend = self.desired.get(name);
        let inventory = self.inventory(name);
        Some(match backend.and_then(Backend::decommission) {
            Some(Decommission::Ordered { .. }) => RemovalState::Ordered { inventory },
            Some(Decommission::MakingNotReady { .. } | Decommission::NotReady { .. }) => {
                RemovalState::NotReady { inventory, until: backend.and_then(Backend::not_ready_until) }
            }
            Some(Decommission::Running { is_over: false, .. }) => RemovalState::UnderWay { left: inventory },
            Some(Decommission::Running { is_over: true, .. }) => RemovalState::Over,
            None if backend.is_none_or(|backend| *backend.state() == BackendState::default()) => {
                match inventory == Inventory::default() {
                    true => RemovalState::Over,
                    false => RemovalState::OfAnotherWriter { inventory },
                }
            }
            None => {
                let theirs = self.targets.of(name.as_str()).filter(|(key, target)| self.stands_for(key, target, name));
                RemovalState::Awaited { inventory, first: theirs.map(|(key, _)| key.clone()).take(most).collect() }
            }
        })
    }

    /// Says which backends are objects, each with the UID of its object, whether or not anything of that is in force. An order about an
    /// object ends when another one has its name: that what this one finds is removed, was not approved.
    pub fn set_objects(&mut self, objects: BTreeMap<BackendName, Arc<str>>, now: Instant) {
        self.objects = objects;
        for name in self.objects.keys().cloned().collect::<Vec<_>>() {
            if self.end_order_of_before(&name) {
                self.decide_anew(&name, now);
            }
        }
    }

    /// Returns the UID of the object that a backend is, as it was said last; `None` if it is not an object.
    #[must_use]
    pub fn object(&self, name: &BackendName) -> Option<&str> {
        self.objects.get(name).map(|uid| &**uid)
    }

    /// Takes the order to remove a backend back that was about what the configuration had before: it admits the backend again while
    /// something of it is left (an object that was made anew, a file that was put back), or another object has its name. Returns whether
    /// there was such an order.
    pub(super) fn end_order_of_before(&mut self, name: &BackendName) -> bool {
        let Some(backend) = self.desired.get(name).filter(|_| self.leadership.holds_lease()) else { return false };
        let Some(stage) = backend.decommission() else { return false };
        let ordered_for = backend.state().decommission.as_ref().and_then(|order| order.object.as_deref());
        let is_other = self.object(name).zip(ordered_for).is_some_and(|(object, ordered)| object != ordered);
        let why = match backend.is_admitted_by_configuration() {
            true => Withdrawal::Admitted,
            false if is_other => Withdrawal::OtherObject,
            false => return false,
        };
        let left = self.inventory(name);
        let is_removing = matches!(stage, Decommission::Running { .. });
        if is_removing && self.cluster.is_listed() && left == Inventory::default() {
            // The removal is complete, and ends as usual: what the configuration names is a new backend.
            return false;
        }
        self.withdraw_decommission(name, left.services, why);
        true
    }

    /// Begins the removals whose orders were stored while what is there was not known.
    pub(super) fn begin_stored_orders(&mut self, now: Instant) {
        for name in self.desired.keys().cloned().collect::<Vec<_>>() {
            self.begin_decommission(&name, now);
        }
    }

    /// Takes the orders back that are about other Services than there are. The process that gave one may have stored it late, and not
    /// have lived to compare it; nothing but the stored order says so to the next.
    pub(super) fn end_orders_of_other_figures(&mut self) {
        if !self.leadership.holds_lease() || !self.cluster.is_listed() {
            return;
        }
        let begun = self.desired.values().filter(|backend| backend.is_being_decommissioned());
        for name in begun.map(|backend| backend.name().clone()).collect::<Vec<_>>() {
            self.end_order_of_other_figures(&name);
        }
    }

    /// Takes the order to remove a backend back if what would go is not what was approved. Returns whether it does.
    fn end_order_of_other_figures(&mut self, name: &BackendName) -> bool {
        let Some(backend) = self.desired.get(name) else { return false };
        let Some((stage, order)) = backend.decommission().zip(backend.state().decommission.as_ref()) else {
            return false;
        };
        let inventory = self.inventory(name);
        let is_approved = match stage {
            // It was compared before that, and its agent is refused since.
            _ if order.since.is_some() => true,
            Decommission::Ordered { .. } => inventory.is_named_by(name, &order.id),
            // Nothing is deleted yet, but somebody else may have deleted everything.
            Decommission::MakingNotReady { .. } | Decommission::NotReady { .. } => {
                inventory == Inventory::default() || inventory.is_named_by(name, &order.id)
            }
            Decommission::Running { .. } => inventory.may_be_left_of(name, &order.id),
        };
        if !is_approved {
            self.withdraw_decommission(name, inventory.services, Withdrawal::OtherFigures);
        }
        !is_approved
    }

    fn withdraw_decommission(&mut self, name: &BackendName, services: u64, why: Withdrawal) {
        if let Some(backend) = self.desired.get_mut(name)
            && let Some(order) = backend.withdraw_decommission(why, &mut self.outputs)
        {
            // Who ordered it does not expect that, least of all where the configuration of this writer is merely older.
            self.outputs.push(Output::RemovalWithdrawn { backend: name.clone(), id: order.id, services, why });
        }
    }

    /// Forgets what a backend's agent said.
    fn forget_said(&mut self, name: &BackendName, now: Instant) {
        if let Some(backend) = self.desired.get_mut(name) {
            backend.forget_said(&self.settings.limits);
        }
        for key in self.forget_claims(name) {
            if let Some(target) = self.targets.get_mut(&key) {
                // What was refused until now were other writes.
                target.refusals_mut().clear();
            }
            self.update_guard(&key, now);
        }
    }

    /// Whether a target's objects belong to a backend: as decided, else as their labels and annotations say, else by
    /// a label alone if the backend could have chosen the target's name.
    fn stands_for(&self, key: &TargetKey, target: &Target, name: &BackendName) -> bool {
        if target.observed().is_empty() {
            return false;
        }
        match target.belongs_to(key) {
            Some(claim) => claim.backend == *name,
            None => self.view().only_labelled(key, target).is_some_and(|labelled| labelled == name),
        }
    }

    /// Begins a removal once its order is stored: with endpoints that are not ready, if its policy has a time for that. Its agent was
    /// heard until now, because an order that cannot be stored changes nothing.
    pub(super) fn begin_decommission(&mut self, name: &BackendName, now: Instant) {
        let Some(backend) = self.desired.get(name) else { return };
        let Some(Decommission::Ordered { version }) = backend.decommission() else { return };
        if !backend.is_version_stored(version) {
            return;
        }
        // What is there is known only then, and it begins then.
        if !self.cluster.is_listed() || self.end_order_of_other_figures(name) {
            return;
        }
        let goodbye = Goodbye {
            reason: GoodbyeReason::UnknownBackend,
            message: format!("backend {name} is being decommissioned"),
            retry_after: None,
        };
        self.end_stream(name, goodbye);
        self.forget_said(name, now);
        if let Some(backend) = self.desired.get_mut(name) {
            backend.begin_decommission(now, self.wall);
        }
        if self.desired.is_not_ready_for_removal(name) {
            self.enqueue_backend(name);
        }
    }

    /// Follows the time for which the endpoints of a backend are not ready before it is removed.
    pub(super) fn follow_decommission(&mut self, name: &BackendName, now: Instant) {
        // Before that, an order that another process stored is not compared with what is there.
        let is_listed = self.cluster.is_listed();
        let Some(backend) = self.desired.get_mut(name).filter(|_| is_listed) else { return };
        backend.follow_decommission(now, self.wall, &mut self.outputs);
        let Some(Decommission::MakingNotReady { look }) = backend.decommission() else { return };
        if now < look {
            return;
        }
        let is_empty = self.inventory(name) == Inventory::default();
        let are_written = !self.has_readiness_to_take(name);
        let Some(backend) = self.desired.get_mut(name) else { return };
        match (is_empty, are_written) {
            // There is nothing to let go of.
            (true, _) => backend.set_decommission_look(now),
            (false, true) => backend.begin_time_before_removal(now, self.wall, &mut self.outputs),
            (false, false) => backend.set_readiness_look(now + LOOK),
        }
    }

    /// Whether any endpoint of a backend is ready that is still to be made not ready. What the API server refuses, or keeps in another
    /// form, keeps no removal.
    fn has_readiness_to_take(&self, name: &BackendName) -> bool {
        let theirs = self.targets.of(name.as_str()).filter(|(_, target)| target.counted_for() == Some(name));
        let waits = |target: &Target| !target.has_converged() && !target.refusals().hinder();
        theirs.map(|(_, target)| target).any(|target| target.settled().ready > 0 && waits(target))
    }

    /// Enqueues the targets that a backend still has. Returns how many there are.
    fn remove_rest(&mut self, name: &BackendName) -> usize {
        let theirs = self.targets.of(name.as_str()).filter(|(key, target)| self.stands_for(key, target, name));
        let left: Vec<TargetKey> = theirs.map(|(key, _)| key.clone()).collect();
        for key in left.iter().filter(|key| !self.queue.contains(key)).cloned().collect::<Vec<_>>() {
            self.enqueue(&key, name, Urgency::Bulk);
        }
        left.len()
    }

    /// Ends a removal when nothing is left to remove. The stored state is deleted last.
    pub(super) fn end_decommission(&mut self, name: &BackendName, now: Instant) {
        let observed = self.cluster.is_listed();
        let Some(backend) = self.desired.get_mut(name) else { return };
        let Some(Decommission::Running { look, .. }) = backend.decommission() else { return };
        if now < look || !observed {
            return;
        }
        backend.set_decommission_look(now + LOOK);
        if self.remove_rest(name) > 0 {
            return;
        }
        if let Some(backend) =
            self.desired.get_mut(name).filter(|backend| backend.is_listed() && backend.policy().leaving)
        {
            // Its agent is refused, and the order kept, for as long as the configuration has it.
            backend.end_decommission(now + LOOK);
            return;
        }
        self.outputs.push(Output::Forget { backend: name.clone() });
        // Objects that somebody else removed may still be counted, and must not count against the next backend of
        // this name.
        let counted = self.targets.of(name.as_str()).filter(|(_, target)| target.counted_for() == Some(name));
        for key in counted.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.uncount(&key, now);
        }
        match self.desired.remove(name) {
            // A backend that is configured, in quarantine, begins anew.
            Some(backend) if backend.is_listed() => {
                let is_configured = backend.is_configured();
                self.put_backend(name, backend.into_policy(), true, now);
                if let Some(backend) = self.desired.get_mut(name).filter(|_| is_configured) {
                    backend.set_configured();
                }
            }
            _ => {}
        }
    }
}
