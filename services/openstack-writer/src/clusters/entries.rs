//! Entries: each is checked against the policy, and then made by the registry or refused.

use std::time::Instant;

use gimbal_kuryr_model::{
    CertificateContent, CertificateHash, DesiredEntry, DesiredKey, DesiredLoadBalancer, DesiredMembers, Phase, Text,
};
use gimbal_kuryr_wire::{Kuryr, KuryrReason};
use gimbal_octavia_plan::{FoundContent, SecretPayload};
use gimbal_octavia_registry::sharing_owner;
use gimbal_session::{Outcome, Reject, Scope, WriterOutput};

use super::claims::ClaimRefusal;
use super::{ChangedEntry, ClusterState, Clusters, Outputs};
use crate::bundle::bundle;
use crate::policy::{EntrySize, PolicyBreach, with_most_members};

/// What becomes of an entry.
enum Verdict {
    /// It is made, or removed. Of a router these members wait for room.
    Wanted(DesiredEntry, DesiredMembers),
    /// It is not tried. What it says of its members is not meant, or may be another's.
    Refused(PolicyBreach),
    /// The policy does not allow it as it is. What was allowed before goes on with its members.
    NotAllowed(PolicyBreach),
    /// It is gone.
    Gone,
    /// The cloud was not read yet, or what exists was not listed, or not all is known that has a place in the quota, or an admin takes
    /// the mark off it just now.
    NotYet,
}

impl Clusters {
    pub(super) fn carry_out(&mut self, name: &Text, outputs: Outputs, now: Instant) {
        let mut closes = false;
        for output in outputs {
            match output {
                WriterOutput::Changed(key) | WriterOutput::Removed(key) => {
                    self.registry.entry_proven(name, &key);
                    self.check(name, &key, now);
                }
                WriterOutput::ScopeComplete { scope, begun, .. } => {
                    if let Some(state) = self.clusters.get_mut(name) {
                        state.is_current = true;
                    }
                    let namespaces = match scope {
                        Scope::All => None,
                        Scope::Namespaces(namespaces) => Some(namespaces),
                    };
                    self.registry.namespaces_proven(name, namespaces.as_deref());
                    self.snapshot_ended(name, namespaces, begun, now);
                }
                WriterOutput::ScopeUnknown => {
                    if let Some(untold) = self.lines.tell((name.clone(), "ScopeUnknown"), now) {
                        tracing::info!(cluster = %name, untold, "a part of the cluster cannot be read by its controller");
                    }
                    // The one that the stream began with may lack just this part, and never come.
                    if let Some(state) = self.clusters.get_mut(name).filter(|state| !state.is_current) {
                        state.end.request_snapshot([], "a part of the cluster is unknown");
                        if !std::mem::replace(&mut state.has_doubts, true) {
                            self.registry.doubt(name, state.end.entries().map(|(key, _)| key.clone()));
                        }
                    }
                }
                WriterOutput::ReportDone { key, .. } => self.touched(name, key),
                WriterOutput::ReportUnreadable { key, reason, .. } => {
                    if let Some(untold) = self.lines.tell((name.clone(), "ReportUnreadable"), now) {
                        tracing::warn!(cluster = %name, %key, reason, untold, "the controller cannot read a report");
                    }
                }
                WriterOutput::Content { hash, content } => self.found_content(name, hash, content.as_ref(), now),
                WriterOutput::Close => closes = true,
                WriterOutput::Unreadable { key, reason } => {
                    let key = key.map(|key| key.to_string());
                    if let Some(untold) = self.lines.tell((name.clone(), "Unreadable"), now) {
                        tracing::warn!(cluster = %name, key, reason, untold, "something of the controller cannot be read");
                    }
                }
            }
        }
        self.rank(name, now);
        self.check_deferred(name, now);
        self.prove(name);
        if closes {
            self.close(name, now);
        }
    }

    /// Passes on the content of a certificate that was asked for, in the form in which it is stored.
    fn found_content(
        &mut self,
        name: &Text,
        hash: CertificateHash,
        content: Option<&CertificateContent>,
        now: Instant,
    ) {
        let found = match content.map(bundle) {
            Some(Ok(bytes)) => FoundContent::Usable(SecretPayload::new(bytes)),
            Some(Err(error)) => FoundContent::Unusable(error.to_string()),
            None => FoundContent::Nowhere,
        };
        self.registry.found_content(name, hash, &found, now);
    }

    /// Tells the registry whether it knows what the open stream wants, and all of it.
    pub(super) fn prove(&mut self, name: &Text) {
        let Some(state) = self.clusters.get(name) else { return };
        self.registry.set_current(name, state.is_current, state.is_complete());
    }

    /// Checks every entry of a cluster again, because its policy or the cloud has changed.
    pub(super) fn check_all(&mut self, name: &Text, now: Instant) {
        let Some(state) = self.clusters.get_mut(name) else { return };
        let mut keys: Vec<DesiredKey> = state.end.entries().map(|(key, _)| key.clone()).collect();
        keys.extend(std::mem::take(&mut state.unchecked));
        keys.sort_unstable();
        keys.dedup();
        keys.iter().for_each(|key| self.check(name, key, now));
        self.forget_idle_traces(name, &keys);
        self.rank(name, now);
        self.prove(name);
    }

