//! Counts the messages of agents.

use gimbal_session::{AgentMessage, Data, Frame};

/// Counters of the messages that agents sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Said {
    /// Number of streams that were opened.
    pub hellos: u64,
    /// Number of snapshots that were begun.
    pub snapshots: u64,
    /// Number of data frames, including those of snapshots.
    pub frames: u64,
    /// Number of heartbeats.
    pub heartbeats: u64,
    /// Size of all messages in bytes, as [`crate::Plan::bytes`] measures it.
    pub bytes: u64,
    /// The most bytes that were on their way at one time, over all links.
    pub most_bytes_under_way: u64,
    /// The most streams that were in the middle of a snapshot at one time.
    pub most_snapshots_under_way: u64,
    bytes_under_way: u64,
    snapshots_under_way: u64,
}

impl Said {
    /// Counts a message. `amid` says whether its stream is in the middle of a snapshot, and is updated.
    pub(crate) fn sent(&mut self, message: &AgentMessage, bytes: usize, amid: &mut bool) {
        self.bytes += bytes as u64;
        self.bytes_under_way += bytes as u64;
        self.most_bytes_under_way = self.most_bytes_under_way.max(self.bytes_under_way);
        match message {
            AgentMessage::Hello(_) => self.hellos += 1,
            AgentMessage::Heartbeat { .. } => self.heartbeats += 1,
            AgentMessage::Data(Data { frame, .. }) => {
                self.frames += 1;
                match frame {
                    Frame::SnapshotBegin { .. } => {
                        self.snapshots += 1;
                        self.snapshots_under_way += u64::from(!std::mem::replace(amid, true));
                        self.most_snapshots_under_way = self.most_snapshots_under_way.max(self.snapshots_under_way);
                    }
                    Frame::SnapshotEnd { .. } => self.snapshot_over(amid),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Records that a stream is no longer in the middle of a snapshot.
    pub(crate) fn snapshot_over(&mut self, amid: &mut bool) {
        self.snapshots_under_way -= u64::from(std::mem::take(amid));
    }

    /// Records that a message arrived, or that it is lost.
    pub(crate) fn left(&mut self, bytes: usize) {
        self.bytes_under_way = self.bytes_under_way.saturating_sub(bytes as u64);
    }
}
