//! Pauses after writes that failed.

use std::time::{Duration, Instant};

use gimbal_kuryr_model::Text;
use gimbal_schedule::Backoff;

use crate::{Told, WrittenObject};

/// After a conflict the watch shows the new version soon, which ends the pause.
const CONFLICT: Backoff = Backoff { first: Duration::from_millis(50), longest: Duration::from_secs(5) };
/// After no answer.
const UNKNOWN: Backoff = Backoff { first: Duration::from_millis(200), longest: Duration::from_secs(30) };
/// After a refusal, which lasts until somebody changes something.
const REFUSED: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };
/// After a deletion, until the watch shows it.
const DELETED: Duration = Duration::from_secs(5);

/// The reason of a refusal where the API server has answered as if it had carried out the write.
const UNDONE: &str = "it takes the write, and nothing of it stays; a webhook may be at it";

/// What a write is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Asks whether an object is there.
    Read,
    /// Sets a finalizer, or nothing but finalizer and owner.
    Protect,
    /// Makes a custom resource.
    Create,
    /// Sets spec, finalizer and owner of a custom resource.
    Conform,
    /// Sets a status.
    Status,
    /// Deletes a custom resource.
    Delete,
    /// Removes a finalizer.
    Release,
}

impl Purpose {
    /// Returns what the write does, in words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read it",
            Self::Protect => "set the finalizer",
            Self::Create => "create it",
            Self::Conform => "set the spec",
            Self::Status => "set the status",
            Self::Delete => "delete it",
            Self::Release => "remove the finalizer",
        }
    }
}

/// A write in flight.
#[derive(Debug)]
pub struct InFlightWrite {
    /// What it is for.
    pub purpose: Purpose,
    /// Fingerprint of what the object is to be like afterwards.
    pub wanted: u64,
    /// Version of the object when it was sent; `None` if there was none.
    pub version: Option<Text>,
    /// The finalizer that it sets, or removes.
    pub finalizer: Option<&'static str>,
    /// Whether the cluster's store went back meanwhile: its answer says nothing.
    pub is_void: bool,
    /// What is reported when it is done.
    pub notices: Vec<Told>,
}

impl InFlightWrite {
    /// Returns a write of which nothing else is remembered.
    #[must_use]
    pub fn new(purpose: Purpose) -> Self {
        Self { purpose, wanted: 0, version: None, finalizer: None, is_void: false, notices: Vec::new() }
    }

    /// Whether of what was asked for the object's metadata nothing has stayed: it has the version that it had before, or, where
    /// something else was made of the write, the finalizer is not as it was to be. What becomes of a spec or a status is noted by
    /// [`ObjectPauses::accepted`].
    #[must_use]
    pub fn is_undone(&self, answer: &WrittenObject) -> bool {
        let is_to_be_there = match self.purpose {
            Purpose::Protect => true,
            Purpose::Release => false,
            _ => return false,
        };
        let is_other = |finalizer| answer.has_finalizer(finalizer) == Some(!is_to_be_there);
        let is_same = self.version.is_some() && self.version.as_ref() == answer.version();
        is_same || self.finalizer.is_some_and(is_other)
    }
}

/// A write that was refused.
#[derive(Debug)]
struct Refused {
    purpose: Purpose,
    /// How often in a row.
    times: u32,
    /// Until when it is not tried again.
    until: Instant,
    reason: String,
}

/// What is remembered of the writes to one object.
#[derive(Debug, Default)]
pub struct ObjectPauses {
    /// The write that has not ended.
    pub in_flight: Option<InFlightWrite>,
    /// Failures in a row.
    failures: u32,
    /// Until when nothing is written, and whether the next sight of the object ends that.
    pause: Option<(Instant, bool)>,
    /// Writes that were refused, one of each purpose.
    refused: Vec<Refused>,
    /// What the API server made of what was written last, where it is not the same: fingerprints of both. It is not fought
    /// over.
    accepted: Vec<(Purpose, u64, u64)>,
}

impl ObjectPauses {
    /// The cluster's store went back: the answer to what is in flight says nothing.
    pub fn void_in_flight(&mut self) {
        if let Some(write) = &mut self.in_flight {
            write.is_void = true;
        }
    }

