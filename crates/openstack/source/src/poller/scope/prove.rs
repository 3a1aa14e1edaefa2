//! Proofs for what lists name and do not have: three lists are no snapshot, and one that is short for a reason that lasts,
//! a policy for one kind of object, shows the same gap in every poll. So each gap is asked about by itself.

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use gimbal_octavia_rows::{Id, ObjectKind};

use super::view::{PollView, named_without_row};
use super::{PollContext, Run, Scope};
use crate::outcome::Trouble;
use crate::poller::poll::Poll;
use crate::query::{ListScope, Query};
use crate::translate::{PortSets, Translator};

/// How many objects one poll asks about. What depends on the others stands until a later one.
const PROOFS: usize = 16;

impl Scope {
    /// Asks for what was named and missing in the poll before, too.
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
        let whose = &self.whose;
        // Where 404 is said of what is hidden, too. With each project's own token there is nothing to compare with.
        let doubtful = context.options.second_look.is_some() && *whose == ListScope::AllProjects && !asks.is_empty();
        // In turns: those that stay open must not keep the others from being asked about.
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
                ObjectKind::Listener => Query::Listener(whose.clone(), id),
                ObjectKind::LoadBalancer => Query::LoadBalancer(whose.clone(), id),
                _ => Query::Pool(whose.clone(), id),
            })
            .collect();
        drop(belongings);
        if doubtful && self.run.vanished.is_empty() {
            asks.push(Query::Roles(whose.clone()));
        }
        self.run.waiting = asks.len();
        poll.asks.extend(asks);
    }

    /// The poll ends before these pools' members came: they are not known, and everything else is.
    pub(in crate::poller) fn give_up(
        &mut self,
        pools: Vec<Id>,
        context: PollContext<'_>,
        port_sets: &mut PortSets,
        poll: &mut Poll,
    ) {
        poll.outcome.troubles.push(Trouble::Unanswered { pools: pools.len() });
        self.run.unread.extend(pools);
        self.publish(context, port_sets, poll);
    }

    /// A pool whose new members could not be read keeps those that it had: new endpoints come before old ones go.
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

    /// Projects that have vanished, and whatever else is said to be gone, wait for a second look where one look proves nothing.
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
