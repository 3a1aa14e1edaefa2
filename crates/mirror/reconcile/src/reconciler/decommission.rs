//! The removal of a backend: everything that it published, by an admin's order, whether or not its agent is still there.
//! It goes the way of every change, slices before their Service, and outlives a restart of the writer.

use std::time::{Duration, Instant};

use gimbal_kubernetes_objects::{EndpointSlice, Endpoints, Object as _, Service};
use gimbal_model::{BackendName, TargetKey};
use gimbal_session::{Goodbye, GoodbyeReason, WriterEnd};

use crate::target::Target;
use crate::{BackendState, Output, Policy, Reconciler, Urgency};

/// What a backend has in the Gimbal cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inventory {
    /// Services.
    pub services: u64,
    /// EndpointSlices.
    pub slices: u64,
    /// Endpoints objects.
    pub endpoints_objects: u64,
    /// Endpoints in them.
    pub endpoints: u64,
}

impl Inventory {
    fn add(&mut self, target: &Target) {
        for held in target.observed.held() {
            let count = match held.kind {
                kind if kind == Service::KIND => &mut self.services,
                kind if kind == EndpointSlice::KIND => &mut self.slices,
                kind if kind == Endpoints::KIND => &mut self.endpoints_objects,
                _ => continue,
            };
            *count += 1;
        }
        self.endpoints += target.observed.endpoint_count() as u64;
    }

    /// Stands for a backend and these figures: who orders the removal by it has seen them.
    #[must_use]
    pub fn id(&self, backend: &BackendName) -> String {
        let Self { services, slices, endpoints_objects, endpoints } = self;
        format!("{backend}-{services}-{slices}-{endpoints_objects}-{endpoints}")
    }
}

/// A removal that was ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decommission {
    /// It is not kept yet; nothing goes before it is, or a restart would leave it half done.
    Ordered {
        /// The state that says so.
        version: u64,
    },
    /// It is under way.
    Running {
        /// When to look whether anything is left.
        look: Instant,
    },
}

/// The whole of the Gimbal cluster is looked through so often while a backend is removed.
const LOOK: Duration = Duration::from_secs(1);

/// Why a backend is not removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotDecommissioned {
    /// Another process decides.
    #[error("this writer does not lead, or has not seen the whole Gimbal cluster yet; try again")]
    NotReady,
    /// The figures are not those of the preview.
    #[error("{id:?} is not the id of what backend {backend} has now; ask for another preview (dry_run)")]
    OtherFigures {
        /// Whose.
        backend: BackendName,
        /// What was given.
        id: String,
    },
    /// It is under way.
    #[error("backend {0} is being decommissioned already")]
    UnderWay(BackendName),
    /// No agent of it ever spoke to this writer.
    #[error(
        "this writer keeps no record of backend {0} (ConfigMap gimbal-backend-{0} in its namespace): it belongs to another writer; order it there"
    )]
    Unrecorded(BackendName),
}

impl Reconciler {
    /// What a backend has in the Gimbal cluster: what [`Reconciler::decommission`] would remove.
    #[must_use]
    pub fn inventory(&self, name: &BackendName) -> Inventory {
        let mut inventory = Inventory::default();
        let theirs = self.targets.of(name.as_str()).filter(|(key, target)| self.stands_for(key, target, name));
        theirs.for_each(|(_, target)| inventory.add(target));
        inventory
    }

    /// Removes everything that a backend published, and what is kept of it; its stream ends. To be refused before where the
    /// configuration admits the backend. `id` is that of [`Reconciler::inventory`].
    ///
    /// # Errors
    /// Why nothing is done.
    pub fn decommission(&mut self, name: &BackendName, id: &str, now: Instant) -> Result<Inventory, NotDecommissioned> {
        if !self.leadership.holds_lease() || !self.cluster.is_listed() {
            return Err(NotDecommissioned::NotReady);
        }
        if self.desired.is_decommissioned(name) {
            return Err(NotDecommissioned::UnderWay(name.clone()));
        }
        // It is written with the first Hello, by the writer that the backend belongs to.
        if self.desired.get(name).is_none_or(|backend| backend.state == BackendState::default()) {
            return Err(NotDecommissioned::Unrecorded(name.clone()));
        }
        let inventory = self.inventory(name);
        if inventory.id(name) != id {
            return Err(NotDecommissioned::OtherFigures { backend: name.clone(), id: id.to_owned() });
        }
        self.order_decommission(name, id.to_owned(), now);
        Ok(inventory)
    }

    /// Ordered before this process, or now.
    pub(super) fn order_decommission(&mut self, name: &BackendName, id: String, now: Instant) {
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
            backend.state.decommission = Some(id);
            let version = backend.keep(&mut self.outputs);
            backend.decommission = Some(Decommission::Ordered { version });
        }
    }

    /// What its agent said counts no more.
    fn forget_said(&mut self, name: &BackendName, now: Instant) {
        if let Some(backend) = self.desired.get_mut(name) {
            backend.end = WriterEnd::new(self.settings.limits.clone());
            backend.guards.forget();
            backend.measured.clear();
        }
        for target in self.forget_claims(name) {
            self.update_guard(&target, now);
        }
    }

    /// Whether what is there is this backend's: by what was decided; else by what the objects say; else, where nothing else
    /// says whose it is, by a label alone, if the name is one that the backend could have given.
    fn stands_for(&self, key: &TargetKey, target: &Target, name: &BackendName) -> bool {
        if target.observed.is_empty() {
            return false;
        }
        match target.belongs_to(key) {
            Some(claim) => claim.backend == *name,
            None => self.view().only_labelled(key, target).is_some_and(|labelled| labelled == name),
        }
    }

    /// The order is kept: it may begin.
    pub(super) fn begin_decommission(&mut self, name: &BackendName, kept: u64, now: Instant) {
        let Some(backend) = self.desired.get_mut(name) else { return };
        let ordered = matches!(backend.decommission, Some(Decommission::Ordered { version }) if version <= kept);
        if ordered {
            backend.decommission = Some(Decommission::Running { look: now });
        }
    }

    /// Lines up what is left of it. The number of targets.
    fn remove_rest(&mut self, name: &BackendName) -> usize {
        let theirs = self.targets.of(name.as_str()).filter(|(key, target)| self.stands_for(key, target, name));
        let left: Vec<TargetKey> = theirs.map(|(key, _)| key.clone()).collect();
        for key in left.iter().filter(|key| !self.queue.contains(key)).cloned().collect::<Vec<_>>() {
            self.enqueue(&key, name, Urgency::Bulk);
        }
        left.len()
    }

    /// Ends a removal that has nothing left to remove; what is kept of the backend goes last.
    pub(super) fn end_decommission(&mut self, name: &BackendName, now: Instant) {
        let observed = self.cluster.is_listed();
        let Some(backend) = self.desired.get_mut(name) else { return };
        let Some(Decommission::Running { look }) = &mut backend.decommission else { return };
        if now < *look || !observed {
            return;
        }
        *look = now + LOOK;
        if self.remove_rest(name) > 0 {
            return;
        }
        self.outputs.push(Output::Forget { backend: name.clone() });
        // What was removed by somebody else is not looked at yet, and must not count against who comes under the name next.
        let counted = self.targets.of(name.as_str()).filter(|(_, target)| target.counted_for.as_ref() == Some(name));
        for key in counted.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.uncount(&key, now);
        }
        match self.desired.remove(name) {
            // The configuration names it, in quarantine: it begins anew.
            Some(backend) if backend.listed => self.put_backend(name, backend.policy, true, now),
            _ => {}
        }
    }
}
