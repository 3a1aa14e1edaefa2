//! Verdicts and events of the guard.

/// Whether a target's removals may be written now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// The removals may be written.
    Allowed,
    /// The removals are held.
    Held,
    /// The removals may be written once the record that [`super::Guard::record`] returns is stored.
    Unkept,
}

/// Whether a fall of a target's endpoint count is a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fall {
    /// The endpoints count as missing, whoever removed them.
    Lost,
    /// The fall does not count: an operator's decision caused it, or this writer does not lead.
    Forgiven,
}

/// Why held removals are released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// A later complete snapshot confirmed them.
    Snapshot,
    /// A person approved them.
    Approval,
    /// They have waited for `release_all_after`.
    Age,
}

/// A change of a hold, for logs, metrics and the discoverer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardEvent {
    /// Removals are held. Sent again with a new id when a partial drop becomes a drop to nothing or the reverse, and
    /// when a quarter more is held than when the id was given.
    Held(HeldDrop),
    /// The hold ended: what is missing and pending is within the limits again.
    Ended {
        /// Id of the hold.
        id: String,
    },
    /// Removals are released.
    Released {
        /// Id of the hold.
        id: String,
        /// Endpoints that may now be removed.
        endpoints: u64,
        /// Reason of the release.
        by: Release,
    },
    /// A complete snapshot that begins now would release something.
    SnapshotWanted {
        /// Id of the hold.
        id: String,
    },
}

/// Held removals that were released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastRelease {
    /// Id of the hold.
    pub id: String,
    /// Endpoints that could be removed from then on.
    pub endpoints: u64,
    /// Reason of the release.
    pub by: Release,
}

/// Removals that are held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldDrop {
    /// Id that an approval names. It changes when a partial drop becomes a drop to nothing or the reverse, and when the
    /// drop grows by a quarter, because an earlier approval does not cover that.
    pub id: String,
    /// Endpoints whose removal is held.
    pub endpoints_removed: u64,
    /// Endpoints that the share is computed from: those that exist and those missing within the window.
    pub endpoints_before: u64,
    /// Targets whose removals are held.
    pub targets: usize,
    /// Whether nothing of the backend would remain.
    pub to_nothing: bool,
}
