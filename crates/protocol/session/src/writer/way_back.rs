//! What goes back to the agent: reports, facts, and requests for contents.

use super::contents::ContentFate;
use super::reports::{NeverSent, ReportError, TooLarge};
use super::{WriterEnd, WriterOutput};
use crate::{Payload, WriterMessage};

impl<P: Payload> WriterEnd<P> {
    /// Sets the report of an entry. It replaces the one before, is sent again on each new stream, and is kept until the
    /// entry is removed or [`Self::forget_report`]. [`WriterOutput::ReportDone`] comes when the agent has dealt with it.
    ///
    /// A report equal to the one before is sent only if the agent sent the entry since: it may have lost what was
    /// reported. Where [`Self::settle`] comes without another report, the latest one is sent again.
    ///
    /// # Errors
    /// Returns an error if no entry is held under the key, or if the report fits in no message.
    pub fn report(&mut self, key: P::Key, report: P::Report) -> Result<(), ReportError> {
        if self.holdings.get(&key).is_none() {
            return Err(ReportError::NoEntry);
        }
        Ok(self.reports.put(key, report)?)
    }

    /// Drops the report of an entry. One that was sent already may still arrive.
    pub fn forget_report(&mut self, key: &P::Key) {
        self.reports.forget(key);
    }

    /// Returns the latest report of an entry.
    #[must_use]
    pub fn latest_report(&self, key: &P::Key) -> Option<&P::StoredReport> {
        self.reports.get(key)
    }

    /// Returns whether the agent has not yet dealt with the latest report of an entry.
    #[must_use]
    pub fn is_report_pending(&self, key: &P::Key) -> bool {
        self.reports.is_pending(key)
    }

    /// Sets what the writer says about itself, which is sent now and on each new stream. It replaces what was said
    /// before.
    ///
    /// # Errors
    /// Returns an error if the facts fit in no message. Those before stay.
    pub fn set_facts(&mut self, facts: P::Facts) -> Result<(), TooLarge> {
        TooLarge::check(P::facts_len(&facts))?;
        if self.facts.as_ref() != Some(&facts) {
            self.facts = Some(facts);
            self.facts_changed = true;
        }
        Ok(())
    }

    /// Asks the agent for a content; [`WriterOutput::Content`] is the answer. Until then it is asked for again, on this
    /// stream after a while and on each new one.
    pub fn want_content(&mut self, hash: P::Hash) {
        self.contents.want(hash);
    }

    /// Stops asking for a content. An answer that still comes is ignored.
    pub fn forget_content(&mut self, hash: &P::Hash) {
        self.contents.forget(hash);
    }

    /// Called when a new stream opened: sends everything again, because its agent has received nothing.
    pub(super) fn way_back_opened(&mut self) {
        self.facts_changed = self.facts.is_some();
        self.reports.opened();
        self.contents.opened();
    }

    /// Adds the facts, if they are to be sent and there is room.
    pub(super) fn take_facts(&mut self, room: usize, messages: &mut Vec<WriterMessage<P>>) {
        if messages.len() < room
            && std::mem::take(&mut self.facts_changed)
            && let Some(facts) = &self.facts
        {
            messages.push(WriterMessage::Facts(facts.clone()));
        }
    }

    /// Adds messages until there are `room`: requests, then as many reports as the agent's window takes.
    pub(super) fn take_way_back(&mut self, room: usize, messages: &mut Vec<WriterMessage<P>>) {
        while messages.len() < room
            && let Some(message) = self.next_way_back()
        {
            messages.push(message);
        }
    }

    fn next_way_back(&mut self) -> Option<WriterMessage<P>> {
        // An agent that has not read its source would take every report as one of something that is gone, and would
        // have no content.
        let now = self.last_heard.filter(|_| self.stream.as_ref().is_some_and(|stream| stream.data))?;
        self.contents.next(now).or_else(|| self.reports.next())
    }

    pub(super) fn reports_acknowledged(&mut self, seq: u64, out: &mut Vec<WriterOutput<P>>) {
        if let Err(NeverSent) = self.reports.acknowledged(seq) {
            out.push(self.acknowledged_nothing());
        }
    }

    pub(super) fn reports_done(&mut self, numbers: Vec<u64>, out: &mut Vec<WriterOutput<P>>) {
        for seq in numbers {
            match self.reports.ended(seq) {
                Ok(Some((key, report))) => out.push(WriterOutput::ReportDone { key, report }),
                Ok(None) => {}
                Err(NeverSent) => return out.push(self.acknowledged_nothing()),
            }
        }
    }

    /// Called when the agent could not parse a report. It is sent again on the next stream only.
    pub(super) fn report_unreadable(&mut self, seq: u64, reason: String, out: &mut Vec<WriterOutput<P>>) {
        match self.reports.ended(seq) {
            Ok(Some((key, report))) => out.push(WriterOutput::ReportUnreadable { key, report, reason }),
            Ok(None) => {}
            Err(NeverSent) => out.push(self.acknowledged_nothing()),
        }
    }

    fn acknowledged_nothing(&mut self) -> WriterOutput<P> {
        self.broke_a_rule("a report was acknowledged that was never sent")
    }

    pub(super) fn content(&mut self, hash: P::Hash, content: Option<P::Content>, out: &mut Vec<WriterOutput<P>>) {
        let content = match self.contents.receive(&hash, content.as_ref()) {
            ContentFate::Taken => content,
            ContentFate::NotAwaited => return,
            ContentFate::OtherHash => {
                let reason = "a content came that does not have the hash that was asked for".to_owned();
                out.push(WriterOutput::Unreadable { key: None, reason });
                None
            }
        };
        out.push(WriterOutput::Content { hash, content });
    }
}
