//! The number of objects that a cluster may have: who comes first keeps what it has, and the rest waits for room.

use std::collections::BTreeMap;

use gimbal_kuryr_model::{DesiredKey, DesiredLoadBalancer, Text};
use gimbal_kuryr_wire::KuryrReason;
use gimbal_octavia_registry::ObjectLimits;

use super::PolicyBreach;

/// The number of objects that a cluster may have. Octavia's and Neutron's own quotas hold besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // Each field is a key of the configuration file.
pub struct ClusterQuota {
    pub load_balancers: u64,
    pub listeners: u64,
    pub members: u64,
    pub ports: u64,
    pub floating_ips: u64,
    pub mutations_per_second: u32,
}

impl Default for ClusterQuota {
    fn default() -> Self {
        Self {
            load_balancers: 100,
            listeners: 500,
            members: 20_000,
            ports: 1500,
            floating_ips: 20,
            mutations_per_second: 20,
        }
    }
}

impl ClusterQuota {
    /// Returns the most objects in the order of [`KINDS`].
    fn by_kind(&self) -> [u64; KINDS.len()] {
        [self.load_balancers, self.listeners, self.members, self.ports, self.floating_ips]
    }

    /// Returns how much there may be in OpenStack, whether or not an entry of the stream wants it.
    #[must_use]
    pub fn limits(&self) -> ObjectLimits {
        let most = |count: u64| Some(u32::try_from(count).unwrap_or(u32::MAX));
        // Each load balancer has one port.
        ObjectLimits {
            load_balancers: most(self.load_balancers.min(self.ports)),
            floating_ips: most(self.floating_ips),
        }
    }
}

/// The number of objects of one load balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntrySize {
    balancers: u64,
    listeners: u64,
    members: u64,
    ports: u64,
    floating_ips: u64,
}

impl EntrySize {
    /// Returns the number of objects that a load balancer consists of.
    #[must_use]
    pub fn of(wanted: &DesiredLoadBalancer) -> Self {
        Self {
            balancers: 1,
            listeners: wanted.header.listeners.len() as u64,
            members: wanted.members.as_slice().len() as u64,
            ports: 1,
            floating_ips: wanted.header.floating.is_some().into(),
        }
    }
}

/// One entry that is counted.
#[derive(Debug, Clone)]
struct Counted {
    size: EntrySize,
    /// The group whose load balancer, port and floating IP it has.
    group: Option<Text>,
}

/// The kinds of objects, in words and as keys of the configuration file, in the order of [`EntrySize::by_kind`].
const KINDS: [(&str, &str); 5] = [
    ("load balancers", "loadBalancers"),
    ("listeners", "listeners"),
    ("members", "members"),
    ("ports", "ports"),
    ("floating IPs", "floatingIps"),
];

/// Place of the members in [`KINDS`].
const MEMBERS: usize = 2;

/// What an entry lacked when it was refused.
#[derive(Debug, Clone, Copy)]
struct Shortage {
    /// How many more than were counted it needed of the kind.
    more: u64,
    /// It may need fewer as soon as another entry of its group is counted.
    shares: bool,
}

/// What a cluster has of its quota.
#[derive(Debug, Clone, Default)]
pub struct ClusterUse {
    entries: BTreeMap<DesiredKey, Counted>,
    /// Entries of each group, and those of them that want a floating IP.
    groups: BTreeMap<Text, (u64, u64)>,
    sum: EntrySize,
    /// The entries that were refused, by what there was too little of.
    short: [BTreeMap<DesiredKey, Shortage>; KINDS.len()],
}

impl ClusterUse {
    /// Counts a load balancer, or counts it anew, unless it would take more than there is. What the entries of a group have
    /// together is counted once.
    ///
    /// # Errors
    /// Returns what there is too little of. What was counted for the key before still is.
    pub fn take(
        &mut self,
        key: &DesiredKey,
        size: EntrySize,
        group: Option<&Text>,
        quota: &ClusterQuota,
    ) -> Result<(), PolicyBreach> {
        let had = self.sum;
        let before = self.entries.remove(key);
        if let Some(before) = &before {
            self.uncount(before);
        }
        let counted = Counted { size, group: group.cloned() };
        self.count(&counted);
        let (before_it, with_it, most) = (had.by_kind(), self.sum.by_kind(), quota.by_kind());
        // What does not grow is taken even where a quota was lowered below what there is.
        let is_full = |kind: &usize| with_it[*kind] > before_it[*kind] && with_it[*kind] > most[*kind];
        if let Some(kind) = (0..KINDS.len()).find(is_full) {
            self.uncount(&counted);
            if let Some(before) = before {
                self.count(&before);
                self.entries.insert(key.clone(), before);
            }
            let (more, used, most) = (with_it[kind] - before_it[kind], before_it[kind], most[kind]);
            self.short[kind].insert(key.clone(), Shortage { more, shares: group.is_some() });
            let (what, name) = KINDS[kind];
            let message = format!("{more} more {what} beside {used} are more than the {most} of quota.{name}");
            return Err(PolicyBreach { reason: KuryrReason::Quota, message });
        }
        self.entries.insert(key.clone(), counted);
        Ok(())
    }

