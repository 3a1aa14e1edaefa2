//! The removal of everything that a backend published, ordered by an admin, whether or not its agent is connected. It
//! is written like any other change, slices before their Service, and continues after a restart of the writer.

use std::time::{Duration, Instant, SystemTime};

use gimbal_kubernetes_objects::{EndpointSlice, Endpoints, Object as _, Service};
use gimbal_model::{BackendName, Digest, TargetKey};
use gimbal_session::{Goodbye, GoodbyeReason};

use crate::target::Target;
use crate::{Backend, BackendState, Output, Policy, Reconciler, Urgency};

/// A difference of endpoints that is as good as none, where a quarter is less.
const FEW_ENDPOINTS: u64 = 10;

/// The number of a backend's objects in the Gimbal cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inventory {
    /// Services.
    pub services: u64,
    /// EndpointSlices.
    pub slices: u64,
    /// Endpoints objects.
    pub endpoints_objects: u64,
    /// Endpoints in these objects.
    pub endpoints: u64,
    /// The sum of the digests of the targets' names.
    pub names: Digest,
}

impl Inventory {
    fn add(&mut self, key: &TargetKey, target: &Target) {
        self.names = self.names + key.digest();
        for held in target.observed().objects() {
            let count = match held.kind {
                kind if kind == Service::KIND => &mut self.services,
                kind if kind == EndpointSlice::KIND => &mut self.slices,
                kind if kind == Endpoints::KIND => &mut self.endpoints_objects,
                _ => continue,
            };
            *count += 1;
        }
        self.endpoints += target.observed().endpoint_count() as u64;
    }

    /// Returns an id for a backend, these figures and the names of the targets. Ordering the removal requires it, as a
    /// proof that the admin has seen them.
    #[must_use]
    pub fn id(&self, backend: &BackendName) -> String {
        let Self { services, slices, endpoints_objects, endpoints, .. } = self;
        format!("{backend}-{services}-{slices}-{endpoints_objects}-{endpoints}-{}", self.mark_of_names())
    }

    /// Whether an id that was given out earlier still names what the backend has: the targets are the same ones, and the
    /// endpoints, which change all the time, are about as many.
    #[must_use]
    pub fn is_named_by(&self, backend: &BackendName, id: &str) -> bool {
        let figures = id.strip_prefix(backend.as_str()).and_then(|rest| rest.strip_prefix('-'));
        let parts: Vec<&str> = figures.into_iter().flat_map(|figures| figures.split('-')).collect();
        let [_, _, _, endpoints, names] = parts[..] else { return false };
        let near = |said: u64| self.endpoints.abs_diff(said) <= (said / 4).max(FEW_ENDPOINTS);
        names == self.mark_of_names() && endpoints.parse().is_ok_and(near)
    }

    /// Returns what differs for other targets. It is short because it guards against a mistake, and not against a source,
    /// which may remove all of its Services anyway.
    fn mark_of_names(&self) -> String {
        let mut text = self.names.to_string();
        text.truncate(8);
        text
    }
}

/// The progress of an ordered removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decommission {
    /// The order is not stored yet. Nothing is removed before it is; otherwise a restart would leave it half done.
    Ordered {
        /// The version of the state that contains the order.
        version: u64,
    },
    /// The order is stored, and the endpoints are not ready until then. Nothing is deleted yet.
    NotReady {
        /// When objects are removed.
        until: Instant,
    },
    /// Objects are being removed.
    Running {
        /// When to check again whether anything is left.
        look: Instant,
        /// Whether nothing was left at the last check. A backend that is to leave stays so until the configuration no longer
        /// has it.
        is_over: bool,
    },
}

/// The order to remove a backend, as it is stored over restarts of the writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecommissionOrder {
    /// The id with which it was given.
    pub id: String,
    /// When it was given, by the writer's wall clock.
    pub since: SystemTime,
    /// For how long the endpoints are not ready before objects are deleted.
    pub not_ready_for: Duration,
}

impl DecommissionOrder {
    /// Returns how far it is once it is stored. A wall clock that was set back gives the endpoints more time, at most the whole of it once
    /// more.
    pub(crate) fn stage(&self, now: Instant, wall: SystemTime) -> Decommission {
        let age = wall.duration_since(self.since).unwrap_or_default();
        match self.not_ready_for.saturating_sub(age) {
            Duration::ZERO => Decommission::Running { look: now, is_over: false },
            left => Decommission::NotReady { until: now + left },
        }
    }

