//! What is offered to the writer under one key, and what the writer says of it.

use std::sync::Arc;
use std::time::Instant;

use gimbal_kuryr_model::{DesiredEntry, LoadBalancerReport, Phase, Text};
use gimbal_kuryr_translate::NotStreamed;
use gimbal_kuryr_wire::PackedEntry;
use gimbal_session::KeptEntry as _;

use crate::KeptReport;

/// What is offered under one key. `T` is what identifies a report towards the session that brought it.
#[derive(Debug)]
pub struct OfferedEntry<T> {
    /// What is offered, or will be with the next drain.
    pub offered: Option<PackedEntry>,
    /// What the last drain offered.
    pub drained: Option<PackedEntry>,
    /// The owner of which the writer has said, while it was offered as being deleted, that nothing is left.
    pub gone: Option<Text>,
    /// The latest report of the owner that is offered.
    pub report: Option<KeptReport>,
    /// The report that has not been dealt with.
    pub token: Option<T>,
    /// Why the writer does not try it.
    pub reject: Option<Box<EntryReject>>,
    /// Whether the writer has taken back what it refused, and has not reported since.
    pub accepted: bool,
    /// Since when something is offered that is not there yet.
    pub changing_since: Option<Instant>,
    /// Since when the writer tries it and it is not ready, as far as that was looked at.
    pub unready_since: Option<Instant>,
}

impl<T> Default for OfferedEntry<T> {
    fn default() -> Self {
        Self {
            offered: None,
            drained: None,
            gone: None,
            report: None,
            token: None,
            reject: None,
            accepted: false,
            changing_since: None,
            unready_since: None,
        }
    }
}

/// What the writer says of an entry that it does not try.
#[derive(Debug)]
pub struct EntryReject {
    /// The reason, as the condition and the Event have it.
    pub words: NotStreamed,
    /// Whether it was said on a former stream. It is said again on this one before a report of the entry, if it still holds.
    pub is_stale: bool,
}

/// What a drain has found under one key.
#[derive(Debug)]
pub struct DrainedEntry<T> {
    /// The entry; `None` if it is not offered any more.
    pub entry: Option<PackedEntry>,
    /// The token of a report that is out of date now.
    pub token: Option<T>,
}

