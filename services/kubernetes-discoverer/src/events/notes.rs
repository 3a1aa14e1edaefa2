//! A queue of notes to the owners of Services. No I/O.
//!
//! A Service has at most one note, the newest. Notes are written one at a time and at a limited rate, so that a mass rejection
//! does not flood the source's API server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gimbal_model::SourceKey;
use gimbal_session::RejectReason;

#[cfg(test)]
mod tests;

/// The largest number of pending notes, and of Services remembered as warned. Further notes are dropped and counted.
pub(crate) const MAX_NOTES: usize = 10_000;
/// The pause between two notes while many are pending.
pub(crate) const INTERVAL: Duration = Duration::from_millis(200);
/// Notes that may be written without pauses after a quiet time.
pub(crate) const BURST: u32 = 20;
/// How often a note is tried.
pub(crate) const MAX_TRIES: u32 = 3;
/// The pause after the first failure, four times as long after each further one.
const PAUSE: Duration = Duration::from_secs(2);
/// The pause after a refusal: the right may be granted soon.
const PAUSE_DENIED: Duration = Duration::from_secs(60);

/// A message to the owner of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Note {
    /// The writer rejects the Service, or holds changes of it.
    Rejected(RejectReason, String),
    /// The rejection has ended.
    Accepted,
}

/// The result of writing a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoteOutcome {
    /// It was written.
    Written,
    /// The Service does not exist any more.
    Gone,
    /// The right to write Events is missing.
    Denied,
    /// It could not be written, or whether it was is unknown.
    Failed,
}

/// What happens to a note after a [`NoteOutcome`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterWrite {
    /// It is done.
    Over,
    /// The same note, or a newer one of the same Service, is written later.
    Later,
    /// It is dropped after its last try.
    Dropped,
}

#[derive(Debug)]
struct PendingNote {
    note: Note,
    due: Instant,
    tries: u32,
}

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    waiting: BTreeMap<SourceKey, PendingNote>,
    /// The keys of `waiting`, by due time.
    order: BTreeSet<(Instant, SourceKey)>,
    writing: Option<(SourceKey, Note, u32)>,
    /// Services with an Event about a rejection, and none yet about its end.
    warned: BTreeSet<SourceKey>,
    /// When the next note would be due at a steady rate of one in each [`INTERVAL`].
    flow: Option<Instant>,
}

impl Notes {
    /// Called when a Service is rejected. Returns false if the note is dropped because too many are pending.
    #[must_use]
    pub(crate) fn rejected(&mut self, key: &SourceKey, reason: RejectReason, message: &str, now: Instant) -> bool {
        // The note being written may be about a deleted Service of the same name, and reach the new one.
        if self.writing.as_ref().is_some_and(|(writing, ..)| writing == key) {
            self.warned.insert(key.clone());
        }
        self.put(key, Note::Rejected(reason, message.to_owned()), now)
    }

    /// Called when a rejection ends. Returns false if the note is dropped.
    #[must_use]
    pub(crate) fn resolved(&mut self, key: &SourceKey, now: Instant) -> bool {
        if self.warned.contains(key) {
            return self.put(key, Note::Accepted, now);
        }
        // The rejection ended before its note was written.
        self.forget(key);
        true
    }

    /// Called when a Service is deleted. Its notes are dropped.
    pub(crate) fn gone(&mut self, key: &SourceKey) {
        self.forget(key);
        self.warned.remove(key);
    }

    /// Called when another source takes the place of this one. All notes are dropped.
    pub(crate) fn clear(&mut self) {
        *self = Self { writing: self.writing.take(), flow: self.flow, ..Self::default() };
    }

    /// Returns the note to write now, if one is due. The next one comes after [`Notes::finished`].
    pub(crate) fn next(&mut self, now: Instant) -> Option<(SourceKey, Note)> {
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return None;
        }
        let (_, key) = self.order.pop_first()?;
        let PendingNote { note, tries, .. } = self.waiting.remove(&key)?;
        self.flow = Some(self.flow.map_or(now, |flow| flow.max(now)) + INTERVAL);
        if note != Note::Accepted {
            if self.warned.len() >= MAX_NOTES {
                self.warned.pop_first();
            }
            self.warned.insert(key.clone());
        }
        self.writing = Some((key.clone(), note.clone(), tries));
        Some((key, note))
    }

    /// Returns when [`Notes::next`] has a note, if nothing else happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let (due, _) = self.order.first().filter(|_| self.writing.is_none())?;
        let slack = INTERVAL * (BURST - 1);
        let allowed = self.flow.and_then(|flow| flow.checked_sub(slack));
        Some(allowed.map_or(*due, |allowed| allowed.max(*due)))
    }

    /// Called when the note from [`Notes::next`] was written, or could not be.
    pub(crate) fn finished(&mut self, outcome: NoteOutcome, now: Instant) -> AfterWrite {
        let Some((key, note, tries)) = self.writing.take() else { return AfterWrite::Over };
        let pause = match outcome {
            NoteOutcome::Written | NoteOutcome::Gone => {
                if outcome == NoteOutcome::Gone || note == Note::Accepted {
                    self.warned.remove(&key);
                    // Nothing was written in between that would have to be ended.
                    if self.waiting.get(&key).is_some_and(|waiting| waiting.note == Note::Accepted) {
                        self.forget(&key);
                    }
                }
                return AfterWrite::Over;
            }
            NoteOutcome::Denied => PAUSE_DENIED,
            NoteOutcome::Failed => PAUSE * 4u32.pow(tries),
        };
        if self.waiting.contains_key(&key) {
            return AfterWrite::Later;
        }
        // The Service was deleted meanwhile.
        if !self.warned.contains(&key) {
            return AfterWrite::Over;
        }
        if tries + 1 == MAX_TRIES || self.waiting.len() >= MAX_NOTES {
            self.warned.remove(&key);
            return AfterWrite::Dropped;
        }
        self.wait(key, PendingNote { note, due: now + pause, tries: tries + 1 });
        AfterWrite::Later
    }

    /// Returns the number of pending notes.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn put(&mut self, key: &SourceKey, note: Note, now: Instant) -> bool {
        // Keeps the place in the queue, so that a Service that changes all the time gets its turn.
        let due = self.waiting.get(key).filter(|waiting| waiting.tries == 0).map_or(now, |waiting| waiting.due);
        self.forget(key);
        if self.waiting.len() >= MAX_NOTES {
            return false;
        }
        self.wait(key.clone(), PendingNote { note, due, tries: 0 });
        true
    }

    fn wait(&mut self, key: SourceKey, waiting: PendingNote) {
        self.order.insert((waiting.due, key.clone()));
        self.waiting.insert(key, waiting);
    }

    fn forget(&mut self, key: &SourceKey) {
        if let Some(waiting) = self.waiting.remove(key) {
            self.order.remove(&(waiting.due, key.clone()));
        }
    }
}
