//! What comes back from the writer: reports, facts, and requests for contents.

use super::AgentEnd;
use super::inbox::ReceivedReport;
use crate::{AgentMessage, Credit, Payload};

impl<P: Payload> AgentEnd<P> {
    /// Lets the writer send reports: this many, and this many bytes of them, before they are
    /// [dealt with](Self::report_done). Without it none come.
    pub fn grant_reports(&mut self, credit: Credit) {
        self.report_credit = Some(credit);
    }

    /// Returns the next report to deal with: the latest of its key. Later ones of that key may come before this one is
    /// done.
    pub fn take_report(&mut self) -> Option<ReceivedReport<P>> {
        self.stream.as_mut()?.inbox.take()
    }

    /// Marks a report as dealt with, so that the writer receives an acknowledgement. Has no effect if a newer report of
    /// the key came meanwhile, or on a newer stream, on which all reports are sent again.
    pub fn report_done(&mut self, received: &ReceivedReport<P>) {
        if let Some(stream) = &mut self.stream {
            stream.inbox.done(received);
        }
    }

    /// Returns what the writer last sent about itself. It outlives the stream on which it came.
    #[must_use]
    pub fn facts(&self) -> Option<&P::Facts> {
        self.facts.as_ref()
    }

    /// Returns the hashes of contents that the writer asked for and that were not answered yet.
    pub fn requested_contents(&self) -> impl Iterator<Item = &P::Hash> {
        self.stream.iter().flat_map(|stream| stream.contents.requested())
    }

    /// Answers a request of the writer; `None` means that there is no such content. An answer that was not asked for is
    /// ignored.
    pub fn answer_content(&mut self, hash: &P::Hash, content: Option<P::Content>) {
        if let Some(stream) = &mut self.stream {
            stream.contents.answer(hash, content);
        }
    }

    /// Returns the next message about reports or contents, once the writer has answered Hello.
    pub(super) fn back(&mut self) -> Option<AgentMessage<P>> {
        let stream = self.stream.as_mut().filter(|stream| stream.generation.is_some())?;
        stream.inbox.next(self.report_credit).or_else(|| stream.contents.next())
    }
}
