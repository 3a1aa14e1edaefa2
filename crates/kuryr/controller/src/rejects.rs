//! What the writer refuses to try.

use std::time::Instant;

use gimbal_kuryr_crd::KuryrLoadBalancer;
use gimbal_kuryr_model::{DesiredKey, Text};
use gimbal_kuryr_translate::NotStreamed;
use gimbal_model::SourceKey;

use crate::KuryrController;
use crate::item::{BalancerItem, EntryReject, is_alone};

impl<T> KuryrController<T> {
    /// Takes in that the writer does not try an entry, and why: `reason` is one word, `message` is for the owner. That holds,
    /// whatever becomes of the entry, until [`resolved`](Self::resolved): the writer says nothing where the same words are true
    /// of a newer state, also if the entry left the stream meanwhile and is offered again.
    pub fn rejected(&mut self, key: &DesiredKey, reason: &'static str, message: &str) {
        if self.leads {
            let item = self.items.entry(source_key(key)).or_default();
            let words = NotStreamed::Rejected { reason, message: message.into() };
            item.reject = Some(Box::new(EntryReject { words, is_stale: false }));
            item.accepted = false;
            // What is not tried takes no time.
            item.changing_since = None;
            self.dirty.insert(source_key(key));
        }
    }

    /// Takes in that the writer tries an entry that it refused before.
    pub fn resolved(&mut self, key: &DesiredKey, now: Instant) {
        if let Some(item) = self.items.get_mut(&source_key(key)) {
            if item.reject.take().is_some() {
                item.accepted = true;
                item.note_drained(now);
            }
            self.dirty.insert(source_key(key));
        }
    }

    /// Takes in that there is a new stream. What holds is said again on it, of each entry before a report of it. What is not
    /// said again has passed.
    pub fn stream_opened(&mut self) {
        for (key, item) in &mut self.items {
            let Some(reject) = &mut item.reject else { continue };
            reject.is_stale = true;
            if item.drained.is_none() {
                item.reject = None;
                self.dirty.insert(key.clone());
            }
        }
    }

    /// Why a KuryrLoadBalancer is not offered, or not tried, if that has a reason which its status shows.
    pub(crate) fn refused(&self, key: &SourceKey, balancer: &KuryrLoadBalancer) -> Option<NotStreamed> {
        // That the writer refuses what wants nothing is meant.
        let item = self.items.get(key).filter(|item| item.drained.as_deref().is_some_and(|entry| !is_alone(entry)));
        let rejected = || item.and_then(|item| Some(item.reject.as_ref()?.words.clone()));
        self.not_offered(key, balancer).or_else(rejected)
    }
}

impl<T> BalancerItem<T> {
    /// Whether the statuses say more than is known: of what the writer says, nothing was heard since they were written.
    pub(crate) fn heard_nothing(&self, owner: &Text) -> bool {
        self.report_of(owner).is_none() && !self.accepted
    }
}

fn source_key(key: &DesiredKey) -> SourceKey {
    SourceKey { namespace: key.namespace.clone(), name: key.name.clone() }
}