impl<T> OfferedEntry<T> {
    /// Whether there is nothing to keep.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.offered.is_none() && self.drained.is_none() && self.token.is_none() && self.reject.is_none()
    }

    /// The owner of what is offered.
    #[must_use]
    pub fn owner(&self) -> Option<&Text> {
        self.offered.as_ref().map(|entry| entry.owner())
    }

    /// The owner of what is offered and wanted.
    #[must_use]
    pub fn wanted_owner(&self) -> Option<&Text> {
        self.offered.as_ref().filter(|entry| !entry.is_deleting()).map(|entry| entry.owner())
    }

    /// Whether an entry is offered as being deleted.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.offered.as_ref().is_some_and(|entry| entry.is_deleting())
    }

    /// Whether the writer has said that nothing of this owner is left.
    #[must_use]
    pub fn is_gone(&self, owner: &Text) -> bool {
        self.gone.as_ref() == Some(owner)
    }

    /// The report, if it is about this owner.
    #[must_use]
    pub fn report_of(&self, owner: &Text) -> Option<Arc<LoadBalancerReport>> {
        self.report.as_ref().filter(|report| report.owner == *owner).map(KeptReport::get)
    }

    /// Called when the report shows everywhere. Returns its token.
    pub fn report_shown(&mut self) -> Option<T> {
        if let Some(report) = &mut self.report {
            report.rest();
        }
        self.token.take()
    }

    /// Whether the statuses say more than is known: of what the writer says, nothing was heard since they were written.
    #[must_use]
    pub fn heard_nothing(&self, owner: &Text) -> bool {
        let has_report = self.report.as_ref().is_some_and(|report| report.owner == *owner);
        !has_report && !self.accepted
    }

    /// Drops the report, and returns its token.
    pub fn forget_report(&mut self) -> Option<T> {
        (self.report, self.accepted) = (None, false);
        self.token.take()
    }

    /// Called when the custom resource is gone. One that takes its place has no status, so the writer hears that nothing is known
    /// any more and reports anew: what it said of the one before may be about another spec of the same generation. Returns the
    /// token.
    pub fn forget_shown_report(&mut self) -> Option<T> {
        let is_news = self.drained.as_ref().and_then(PackedEntry::known) == Some(true);
        if is_news { self.forget_report() } else { None }
    }

    /// Whether what was sent says that the status names nothing that exists.
    #[must_use]
    pub fn told_unknown(&self) -> bool {
        self.drained.as_ref().and_then(PackedEntry::known) == Some(false)
    }

    /// Whether this is offered already.
    #[must_use]
    pub fn offers(&self, entry: Option<&DesiredEntry>) -> bool {
        match (&self.offered, entry) {
            (Some(offered), Some(entry)) => offered.is(entry),
            (offered, entry) => offered.is_none() && entry.is_none(),
        }
    }

    /// Sets what is offered, instead of something else. Returns the token of a report that is void therefore.
    pub fn set(&mut self, entry: Option<DesiredEntry>) -> OfferChange<T> {
        let is_other_owner = self.owner() != entry.as_ref().map(DesiredEntry::owner);
        let mut token = None;
        if is_other_owner {
            self.gone = None;
            token = self.forget_report();
        }
        // What the writer says of an entry that wants nothing is not about what is wanted now.
        self.reject.take_if(|_| self.offered.as_ref().is_some_and(PackedEntry::is_alone));
        self.offered = entry.map(PackedEntry::from);
        OfferChange { token, is_other_owner }
    }

    /// Takes back a deletion of which the writer has not heard: what it heard last is offered again, if that is of this owner.
    pub fn take_back_deletion(&mut self) {
        if let Some(entry) = self.offered.take_if(|entry| entry.is_deleting() && self.drained.as_ref() != Some(entry)) {
            self.offered = self.drained.clone().filter(|drained| drained.owner() == entry.owner());
        }
    }

    /// Returns what changed since the last drain. `shows_ready` says whether the status shows that a generation is there.
    pub fn drain(&mut self, now: Instant, shows_ready: impl Fn(i64) -> bool) -> Option<DrainedEntry<T>> {
        if self.drained == self.offered {
            return None;
        }
        let is_deleting = |entry: &Option<PackedEntry>| entry.as_ref().is_some_and(|entry| entry.is_deleting());
        // What was reported of it is out of date now, and its generation does not tell.
        let is_other = is_other_of_one_generation(self.drained.as_ref(), self.offered.as_ref());
        let mut token = None;
        if is_other || is_deleting(&self.offered) != is_deleting(&self.drained) {
            token = self.forget_report();
            self.gone = None;
        }
        if self.offered.is_none() {
            // One that came since it was withdrawn: no other will take its place.
            token = token.or_else(|| self.forget_report());
        }
        self.drained = self.offered.clone();
        self.note_drained(now, shows_ready);
        if self.drained.is_none() {
            self.accepted = false;
            self.reject.take_if(|reject| reject.is_stale);
        }
        Some(DrainedEntry { entry: self.drained.clone(), token })
    }

    /// Called when the entry was drained, and when the writer begins to try it.
    fn note_drained(&mut self, now: Instant, shows_ready: impl Fn(i64) -> bool) {
        let Some(generation) = self.drained.as_ref().and_then(PackedEntry::generation) else {
            self.changing_since = None;
            return;
        };
        // After a restart everything is offered again; the statuses say what is there.
        if !shows_ready(generation) && self.reject.is_none() {
            self.changing_since.get_or_insert(now);
        }
    }

    /// Whether a report is about what the writer has been sent. One about what was sent before may still be on its way.
    #[must_use]
    pub fn is_about(&self, report: &LoadBalancerReport) -> bool {
        let is_gone = report.phase == Phase::Gone;
        let drained = self.drained.as_ref();
        drained.is_some_and(|entry| *entry.owner() == report.owner && (entry.is_deleting() || !is_gone))
    }

    /// Takes in a report that [is about](Self::is_about) what was sent.
    pub fn take_report(&mut self, report: LoadBalancerReport, token: T) {
        if report.phase == Phase::Gone {
            self.gone = Some(report.owner.clone());
        }
        self.reject.take_if(|reject| reject.is_stale);
        self.accepted = false;
        self.report = Some(KeptReport::new(report));
        self.token = Some(token);
    }

    /// Takes in that the writer does not try the entry, and why.
    pub fn rejected(&mut self, reason: &'static str, message: &str) {
        let words = NotStreamed::Rejected { reason, message: message.into() };
        self.reject = Some(Box::new(EntryReject { words, is_stale: false }));
        self.accepted = false;
        // What is not tried takes no time.
        self.changing_since = None;
    }

    /// Takes in that the writer tries an entry that it refused before.
    pub fn resolved(&mut self, now: Instant, shows_ready: impl Fn(i64) -> bool) {
        if self.reject.take().is_some() {
            self.accepted = true;
            self.note_drained(now, shows_ready);
        }
    }

    /// Takes in that there is a new stream. Returns whether something that was said has passed.
    pub fn stream_opened(&mut self) -> bool {
        let Some(reject) = &mut self.reject else { return false };
        reject.is_stale = true;
        let has_passed = self.drained.is_none();
        if has_passed {
            self.reject = None;
        }
        has_passed
    }

    /// Why the writer does not try what it was sent. That it refuses what wants nothing is meant.
    #[must_use]
    pub fn refusal(&self) -> Option<NotStreamed> {
        let is_sent = self.drained.as_ref().is_some_and(|entry| !entry.is_alone());
        self.reject.as_ref().filter(|_| is_sent).map(|reject| reject.words.clone())
    }
}

/// What a change of what is offered means.
#[derive(Debug)]
pub struct OfferChange<T> {
    /// The token of a report that is void now.
    pub token: Option<T>,
    /// Whether another owner is offered than before.
    pub is_other_owner: bool,
}

/// Whether two states of a load balancer say something else and have one generation: the cloud has changed, or the object was made
/// again. Whether its status names what exists is not said to the cloud.
fn is_other_of_one_generation(one: Option<&PackedEntry>, other: Option<&PackedEntry>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return false };
    if one.generation() != other.generation() {
        return false;
    }
    match (&*one.entry(), &*other.entry()) {
        (DesiredEntry::LoadBalancer(one), DesiredEntry::LoadBalancer(other)) => !one.wants_the_same(other),
        _ => false,
    }
}
