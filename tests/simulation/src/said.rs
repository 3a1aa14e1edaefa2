//! What agents say, counted.

use gimbal_session::{AgentMessage, Data, Frame};

/// Counts of what agents said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Said {
    /// Streams that were opened.
    pub hellos: u64,
    /// Snapshots that were begun.
    pub snapshots: u64,
    /// Data frames, those of snapshots included.
    pub frames: u64,
    /// Signs of life.
    pub heartbeats: u64,
    /// Bytes of all that was said, by [`crate::Plan::bytes`].
    pub bytes: u64,
    /// Most bytes of all links together that were on their way at a time.
    pub most_bytes_under_way: u64,
    /// Most streams that were in the middle of a snapshot at a time.
    pub most_snapshots_under_way: u64,
    bytes_under_way: u64,
    snapshots_under_way: u64,
}

impl Said {
    /// `amid`: whether its stream is in the middle of a snapshot.
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

    /// The stream is not in the middle of a snapshot any more.
    pub(crate) fn snapshot_over(&mut self, amid: &mut bool) {
        self.snapshots_under_way -= u64::from(std::mem::take(amid));
    }

    /// It arrived, or never will.
    pub(crate) fn left(&mut self, bytes: usize) {
        self.bytes_under_way = self.bytes_under_way.saturating_sub(bytes as u64);
    }
}