    /// Checks what waited until all that the open stream wants was known.
    fn check_deferred(&mut self, name: &Text, now: Instant) {
        let knows_all =
            |state: &&mut ClusterState| state.is_current && state.ranking.is_done && state.reading.is_some();
        let Some(state) = self.clusters.get_mut(name).filter(knows_all) else { return };
        let keys: Vec<DesiredKey> = std::mem::take(&mut state.unchecked).into_iter().collect();
        keys.iter().for_each(|key| self.check(name, key, now));
        self.forget_idle_traces(name, &keys);
    }

    pub(super) fn check(&mut self, name: &Text, key: &DesiredKey, now: Instant) {
        // Each with whether it is for the quota that it gets another chance.
        let mut waiting = vec![(key.clone(), false)];
        while let Some((key, lacks_room)) = waiting.pop() {
            let Some(state) = self.clusters.get_mut(name) else { return };
            if lacks_room && !state.used.has_room(&key, &state.config.policy.quota) {
                // Another one has taken it.
                continue;
            }
            let had = state.used.sum();
            let is_decided = self.check_one(name, &key, now);
            let Some(state) = self.clusters.get_mut(name) else { return };
            waiting.extend(state.owners.take_freed().into_iter().rev().map(|key| (key, false)));
            if is_decided {
                // Whoever was refused for want of room gets another chance: what exists first.
                let mut refused = state.used.may_fit(had, &state.config.policy.quota);
                refused.sort_by_cached_key(|key| (state.ranking.place(key), key.clone()));
                waiting.extend(refused.into_iter().rev().map(|key| (key, true)));
            }
        }
    }

    /// Returns whether anything of it is decided, which may leave room in the quota.
    fn check_one(&mut self, name: &Text, key: &DesiredKey, now: Instant) -> bool {
        let Some(state) = self.clusters.get_mut(name) else { return false };
        state.left_out.remove(key);
        state.used.decide_anew(key);
        let verdict = state.verdict(key, self.registry.wanted(name, key));
        state.unchecked.remove(key);
        let before = state.refused.remove(key);
        let was_refused = before.is_some();
        let (outcome, is_decided) = match verdict {
            Verdict::NotYet => {
                state.unchecked.insert(key.clone());
                if let Some(before) = before {
                    // What it was last allowed to be is still what goes on.
                    state.refused.insert(key.clone(), before);
                }
                // The rest of the snapshot must not wait for it.
                state.end.settle(key, Outcome::Applied);
                return false;
            }
            Verdict::Wanted(entry, waiting) => {
                if let DesiredEntry::LoadBalancer(wanted) = &entry {
                    state.waiting.wanted(key, wanted, state.end.latest_report(key), now);
                    // It must not answer the next deletion.
                    state.forget_gone(key);
                } else {
                    state.waiting.ended(key);
                }
                state.owners.allowed(key);
                state.ranking.forget(key);
                if !self.registry.want(name, key.clone(), entry, now) {
                    tracing::error!(cluster = %name, %key, "another entry has the owner of one that was allowed");
                }
                self.registry.members_wait(name, key, waiting);
                (Outcome::Applied, true)
            }
            Verdict::Gone => {
                state.used.release(key);
                state.waiting.ended(key);
                state.owners.gone(key);
                state.ranking.forget(key);
                state.end.forget_removed(key);
                // What goes on without its entry says nothing of it.
                state.traces.forget(key);
                self.registry.forget(name, key, now);
                (Outcome::Applied, true)
            }
            Verdict::Refused(breach) => {
                state.refused.insert(key.clone(), before.flatten());
                (self.refuse(name, key, breach, was_refused, now), false)
            }
            Verdict::NotAllowed(mut breach) => {
                let follows = self.follow(name, key, before.flatten(), &mut breach, now);
                (self.refuse(name, key, breach, was_refused, now), follows)
            }
        };
        if was_refused
            && matches!(outcome, Outcome::Applied)
            && let Some(untold) = self.lines.tell((name.clone(), "Allowed"), now)
        {
            tracing::info!(cluster = %name, %key, untold, "no longer refused");
        }
        if matches!(outcome, Outcome::Rejected(_)) {
            self.trace_refused(name, key, now);
        }
        if let Some(state) = self.clusters.get_mut(name) {
            state.end.settle(key, outcome);
        }
        self.touched(name, key.clone());
        is_decided
    }

    pub(super) fn touched(&mut self, name: &Text, key: DesiredKey) {
        self.changed.push(ChangedEntry { cluster: name.clone(), key });
    }
}

