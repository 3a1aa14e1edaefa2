//! The last phase of a poll: each load balancer is published, or keeps what was published before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gimbal_octavia_rows::{Id, LoadBalancer, ObjectKind, Pool};

use super::view::{PollView, named_without_row};
use super::{PollContext, PublishedBalancer, Run, ScopePoller};
use crate::outcome::PollTrouble;
use crate::poller::poll::Poll;
use crate::projects::ProjectNamespace;
use crate::skip::{LeftOut, SkipReason};
use crate::translate::{PortSets, Translator};

impl ScopePoller {
    /// Publishes what this poll's lists show, and remembers them for the next poll.
    pub(super) fn publish(&mut self, context: PollContext<'_>, port_sets: &mut PortSets, poll: &mut Poll) {
        self.keep_unread();
        self.look_twice(context, context.now);
        let mut run = std::mem::replace(&mut self.run, Run::done());
        let (Some(mut lists), policies_of) = (run.lists.take(), run.policies_of.take()) else { return };
        let before = std::mem::take(&mut self.standings);
        let belongings = lists.belongings();
        let view = PollView {
            lists: &lists,
            parts: Translator { lists: &lists, belongings: &belongings, options: context.options },
            members: &self.members,
            newer: &self.newer,
            run: &run,
        };
        let mut publisher =
            Publisher { view: &view, open_before: &self.open, open: BTreeMap::new(), context, port_sets, poll };
        let standings = publisher.balancers(before);
        publisher.report_unread_balancers(self);
        publisher.report_unread_members(self);
        let open = publisher.open;
        drop(belongings);
        self.standings = standings;
        self.remember_open(open, context);
        let newer = |pool: &&Arc<Pool>| self.members.get(&pool.id).is_some_and(|read| read.is_newer_than(pool));
        self.newer = lists.pools.iter().filter(newer).map(|pool| pool.id.clone()).collect();
        if let Some(policies_of) = policies_of {
            self.policies_of = policies_of;
        }
        // Keep the rows of load balancers that keep their Services, for the case that the next list's rows cannot be
        // read.
        let kept =
            self.standings.iter().filter(|(_, standing)| standing.held.is_some() && !standing.services.is_empty());
        lists.keep(&kept.map(|(id, _)| id).collect::<Vec<_>>(), &self.lists);
        self.members.retain(|id, read| lists.pools.get(id).map(|pool| read.prune(pool)).is_some());
        self.lists = lists;
    }

    /// Removes every Service of the scope: its project is not selected any more.
    pub(in crate::poller) fn withdraw(self, poll: &mut Poll) {
        for standing in self.standings.into_values() {
            poll.publish(standing.services, Vec::new());
        }
    }

    /// Remembers which references are open, and since when.
    fn remember_open(&mut self, open: BTreeMap<Id, BTreeSet<Id>>, context: PollContext<'_>) {
        let named = open.iter().flat_map(|(id, named)| std::iter::once(id).chain(named));
        let since = |id: &Id| (id.clone(), self.open_since.get(id).copied().unwrap_or(context.now));
        self.open_since = named.map(since).collect();
        self.open = open;
    }
}

/// Publishes the load balancers of one scope.
struct Publisher<'v, 'a, 'p> {
    view: &'v PollView<'a>,
    /// The references that were open in the poll before, by load balancer, if that poll was complete.
    open_before: &'v BTreeMap<Id, BTreeSet<Id>>,
    /// The references that are open in this poll.
    open: BTreeMap<Id, BTreeSet<Id>>,
    context: PollContext<'p>,
    port_sets: &'p mut PortSets,
    poll: &'p mut Poll,
}

impl<'a> Publisher<'_, 'a, '_> {
    /// Publishes each load balancer that is listed or was published `before`. Returns what is published now.
    fn balancers(&mut self, mut before: BTreeMap<Id, PublishedBalancer>) -> BTreeMap<Id, PublishedBalancer> {
        let (lists, run) = (self.view.lists, self.view.run);
        let mut standings = BTreeMap::new();
        // No list shows the load balancers of an unseen project; its rows here are kept ones that replace unreadable
        // rows.
        let known =
            |row: &&Arc<LoadBalancer>| !run.unseen.contains_key(&row.project) && !run.unjudged.contains(&row.project);
        for balancer in lists.load_balancers.iter().filter(known) {
            let standing = self.listed(balancer, before.remove(&balancer.id));
            standings.insert(balancer.id.clone(), standing);
        }
        let named = named_without_row(lists, self.view.parts.belongings);
        for (id, standing) in before {
            if standing.services.is_empty() {
                continue;
            }
            if let Some(standing) = self.unlisted(&id, standing, named.get(&id)) {
                standings.insert(id, standing);
            }
        }
        standings
    }

    /// Publishes a load balancer that is listed.
    fn listed(&mut self, balancer: &'a LoadBalancer, before: Option<PublishedBalancer>) -> PublishedBalancer {
        let published = before.map(|before| before.services).unwrap_or_default();
        let project = balancer.project.clone();
        let place: &ProjectNamespace = match self.context.projects.place(&project) {
            Ok(place) => place,
            Err(skip) => {
                if skip == SkipReason::ProjectGone {
                    self.poll.gone.insert(project.clone());
                }
                self.poll.publish(published, Vec::new());
                let left_out = vec![LeftOut { kind: ObjectKind::LoadBalancer, id: balancer.id.clone(), skip }];
                return PublishedBalancer { project, services: Vec::new(), left_out, held: None };
            }
        };
        if let Some(reason) = self.reason_to_hold(balancer, place, !published.is_empty()) {
            if published.is_empty() {
                self.poll.unknown(&place.namespace, &reason);
            }
            return PublishedBalancer { project, services: published, left_out: Vec::new(), held: Some(reason) };
        }
        let (services, mut left_out) = self.view.parts.translate(balancer, place, self.view.members, self.port_sets);
        left_out.extend(self.view.unread(balancer));
        let services = self.poll.publish(published, services);
        PublishedBalancer { project, services, left_out, held: None }
    }

