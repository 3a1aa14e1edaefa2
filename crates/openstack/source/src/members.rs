//! The members of pools as they were read last, and which pools' members to read.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use gimbal_octavia_rows::{Id, List, Member, OperatingStatus, Pool, ProvisioningStatus, Reading, Table};

use crate::lists::merge;
use crate::outcome::Trouble;

use jiff::Timestamp;

/// A pool that its monitor does not call whole is swept as if it had been read that many times longer ago.
const URGENCY: u32 = 10;

/// The members of one pool as they were read last.
#[derive(Debug)]
pub(crate) struct PoolMembers {
    members: Table<Member>,
    reading: Reading,
    /// Whether each row could be read: what stands in for one that could not may have changed.
    whole: bool,
    when: Instant,
}

impl PoolMembers {
    pub(crate) fn new(
        list: List<Member>,
        seen: Option<Timestamp>,
        when: Instant,
        before: Option<&Self>,
        troubles: &mut Vec<Trouble>,
    ) -> Self {
        let reading = Reading::new(seen, list.server_time, before.map(|before| &before.reading));
        let whole = list.unreadable.is_empty();
        Self { members: merge(list, before.map(|before| &before.members), troubles), reading, whole, when }
    }

    /// The members that the pool's row lists and that were read, in order. The row decides which there are.
    pub(crate) fn listed(&self, pool: &Pool) -> impl Iterator<Item = &Member> {
        let mut members: Vec<&Member> =
            pool.members.iter().filter_map(|id| self.members.get(id)).map(|member| &**member).collect();
        members.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        members.dedup_by(|a, b| a.id == b.id);
        members.into_iter()
    }

    /// Forgets those that the pool's row does not list.
    pub(crate) fn prune(&mut self, pool: &Pool) {
        if self.members.len() > pool.members.len() {
            let listed: HashSet<&Id> = pool.members.iter().collect();
            self.members.retain(|member| listed.contains(&member.id));
        }
    }

    /// Whether there are members of which nothing is known.
    pub(crate) fn lacks(&self, pool: &Pool) -> bool {
        pool.members.iter().any(|id| !self.members.contains(id) && !self.members.is_known_unread(id))
    }

    /// Whether members came that the pool's row does not have yet, and some went that it still has.
    pub(crate) fn is_newer_than(&self, pool: &Pool) -> bool {
        let stays = |id: &&Id| match self.members.get(id) {
            Some(member) => member.provisioning != ProvisioningStatus::Deleting,
            None => self.members.may_be_unread(id),
        };
        let named: HashSet<&Id> = pool.members.iter().collect();
        let came = self.members.iter().any(|member| !named.contains(&member.id));
        came && !pool.members.iter().all(|id| stays(&id))
    }

    /// Members that are listed and cannot be read.
    pub(crate) fn unread<'p>(&self, pool: &'p Pool) -> impl Iterator<Item = &'p Id> {
        pool.members.iter().filter(|id| self.members.may_be_unread(id))
    }

    /// Whether something says that it must be read again: a row that could not be read, a member that was never seen, a
    /// change, or one that may overlap.
    pub(crate) fn is_stale(&self, pool: &Pool) -> bool {
        !self.whole
            || self.reading.is_stale(pool.updated_at, pool.provisioning)
            || pool.members.iter().any(|id| !self.members.contains(id))
    }

    /// How urgently it is to be read although nothing says that it changed.
    pub(crate) fn urgency(&self, pool: &Pool, now: Instant) -> Duration {
        let age = now.saturating_duration_since(self.when);
        let failing = pool.monitored && pool.operating != OperatingStatus::Online;
        if failing { (age + Duration::from_millis(1)).saturating_mul(URGENCY) } else { age }
    }
}
