//! Entries that are refused, and what goes on of them.

use std::sync::Arc;
use std::time::Instant;

use gimbal_kuryr_model::{DesiredEntry, DesiredKey, DesiredLoadBalancer, LoadBalancerHeader, Text};
use gimbal_kuryr_wire::{Kuryr, KuryrReason};
use gimbal_session::{Outcome, Reject};

use super::{ClusterState, Clusters};
use crate::policy::{EntrySize, PolicyBreach};

impl Clusters {
    /// Refuses an entry. What is wanted under its key so far still is.
    pub(super) fn refuse(
        &mut self,
        name: &Text,
        key: &DesiredKey,
        breach: PolicyBreach,
        was_refused: bool,
        now: Instant,
    ) -> Outcome<Kuryr> {
        let PolicyBreach { reason, message } = breach;
        if let Some(state) = self.clusters.get_mut(name) {
            state.waiting.ended(key);
            if let Some(entry) = state.end.entry(key) {
                self.registry.refuse(name, key, entry, now);
                if let (KuryrReason::ProjectNotAllowed, DesiredEntry::LoadBalancer(wanted)) = (reason, &**entry) {
                    self.registry.search_too(name, &wanted.header.placement.project);
                }
            }
        }
        // Explain and the controller have all of them.
        if !was_refused && let Some(untold) = self.lines.tell((name.clone(), reason.as_str()), now) {
            tracing::warn!(cluster = %name, %key, reason = reason.as_str(), text = message, untold, "refused");
        }
        Outcome::Rejected(Reject { key: Some(key.clone()), reason, retryable: true, message })
    }

    /// Lets what was allowed of an entry go on with the members of the version that is refused. `allowed` is what was allowed
    /// last, if an earlier version was refused since. Returns whether there is anything that goes on.
    pub(super) fn follow(
        &mut self,
        name: &Text,
        key: &DesiredKey,
        allowed: Option<Arc<LoadBalancerHeader>>,
        breach: &mut PolicyBreach,
        now: Instant,
    ) -> bool {
        let former = self.registry.wanted(name, key).cloned();
        let Some(state) = self.clusters.get_mut(name) else { return false };
        let allowed = allowed.or_else(|| former.as_ref().map(|former| former.header.clone()));
        let following = former.zip(allowed.as_ref());
        let following = following.and_then(|(former, allowed)| state.following(key, &former, allowed, breach));
        state.refused.insert(key.clone(), allowed);
        following.is_some_and(|one| self.registry.want(name, key.clone(), DesiredEntry::LoadBalancer(one), now))
    }
}

impl ClusterState {
    /// Returns what goes on of an entry that is refused, and counts it. Says in the refusal how many members wait.
    fn following(
        &mut self,
        key: &DesiredKey,
        former: &DesiredLoadBalancer,
        allowed: &Arc<LoadBalancerHeader>,
        breach: &mut PolicyBreach,
    ) -> Option<DesiredLoadBalancer> {
        let entry = self.end.entry(key)?;
        let DesiredEntry::LoadBalancer(refused) = &**entry else { return None };
        // What another owner has of the key is not this one's.
        if former.header.owner != refused.header.owner {
            return None;
        }
        let policy = &self.config.policy;
        let most = self.used.most_members(key, &policy.quota);
        let (following, waiting) = policy.following(former, allowed, refused, most);
        let group = following.header.shared_group.as_deref().map(|group| &group.name);
        self.used.take_following(key, EntrySize::of(&following), group, &policy.quota, waiting > 0).ok()?;
        if waiting > 0 {
            let count = following.members.as_slice().len();
            breach.message.push_str(&format!("; {count} of its {} members are served", count + waiting));
        }
        Some(following)
    }
}