impl ClusterState {
    /// Whether the registry knows the owner of every entry. What exists of one that was not checked yet, or that cannot be
    /// read, must not be taken for an orphan's. It knows those of refused entries.
    pub(super) fn is_complete(&self) -> bool {
        let is_unreadable = |key: &DesiredKey| self.end.is_unreadable(key);
        self.end.is_complete() && self.unchecked.is_empty() && !self.end.rejects().keys().any(is_unreadable)
    }

    /// Whether the controller has sent everything that it can while a part of its cluster is unknown. A snapshot need not come:
    /// that part may have all the entries.
    pub(super) fn has_said_what_it_can(&self) -> bool {
        let offers = self.end.hello().is_some_and(|hello| hello.held.is_some());
        offers && self.has_doubts && self.end.backlog() == 0
    }

    /// Decides about an entry; `former` is what is wanted of it so far.
    fn verdict(&mut self, key: &DesiredKey, former: Option<&DesiredLoadBalancer>) -> Verdict {
        let Some(entry) = self.end.entry(key).cloned() else { return Verdict::Gone };
        let group = sharing_owner(&entry);
        let is_released =
            self.released.contains(entry.owner()) || group.is_some_and(|one| self.released.contains(&one));
        if !self.ranking.is_done || is_released {
            return Verdict::NotYet;
        }
        let claim = self.owners.claim(key, entry.owner());
        if entry.is_alone() {
            // In words that nothing else is refused with: the controller forgets them with this entry, and the same are not said twice.
            let message = "its controller names the owner alone, and wants nothing for now".to_owned();
            return Verdict::Refused(PolicyBreach { reason: KuryrReason::NetworkNotAllowed, message });
        }
        if let Err(refusal) = claim {
            let message = match refusal {
                ClaimRefusal::Held(holder) => format!("{holder} has the same owner, and is served; a copy is not"),
                ClaimRefusal::Contested(other) => format!(
                    "{other} names the same owner, and the load balancer has the name of neither, so that both stay as they are; \
                     delete the copy"
                ),
            };
            return Verdict::Refused(PolicyBreach { reason: KuryrReason::OwnerConflict, message });
        }
        let wanted = match &*entry {
            // Whatever the policy says by now: what was made is removed.
            DesiredEntry::Deleting { .. } => {
                return Verdict::Wanted(DesiredEntry::clone(&entry), DesiredMembers::default());
            }
            DesiredEntry::LoadBalancer(wanted) => wanted,
        };
        let policy = &self.config.policy;
        if let Err(breach) = policy.may_be(key, wanted) {
            return Verdict::NotAllowed(breach);
        }
        let Some(reading) = &self.reading else { return Verdict::NotYet };
        let allowed =
            policy.check(&reading.known, wanted).and_then(|()| policy.may_share(key, wanted)).and_then(|()| {
                let (placed, kept) = policy.without_kept(policy.placed(wanted));
                let (placed, members) = policy.with_allowed_members(placed)?;
                let (placed, waiting) = if placed.header.routing.is_some() {
                    let most = self.used.most_members(key, &policy.quota).min(self.ranking.most_members(key));
                    with_most_members(placed, former, most)
                } else {
                    (placed, DesiredMembers::default())
                };
                let left = waiting.as_slice().len();
                let group = placed.header.shared_group.as_deref().map(|group| &group.name);
                self.used.take_following(key, EntrySize::of(&placed), group, &policy.quota, left > 0)?;
                let kept = kept.map(|words| (KuryrReason::FloatingNotAllowed, words));
                let members = members.map(|words| (KuryrReason::MemberNotAllowed, words));
                let count = placed.members.as_slice().len();
                let words = || format!("quota.members has room for {count} of {} members", count + left);
                let left = (left > 0).then(|| (KuryrReason::Quota, words()));
                Ok((placed, waiting, members.into_iter().chain(kept).chain(left).collect::<Vec<_>>()))
            });
        match allowed {
            Ok((placed, waiting, left_out)) => {
                if !left_out.is_empty() {
                    self.left_out.insert(key.clone(), left_out);
                }
                Verdict::Wanted(DesiredEntry::LoadBalancer(placed), waiting)
            }
            // What a former stream wanted still has its places, and may be gone since.
            Err(breach) if breach.reason == KuryrReason::Quota && !self.is_current => Verdict::NotYet,
            Err(breach) => Verdict::NotAllowed(breach),
        }
    }

    /// Drops the report of a key if it says that nothing is left.
    fn forget_gone(&mut self, key: &DesiredKey) {
        if self.end.latest_report(key).is_some_and(|report| report.phase() == Phase::Gone) {
            self.end.forget_report(key);
        }
    }

    /// Drops every report that says that nothing is left: another writer may have made something since.
    pub(super) fn forget_all_gone(&mut self) {
        let keys: Vec<DesiredKey> = self.end.entries().map(|(key, _)| key.clone()).collect();
        keys.iter().for_each(|key| self.forget_gone(key));
    }

    /// Returns why an entry is refused.
    #[must_use]
    pub fn reject(&self, key: &DesiredKey) -> Option<&Reject<Kuryr>> {
        self.end.rejects().get(key)
    }
}