    /// Returns how many members an entry may have: those that are counted for it, and those that there is room for.
    #[must_use]
    pub fn most_members(&self, key: &DesiredKey, quota: &ClusterQuota) -> u64 {
        let counted = self.entries.get(key).map_or(0, |one| one.size.members);
        counted + quota.members.saturating_sub(self.sum.members)
    }

    /// Counts what goes on of an entry that is refused, as [`Self::take`] does. `waits` says whether members of it wait for room.
    ///
    /// # Errors
    /// Returns what there is too little of.
    pub fn take_following(
        &mut self,
        key: &DesiredKey,
        size: EntrySize,
        group: Option<&Text>,
        quota: &ClusterQuota,
        waits: bool,
    ) -> Result<(), PolicyBreach> {
        self.take(key, size, group, quota)?;
        let short = &mut self.short[MEMBERS];
        if waits || short.contains_key(key) {
            // It takes each place that gets free, and not only all of them.
            short.entry(key.clone()).or_insert(Shortage { more: 1, shares: false }).more = 1;
        }
        Ok(())
    }

    /// Returns what is counted.
    #[must_use]
    pub fn sum(&self) -> EntrySize {
        self.sum
    }

    /// Counts a load balancer no more.
    pub fn release(&mut self, key: &DesiredKey) {
        if let Some(counted) = self.entries.remove(key) {
            self.uncount(&counted);
        }
    }

    /// Forgets that an entry was refused.
    pub fn decide_anew(&mut self, key: &DesiredKey) {
        for short in &mut self.short {
            short.remove(key);
        }
    }

    /// Returns the entries that were refused for want of something that there is less of now than `before`, as far as there
    /// is room for them.
    #[must_use]
    pub fn may_fit(&self, before: EntrySize, quota: &ClusterQuota) -> Vec<DesiredKey> {
        let (before, now) = (before.by_kind(), self.sum.by_kind());
        let freed = (0..KINDS.len()).filter(|kind| now[*kind] < before[*kind]);
        let entries = freed.flat_map(|kind| &self.short[kind]);
        entries.map(|(key, _)| key).filter(|key| self.has_room(key, quota)).cloned().collect()
    }

    /// Whether there may be room by now for an entry that was refused.
    #[must_use]
    pub fn has_room(&self, key: &DesiredKey, quota: &ClusterQuota) -> bool {
        let (now, most) = (self.sum.by_kind(), quota.by_kind());
        (0..KINDS.len()).any(|kind| {
            let short = self.short[kind].get(key);
            short.is_some_and(|short| short.shares || now[kind] + short.more <= most[kind])
        })
    }

    fn count(&mut self, one: &Counted) {
        self.sum = self.sum.plus(one.size);
        if let Some(group) = &one.group {
            let (entries, floating) = self.groups.entry(group.clone()).or_default();
            self.sum = self.sum.minus(one.size.counted_already(*entries > 0, *floating > 0));
            *entries += 1;
            *floating += one.size.floating_ips;
        }
    }

    fn uncount(&mut self, one: &Counted) {
        self.sum = self.sum.minus(one.size);
        if let Some(group) = &one.group
            && let Some((entries, floating)) = self.groups.get_mut(group)
        {
            *entries -= 1;
            *floating -= one.size.floating_ips;
            self.sum = self.sum.plus(one.size.counted_already(*entries > 0, *floating > 0));
            if *entries == 0 {
                self.groups.remove(group);
            }
        }
    }
}

impl EntrySize {
    /// Returns what of it is counted for another entry of its group.
    fn counted_already(self, group: bool, floating: bool) -> Self {
        let none = Self::default();
        let floating_ips = if floating { self.floating_ips } else { 0 };
        if group { Self { balancers: self.balancers, ports: self.ports, floating_ips, ..none } } else { none }
    }
}

impl EntrySize {
    /// Returns the numbers of objects in the order of [`KINDS`].
    fn by_kind(self) -> [u64; KINDS.len()] {
        [self.balancers, self.listeners, self.members, self.ports, self.floating_ips]
    }

    fn plus(self, other: Self) -> Self {
        Self {
            balancers: self.balancers + other.balancers,
            listeners: self.listeners + other.listeners,
            members: self.members + other.members,
            ports: self.ports + other.ports,
            floating_ips: self.floating_ips + other.floating_ips,
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            balancers: self.balancers.saturating_sub(other.balancers),
            listeners: self.listeners.saturating_sub(other.listeners),
            members: self.members.saturating_sub(other.members),
            ports: self.ports.saturating_sub(other.ports),
            floating_ips: self.floating_ips.saturating_sub(other.floating_ips),
        }
    }
}
