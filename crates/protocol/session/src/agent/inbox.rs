//! Reports of the writer that the agent has not dealt with.

use std::collections::BTreeMap;

use crate::ledger::Ledger;
use crate::{AgentMessage, Credit, Payload};

/// A report on its way through the agent: see [`AgentEnd::take_report`](crate::AgentEnd::take_report).
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedReport<P: Payload> {
    /// The entry.
    pub key: P::Key,
    /// The latest report of it.
    pub report: P::Report,
    pub(super) ticket: u64,
}

/// A report that was lost on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("report {expected} was expected and {came} came")]
pub(super) struct Gap {
    expected: u64,
    came: u64,
}

/// The reports of one stream. The writer sends all of them again on the next one.
#[derive(Debug, Clone)]
pub(super) struct Inbox<P: Payload> {
    /// The latest report of each key, unless it was taken, in the order of the keys.
    waiting: BTreeMap<P::Key, P::Report>,
    /// The number of the latest report of each key, unless it was dealt with; unique over all streams of this agent's
    /// end.
    tickets: BTreeMap<P::Key, u64>,
    last_ticket: u64,
    ledger: Ledger<P::Key>,
    /// The credit that was sent to the writer last.
    granted: Option<Credit>,
}

impl<P: Payload> Inbox<P> {
    /// Creates the inbox of a new stream. Its numbers follow `last_ticket`, so that a report that was taken on an older
    /// stream is not mistaken for one of this.
    pub(super) fn new(last_ticket: u64) -> Self {
        let (waiting, tickets) = (BTreeMap::new(), BTreeMap::new());
        Self { waiting, tickets, last_ticket, ledger: Ledger::default(), granted: None }
    }

    pub(super) fn last_ticket(&self) -> u64 {
        self.last_ticket
    }

    /// Takes in a report. It replaces the one of its key that waits.
    pub(super) fn receive(&mut self, seq: u64, key: P::Key, report: P::Report) -> Result<(), Gap> {
        let expected = self.ledger.received().saturating_add(1);
        if seq != expected {
            return Err(Gap { expected, came: seq });
        }
        self.ledger.receive(seq);
        self.ledger.wait(&key, seq);
        self.last_ticket += 1;
        self.tickets.insert(key.clone(), self.last_ticket);
        self.waiting.insert(key, report);
        Ok(())
    }

    pub(super) fn take(&mut self) -> Option<ReceivedReport<P>> {
        let (key, report) = self.waiting.pop_first()?;
        let ticket = self.tickets.get(&key).copied()?;
        Some(ReceivedReport { key, report, ticket })
    }

    /// Marks a report as dealt with. Only the latest of a key counts: where a newer one came meanwhile, that one is
    /// still to be dealt with.
    pub(super) fn done(&mut self, received: &ReceivedReport<P>) {
        if self.tickets.get(&received.key) == Some(&received.ticket) {
            self.tickets.remove(&received.key);
            self.ledger.settle(&received.key);
        }
    }

    /// Returns the next message to the writer: a new window first, then an acknowledgement.
    pub(super) fn next(&mut self, credit: Option<Credit>) -> Option<AgentMessage<P>> {
        if let Some(credit) = credit.filter(|credit| self.granted != Some(*credit)) {
            self.granted = Some(credit);
            return Some(AgentMessage::ReportCredit(credit));
        }
        self.ledger.acknowledge().map(AgentMessage::ReportAck)
    }
}
