//! What the writer refuses to try, and what the API server refuses to take.

use std::time::Instant;

use gimbal_kuryr_crd::KuryrLoadBalancer;
use gimbal_kuryr_model::{DesiredKey, DesiredKind};
use gimbal_kuryr_resource::Purpose;
use gimbal_kuryr_translate::NotStreamed;
use gimbal_model::SourceKey;

use crate::KuryrController;
use crate::item::{BalancerItem, has_finalizer};
use crate::situation::Situation;
use crate::timing::is_shown_ready;

impl<T> KuryrController<T> {
    /// Takes in that the writer does not try an entry, and why: `reason` is one word, `message` is for the owner. What it says of a
    /// router, which may have the name of a KuryrLoadBalancer, is of no matter here. That holds, whatever becomes of the entry, until
    /// [`resolved`](Self::resolved): the writer says nothing where the same words are true of a newer state, also if the entry left
    /// the stream meanwhile and is offered again.
    pub fn rejected(&mut self, key: &DesiredKey, reason: &'static str, message: &str) {
        if self.leads && key.kind == DesiredKind::LoadBalancer {
            self.items.entry(source_key(key)).or_default().offer.rejected(reason, message);
            self.dirty.insert(source_key(key));
        }
    }

    /// Takes in that the writer tries an entry that it refused before.
    pub fn resolved(&mut self, key: &DesiredKey, now: Instant) {
        let item = self.items.get_mut(&source_key(key));
        if let Some(item) = item.filter(|_| key.kind == DesiredKind::LoadBalancer) {
            let BalancerItem { offer, held, .. } = &mut **item;
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

    /// Why a KuryrLoadBalancer is not offered, not tried, or not as it is wanted, if that has a reason which its status shows.
    pub(crate) fn refused(
        &self,
        key: &SourceKey,
        situation: &Situation,
        balancer: &KuryrLoadBalancer,
    ) -> Option<NotStreamed> {
        let item = self.items.get(key)?;
        let not_taken = || self.not_taken(item, situation, balancer);
        self.not_offered(key, balancer).or_else(|| item.offer.refusal()).or_else(not_taken)
    }

    /// Why what is wanted cannot be offered: the API server refuses to set it, so what was offered before stays.
    fn not_taken(
        &self,
        item: &BalancerItem<T>,
        situation: &Situation,
        balancer: &KuryrLoadBalancer,
    ) -> Option<NotStreamed> {
        let [of_service, own] = &item.pauses;
        if balancer.metadata.is_being_deleted() {
            return None;
        }
        let lacks_spec = |_: &&str| self.spec_to_set(item, situation, balancer).is_some();
        let (purpose, words) = if self.waits_for_service(situation) {
            (Purpose::Protect, of_service.refusal(Purpose::Protect)?)
        } else if let Some(words) = own.refusal(Purpose::Conform).filter(lacks_spec) {
            (Purpose::Conform, words)
        } else {
            (Purpose::Protect, own.refusal(Purpose::Protect).filter(|_| !has_finalizer(balancer))?)
        };
        Some(NotStreamed::NotTaken { what: purpose.as_str(), words: words.into() })
    }
}

fn source_key(key: &DesiredKey) -> SourceKey {
    SourceKey { namespace: key.namespace.clone(), name: key.name.clone() }
}
