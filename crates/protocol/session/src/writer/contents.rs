//! Contents that the writer lacks, by hash.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::waiting::Waiting;
use crate::{Content as _, Payload, WriterMessage};

/// Most contents that are asked for at a time, so that their answers do not keep data waiting.
const MOST: usize = 4;
/// A request that was not answered for this long lets others go first, and is repeated after them.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// The contents that the writer lacks. Outlives streams: what was not answered is asked for again on the next one.
#[derive(Debug, Clone)]
pub(super) struct RequestedContents<P: Payload> {
    waiting: Waiting<P::Hash>,
    /// Asked for on this stream and not answered: since when.
    requested: BTreeMap<P::Hash, Instant>,
    /// The latest time that is known.
    clock: Option<Instant>,
}

/// What becomes of a content that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentFate {
    /// It is what was asked for.
    Taken,
    /// It is not awaited: another answer came before, to a request that was made twice, or it is not wanted any more.
    NotAwaited,
    /// It does not have the hash that was asked for.
    OtherHash,
}

impl<P: Payload> Default for RequestedContents<P> {
    fn default() -> Self {
        Self { waiting: Waiting::default(), requested: BTreeMap::new(), clock: None }
    }
}

impl<P: Payload> RequestedContents<P> {
    pub(super) fn want(&mut self, hash: P::Hash) {
        if !self.requested.contains_key(&hash) {
            self.waiting.push(hash);
        }
    }

    pub(super) fn forget(&mut self, hash: &P::Hash) {
        self.waiting.remove(hash);
        self.requested.remove(hash);
    }

    pub(super) fn opened(&mut self) {
        for hash in std::mem::take(&mut self.requested).into_keys() {
            self.waiting.push(hash);
        }
    }

    pub(super) fn next(&mut self, now: Instant) -> Option<WriterMessage<P>> {
        if self.requested.len() >= MOST {
            return None;
        }
        let hash = self.waiting.pop()?;
        self.requested.insert(hash.clone(), self.clock.map_or(now, |clock| clock.max(now)));
        Some(WriterMessage::ContentRequest(hash))
    }

    /// Returns when [`Self::expire`] has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.requested.values().min().map(|since| *since + ANSWERED_WITHIN)
    }

    /// Gives the places of requests that were not answered to others.
    pub(super) fn expire(&mut self, now: Instant) {
        self.clock = Some(now);
        let late = |_: &P::Hash, since: &mut Instant| now.saturating_duration_since(*since) >= ANSWERED_WITHIN;
        let expired: Vec<_> = self.requested.extract_if(.., late).map(|(hash, _)| hash).collect();
        expired.into_iter().for_each(|hash| self.waiting.push(hash));
    }

    /// Takes an answer, late ones too. One with another hash ends the request as well: the same agent would say the
    /// same.
    pub(super) fn receive(&mut self, hash: &P::Hash, content: Option<&P::Content>) -> ContentFate {
        if self.requested.remove(hash).is_none() && !self.waiting.remove(hash) {
            return ContentFate::NotAwaited;
        }
        if content.is_some_and(|content| content.hash() != *hash) {
            return ContentFate::OtherHash;
        }
        ContentFate::Taken
    }
}
