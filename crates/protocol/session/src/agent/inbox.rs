//! Reports of the writer that the agent has not dealt with.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::ledger::Ledger;
use crate::waiting::Waiting;
use crate::{AgentMessage, Credit, Payload};

/// Largest number of reports that one message says to be done.
const DONE: usize = 1000;

/// A report on its way through the agent: see [`AgentEnd::take_report`](crate::AgentEnd::take_report).
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedReport<P: Payload> {
    /// The entry.
    pub key: P::Key,
    /// The latest report of it.
    pub report: P::Report,
    /// The stream and the number on it.
    pub(super) number: (u64, u64),
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
    /// Tells reports of this stream from those that were taken on an older one.
    stream: u64,
    /// The latest report of each key that waits to be taken.
    reports: BTreeMap<P::Key, P::Report>,
    waiting: Waiting<P::Key>,
    /// The number of the latest report of each key, unless it was dealt with.
    latest: BTreeMap<P::Key, u64>,
    /// Which reports were taken, so that their credit is free.
    taken: Ledger<P::Key>,
    /// Reports that were dealt with, to be sent to the writer.
    done: BTreeSet<u64>,
    /// Reports that could not be parsed, to be sent to the writer. The credit bounds their number.
    unreadable: VecDeque<(u64, String)>,
    /// The credit that was sent to the writer last.
    granted: Option<Credit>,
}

impl<P: Payload> Inbox<P> {
    pub(super) fn new(stream: u64) -> Self {
        Self {
            stream,
            reports: BTreeMap::new(),
            waiting: Waiting::default(),
            latest: BTreeMap::new(),
            taken: Ledger::default(),
            done: BTreeSet::new(),
            unreadable: VecDeque::new(),
            granted: None,
        }
    }

    /// Takes in a report. It replaces the one of its key that waits.
    pub(super) fn receive(&mut self, seq: u64, key: P::Key, report: P::Report) -> Result<(), Gap> {
        self.count(seq)?;
        self.taken.wait(&key, seq);
        self.latest.insert(key.clone(), seq);
        self.waiting.push(key.clone());
        self.reports.insert(key, report);
        Ok(())
    }

    /// Skips a report that could not be parsed. Older ones of its key, which is not known, are dealt with as ever.
    pub(super) fn skip(&mut self, seq: u64, reason: String) -> Result<(), Gap> {
        self.count(seq)?;
        self.unreadable.push_back((seq, reason));
        Ok(())
    }

    fn count(&mut self, seq: u64) -> Result<(), Gap> {
        let expected = self.taken.received().saturating_add(1);
        if seq != expected {
            return Err(Gap { expected, came: seq });
        }
        self.taken.receive(seq);
        Ok(())
    }

    /// Drops the reports of keys that are not to be kept. The writer does not wait for their acknowledgement: it learns
    /// that the entries are gone.
    pub(super) fn retain(&mut self, keep: impl Fn(&P::Key) -> bool) {
        let gone: Vec<P::Key> = self.latest.keys().filter(|key| !keep(key)).cloned().collect();
        gone.iter().for_each(|key| self.forget(key));
    }

    /// Drops the report of an entry that is gone, as [`Self::retain`] does.
    pub(super) fn forget(&mut self, key: &P::Key) {
        self.latest.remove(key);
        self.reports.remove(key);
        self.waiting.remove(key);
        self.taken.settle(key);
    }

    /// Counts a report of an entry that is gone.
    pub(super) fn drop_unneeded(&mut self, seq: u64) -> Result<(), Gap> {
        self.count(seq)
    }

    /// Takes the report that has waited longest.
    pub(super) fn take(&mut self) -> Option<ReceivedReport<P>> {
        let key = self.waiting.pop()?;
        let report = self.reports.remove(&key)?;
        let seq = self.latest.get(&key).copied()?;
        self.taken.settle(&key);
        Some(ReceivedReport { key, report, number: (self.stream, seq) })
    }

    /// Marks a report as dealt with. Only the latest of a key counts: where a newer one came meanwhile, that one is
    /// still to be dealt with.
    pub(super) fn done(&mut self, received: &ReceivedReport<P>) {
        let (stream, seq) = received.number;
        if stream == self.stream && self.latest.get(&received.key) == Some(&seq) {
            self.latest.remove(&received.key);
            self.done.insert(seq);
        }
    }

    /// Returns the next message to the writer: a new window first, then what became of reports.
    pub(super) fn next(&mut self, credit: Option<Credit>) -> Option<AgentMessage<P>> {
        if let Some(credit) = credit.filter(|credit| self.granted != Some(*credit)) {
            self.granted = Some(credit);
            return Some(AgentMessage::ReportCredit(credit));
        }
        if let Some((seq, reason)) = self.unreadable.pop_front() {
            return Some(AgentMessage::ReportUnreadable { seq, reason });
        }
        if !self.done.is_empty() {
            let done = std::iter::from_fn(|| self.done.pop_first()).take(DONE).collect();
            return Some(AgentMessage::ReportsDone(done));
        }
        self.taken.acknowledge().map(AgentMessage::ReportAck)
    }
}
