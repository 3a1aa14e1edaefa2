//! Contents that the writer asked for on this stream.

use std::collections::{BTreeSet, VecDeque};

use crate::split::LARGEST_PART;
use crate::{AgentMessage, Content as _, Payload};

#[derive(Debug, Clone)]
pub(super) struct ContentAnswers<P: Payload> {
    requested: BTreeSet<P::Hash>,
    /// Answers that were not sent yet.
    answers: VecDeque<(P::Hash, Option<P::Content>)>,
}

impl<P: Payload> Default for ContentAnswers<P> {
    fn default() -> Self {
        Self { requested: BTreeSet::new(), answers: VecDeque::new() }
    }
}

impl<P: Payload> ContentAnswers<P> {
    pub(super) fn request(&mut self, hash: P::Hash) {
        self.requested.insert(hash);
    }

    pub(super) fn requested(&self) -> impl Iterator<Item = &P::Hash> {
        self.requested.iter()
    }

    /// Queues an answer. One that was not asked for is ignored; a content that fits in no frame, or has another hash,
    /// is answered with `None`.
    pub(super) fn answer(&mut self, hash: &P::Hash, content: Option<P::Content>) {
        if let Some(hash) = self.requested.take(hash) {
            let content = content.filter(|content| content.wire_len() <= LARGEST_PART && content.hash() == hash);
            self.answers.push_back((hash, content));
        }
    }

    pub(super) fn next(&mut self) -> Option<AgentMessage<P>> {
        let (hash, content) = self.answers.pop_front()?;
        Some(AgentMessage::Content { hash, content })
    }
}
