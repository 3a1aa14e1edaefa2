//! The queries that follow the three lists: lookups of vanished projects, L7 policies, and members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gimbal_octavia_rows::{Id, Pool};

use super::{PollContext, ScopePoller};
use crate::lists::Lists;
use crate::poller::poll::Poll;
use crate::query::{ListScope, Query};
use crate::translate::Translator;

/// How many load balancers of a vanished project are looked up.
const WITNESSES: usize = 3;

impl ScopePoller {
    /// Looks up load balancers of projects that have none left in the list of all projects' load balancers: the project
    /// was emptied, or a lost role hides it. Also queries the L7 policies, if they may have changed.
    pub(super) fn check(&mut self, context: PollContext<'_>, poll: &mut Poll) {
        let Some(lists) = &self.run.lists else { return };
        let before = poll.asks.len();
        if self.list_scope == ListScope::AllProjects {
            let listed: BTreeSet<&Id> = lists.load_balancers.listed().map(|row| &row.project).collect();
            let mut vanished: BTreeMap<&Id, Vec<&Id>> = BTreeMap::new();
            for (id, standing) in self.standings.iter().filter(|(_, standing)| !standing.services.is_empty()) {
                if !listed.contains(&standing.project) {
                    vanished.entry(&standing.project).or_default().push(id);
                }
            }
            // Several are looked up, because one of them may really be deleted in the minute in which the role is lost.
            let asked = vanished.values().flat_map(|balancers| balancers.iter().take(WITNESSES));
            poll.asks.extend(asked.map(|id| Query::LoadBalancer(self.list_scope.clone(), (*id).clone())));
            if !vanished.is_empty() {
                poll.asks.push_back(Query::Roles(self.list_scope.clone()));
            }
            self.run.vanished = vanished.into_keys().cloned().collect();
        }
        if context.options.l7_pools {
            if self.policies_are_stale(lists) {
                poll.asks.push_back(Query::L7Policies(self.list_scope.clone()));
            } else if let Some(lists) = &mut self.run.lists {
                lists.policies = self.lists.policies.clone();
            }
        }
        self.run.waiting = poll.asks.len() - before;
    }

    fn policies_are_stale(&self, lists: &Lists) -> bool {
        lists.listeners.iter().any(|listener| match &listener.l7_policies {
            // neutron-lbaas lists neither a listener's policies nor when one changed.
            None => true,
            Some(policies) if policies.is_empty() => false,
            Some(policies) => self.policies_of.get(&listener.id).is_none_or(|(read, reading)| {
                read != policies || reading.is_stale(listener.updated_at, listener.provisioning)
            }),
        })
    }

    /// Queries the members that may have changed, newest change first, and as many further pools as the sweep budget
    /// allows.
    pub(super) fn read(&mut self, context: PollContext<'_>, poll: &mut Poll) {
        let Some(lists) = &self.run.lists else { return };
        let used = pools_in_use(lists, context);
        let (stale, rest): (Vec<&Arc<Pool>>, Vec<&Arc<Pool>>) = used
            .iter()
            .filter_map(|id| lists.pools.get(id))
            .filter(|pool| !pool.members.is_empty())
            .partition(|pool| self.members.get(&pool.id).is_none_or(|read| read.is_stale(pool)));
        let mut needed: Vec<&Arc<Pool>> = stale;
        needed.sort_unstable_by(|a, b| b.updated_at.cmp(&a.updated_at).then_with(|| a.id.cmp(&b.id)));
        let count = u32::try_from(rest.len() + needed.len()).unwrap_or(u32::MAX);
        let mut rest: Vec<(Duration, &Arc<Pool>)> = rest
            .into_iter()
            .filter_map(|pool| Some((self.members.get(&pool.id)?.urgency(pool, context.now), pool)))
            .collect();
        rest.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.id.cmp(&b.1.id)));
        let swept = self.savings.spend(context.options.sweep, poll.elapsed, count).min(rest.len());
        poll.outcome.members_needed += needed.len();
        poll.outcome.members_swept += swept;
        let pools = needed.into_iter().chain(rest.into_iter().take(swept).map(|(_, pool)| pool));
        let asks: Vec<Query> = pools.map(|pool| Query::Members(self.list_scope.clone(), pool.id.clone())).collect();
        self.run.waiting = asks.len();
        poll.asks.extend(asks);
    }
}

/// Returns the pools whose members become endpoints.
fn pools_in_use(lists: &Lists, context: PollContext<'_>) -> BTreeSet<Id> {
    let belongings = lists.belongings();
    let parts = Translator { lists, belongings: &belongings, options: context.options };
    let offered = lists.load_balancers.iter().filter(|row| context.projects.place(&row.project).is_ok());
    let offers = offered.flat_map(|row| parts.offers(row, &mut Vec::new()));
    offers.flat_map(|offer| offer.live_pools().map(|pool| pool.id.clone()).collect::<Vec<_>>()).collect()
}
