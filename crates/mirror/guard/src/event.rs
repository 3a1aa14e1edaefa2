//! What the guard says.

/// Whether a target's removals may be written now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// They may.
    Allowed,
    /// They are held.
    Held,
    /// They may when the record that [`super::Guard::record`] gives is kept.
    Unkept,
}

/// What it means that a target has fewer endpoints than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fall {
    /// They are lost, whoever removed them.
    Lost,
    /// A decision of the operator took them, or this writer does not lead and does not count.
    Forgiven,
}

/// Why held removals are let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// A later snapshot said so again.
    Snapshot,
    /// A person did.
    Approval,
    /// `release_all_after` is over.
    Age,
}

/// What happened to a hold, for logs, metrics and the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardEvent {
    /// Removals are held. Told again, with another id, when a partial drop became one to nothing, or the reverse, and when
    /// more is held by a quarter than was told.
    Held(HeldDrop),
    /// So little is missing by now that nothing need be held.
    Ended {
        /// Of the hold.
        id: String,
    },
    /// Removals are let through.
    Released {
        /// Of the hold.
        id: String,
        /// Endpoints that may go.
        endpoints: u64,
        /// Why.
        by: Release,
    },
    /// A complete snapshot that begins now would decide.
    SnapshotWanted {
        /// Of the hold.
        id: String,
    },
}

/// Removals that are held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldDrop {
    /// For an approval. It changes when a partial drop becomes one to nothing, and when it grows by a quarter: that is not
    /// what a person approved.
    pub id: String,
    /// Endpoints that wait to go.
    pub endpoints_removed: u64,
    /// Endpoints that the share is taken of.
    pub endpoints_before: u64,
    /// Services that lose endpoints.
    pub targets: usize,
    /// Nothing would remain of the backend.
    pub to_nothing: bool,
}
