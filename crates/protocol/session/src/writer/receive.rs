//! Handles the agent's messages.

use std::time::Instant;

use super::rejects::invalid;
use super::{WriterEnd, WriterOutput};
use crate::{AgentMessage, CarriedBy, Data, Frame, GoodbyeReason, Payload, Scope, WriterMessage};

impl<P: Payload> WriterEnd<P> {
    /// Handles a message of the open stream. Ignores messages that come after it was closed.
    pub fn receive(&mut self, message: AgentMessage<P>, now: Instant) -> Vec<WriterOutput<P>> {
        let mut out = Vec::new();
        if self.stream.is_none() {
            return out;
        }
        self.last_heard = Some(now);
        match message {
            AgentMessage::Hello(_) => out.push(self.broke_a_rule("a second Hello came on one stream")),
            AgentMessage::Data(data) => self.data(data, now, &mut out),
            AgentMessage::Heartbeat { sources, backlog } => {
                self.sources.heard(sources, now);
                self.backlog = backlog;
            }
            AgentMessage::ScopeUnknown { scope, reason } => {
                self.scope_unknown(&scope, &reason);
                out.push(WriterOutput::ScopeUnknown);
            }
            AgentMessage::ReportCredit(credit) => self.reports.set_credit(credit),
            AgentMessage::ReportAck(seq) => self.reports_acknowledged(seq, &mut out),
            AgentMessage::ReportsDone(numbers) => self.reports_done(numbers, &mut out),
            AgentMessage::ReportUnreadable { seq, reason } => self.report_unreadable(seq, reason, &mut out),
            AgentMessage::Content { hash, content } => self.content(hash, content, &mut out),
            AgentMessage::Goodbye(_) => {
                self.closed();
                out.push(WriterOutput::Close);
            }
            AgentMessage::Unreadable { reason } => self.unreadable_message(reason, now, &mut out),
        }
        self.ask(now);
        out
    }

    pub(super) fn broke_a_rule(&mut self, message: &str) -> WriterOutput<P> {
        self.dismiss(GoodbyeReason::ProtocolError, message.into())
    }

    /// Absence proves nothing in an unknown scope, so a running snapshot that overlaps it is dropped.
    fn scope_unknown(&mut self, scope: &Scope, reason: &str) {
        self.knowledge.add_unknown(scope, reason);
        if let Some(stream) = &mut self.stream {
            stream.snapshot.take_if(|snapshot| snapshot.overlaps(scope));
        }
    }

    /// The lost message may have been a data frame. The next frame would show the gap, but may never come, so a
    /// snapshot is requested now.
    fn unreadable_message(&mut self, reason: String, now: Instant, out: &mut Vec<WriterOutput<P>>) {
        self.reject_of_nobody(format!("a message could not be read: {reason}"));
        if let Some(stream) = self.stream.as_mut().filter(|stream| stream.data) {
            stream.request("a message could not be read", now);
        }
        out.push(WriterOutput::Unreadable { key: None, reason });
    }

    /// Tells the agent about something without a key that could not be read, once until it is sent.
    pub(super) fn reject_of_nobody(&mut self, message: String) {
        let rejected = self.outbox.iter().any(|message| matches!(message, WriterMessage::Reject(r) if r.key.is_none()));
        if !rejected {
            self.outbox.push(WriterMessage::Reject(invalid(None, message)));
        }
    }

    fn data(&mut self, data: Data<P>, now: Instant, out: &mut Vec<WriterOutput<P>>) {
        let Some(stream) = &mut self.stream else { return };
        if !stream.data {
            let rule = "data came on a stream whose Hello did not tell what is held";
            return out.push(self.broke_a_rule(rule));
        }
        let Some(expected) = stream.ledger.received().checked_add(1) else {
            return out.push(self.broke_a_rule("no frame can follow the one with the largest number"));
        };
        if data.seq < expected {
            // A duplicate.
            return;
        }
        if let Err(excess) = stream.unacknowledged.count(&data, self.limits.credit) {
            return out.push(self.broke_a_rule(&format!("more came than the credit allows: {excess}")));
        }
        stream.ledger.receive(data.seq);
        if data.seq > expected {
            // The only frame that needs none of the lost ones is the begin of a snapshot of everything.
            let begins_anew = matches!(data.frame, Frame::SnapshotBegin { scope: Scope::All });
            self.lost(expected, data.seq, now);
            if !begins_anew {
                return;
            }
        }
        let (carried, before) = (CarriedBy { generation: self.generation, seq: data.seq, at: now }, out.len());
        match data.frame {
            Frame::SnapshotBegin { scope } => self.begin(scope, now),
            Frame::SnapshotChunk { pieces, digest, .. } => {
                pieces.into_iter().for_each(|piece| self.piece(piece, data.seq, out));
                if let Some(snapshot) = self.stream.as_mut().and_then(|stream| stream.snapshot.as_mut()) {
                    snapshot.chunk_ends(digest);
                }
            }
            Frame::SnapshotEnd { summary } => self.end(summary, data.seq, now, out),
            Frame::Delta { changes, .. } => {
                changes.into_iter().for_each(|change| self.change(change, data.seq, now, out));
            }
        }
        for output in out.iter().skip(before) {
            if let WriterOutput::Changed(key) = output {
                self.holdings.carried(key, carried);
            }
        }
    }

    /// Called when frames are missing, so the entries are no longer what the agent takes them to be.
    fn lost(&mut self, expected: u64, came: u64, now: Instant) {
        self.knowledge.disproven(&Scope::All);
        if let Some(stream) = &mut self.stream {
            stream.snapshot = None;
            stream.unfinished = None;
            stream.trusted.remove(&Scope::All);
            stream.awaiting = false;
            stream.request(&format!("frame {expected} was expected and {came} came"), now);
        }
    }
}
