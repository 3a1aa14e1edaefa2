//! The difference between two states of one entry.

use std::sync::Arc;

use gimbal_model::Digest;

use crate::canonical;
use crate::{DesiredEntry, DesiredKey, DesiredLoadBalancer, DesiredMember, LoadBalancerHeader, MemberId};

/// A change of one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberChange {
    /// It exists, like this.
    Set(DesiredMember),
    /// It does not exist any more.
    Gone(MemberId),
}

/// The difference between two states of a load balancer, by parts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadBalancerUpdate {
    /// The new generation, if it changed.
    pub generation: Option<i64>,
    /// The new header, if it changed.
    pub header: Option<Arc<LoadBalancerHeader>>,
    /// Members added, changed or gone, in the order of their identities.
    pub members: Vec<MemberChange>,
}

/// A change of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DesiredChange {
    /// The whole entry, which replaces the one before.
    Replace(DesiredEntry),
    /// A difference to the one before.
    Update(LoadBalancerUpdate),
    /// The entry is gone.
    Remove,
}

impl DesiredChange {
    /// Returns the change that leads from `old` to `new`; `None` if they are equal. A new owner replaces everything.
    #[must_use]
    pub fn between(old: Option<&DesiredEntry>, new: Option<&DesiredEntry>) -> Option<Self> {
        match (old, new) {
            (None, None) => None,
            (Some(_), None) => Some(Self::Remove),
            (Some(DesiredEntry::LoadBalancer(old)), Some(DesiredEntry::LoadBalancer(new)))
                if old.header.owner == new.header.owner =>
            {
                old.update_to(new).map(Self::Update)
            }
            (Some(old), Some(new)) if old == new => None,
            (_, Some(new)) => Some(Self::Replace(new.clone())),
        }
    }
}

impl DesiredLoadBalancer {
    fn update_to(&self, new: &Self) -> Option<LoadBalancerUpdate> {
        let update = LoadBalancerUpdate {
            generation: (self.generation != new.generation).then_some(new.generation),
            header: (self.header != new.header).then(|| new.header.clone()),
            members: member_changes(self.members.as_slice(), new.members.as_slice()),
        };
        (update != LoadBalancerUpdate::default()).then_some(update)
    }

    /// Applies an update and keeps `digest`, this load balancer's digest under `key`, up to date. It costs what changed.
    pub fn update(&mut self, key: &DesiredKey, digest: &mut Digest, update: LoadBalancerUpdate) {
        let LoadBalancerUpdate { generation, header, members } = update;
        if let Some(generation) = generation {
            *digest = *digest - canonical::generation(key, self.generation) + canonical::generation(key, generation);
            self.generation = generation;
        }
        if let Some(header) = header {
            *digest = *digest - canonical::header(key, &self.header) + canonical::header(key, &header);
            self.header = header;
        }
        if members.is_empty() {
            return;
        }
        // A later change of a member replaces an earlier one, so that each is counted once.
        let mut last = std::collections::BTreeMap::new();
        for change in members {
            match change {
                MemberChange::Set(member) => drop(last.insert(member.id.clone(), Some(member))),
                MemberChange::Gone(id) => drop(last.insert(id, None)),
            }
        }
        for (id, member) in &last {
            if let Some(old) = self.members.get(id) {
                *digest = *digest - canonical::member(key, old);
            }
            if let Some(member) = member {
                *digest = *digest + canonical::member(key, member);
            }
        }
        self.members.apply(last.into_iter());
    }
}

/// Both lists are sorted by identity.
fn member_changes(old: &[DesiredMember], new: &[DesiredMember]) -> Vec<MemberChange> {
    let mut changes = Vec::new();
    let (mut olds, mut news) = (old.iter().peekable(), new.iter().peekable());
    loop {
        match (olds.peek(), news.peek()) {
            (None, None) => return changes,
            (Some(old), None) => {
                changes.push(MemberChange::Gone(old.id.clone()));
                olds.next();
            }
            (Some(old), Some(new)) if old.id < new.id => {
                changes.push(MemberChange::Gone(old.id.clone()));
                olds.next();
            }
            (Some(old), Some(new)) if old.id == new.id => {
                if old != new {
                    changes.push(MemberChange::Set((*new).clone()));
                }
                olds.next();
                news.next();
            }
            (_, Some(new)) => {
                changes.push(MemberChange::Set((*new).clone()));
                news.next();
            }
        }
    }
}
