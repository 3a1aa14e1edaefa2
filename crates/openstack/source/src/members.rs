//! The members of pools as last read, and which pools' members to read again.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use gimbal_octavia_rows::{CompleteList, Id, Member, OperatingStatus, Pool, ProvisioningStatus, Reading, Table};

use crate::lists::merge;
use crate::outcome::PollTrouble;

use jiff::Timestamp;

/// A pool whose health monitor does not report it online is swept as if its last read were this many times longer ago.
const URGENCY: u32 = 10;

/// The members of one pool as last read.
#[derive(Debug)]
pub(crate) struct PoolMembers {
    members: Table<Member>,
    reading: Reading,
    /// Whether every row could be read. If not, the rows kept in place of unreadable ones may have changed.
    whole: bool,
    when: Instant,
}

impl PoolMembers {
    pub(crate) fn new(
        list: CompleteList<Member>,
        seen: Option<Timestamp>,
        when: Instant,
        before: Option<&Self>,
        troubles: &mut Vec<PollTrouble>,
    ) -> Self {
        let reading = Reading::new(seen, list.server_time, before.map(|before| &before.reading));
        let whole = list.unreadable.is_empty();
        Self { members: merge(list, before.map(|before| &before.members), troubles), reading, whole, when }
    }

    /// Returns the members that were read and that the pool's row lists, by ID. The row decides which members exist.
    pub(crate) fn listed(&self, pool: &Pool) -> impl Iterator<Item = &Member> {
        let mut members: Vec<&Member> =
            pool.members.iter().filter_map(|id| self.members.get(id)).map(|member| &**member).collect();
        members.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        members.dedup_by(|a, b| a.id == b.id);
        members.into_iter()
    }

    /// Drops the members that the pool's row does not list.
    pub(crate) fn prune(&mut self, pool: &Pool) {
        if self.members.len() > pool.members.len() {
            let listed: HashSet<&Id> = pool.members.iter().collect();
            self.members.retain(|member| listed.contains(&member.id));
        }
    }

    /// Returns whether the pool's row lists members of which nothing is known.
    pub(crate) fn lacks(&self, pool: &Pool) -> bool {
        pool.members.iter().any(|id| !self.members.contains(id) && !self.members.is_known_unread(id))
    }

    /// Returns whether the member list has added members that the pool's row lacks, and lacks removed members that the
    /// row still has.
    pub(crate) fn is_newer_than(&self, pool: &Pool) -> bool {
        let stays = |id: &&Id| match self.members.get(id) {
            Some(member) => member.provisioning != ProvisioningStatus::Deleting,
            None => self.members.may_be_unread(id),
        };
        let named: HashSet<&Id> = pool.members.iter().collect();
        let came = self.members.iter().any(|member| !named.contains(&member.id));
        came && !pool.members.iter().all(|id| stays(&id))
    }

    /// Returns the members that the pool's row lists and that may be unreadable rows.
    pub(crate) fn unread<'p>(&self, pool: &'p Pool) -> impl Iterator<Item = &'p Id> {
        pool.members.iter().filter(|id| self.members.may_be_unread(id))
    }

    /// Returns whether the members must be read again: a row could not be read, a member was never read, or the pool
    /// changed, or may have changed while it was read.
    pub(crate) fn is_stale(&self, pool: &Pool) -> bool {
        !self.whole
            || self.reading.is_stale(pool.updated_at, pool.provisioning)
            || pool.members.iter().any(|id| !self.members.contains(id))
    }

    /// Returns the urgency for the sweep: the time since the last read, multiplied by `URGENCY` if the pool's health
    /// monitor does not report it online.
    pub(crate) fn urgency(&self, pool: &Pool, now: Instant) -> Duration {
        let age = now.saturating_duration_since(self.when);
        let failing = pool.monitored && pool.operating != OperatingStatus::Online;
        if failing { (age + Duration::from_millis(1)).saturating_mul(URGENCY) } else { age }
    }
}
