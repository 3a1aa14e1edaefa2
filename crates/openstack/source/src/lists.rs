//! The lists of one poll, and which objects belong together.

use std::collections::HashMap;
use std::sync::Arc;

use gimbal_octavia_rows::{CompleteList, Id, L7Policy, Listener, LoadBalancer, Pool, Row, Table};

use crate::outcome::PollTrouble;

/// Merges `list` with the table of the poll before, and adds the rows that cannot be read to `troubles`.
pub(crate) fn merge<T: Row>(
    list: CompleteList<T>,
    before: Option<&Table<T>>,
    troubles: &mut Vec<PollTrouble>,
) -> Table<T> {
    let (table, unreadable) = Table::merge(list, before);
    troubles.extend(unreadable.into_iter().map(|row| PollTrouble::unreadable(T::KIND, row)));
    table
}

/// The lists of one poll.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    pub(crate) load_balancers: Table<LoadBalancer>,
    pub(crate) listeners: Table<Listener>,
    pub(crate) pools: Table<Pool>,
    pub(crate) policies: Table<L7Policy>,
}

/// Objects grouped by their parent: listeners by load balancer, policies by listener.
#[derive(Debug, Default)]
pub(crate) struct Belongings<'a> {
    pub(crate) listeners: HashMap<&'a Id, Vec<&'a Arc<Listener>>>,
    pub(crate) policies: HashMap<&'a Id, Vec<&'a Arc<L7Policy>>>,
}

impl Lists {
    /// Copies the rows that these load balancers were published with from `before`, where they are missing now. The
    /// load balancers stay published, so if one of these rows cannot be read in the next list, it is a known row and
    /// not a new one.
    pub(crate) fn keep(&mut self, standing: &[&Id], before: &Self) {
        if standing.is_empty() {
            return;
        }
        let belongings = before.belongings();
        for id in standing {
            self.load_balancers.keep(id, &before.load_balancers);
            for listener in belongings.listeners.get(id).into_iter().flatten() {
                self.listeners.keep(&listener.id, &before.listeners);
                let policies = belongings.policies.get(&listener.id).map(Vec::as_slice).unwrap_or_default();
                policies.iter().for_each(|policy| self.policies.keep(&policy.id, &before.policies));
                let redirects = policies.iter().filter_map(|policy| policy.redirect_pool.as_ref());
                for pool in listener.default_pool_id.iter().chain(redirects) {
                    self.pools.keep(pool, &before.pools);
                }
            }
        }
    }

    /// Groups listeners by load balancer, whichever of the two names the other, and policies by listener, each sorted
    /// by ID.
    pub(crate) fn belongings(&self) -> Belongings<'_> {
        let mut found = Belongings::default();
        for listener in self.listeners.iter() {
            for id in &listener.load_balancers {
                found.listeners.entry(id).or_default().push(listener);
            }
        }
        for balancer in self.load_balancers.iter() {
            for listener in balancer.listeners.iter().filter_map(|id| self.listeners.get(id)) {
                if !listener.load_balancers.contains(&balancer.id) {
                    found.listeners.entry(&balancer.id).or_default().push(listener);
                }
            }
        }
        for listener in self.listeners.iter() {
            // The listener's row decides which policies exist, as a pool's row does for its members.
            for policy in listener.l7_policies.iter().flatten().filter_map(|id| self.policies.get(id)) {
                found.policies.entry(&listener.id).or_default().push(policy);
            }
        }
        for policy in self.policies.iter() {
            if let Some(listener) = policy.listener.as_ref().and_then(|id| self.listeners.get(id))
                && listener.l7_policies.is_none()
            {
                found.policies.entry(&listener.id).or_default().push(policy);
            }
        }
        found.listeners.values_mut().for_each(|listeners| listeners.sort_unstable_by(|a, b| a.id.cmp(&b.id)));
        found.policies.values_mut().for_each(|policies| policies.sort_unstable_by(|a, b| a.id.cmp(&b.id)));
        found
    }
}