    /// Returns when objects are deleted, by the wall clock.
    pub(crate) fn ends(&self) -> Option<SystemTime> {
        self.since.checked_add(self.not_ready_for)
    }
}

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
    /// Its removal was ordered, and its endpoints are not ready until then. Nothing is deleted yet.
    NotReady {
        /// What will be removed.
        inventory: Inventory,
        /// When, by the wall clock.
        until: SystemTime,
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

    /// Orders the removal of everything that a backend published and of its stored state, and ends its stream. The
    /// caller has to refuse this for a backend that the configuration admits. `id` is the [`Inventory::id`] that the
    /// admin has seen.
    ///
    /// # Errors
    /// Returns why nothing is removed.
    pub fn decommission(&mut self, name: &BackendName, id: &str, now: Instant) -> Result<Inventory, NotDecommissioned> {
        if !self.leadership.holds_lease() || !self.cluster.is_listed() {
            return Err(NotDecommissioned::NotReady);
        }
        if self.desired.is_decommissioned(name) {
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
        self.order_decommission(name, id.to_owned(), now);
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
            Some(Decommission::Running { is_over: true, .. }) => RemovalState::Over,
            Some(_) => match backend.and_then(Backend::not_ready_until) {
                Some(until) => RemovalState::NotReady { inventory, until },
                None => RemovalState::UnderWay { left: inventory },
            },
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

    fn order_decommission(&mut self, name: &BackendName, id: String, now: Instant) {
        if !self.desired.contains_key(name) {
            self.put_backend(name, Policy::default(), false, now);
        }
        let goodbye = Goodbye {
            reason: GoodbyeReason::UnknownBackend,
            message: format!("backend {name} is being decommissioned"),
            retry_after: None,
        };
        self.end_stream(name, goodbye);
        self.forget_said(name, now);
        if let Some(backend) = self.desired.get_mut(name) {
            backend.order_decommission(id, self.wall, &mut self.outputs);
        }
    }

    /// Takes the order to remove a backend back, if the configuration admits that backend again while something of it is
    /// left: the order was about what the configuration had dropped, and nothing of what it names now is to go (an object
    /// that was made anew, a file that was put back). Returns whether there was such an order.
    pub(super) fn keep_who_is_admitted(&mut self, name: &BackendName) -> bool {
        let is_ordered =
            |backend: &&Backend| backend.is_admitted_by_configuration() && backend.decommission().is_some();
        if !self.leadership.holds_lease() || self.desired.get(name).filter(is_ordered).is_none() {
            return false;
        }
        let left = self.inventory(name);
        if self.cluster.is_listed() && left == Inventory::default() {
            // The removal is complete, and ends as usual: what the configuration names is a new backend.
            return false;
        }
        if let Some(backend) = self.desired.get_mut(name)
            && let Some(DecommissionOrder { id, .. }) = backend.withdraw_decommission(&mut self.outputs)
        {
            // Who ordered it does not expect that, least of all where the configuration of this writer is merely older.
            let (backend, services) = (name.clone(), left.services);
            self.outputs.push(Output::RemovalWithdrawn { backend, id, services });
        }
        true
    }

    /// Forgets what a backend's agent said.
    fn forget_said(&mut self, name: &BackendName, now: Instant) {
        if let Some(backend) = self.desired.get_mut(name) {
            backend.forget_said(&self.settings.limits);
        }
        for target in self.forget_claims(name) {
            self.update_guard(&target, now);
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

    /// Begins a removal once its order is stored: with endpoints that are not ready, if its policy has a time for that.
    pub(super) fn begin_decommission(&mut self, name: &BackendName, kept: u64, now: Instant) {
        let Some(backend) = self.desired.get_mut(name) else { return };
        let ordered = matches!(backend.decommission(), Some(Decommission::Ordered { version }) if version <= kept);
        if ordered {
            backend.begin_decommission(now, self.wall);
        }
        if ordered && self.desired.is_not_ready_for_removal(name) {
            self.enqueue_backend(name);
        }
    }

    /// Follows the time for which the endpoints of a backend are not ready before it is removed.
    pub(super) fn follow_decommission(&mut self, name: &BackendName, now: Instant) {
        if let Some(backend) = self.desired.get_mut(name) {
            backend.follow_decommission(now, self.wall, &mut self.outputs);
        }
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
