//! What is to be told to the owners of Services, and when. No I/O.
//!
//! A Service has one note at most, the newest. One note is written at a time and so many a second, so that nothing which
//! happens elsewhere becomes a flood for the source's API server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gimbal_model::SourceKey;
use gimbal_session::RejectReason;

#[cfg(test)]
mod tests;

/// Services whose notes wait, and Services that are remembered as told. Beyond that there is a flood, and the metrics tell.
pub(crate) const MOST: usize = 10_000;
/// Between two notes, when many wait.
pub(crate) const INTERVAL: Duration = Duration::from_millis(200);
/// Notes that may follow each other at once after a rest.
pub(crate) const BURST: u32 = 20;
/// Times that a note is tried.
pub(crate) const TRIES: u32 = 3;
/// After the first failure; four times as long after the next.
const PAUSE: Duration = Duration::from_secs(2);
/// After a refusal: a right may still be on its way.
const PAUSE_DENIED: Duration = Duration::from_secs(60);

/// Something to tell the owner of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Note {
    /// The writer rejects the Service, or holds changes of it.
    Rejected(RejectReason, String),
    /// It no longer does.
    Accepted,
}

/// What became of a note that was to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is in the source.
    Written,
    /// The Service is not there any more: there is nobody to be told.
    Gone,
    /// There is no right to write it.
    Denied,
    /// It could not be written, or nobody knows.
    Failed,
}

/// What follows from an [`Outcome`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is done with.
    Over,
    /// The same note, or a newer one of the same Service, is tried later.
    Later,
    /// It was tried often enough.
    Dropped,
}

#[derive(Debug)]
struct Waiting {
    note: Note,
    due: Instant,
    tries: u32,
}

/// All notes.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    waiting: BTreeMap<SourceKey, Waiting>,
    /// The keys of `waiting`, in the order in which they are due.
    order: BTreeSet<(Instant, SourceKey)>,
    writing: Option<(SourceKey, Note, u32)>,
    /// Their owners may have been told of a rejection, and not yet of its end.
    warned: BTreeSet<SourceKey>,
    /// When a steady flow of one note in each [`INTERVAL`] would come to the next one.
    flow: Option<Instant>,
}

impl Notes {
    /// A Service is rejected. False: too many notes wait, this one is dropped.
    #[must_use]
    pub(crate) fn rejected(&mut self, key: &SourceKey, reason: RejectReason, message: &str, now: Instant) -> bool {
        // What is being written for a Service that went may reach the one that came in its place.
        if self.writing.as_ref().is_some_and(|(writing, ..)| writing == key) {
            self.warned.insert(key.clone());
        }
        self.put(key, Note::Rejected(reason, message.to_owned()), now)
    }

    /// A Service is no longer rejected. False: as for [`Notes::rejected`].
    #[must_use]
    pub(crate) fn resolved(&mut self, key: &SourceKey, now: Instant) -> bool {
        if self.warned.contains(key) {
            return self.put(key, Note::Accepted, now);
        }
        // Over before anybody was told of it.
        self.forget(key);
        true
    }

    /// A Service is gone from the source, and its owner's interest with it.
    pub(crate) fn gone(&mut self, key: &SourceKey) {
        self.forget(key);
        self.warned.remove(key);
    }

    /// It is another source: none of its owners was told anything.
    pub(crate) fn clear(&mut self) {
        *self = Self { writing: self.writing.take(), flow: self.flow, ..Self::default() };
    }

    /// The note to write now. Nothing else comes before [`Notes::finished`] tells what became of it.
    pub(crate) fn next(&mut self, now: Instant) -> Option<(SourceKey, Note)> {
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return None;
        }
        let (_, key) = self.order.pop_first()?;
        let Waiting { note, tries, .. } = self.waiting.remove(&key)?;
        self.flow = Some(self.flow.map_or(now, |flow| flow.max(now)) + INTERVAL);
        if note != Note::Accepted {
            if self.warned.len() >= MOST {
                self.warned.pop_first();
            }
            self.warned.insert(key.clone());
        }
        self.writing = Some((key.clone(), note.clone(), tries));
        Some((key, note))
    }

    /// When [`Notes::next`] has one, if nothing else happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let (due, _) = self.order.first().filter(|_| self.writing.is_none())?;
        let slack = INTERVAL * (BURST - 1);
        let allowed = self.flow.and_then(|flow| flow.checked_sub(slack));
        Some(allowed.map_or(*due, |allowed| allowed.max(*due)))
    }

    /// What became of the note that is being written.
    pub(crate) fn finished(&mut self, outcome: Outcome, now: Instant) -> Verdict {
        let Some((key, note, tries)) = self.writing.take() else { return Verdict::Over };
        let pause = match outcome {
            Outcome::Written | Outcome::Gone => {
                if outcome == Outcome::Gone || note == Note::Accepted {
                    self.warned.remove(&key);
                    // What is to end was told in between to nobody.
                    if self.waiting.get(&key).is_some_and(|waiting| waiting.note == Note::Accepted) {
                        self.forget(&key);
                    }
                }
                return Verdict::Over;
            }
            Outcome::Denied => PAUSE_DENIED,
            Outcome::Failed => PAUSE * 4u32.pow(tries),
        };
        if self.waiting.contains_key(&key) {
            return Verdict::Later;
        }
        // The Service is gone meanwhile.
        if !self.warned.contains(&key) {
            return Verdict::Over;
        }
        if tries + 1 == TRIES || self.waiting.len() >= MOST {
            self.warned.remove(&key);
            return Verdict::Dropped;
        }
        self.wait(key, Waiting { note, due: now + pause, tries: tries + 1 });
        Verdict::Later
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn put(&mut self, key: &SourceKey, note: Note, now: Instant) -> bool {
        // Its place in the queue stays, so that a Service which changes all the time is told of in its turn.
        let due = self.waiting.get(key).filter(|waiting| waiting.tries == 0).map_or(now, |waiting| waiting.due);
        self.forget(key);
        if self.waiting.len() >= MOST {
            return false;
        }
        self.wait(key.clone(), Waiting { note, due, tries: 0 });
        true
    }

    fn wait(&mut self, key: SourceKey, waiting: Waiting) {
        self.order.insert((waiting.due, key.clone()));
        self.waiting.insert(key, waiting);
    }

    fn forget(&mut self, key: &SourceKey) {
        if let Some(waiting) = self.waiting.remove(key) {
            self.order.remove(&(waiting.due, key.clone()));
        }
    }
}
