//! The state itself, and how it is entered.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gimbal_model::{BackendName, TargetKey};
use gimbal_plan::{EndpointsApi, GuardEvent};
use gimbal_session::{Outcome, WriterEnd, WriterLimits, WriterMessage};

use crate::backends::Backends;
use crate::creation::Creations;
use crate::doubts::Doubts;
use crate::observe::Relists;
use crate::target::Target;
use crate::targets::Targets;
use crate::{Backend, BackendState, Claim, GRACE, Loss, Stage, Urgency, Usage};
use gimbal_schedule::Queue;

/// What does not change while the writer runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which objects hold endpoints.
    pub api: EndpointsApi,
    /// Window and time-out of each stream.
    pub limits: WriterLimits,
    /// How often everything is compared.
    pub comparison_interval: Duration,
}

/// What the edge has to do.
// A few wait at a time, and each is taken apart at once: the largest may be large.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Send a message on a stream, if that stream is still there.
    Send {
        /// Whose.
        backend: BackendName,
        /// Which stream.
        generation: u64,
        /// What.
        message: WriterMessage,
    },
    /// End a stream after what was to be sent.
    Close {
        /// Whose.
        backend: BackendName,
        /// Which stream.
        generation: u64,
    },
    /// Keep the state of a backend in the Gimbal cluster.
    Keep {
        /// Whose.
        backend: BackendName,
        /// For [`Reconciler::kept`].
        version: u64,
        /// What.
        state: BackendState,
    },
    /// Keep nothing of a backend any more: everything of it is removed.
    Forget {
        /// Whose.
        backend: BackendName,
    },
    /// Begin every watch on the Gimbal cluster anew, with a list: its store was put back to an older state.
    ListAgain,
    /// Tell that another thing is made of a backend's loss from now on.
    Loss {
        /// Whose.
        backend: BackendName,
        /// What.
        stage: Stage,
        /// For how long it has been lost; zero when it is back.
        lost_for: Duration,
    },
    /// Tell that the API server stores an object otherwise than it was sent.
    Accepted {
        /// The target that the object belongs to.
        target: TargetKey,
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: Arc<str>,
    },
    /// Tell what the guard of a backend did.
    Guard {
        /// Whose.
        backend: BackendName,
        /// What.
        event: GuardEvent,
    },
    /// Create a namespace, for a backend whose policy says so; [`Reconciler::namespace_created`] takes the answer.
    CreateNamespace {
        /// Which.
        namespace: Arc<str>,
        /// For whom.
        backend: BackendName,
    },
    /// The status of a source Service may have changed.
    Touched(Claim),
}

/// What happened, for metrics. Only ever grows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Targets that a comparison found to differ without a reason to.
    pub comparison_differences: u64,
    /// Comparisons of everything that ended.
    pub comparisons: u64,
    /// Objects whose accepted form differs from what was sent.
    pub accepted_forms: u64,
    /// Entries of a frame, or frames, that could not be read.
    pub unreadable: u64,
}

/// See the crate.
#[derive(Debug, Clone)]
pub struct Reconciler {
    pub(crate) settings: Settings,
    /// How long agents have to come back before anything new is made of their loss.
    pub(crate) grace: Duration,
    pub(crate) backends: Backends,
    pub(crate) targets: Targets,
    /// Which target a slice belongs to, by namespace and name.
    pub(crate) slices: HashMap<(Arc<str>, Arc<str>), TargetKey>,
    /// Targets where a claim still stands besides the one that it leads to: it moves, or is leaving several.
    pub(crate) places: BTreeMap<Claim, BTreeSet<TargetKey>>,
    /// Namespaces that exist and are not being deleted.
    pub(crate) namespaces: BTreeSet<Arc<str>>,
    /// Namespaces that are missing and may be created.
    pub(crate) creations: Creations,
    pub(crate) relists: Relists,
    pub(crate) queue: Queue<BackendName, TargetKey>,
    pub(crate) doubts: Doubts,
    pub(crate) generation: u64,
    /// What the clock on the wall showed last.
    pub(crate) wall: SystemTime,
    /// Set while this process leads.
    pub(crate) epoch: Option<u64>,
    /// See [`Reconciler::stand_aside`].
    pub(crate) aside: bool,
    /// Everything is to be weighed before the next target is decided.
    pub(crate) unweighed: bool,
    pub(crate) comparison: Comparison,
    pub(crate) outputs: Vec<Output>,
    pub(crate) counters: Counters,
}

/// Where the running comparison stands.
#[derive(Debug, Clone, Default)]
pub(crate) struct Comparison {
    pub(crate) next: Option<Instant>,
    pub(crate) after: Option<TargetKey>,
    pub(crate) running: bool,
}

