//! What goes back to the agent: reports, facts, and requests for contents.

use super::{WriterEnd, WriterOutput};
use crate::{Payload, WriterMessage};

impl<P: Payload> WriterEnd<P> {
    /// Sets the report of an entry. It replaces the one before, is sent again on each new stream, and is kept until
    /// [`Self::forget_report`]. [`WriterOutput::ReportDone`] comes when the agent has dealt with it.
    pub fn report(&mut self, key: P::Key, report: P::Report) {
        self.reports.put(key, report);
    }

    /// Drops the report of an entry. One that was sent already may still arrive.
    pub fn forget_report(&mut self, key: &P::Key) {
        self.reports.forget(key);
    }

    /// Returns the latest report of an entry.
    #[must_use]
    pub fn latest_report(&self, key: &P::Key) -> Option<&P::Report> {
        self.reports.get(key)
    }

    /// Returns whether the agent has not yet dealt with the latest report of an entry.
    #[must_use]
    pub fn is_report_pending(&self, key: &P::Key) -> bool {
        self.reports.is_pending(key)
    }

    /// Sets what the writer says about itself, which is sent now and on each new stream. It replaces what was said
    /// before.
    pub fn set_facts(&mut self, facts: P::Facts) {
        if self.facts.as_ref() != Some(&facts) {
            self.facts = Some(facts);
            self.facts_changed = true;
        }
    }

    /// Asks the agent for a content; [`WriterOutput::Content`] is the answer. Asked again on each new stream until
    /// then.
    pub fn want_content(&mut self, hash: P::Hash) {
        self.contents.want(hash);
    }

    /// Stops asking for a content. An answer that still comes is refused.
    pub fn forget_content(&mut self, hash: &P::Hash) {
        self.contents.forget(hash);
    }

    /// Called when a new stream opened: sends everything again, because its agent has received nothing.
    pub(super) fn tell_all_again(&mut self) {
        self.facts_changed = self.facts.is_some();
        self.reports.opened();
        self.contents.opened();
    }

    /// Adds the messages to send: facts, then requests, then as many reports as the agent's window takes.
    pub(super) fn take_way_back(&mut self, messages: &mut Vec<WriterMessage<P>>) {
        if let Some(facts) = self.facts.as_ref().filter(|_| std::mem::take(&mut self.facts_changed)) {
            messages.push(WriterMessage::Facts(facts.clone()));
        }
        messages.extend(std::iter::from_fn(|| self.contents.next()));
        messages.extend(std::iter::from_fn(|| self.reports.next()));
    }

    pub(super) fn reports_acknowledged(&mut self, seq: u64, out: &mut Vec<WriterOutput<P>>) {
        match self.reports.acknowledged(seq) {
            Some(done) => out.extend(done.into_iter().map(|(key, report)| WriterOutput::ReportDone { key, report })),
            None => out.push(self.broke_a_rule("a report was acknowledged that was never sent")),
        }
    }

    pub(super) fn content(&mut self, hash: P::Hash, content: Option<P::Content>, out: &mut Vec<WriterOutput<P>>) {
        match self.contents.receive(&hash, content.as_ref()) {
            Ok(()) => out.push(WriterOutput::Content { hash, content }),
            Err(refused) => out.push(WriterOutput::Unreadable { key: None, reason: refused.to_string() }),
        }
    }
}