    /// Whether there is nothing to keep.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_none() && self.failures == 0 && self.refused.is_empty() && self.accepted.is_empty()
    }

    /// Whether the last write failed.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.failures > 0 || !self.refused.is_empty()
    }

    /// Which writes were refused, and why.
    pub fn refusals(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.refused.iter().map(|refused| (refused.purpose.as_str(), &*refused.reason))
    }

    /// The object is gone: one of the same name has nothing to do with what was refused. What is in flight still ends.
    pub fn object_gone(&mut self) {
        *self = Self { in_flight: self.in_flight.take(), ..Self::default() };
    }

    /// Nothing is to be written: what was tried is done, or not wanted any more.
    pub fn nothing_to_write(&mut self) {
        (self.failures, self.pause) = (0, None);
        self.refused.clear();
    }

    /// Whether the API server has refused the last write of a purpose.
    #[must_use]
    pub fn is_refused(&self, purpose: Purpose) -> bool {
        self.refusal(purpose).is_some()
    }

    /// Why the API server has refused the last write of a purpose, if it has.
    #[must_use]
    pub fn refusal(&self, purpose: Purpose) -> Option<&str> {
        self.refused.iter().find(|refused| refused.purpose == purpose).map(|refused| &*refused.reason)
    }

    /// Until when something has to wait.
    #[must_use]
    pub fn longest(&self, now: Instant) -> Option<Instant> {
        let refused = self.refused.iter().map(|refused| refused.until).max();
        self.pause.map(|(until, _)| until).max(refused).filter(|until| now < *until)
    }

    /// Until when a write has to wait.
    #[must_use]
    pub fn until(&self, purpose: Purpose, now: Instant) -> Option<Instant> {
        let pause = self.pause.map(|(until, _)| until).filter(|until| now < *until);
        pause.max(self.refused_until(purpose, now))
    }

    /// Until when a write has to wait because it was refused.
    #[must_use]
    pub fn refused_until(&self, purpose: Purpose, now: Instant) -> Option<Instant> {
        let refused = self.refused.iter().find(|refused| refused.purpose == purpose);
        refused.map(|refused| refused.until).filter(|until| now < *until)
    }

    /// The watch has shown the object.
    pub fn seen(&mut self) {
        if self.pause.is_some_and(|(_, until_seen)| until_seen) {
            self.pause = None;
        }
    }

    /// The write was carried out.
    pub fn done(&mut self, purpose: Purpose, now: Instant) {
        self.failures = 0;
        self.pause = (purpose == Purpose::Delete).then(|| (now + DELETED, true));
        self.refused.retain(|refused| refused.purpose != purpose);
    }

    /// The object has another version, or another UID.
    pub fn conflicted(&mut self, now: Instant) {
        self.failed(CONFLICT, true, now);
    }

    /// There was no answer.
    pub fn unanswered(&mut self, now: Instant) {
        self.failed(UNKNOWN, false, now);
    }

    /// The API server asks to wait, possibly for a given time.
    pub fn throttled(&mut self, after: Option<Duration>, now: Instant) {
        self.failed(UNKNOWN, false, now);
        if let Some(after) = after {
            self.pause = self.pause.max(Some((now + after, false)));
        }
    }

    fn failed(&mut self, backoff: Backoff, until_seen: bool, now: Instant) {
        self.pause = Some((now + backoff.delay(self.failures), until_seen));
        self.failures = self.failures.saturating_add(1);
    }

    /// The write was carried out, and its object has the version that it had before: what was asked for is undone already, and would be
    /// again at once. Returns the words of the refusal that this amounts to, if it is the first of its kind.
    pub fn undone(&mut self, purpose: Purpose, now: Instant) -> Option<&'static str> {
        (self.failures, self.pause) = (0, None);
        self.refuse(purpose, UNDONE.to_owned(), now).then_some(UNDONE)
    }

    /// Returns whether it is the first refusal of its kind.
    pub fn refuse(&mut self, purpose: Purpose, reason: String, now: Instant) -> bool {
        let of = |refused: &Refused| refused.purpose == purpose;
        let before = self.refused.iter().find(|refused| of(refused)).map_or(0, |refused| refused.times);
        self.refused.retain(|refused| !of(refused));
        let until = now + REFUSED.delay(before);
        self.refused.push(Refused { purpose, times: before.saturating_add(1), until, reason });
        before == 0
    }

    /// Notes what became of what was written.
    pub fn accepted(&mut self, purpose: Purpose, wanted: u64, stored: u64) {
        self.accepted.retain(|(of, ..)| *of != purpose);
        if wanted != stored {
            self.accepted.push((purpose, wanted, stored));
        }
    }

    /// Whether the API server has made `stored` of `wanted` before.
    #[must_use]
    pub fn is_accepted(&self, purpose: Purpose, wanted: u64, stored: impl FnOnce() -> u64) -> bool {
        let known = self.accepted.iter().find(|(of, asked, _)| *of == purpose && *asked == wanted);
        known.is_some_and(|(.., accepted)| *accepted == stored())
    }
}
