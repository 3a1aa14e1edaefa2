//! What the writer refuses to try.

use std::time::Instant;

use gimbal_kuryr_crd::KuryrLoadBalancer;
use gimbal_kuryr_model::DesiredKey;
use gimbal_kuryr_translate::NotStreamed;
use gimbal_model::SourceKey;

use crate::KuryrController;
use crate::item::BalancerItem;
use crate::timing::is_shown_ready;

impl<T> KuryrController<T> {
    /// Takes in that the writer does not try an entry, and why: `reason` is one word, `message` is for the owner. That holds,
    /// whatever becomes of the entry, until [`resolved`](Self::resolved): the writer says nothing where the same words are true
    /// of a newer state, also if the entry left the stream meanwhile and is offered again.
    pub fn rejected(&mut self, key: &DesiredKey, reason: &'static str, message: &str) {
        if self.leads {
            self.items.entry(source_key(key)).or_default().offer.rejected(reason, message);
            self.dirty.insert(source_key(key));
        }
    }

    /// Takes in that the writer tries an entry that it refused before.
    pub fn resolved(&mut self, key: &DesiredKey, now: Instant) {
        if let Some(BalancerItem { offer, held, .. }) = self.items.get_mut(&source_key(key)) {
            offer.resolved(now, |generation| is_shown_ready(held.as_ref(), generation));
            self.dirty.insert(source_key(key));
        }
    }

    /// Takes in that there is a new stream. What holds is said again on it, of each entry before a report of it. What is not
    /// said again has passed.
    pub fn stream_opened(&mut self) {
        for (key, item) in &mut self.items {
            if item.offer.stream_opened() {
                self.dirty.insert(key.clone());
            }
        }
    }

    /// Why a KuryrLoadBalancer is not offered, or not tried, if that has a reason which its status shows.
    pub(crate) fn refused(&self, key: &SourceKey, balancer: &KuryrLoadBalancer) -> Option<NotStreamed> {
        let rejected = || self.items.get(key)?.offer.refusal();
        self.not_offered(key, balancer).or_else(rejected)
    }
}

fn source_key(key: &DesiredKey) -> SourceKey {
    SourceKey { namespace: key.namespace.clone(), name: key.name.clone() }
}