impl Reconciler {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            grace: GRACE,
            backends: Backends::default(),
            targets: Targets::default(),
            slices: HashMap::new(),
            places: BTreeMap::new(),
            namespaces: BTreeSet::new(),
            creations: Creations::new(),
            relists: Relists::default(),
            queue: Queue::default(),
            doubts: Doubts::default(),
            generation: 0,
            wall: SystemTime::UNIX_EPOCH,
            epoch: None,
            aside: false,
            unweighed: false,
            comparison: Comparison::default(),
            outputs: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Gives agents another time than [`GRACE`] to come back to a writer that begins to lead.
    #[must_use]
    pub fn with_grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// Whether this process may write, and in which epoch. On a gain everything is looked at again. On a loss every stream
    /// ends, and what the agents said is forgotten: another leader hears what they say from now on, and to come back with
    /// what was true before would undo what it did. What was kept of the backends is forgotten too: it is to be restored after
    /// the loss and before the gain.
    pub fn lead(&mut self, epoch: Option<u64>) {
        if epoch == self.epoch {
            return;
        }
        if self.epoch.is_some() {
            self.end_all_streams("this writer does not lead any more");
            self.forget_desired();
        }
        self.epoch = epoch;
        self.aside = false;
        if let Some(epoch) = epoch {
            // Generations of a later leader are larger than those of an earlier one.
            self.generation = self.generation.max(epoch << 32);
            self.unweighed = self.has_observed();
            self.look_at_everything();
        }
    }

    /// Counts what stands, before anyone asks for room beside it, and looks at all of it again.
    pub(crate) fn look_at_everything(&mut self) {
        if self.has_observed() {
            self.take_all_stock();
        }
        self.enqueue_everything();
    }

    fn forget_desired(&mut self) {
        for backend in self.backends.values_mut() {
            backend.end = WriterEnd::new(self.settings.limits.clone());
            backend.routes.clear();
            backend.usage = Usage::default();
            backend.guard.forget();
            backend.readiness.forget();
            backend.measured.clear();
            // Whoever leads next reads what is kept.
            backend.state = BackendState::default();
            backend.loss = Loss::default();
            backend.decommission = None;
            backend.window_versions = [None; 2];
        }
        self.places.clear();
        self.creations.clear();
        self.doubts.clear();
        self.targets.change_all(|target| {
            target.claims.clear();
            target.leaving.clear();
            target.owner = None;
            target.charged = None;
            target.refusals.clear();
        });
    }

    /// Whether this process leads, and does not [stand aside](Self::stand_aside).
    #[must_use]
    pub fn is_leading(&self) -> bool {
        self.epoch.is_some() && !self.aside
    }

    /// What has to be done since the last call.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        let (outputs, wall) = (&mut self.outputs, self.wall);
        self.backends.ask_stirred(|backend| {
            backend.keep_window(wall, outputs);
            for message in backend.end.take_messages() {
                let (name, generation) = (backend.name.clone(), backend.generation);
                outputs.push(Output::Send { backend: name, generation, message });
            }
        });
        std::mem::take(&mut self.outputs)
    }

    /// What happened so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The backends, by name.
    #[must_use]
    pub fn backends(&self) -> &BTreeMap<BackendName, Backend> {
        self.backends.all()
    }

    /// Targets that wait or are being written.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.queue.len() + self.queue.in_flight()
    }

    /// For each backend, the targets that wait or are being written.
    pub fn pending_by_backend(&mut self) -> BTreeMap<BackendName, u64> {
        let targets = &mut self.targets;
        self.backends.keys().map(|name| (name.clone(), targets.pending(name.as_str()))).collect()
    }

    /// Targets that are being written.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.queue.in_flight()
    }

    pub(crate) fn enqueue(&mut self, key: &TargetKey, backend: &BackendName, urgency: Urgency) {
        self.stir(key, urgency);
        self.queue.push(key, backend, urgency);
    }

    /// The target may not be as it is wanted any more.
    pub(crate) fn stir(&mut self, key: &TargetKey, urgency: Urgency) {
        if let Some(target) = self.targets.get_mut(key) {
            target.converged = false;
            if urgency == Urgency::Fresh {
                // Whatever failed before may not fail with what came now.
                target.failures = 0;
            }
        }
    }

    /// Puts every target in the queue under the backend that it belongs to, if there is one.
    pub(crate) fn enqueue_everything(&mut self) {
        let all: Vec<(TargetKey, BackendName)> =
            self.targets.iter().filter_map(|(key, target)| Some((key.clone(), self.backend_of(target)?))).collect();
        for (key, backend) in all {
            self.enqueue(&key, &backend, Urgency::Bulk);
        }
    }

    /// The backend under which a target lines up: its owner's, a claimant's, or the one that its objects name.
    pub(crate) fn backend_of(&self, target: &Target) -> Option<BackendName> {
        match target.first_claim() {
            Some(claim) => Some(claim.backend.clone()),
            None => target.observed.owner().and_then(|(label, _)| self.backends.name(label)).cloned(),
        }
    }

    /// Tells the backend's end how a change ended, and whoever watches.
    pub(crate) fn settle(&mut self, claim: &Claim, outcome: Outcome) {
        if let Some(backend) = self.backends.get_mut(&claim.backend) {
            backend.end.settle(&claim.key, outcome);
        }
        self.outputs.push(Output::Touched(claim.clone()));
    }
}
