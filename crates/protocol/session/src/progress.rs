//! How far an entry has come: which frame carried it last, and when.

use std::time::Instant;

/// A frame that carried an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CarriedBy {
    /// The generation of its stream.
    pub generation: u64,
    /// Its sequence number.
    pub seq: u64,
    /// When it was sent (agent) or came (writer).
    pub at: Instant,
}

/// How far an entry of the agent has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryProgress {
    /// When the source reported its last change.
    pub reported: Instant,
    /// The last frame that carried all of it; `None`: none did. An entry that changed since waits to be sent again.
    pub sent: Option<CarriedBy>,
    /// When the writer acknowledged that frame.
    pub acknowledged: Option<Instant>,
}

impl EntryProgress {
    /// The source reports a change, of an entry that came as far as `before`.
    pub(crate) fn reported(reported: Instant, before: Option<Self>) -> Self {
        let (sent, acknowledged) = before.map_or((None, None), |before| (before.sent, before.acknowledged));
        Self { reported, sent, acknowledged }
    }

    /// A frame carries it.
    pub(crate) fn send(&mut self, frame: CarriedBy) {
        self.sent = Some(frame);
        self.acknowledged = None;
    }
}
