//! What the caller has to carry out, and what is counted for metrics.

use std::sync::Arc;
use std::time::Duration;

use gimbal_guard::GuardEvent;
use gimbal_model::{BackendName, SourceKey, TargetKey};
use gimbal_session::WriterMessage;

use crate::{BackendState, Claim, Journey, JourneyEnd, Stage, Withdrawal};

/// Something that the caller has to carry out.
// Only a few outputs exist at a time, and each is consumed at once, so the size of the largest variant does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Send a message on a stream, if that stream is still open.
    Send {
        /// The backend whose stream it is.
        backend: BackendName,
        /// The generation of the stream.
        generation: u64,
        /// The message.
        message: WriterMessage,
    },
    /// Close a stream after the messages that were to be sent on it.
    Close {
        /// The backend whose stream it is.
        backend: BackendName,
        /// The generation of the stream.
        generation: u64,
    },
    /// Store the state of a backend in the Gimbal cluster.
    Keep {
        /// The backend.
        backend: BackendName,
        /// To be passed to [`Reconciler::kept`](crate::Reconciler::kept) once the state is stored.
        version: u64,
        /// The state.
        state: BackendState,
    },
    /// Delete the stored state of a backend, because all of its objects are removed.
    Forget {
        /// The backend.
        backend: BackendName,
    },
    /// Report that the order to remove a backend is over although something of it is left.
    RemovalWithdrawn {
        /// The backend.
        backend: BackendName,
        /// The id with which the removal was ordered.
        id: String,
        /// Its Services that are left, and stay.
        services: u64,
        /// Why it is over.
        why: Withdrawal,
    },
    /// Begin every watch on the Gimbal cluster again with a list: its store was restored to an older state.
    ListAgain,
    /// Report that the loss of a backend reached another stage.
    Loss {
        /// The backend.
        backend: BackendName,
        /// The stage that applies from now on.
        stage: Stage,
        /// For how long the backend has been lost; zero when it is back.
        lost_for: Duration,
    },
    /// Report that the API server stores an object in another form than it was sent.
    Accepted {
        /// The target that the object belongs to.
        target: TargetKey,
        /// The kind of the object.
        kind: &'static str,
        /// The name of the object.
        name: Arc<str>,
    },
    /// Report what the mass-change guard of a backend did.
    Guard {
        /// The backend.
        backend: BackendName,
        /// The event.
        event: GuardEvent,
    },
    /// Create a namespace, and pass the answer to
    /// [`Reconciler::namespace_created`](crate::Reconciler::namespace_created).
    CreateNamespace {
        /// The name of the namespace.
        namespace: Arc<str>,
        /// The backend whose policy asks for it.
        backend: BackendName,
    },
    /// Report that the status of a source Service may have changed.
    Touched(Claim),
    /// Count that a change is settled now.
    Settled {
        /// The backend.
        backend: BackendName,
        /// What came of it.
        end: JourneyEnd,
        /// How it came.
        journey: Journey,
        /// Its Service, if the change is traced.
        traced: Option<SourceKey>,
    },
}

/// Totals for metrics, which only ever grow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Targets that a comparison found to differ from the desired state without a reason.
    pub comparison_differences: u64,
    /// Completed comparisons of all targets.
    pub comparisons: u64,
    /// Objects whose stored form differs from what was sent.
    pub accepted_forms: u64,
    /// Frames, and entries of frames, that could not be read.
    pub unreadable: u64,
    /// Changes that waited to be written with later ones.
    pub batched: u64,
}
