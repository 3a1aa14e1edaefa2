//! Lookups of objects that one list names and another lacks. Three lists are not a snapshot, and a list that is short
//! for a lasting reason, such as a policy for one kind of object, has the same gap in every poll. So each missing
//! object is looked up before it counts as deleted.

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use gimbal_octavia_rows::{Id, ObjectKind};

use super::view::{PollView, named_without_row};
use super::{PollContext, Run, ScopePoller};
use crate::outcome::PollTrouble;
use crate::poller::poll::Poll;
use crate::query::{ListScope, Query};
use crate::translate::{PortSets, Translator};

/// The largest number of objects that one scope looks up in one poll. Load balancers that depend on the others stay as
/// published until a later poll.
const PROOFS: usize = 16;

impl ScopePoller {
    /// Looks up the objects that were also named and missing in the poll before.
    pub(super) fn prove(&mut self, context: PollContext<'_>, poll: &mut Poll) {
        let Some(lists) = &self.run.lists else { return };
        let belongings = lists.belongings();
        let parts = Translator { lists, belongings: &belongings, options: context.options };
        let view = PollView { lists, parts, members: &self.members, newer: &self.newer, run: &self.run };
        let mut asks: BTreeMap<Id, ObjectKind> = BTreeMap::new();
        if !self.open.is_empty() {
            for balancer in lists.load_balancers.iter() {
                let Some(before) = self.open.get(&balancer.id) else { continue };
                asks.extend(view.open_references(balancer).into_iter().filter(|(id, _)| before.contains(id)));
            }
            for (id, _) in named_without_row(lists, &belongings) {
                if self.open.contains_key(id) && self.standings.contains_key(id) {
                    asks.insert(id.clone(), ObjectKind::LoadBalancer);
                }
            }
        }
        let list_scope = &self.list_scope;
        // neutron-lbaas answers 404 for hidden objects, too, so the roles are checked. In per-project mode there are no
        // recorded roles to compare with.
        let doubtful =
            context.options.second_look.is_some() && *list_scope == ListScope::AllProjects && !asks.is_empty();
        // Continue after the last object that was looked up, so that objects that stay open do not starve the others.
        let (mut next, mut before) = (asks, BTreeMap::new());
        if let Some(last) = &self.proved {
            let rest = next.split_off(last);
            before = std::mem::replace(&mut next, rest);
            before.extend(next.remove_entry(last));
        }
        let asks: Vec<(Id, ObjectKind)> = next.into_iter().chain(before).take(PROOFS).collect();
        self.proved = asks.last().map(|(id, _)| id.clone());
        let mut asks: Vec<Query> = asks
            .into_iter()
            .map(|(id, kind)| match kind {
                ObjectKind::Listener => Query::Listener(list_scope.clone(), id),
                ObjectKind::LoadBalancer => Query::LoadBalancer(list_scope.clone(), id),
                _ => Query::Pool(list_scope.clone(), id),
            })
            .collect();
        drop(belongings);
        if doubtful && self.run.vanished.is_empty() {
            asks.push(Query::Roles(list_scope.clone()));
        }
        self.run.waiting = asks.len();
        poll.asks.extend(asks);
    }

    /// Called when the poll ends before the members of `pools` arrived. Publishes everything else.
    pub(in crate::poller) fn give_up(
        &mut self,
        pools: Vec<Id>,
        context: PollContext<'_>,
        port_sets: &mut PortSets,
        poll: &mut Poll,
    ) {
        poll.outcome.troubles.push(PollTrouble::Unanswered { pools: pools.len() });
        self.run.unread.extend(pools);
        self.publish(context, port_sets, poll);
    }

    /// Keeps the last row, and so the last members, of each pool whose new members could not be read: new endpoints are
    /// published before old ones are removed.
    pub(super) fn keep_unread(&mut self) {
        let Run { lists: Some(lists), unread, .. } = &mut self.run else { return };
        let lacks = |id: &Id| {
            let Some(pool) = lists.pools.get(id) else { return false };
            self.members.get(id).is_none_or(|read| read.lacks(pool))
        };
        let lacking: HashSet<Id> = unread.iter().filter(|id| lacks(id)).cloned().collect();
        self.unread.retain(|id, _| lacking.contains(id));
        for id in lacking {
            if self.members.contains_key(&id) {
                lists.pools.put_back(&id, &self.lists.pools);
            }
            *self.unread.entry(id).or_default() += 1;
        }
    }

    /// Delays the removal of vanished projects, and of other objects reported as gone, until a second look confirms it;
    /// see [`PollOptions::second_look`](crate::PollOptions::second_look).
    pub(super) fn look_twice(&mut self, context: PollContext<'_>, now: Instant) {
        let vanished = &self.run.vanished;
        self.vanished.retain(|project, _| vanished.contains(project));
        let Some(wait) = context.options.second_look else { return };
        let stays = |since: &Instant| now.saturating_duration_since(*since) >= wait;
        let believed = |id: &Id| !self.run.roles_doubted && self.open_since.get(id).is_some_and(stays);
        let Run { proofs, gone, .. } = &self.run;
        self.run.doubted = proofs.keys().chain(gone).filter(|id| !believed(id)).cloned().collect();
        let Run { vanished, unseen, .. } = &mut self.run;
        for project in std::mem::take(vanished) {
            let since = *self.vanished.entry(project.clone()).or_insert(now);
            if now.saturating_duration_since(since) < wait {
                let reason = format!(
                    "project {project} has no load balancer in the list any more, which is believed when it is still so \
                     after {} s",
                    wait.as_secs()
                );
                unseen.entry(project).or_insert(reason);
            }
        }
    }
}