    /// Removes the Services of a load balancer that is not listed, or returns them if it may still exist. `named_by`
    /// are listed objects that name it.
    fn unlisted(
        &mut self,
        id: &Id,
        mut standing: PublishedBalancer,
        named_by: Option<&BTreeSet<Id>>,
    ) -> Option<PublishedBalancer> {
        if let Some(reason) = self.view.run.unseen.get(&standing.project) {
            standing.services.iter().for_each(|(key, _)| self.poll.unknown(&key.namespace, reason));
            standing.held = Some(reason.clone());
            return Some(standing);
        }
        let selected = self.context.projects.place(&standing.project).is_ok();
        if let Some(named_by) = named_by.filter(|_| selected)
            && let Some(reason) = self.still_open(id, named_by, Some(id))
        {
            standing.held = Some(reason);
            return Some(standing);
        }
        self.poll.publish(standing.services, Vec::new());
        None
    }

    /// Returns why the rows of a load balancer cannot be translated in this poll, if so.
    fn reason_to_hold(
        &mut self,
        balancer: &'a LoadBalancer,
        place: &ProjectNamespace,
        is_published: bool,
    ) -> Option<String> {
        let view = self.view;
        let references: BTreeSet<Id> = view.open_references(balancer).into_keys().collect();
        if !references.is_empty()
            && let Some(reason) = self.still_open(&balancer.id, &references, None)
        {
            if let Some(why) = view.is_there(&references) {
                self.poll.unknown(&place.namespace, &why);
            }
            return Some(reason);
        }
        let offers = view.parts.offers(balancer, &mut Vec::new());
        let mut pools = offers.iter().flat_map(|offer| offer.live_pools());
        if let Some(pool) = pools.find(|pool| !pool.members.is_empty() && !view.members.contains_key(&pool.id)) {
            return Some(format!("the members of pool {} are not known", pool.id));
        }
        // The pool's row still names removed members, and the member list already has added ones: what both have in
        // common is neither the old set nor the new one. A difference that remains in the next poll is accepted.
        let mut pools = offers.iter().flat_map(|offer| offer.live_pools());
        if let Some(pool) = pools.find(|pool| view.members_just_changed(pool)) {
            return Some(format!("the members of pool {} changed between two lists", pool.id));
        }
        // After a restart the writer may hold objects that cannot be read now. What this process published never had
        // them.
        let unread = view.unread(balancer).into_iter().next().filter(|_| !is_published)?;
        Some(format!("{} {} cannot be read", unread.kind, unread.id))
    }

    /// Records open references of load balancer `id`. Returns why they do not prove a deletion yet: one of them was not
    /// open in the poll before, was not shown to be gone, or may be an unreadable row. If `missing` is the load
    /// balancer itself, that must be shown to be gone instead of the references.
    fn still_open(&mut self, id: &Id, references: &BTreeSet<Id>, missing: Option<&Id>) -> Option<String> {
        self.open.insert(id.clone(), references.clone());
        let (view, before) = (self.view, self.open_before.get(id));
        let hidden = |id: &Id| view.lists.listeners.may_be_unread(id) || view.lists.pools.may_be_unread(id);
        let missing = references.iter().find(|id| {
            before.is_none_or(|before| !before.contains(*id))
                || !view.is_gone(missing.unwrap_or(id))
                || (!view.run.gone.contains(*id) && hidden(id))
        })?;
        let trouble = PollTrouble::OpenReference { load_balancer: id.clone(), missing: missing.clone() };
        let reason = trouble.to_string();
        self.poll.outcome.troubles.push(trouble);
        Some(reason)
    }

    /// Reports the namespaces that may have a load balancer whose row cannot be read.
    fn report_unread_balancers(&mut self, scope: &ScopePoller) {
        let (balancers, projects) = (&self.view.lists.load_balancers, self.context.projects);
        if !balancers.has_unread() {
            return;
        }
        let reason = "a load balancer's row cannot be read";
        match (projects.namespace_of(&scope.list_scope), balancers.unread_owners()) {
            (Some(namespace), _) => self.poll.unknown(namespace, reason),
            (None, Some(owners)) => {
                let places = owners.filter_map(|project| projects.place(project).ok());
                places.for_each(|place| self.poll.unknown(&place.namespace, reason));
            }
            // It may be a load balancer of any project.
            (None, None) => projects.assigned().for_each(|(_, namespace)| self.poll.unknown(namespace, reason)),
        }
    }

    /// Reports the namespaces with pools whose members could not be read in two polls in a row.
    fn report_unread_members(&mut self, scope: &ScopePoller) {
        let lists = self.view.lists;
        for (id, _) in scope.unread.iter().filter(|(_, times)| **times > 1) {
            let owners = lists.pools.get(id).into_iter().flat_map(|pool| &pool.load_balancers);
            let rows = owners.filter_map(|id| lists.load_balancers.get(id));
            let places = rows.filter_map(|row| self.context.projects.place(&row.project).ok());
            let reason = format!("the members of pool {id} are not known");
            places.for_each(|place| self.poll.unknown(&place.namespace, &reason));
        }
    }
}
