//! What comes back from the writer: reports, facts, and requests for contents.

use std::time::Instant;

use super::AgentEnd;
use super::inbox::ReceivedReport;
use crate::{AgentMessage, Credit, Payload};

impl<P: Payload> AgentEnd<P> {
    /// Lets the writer send reports: this many, and this many bytes of them, before they are
    /// [taken](Self::take_report). Without it none come. It is sent on streams that carry data only: before its source
    /// was read, an agent would take every report as one of something that is gone.
    pub fn grant_reports(&mut self, credit: Credit) {
        self.report_credit = Some(credit);
    }

    /// Returns the report to deal with that came first: the latest of its key. Later ones of that key may come before
    /// this one is done. Taking it makes room for another one, so a report that is never done stops no others; the
    /// caller bounds how many it works on.
    pub fn take_report(&mut self) -> Option<ReceivedReport<P>> {
        let incarnation = self.incarnation.as_deref();
        self.stream.as_mut().filter(|stream| stream.flows(incarnation))?.inbox.take()
    }

    /// Marks a report as dealt with, so that the writer receives an acknowledgement. Has no effect if a newer report of
    /// the key came meanwhile, or on a newer stream, on which all reports are sent again.
    pub fn report_done(&mut self, received: &ReceivedReport<P>) {
        if let Some(stream) = &mut self.stream {
            stream.inbox.done(received);
        }
    }

    /// Sends the entry of a key whole, although it is what was sent last. The writer decides it again and sends its
    /// report again, which the caller may have lost.
    pub fn send_again(&mut self, key: &P::Key, now: Instant) {
        if self.entries.contains_key(key)
            && let Some(stream) = &mut self.stream
        {
            stream.send_whole(key, now);
        }
    }

    /// Returns the number of messages of the writer that could not be parsed and were skipped.
    #[must_use]
    pub fn skipped_messages(&self) -> u64 {
        self.skipped
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
        let incarnation = self.incarnation.as_deref();
        let stream = self.stream.as_mut().filter(|stream| stream.generation.is_some())?;
        let credit = self.report_credit.filter(|_| stream.flows(incarnation));
        stream.inbox.next(credit).or_else(|| stream.contents.next())
    }
}
