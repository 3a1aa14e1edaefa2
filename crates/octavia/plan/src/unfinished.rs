//! Parts that a provider has left in `PENDING_CREATE` although their load balancer is `ACTIVE`, as some do with a load balancer
//! that was created with everything in it. They are repaired as what is in `ERROR` is, and the provider is given load balancers
//! part by part for a day.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::abilities::MISSING_FOR;
use crate::actor::Actor;
use crate::mark::KEEP;
use crate::memory::RepairTime;
use crate::outcome::{CloudAbility, MissingAbility};
use crate::pools::texts;
use crate::seen::{Provisioning, Seen, SeenBalancer, SeenPool};
use crate::seen_policy::SeenPolicy;
use crate::step::{BalancerStep, Block, CloudLook, Wait};

/// How long a part may come after its load balancer: the lists were not read at one instant.
const LAG: Duration = Duration::from_secs(10);

/// Parts that were seen unfinished, and when they were first.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct UnfinishedParts {
    since: BTreeMap<String, Duration>,
    /// When to look again.
    look_at: Option<Duration>,
    /// Of several load balancers those that the last look saw `ACTIVE` with all their parts.
    whole: BTreeSet<String>,
    /// Those that it saw `ACTIVE` without, and when to look again.
    partial: BTreeMap<String, Duration>,
}

impl UnfinishedParts {
    pub(crate) fn forget_whole(&mut self) {
        self.whole.clear();
    }
}

impl Actor {
    /// Lets unfinished parts count as broken once they have been so for a while. Returns what the provider was shown to lack.
    pub(crate) fn find_unfinished(&mut self, seen: &mut Seen, now: Duration) -> Option<MissingAbility> {
        let (mut whole, mut partial) = (BTreeSet::new(), BTreeMap::new());
        if seen.balancers.len() > 1 {
            for one in seen.balancers.iter().filter(|one| one.provisioning == Provisioning::Active) {
                if self.is_whole(one) {
                    whole.insert(one.id.clone());
                } else {
                    partial.insert(one.id.clone(), now + LAG);
                }
            }
        }
        let active = seen.balancers.iter_mut().filter(|one| one.provisioning == Provisioning::Active);
        let before = std::mem::take(&mut self.memory.unfinished).since;
        let mut since = BTreeMap::new();
        let mut look_at: Option<Duration> = None;
        let mut is_left = false;
        for (id, status) in active.flat_map(parts) {
            if *status != Provisioning::PendingCreate {
                continue;
            }
            let first = before.get(&id).copied().unwrap_or(now);
            if first + LAG <= now {
                *status = Provisioning::Error;
                is_left = true;
            } else {
                look_at = Some(look_at.map_or(first + LAG, |at| at.min(first + LAG)));
            }
            since.insert(id, first);
        }
        self.memory.unfinished = UnfinishedParts { since, look_at, whole, partial };
        let is_news = is_left && !self.desired.is_deleting() && !self.memory.lacks(CloudAbility::PopulatedCreate, now);
        if is_news {
            self.memory.miss(CloudAbility::PopulatedCreate, now + MISSING_FOR);
        }
        is_news.then_some(MissingAbility { provider: String::new(), ability: CloudAbility::PopulatedCreate })
    }
}

impl Actor {
    /// Returns the look that tells whether parts which lag behind their load balancer come after it.
    pub(crate) fn look_at_unfinished(&self, now: Duration) -> Option<BalancerStep> {
        let at = self.memory.unfinished.look_at?;
        Some(if at > now { BalancerStep::Wait(Wait::Until(at)) } else { BalancerStep::Look(CloudLook::Owner) })
    }

    /// Returns the step that tells whether everything in a load balancer is made, before clients are led to it.
    pub(crate) fn unless_whole(&self, balancer: &SeenBalancer, now: Duration) -> Option<BalancerStep> {
        if let Some(step) = self.look_at_unfinished(now) {
            return Some(step);
        }
        let unfinished = &self.memory.unfinished;
        if unfinished.whole.contains(&balancer.id) {
            return None;
        }
        // A look shows nothing new before the next repair.
        for part in self.broken_in(balancer) {
            match self.memory.next_repair(&part, self.budget, now) {
                RepairTime::Spent(_) => return Some(BalancerStep::Blocked(Block::RepairBudget)),
                RepairTime::At(then) => return Some(BalancerStep::Wait(Wait::Until(then))),
                RepairTime::Now => {}
            }
        }
        match unfinished.partial.get(&balancer.id) {
            Some(at) if *at > now => Some(BalancerStep::Wait(Wait::Until(*at))),
            _ => Some(BalancerStep::Look(CloudLook::Owner)),
        }
    }

    /// Whether every part of ours is made. What somebody else added has its own troubles.
    fn is_whole(&self, balancer: &SeenBalancer) -> bool {
        let is_made = |ours: bool, tags: &[String], status: Provisioning| {
            status == Provisioning::Active || !ours || tags.iter().any(|tag| tag == KEEP)
        };
        let of_pool = |pool: &SeenPool| {
            // Members carry the owner alone, and a monitor is looked after where its pool is.
            let owner = self.mark.owner_tag();
            let monitor = pool.monitor.as_ref().is_none_or(|one| {
                let tags = texts(&one.row["tags"]);
                is_made(tags.contains(&owner), &tags, one.provisioning)
            });
            let members = &pool.members;
            is_made(self.mark.is_on(&pool.tags), &pool.tags, pool.provisioning)
                && monitor
                && members.iter().all(|one| is_made(one.tags.contains(&owner), &one.tags, one.provisioning))
        };
        let listeners = &balancer.listeners;
        // Rules belong to whom their policy belongs to.
        let of_policy = |policy: &SeenPolicy| {
            let ours = self.mark.is_on(&policy.tags);
            let mut rules = policy.rules.iter();
            is_made(ours, &policy.tags, policy.provisioning)
                && rules.all(|one| is_made(ours, &policy.tags, one.provisioning))
        };
        listeners.iter().all(|one| is_made(self.mark.is_on(&one.tags), &one.tags, one.provisioning))
            && listeners.iter().flat_map(|one| &one.policies).all(of_policy)
            && balancer.pools.iter().all(of_pool)
    }
}

/// Returns the parts of a load balancer, and how their last change goes.
fn parts(balancer: &mut SeenBalancer) -> impl Iterator<Item = (String, &mut Provisioning)> {
    let listeners = balancer.listeners.iter_mut().flat_map(|listener| {
        let policies = listener.policies.iter_mut().flat_map(|policy| {
            let rules = policy.rules.iter_mut().map(|one| (one.id.clone(), &mut one.provisioning));
            rules.chain(std::iter::once((policy.id.clone(), &mut policy.provisioning)))
        });
        policies.chain(std::iter::once((listener.id.clone(), &mut listener.provisioning)))
    });
    let pools = balancer.pools.iter_mut().flat_map(|pool| {
        let members = pool.members.iter_mut().map(|one| (one.id.clone(), &mut one.provisioning));
        let monitor = pool.monitor.iter_mut().map(|one| (one.id.clone(), &mut one.provisioning));
        members.chain(monitor).chain(std::iter::once((pool.id.clone(), &mut pool.provisioning)))
    });
    listeners.chain(pools)
}
