//! What the lists of one poll show, and what is missing in them. Three lists are not a snapshot, so each may name
//! objects that another one lacks.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use gimbal_octavia_rows::{Existence, Id, LoadBalancer, ObjectKind, Pool, Row, Table};

use super::Run;
use crate::lists::{Belongings, Lists};
use crate::members::PoolMembers;
use crate::skip::{LeftOut, SkipReason};
use crate::translate::Translator;

/// The merged lists of one poll, and the results of its lookups.
pub(super) struct PollView<'a> {
    pub(super) lists: &'a Lists,
    pub(super) parts: Translator<'a>,
    pub(super) members: &'a HashMap<Id, PoolMembers>,
    /// Pools whose members were newer than the pool's row, in the poll before.
    pub(super) newer: &'a BTreeSet<Id>,
    pub(super) run: &'a Run,
}

impl<'a> PollView<'a> {
    /// Returns the objects that the rows of a load balancer name and that no list has.
    pub(super) fn open_references(&self, balancer: &'a LoadBalancer) -> BTreeMap<Id, ObjectKind> {
        fn missing<'i, T: Row + 'i>(
            table: &'i Table<T>,
            ids: impl Iterator<Item = &'i Id> + 'i,
        ) -> impl Iterator<Item = (Id, ObjectKind)> + 'i {
            ids.filter(|id| !table.contains(id) && !table.is_known_unread(id)).map(|id| (id.clone(), T::KIND))
        }
        let (lists, belongings) = (self.lists, self.parts.belongings);
        let mut open: BTreeMap<Id, ObjectKind> = missing(&lists.listeners, balancer.listeners.iter()).collect();
        open.extend(missing(&lists.pools, balancer.pools.iter()));
        for listener in belongings.listeners.get(&balancer.id).into_iter().flatten() {
            open.extend(missing(&lists.pools, listener.default_pool_id.iter()));
            let policies = belongings.policies.get(&listener.id).into_iter().flatten();
            open.extend(missing(&lists.pools, policies.filter_map(|policy| policy.redirect_pool.as_ref())));
        }
        if !self.run.gone.is_empty() {
            // A pool may be listed, and be gone when its members are read.
            let offers = self.parts.offers(balancer, &mut Vec::new());
            let gone =
                offers.iter().flat_map(|offer| offer.live_pools()).filter(|pool| self.run.gone.contains(&pool.id));
            open.extend(gone.map(|pool| (pool.id.clone(), ObjectKind::Pool)));
        }
        open
    }

    /// Returns whether a missing object was shown to be gone.
    pub(super) fn is_gone(&self, id: &Id) -> bool {
        let said = self.run.gone.contains(id) || matches!(self.run.proofs.get(id), Some(Ok(Existence::Gone)));
        said && !self.run.doubted.contains(id)
    }

    /// Returns why one of these missing objects exists nevertheless, if a lookup has shown that.
    pub(super) fn is_there(&self, ids: &BTreeSet<Id>) -> Option<String> {
        ids.iter().find_map(|id| match self.run.proofs.get(id)? {
            Ok(Existence::Found) => Some(format!("{id} is missing in its list, and is there")),
            Ok(Existence::Forbidden) => Some(format!("{id} is missing in its list, and forbidden: a role is missing")),
            Ok(Existence::Gone) | Err(_) => None,
        })
    }

    /// Returns whether the members of a pool are newer than the pool's row, and were not in the poll before. A
    /// difference that remains in the next poll is accepted.
    pub(super) fn members_just_changed(&self, pool: &Pool) -> bool {
        self.members.get(&pool.id).is_some_and(|read| read.is_newer_than(pool)) && !self.newer.contains(&pool.id)
    }

    /// Returns the objects of a load balancer that exist and of which no list had a readable row yet.
    pub(super) fn unread(&self, balancer: &'a LoadBalancer) -> Vec<LeftOut> {
        let left_out = |kind, id: &Id| LeftOut { kind, id: id.clone(), skip: SkipReason::Unreadable };
        let lists = self.lists;
        let mut found: Vec<_> = balancer
            .listeners
            .iter()
            .filter(|id| lists.listeners.is_known_unread(id))
            .map(|id| left_out(ObjectKind::Listener, id))
            .collect();
        let listeners = || self.parts.belongings.listeners.get(&balancer.id).into_iter().flatten();
        let policies = listeners().flat_map(|listener| listener.l7_policies.iter().flatten());
        let policies = policies.filter(|id| lists.policies.is_known_unread(id));
        found.extend(policies.map(|id| left_out(ObjectKind::L7Policy, id)));
        let pools = listeners().filter_map(|listener| listener.default_pool_id.as_ref());
        found.extend(pools.filter(|id| lists.pools.is_known_unread(id)).map(|id| left_out(ObjectKind::Pool, id)));
        for pool in self.parts.offers(balancer, &mut Vec::new()).iter().flat_map(|offer| offer.live_pools()) {
            let unread = self.members.get(&pool.id).into_iter().flat_map(|read| read.unread(pool));
            found.extend(unread.map(|id| left_out(ObjectKind::Member, id)));
        }
        found
    }
}

/// Returns the load balancers that listeners or pools name and that the list of load balancers lacks, with those that
/// name them.
pub(super) fn named_without_row<'a>(lists: &'a Lists, belongings: &Belongings<'a>) -> HashMap<&'a Id, BTreeSet<Id>> {
    let mut named: HashMap<&Id, BTreeSet<Id>> = HashMap::new();
    for (id, listeners) in &belongings.listeners {
        if !lists.load_balancers.contains(id) {
            named.entry(*id).or_default().extend(listeners.iter().map(|listener| listener.id.clone()));
        }
    }
    for pool in lists.pools.iter() {
        for id in pool.load_balancers.iter().filter(|id| !lists.load_balancers.contains(id)) {
            named.entry(id).or_default().insert(pool.id.clone());
        }
    }
    named
}
