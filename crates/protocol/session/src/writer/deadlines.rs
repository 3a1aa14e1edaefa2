//! What becomes due with time: the end of a silent stream, and requests for snapshots and contents.

use std::time::Instant;

use super::{WriterEnd, WriterOutput};
use crate::{GoodbyeReason, Need, Payload, WriterMessage};

impl<P: Payload> WriterEnd<P> {
    /// Ends a silent stream, and requests a snapshot that is due.
    pub fn tick(&mut self, now: Instant) -> Vec<WriterOutput<P>> {
        let timeout = self.limits.heartbeat_timeout;
        if self.stream.is_some() && self.silence_ends().is_none_or(|end| now >= end) {
            let message = format!("nothing was heard for {} s", timeout.as_secs_f32());
            return vec![self.dismiss(GoodbyeReason::Timeout, message)];
        }
        self.contents.expire(now);
        self.ask(now);
        Vec::new()
    }

    /// Counts the agent's silence from `now`: its messages were not received before.
    pub fn excuse_silence(&mut self, now: Instant) {
        self.excused = Some(now);
    }

    /// Returns when the stream ends if nothing is heard.
    fn silence_ends(&self) -> Option<Instant> {
        Some(self.last_heard.max(self.excused)? + self.limits.heartbeat_timeout)
    }

    /// Returns when [`Self::tick`] has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let stream = self.stream.as_ref()?;
        self.silence_ends().into_iter().chain(stream.resync.due()).chain(self.contents.deadline()).min()
    }

    /// Requests a snapshot, if one is due.
    pub(super) fn ask(&mut self, now: Instant) {
        if let Some(stream) = &mut self.stream
            && let Some(reason) = stream.resync.take_due(now)
        {
            stream.awaiting = true;
            self.outbox.push(WriterMessage::Resync { need: Need::All, reason });
        }
    }
}
