//! Counts the frames that the agent has sent and that are not acknowledged, and notices an agent that ignores its
//! credit.

use std::collections::VecDeque;

use crate::{Credit, Data, Frame, Payload, estimated_len};

/// An agent may exceed its credit by this factor, because other versions may estimate sizes in another way.
const TOLERANCE: u64 = 2;

#[derive(Debug, Clone, Copy)]
struct Counted {
    seq: u64,
    changes: u64,
    bytes: u64,
}

/// What has come since the last acknowledgement that was sent. An agent hears of it later, so it never counts less.
#[derive(Debug, Clone, Default)]
pub(super) struct Unacknowledged {
    frames: VecDeque<Counted>,
    changes: u64,
    bytes: u64,
}

impl Unacknowledged {
    /// Counts a frame. One frame may always be unacknowledged, whatever its size.
    ///
    /// # Errors
    /// If the agent is far beyond its credit, how far, as a message.
    pub(super) fn count<P: Payload>(&mut self, data: &Data<P>, credit: Credit) -> Result<(), String> {
        let changes = match &data.frame {
            // An agent may send the begin of a snapshot without regard to its credit. It takes no memory that lasts.
            Frame::SnapshotBegin { .. } => return Ok(()),
            Frame::SnapshotEnd { .. } => 0,
            Frame::SnapshotChunk { pieces, .. } => pieces.len(),
            Frame::Delta { changes, .. } => changes.len(),
        };
        let frame = Counted { seq: data.seq, changes: changes as u64, bytes: estimated_len(data) as u64 };
        let is_first = self.frames.is_empty();
        self.changes += frame.changes;
        self.bytes += frame.bytes;
        self.frames.push_back(frame);
        let over = |used: u64, granted: u64| used > granted.saturating_mul(TOLERANCE);
        if !is_first && (over(self.changes, credit.changes.into()) || over(self.bytes, credit.bytes)) {
            return Err(format!(
                "{} changes and {} bytes are not acknowledged, and the credit is {} changes and {} bytes",
                self.changes, self.bytes, credit.changes, credit.bytes
            ));
        }
        Ok(())
    }

    /// Whether half of the credit is used. An agent may send nothing more then: a snapshot uses three quarters at most, and one of its
    /// frames a quarter.
    pub(super) fn is_half_used(&self, credit: Credit) -> bool {
        2 * self.changes >= credit.changes.into() || 2 * self.bytes >= credit.bytes
    }

    /// Called when every frame up to `seq` is acknowledged.
    pub(super) fn acknowledged(&mut self, seq: u64) {
        while let Some(frame) = self.frames.pop_front_if(|frame| frame.seq <= seq) {
            self.changes -= frame.changes;
            self.bytes -= frame.bytes;
        }
    }
}
