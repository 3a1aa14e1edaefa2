//! Contents that the writer lacks, by hash.

use std::collections::BTreeSet;

use crate::{Content as _, Payload, WriterMessage};

/// Most contents that are asked for at a time, so that their answers do not keep data waiting.
const MOST: usize = 4;

/// The contents that the writer lacks. Outlives streams: what was not answered is asked for again on the next one.
#[derive(Debug, Clone)]
pub(super) struct Contents<P: Payload> {
    waiting: BTreeSet<P::Hash>,
    /// Asked for on this stream and not answered.
    requested: BTreeSet<P::Hash>,
}

/// Why a content was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("a content came that was not asked for")]
    NotRequested,
    #[error("a content came that does not have the hash that was asked for")]
    OtherHash,
}

impl<P: Payload> Default for Contents<P> {
    fn default() -> Self {
        Self { waiting: BTreeSet::new(), requested: BTreeSet::new() }
    }
}

impl<P: Payload> Contents<P> {
    pub(super) fn want(&mut self, hash: P::Hash) {
        if !self.requested.contains(&hash) {
            self.waiting.insert(hash);
        }
    }

    pub(super) fn forget(&mut self, hash: &P::Hash) {
        self.waiting.remove(hash);
        self.requested.remove(hash);
    }

    pub(super) fn opened(&mut self) {
        self.waiting.append(&mut self.requested);
    }

    pub(super) fn next(&mut self) -> Option<WriterMessage<P>> {
        if self.requested.len() >= MOST {
            return None;
        }
        let hash = self.waiting.pop_first()?;
        self.requested.insert(hash.clone());
        Some(WriterMessage::ContentRequest(hash))
    }

    /// Checks an answer. After one with another hash the content is asked for again on the next stream only: the same
    /// agent would say the same.
    pub(super) fn receive(&mut self, hash: &P::Hash, content: Option<&P::Content>) -> Result<(), Refused> {
        if !self.requested.contains(hash) {
            return Err(Refused::NotRequested);
        }
        if content.is_some_and(|content| content.hash() != *hash) {
            return Err(Refused::OtherHash);
        }
        self.requested.remove(hash);
        Ok(())
    }
}
