//! The end of a scope's share of a poll: what each load balancer now is, and what that changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use gimbal_model::{Service, SourceKey};
use gimbal_octavia_rows::{Id, LoadBalancer, ObjectKind, Pool, Table};

use super::poll::Poll;
use super::scope::{Around, Run, Scope, Standing};
use crate::lists::{Belongings, Lists};
use crate::members::Read;
use crate::outcome::Trouble;
use crate::skip::Skip;
use crate::translate::{Parts, PortSets};

/// The pools whose members are endpoints of what is offered.
pub(super) fn pools_in_use(lists: &Lists, around: Around<'_>) -> BTreeSet<Id> {
    let belongings = lists.belongings();
    let parts = Parts { lists, belongings: &belongings, options: around.options };
    let offered = lists.load_balancers.iter().filter(|row| around.projects.place(&row.project).is_ok());
    let offers = offered.flat_map(|row| parts.offers(row, &mut Vec::new()));
    offers.flat_map(|offer| offer.live_pools().map(|pool| pool.id.clone()).collect::<Vec<_>>()).collect()
}

impl Scope {
    pub(super) fn settle(&mut self, around: Around<'_>, port_sets: &mut PortSets, poll: &mut Poll) {
        self.keep_unread();
        self.look_twice(around, around.now);
        let mut run = std::mem::replace(&mut self.run, Run::done());
        let (Some(mut lists), policies_of) = (run.lists.take(), run.policies_of.take()) else { return };
        let belongings = lists.belongings();
        let view = View {
            lists: &lists,
            parts: Parts { lists: &lists, belongings: &belongings, options: around.options },
            members: &self.members,
            open: &self.open,
            newer: &self.newer,
            run: &run,
        };
        let unseen = &run.unseen;
        let mut open = BTreeMap::new();
        let mut standings = std::mem::take(&mut self.standings);
        // No list shows an unseen project: rows of it stand in for one that cannot be read.
        let known =
            |row: &&Arc<LoadBalancer>| !unseen.contains_key(&row.project) && !run.unjudged.contains(&row.project);
        for balancer in lists.load_balancers.iter().filter(known) {
            let before = standings.remove(&balancer.id);
            let standing = view.judge(balancer, before, around, port_sets, &mut open, poll);
            self.standings.insert(balancer.id.clone(), standing);
        }
        let named = named_without_row(&lists, &belongings);
        for (id, mut standing) in standings {
            if standing.services.is_empty() {
                continue;
            }
            let offered = around.projects.place(&standing.project).is_ok();
            if let Some(reason) = unseen.get(&standing.project) {
                standing.services.iter().for_each(|(key, _)| poll.unknown(&key.namespace, reason));
                standing.held = Some(reason.clone());
                self.standings.insert(id, standing);
            } else if let Some(by) = named.get(&id).filter(|_| offered)
                && let Some(reason) = view.still_open(&id, by, Some(&id), &mut open, poll)
            {
                standing.held = Some(reason);
                self.standings.insert(id, standing);
            } else {
                poll.tell(standing.services, Vec::new());
            }
        }
        if lists.load_balancers.has_unread() {
            let reason = "a load balancer's row cannot be read";
            match (around.projects.namespace_of(&self.whose), lists.load_balancers.unread_owners()) {
                (Some(namespace), _) => poll.unknown(namespace, reason),
                (None, Some(owners)) => {
                    let places = owners.filter_map(|project| around.projects.place(project).ok());
                    places.for_each(|place| poll.unknown(&place.namespace, reason));
                }
                // It may be a load balancer of any project.
                (None, None) => around.projects.assigned().for_each(|(_, namespace)| poll.unknown(namespace, reason)),
            }
        }
        for (id, _) in self.unread.iter().filter(|(_, times)| **times > 1) {
            let owners = lists.pools.get(id).into_iter().flat_map(|pool| &pool.load_balancers);
            let rows = owners.filter_map(|id| lists.load_balancers.get(id));
            let places = rows.filter_map(|row| around.projects.place(&row.project).ok());
            places.for_each(|place| poll.unknown(&place.namespace, &format!("the members of pool {id} are not known")));
        }
        drop(belongings);
        let named = || open.iter().flat_map(|(id, named)| std::iter::once(id).chain(named));
        let since = |id: &Id| (id.clone(), self.open_since.get(id).copied().unwrap_or(around.now));
        self.open_since = named().map(since).collect();
        self.open = open;
        let newer = |pool: &&Arc<Pool>| self.members.get(&pool.id).is_some_and(|read| read.is_newer_than(pool));
        self.newer = lists.pools.iter().filter(newer).map(|pool| pool.id.clone()).collect();
        if let Some(policies_of) = policies_of {
            self.policies_of = policies_of;
        }
        let stands =
            self.standings.iter().filter(|(_, standing)| standing.held.is_some() && !standing.services.is_empty());
        lists.keep(&stands.map(|(id, _)| id).collect::<Vec<_>>(), &self.lists);
        self.members.retain(|id, read| lists.pools.get(id).map(|pool| read.prune(pool)).is_some());
        self.lists = lists;
    }

    /// The scope's project is not offered any more.
    pub(super) fn withdraw(self, poll: &mut Poll) {
        for standing in self.standings.into_values() {
            poll.tell(standing.services, Vec::new());
        }
    }
}

/// Load balancers that a listener or a pool names, and that the list of them lacks.
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

/// What one complete poll shows.
pub(super) struct View<'a> {
    pub(super) lists: &'a Lists,
    pub(super) parts: Parts<'a>,
    pub(super) members: &'a HashMap<Id, Read>,
    /// References that were open in the poll before, if that was complete.
    pub(super) open: &'a BTreeMap<Id, BTreeSet<Id>>,
    /// Pools whose members had been listed after they changed, in the poll before.
    pub(super) newer: &'a BTreeSet<Id>,
    pub(super) run: &'a Run,
}

impl<'a> View<'a> {
    fn judge(
        &self,
        balancer: &'a LoadBalancer,
        before: Option<Standing>,
        around: Around<'_>,
        port_sets: &mut PortSets,
        open: &mut BTreeMap<Id, BTreeSet<Id>>,
        poll: &mut Poll,
    ) -> Standing {
        let told = before.map(|before| before.services).unwrap_or_default();
        let project = balancer.project.clone();
        let place = match around.projects.place(&project) {
            Ok(place) => place,
            Err(skip) => {
                if skip == Skip::ProjectGone {
                    poll.gone.insert(project.clone());
                }
                poll.tell(told, Vec::new());
                let left_out = vec![crate::LeftOut { kind: ObjectKind::LoadBalancer, id: balancer.id.clone(), skip }];
                return Standing { project, services: Vec::new(), left_out, held: None };
            }
        };
        if let Some(reason) = self.against(balancer, !told.is_empty(), around, open, poll) {
            if told.is_empty() {
                poll.unknown(&place.namespace, &reason);
            }
            return Standing { project, services: told, left_out: Vec::new(), held: Some(reason) };
        }
        let (services, mut left_out) = self.parts.translate(balancer, place, self.members, port_sets);
        left_out.extend(self.unread(balancer));
        let services = poll.tell(told, services);
        Standing { project, services, left_out, held: None }
    }

    /// Why a load balancer cannot be translated yet, if so.
    fn against(
        &self,
        balancer: &'a LoadBalancer,
        told: bool,
        around: Around<'_>,
        open: &mut BTreeMap<Id, BTreeSet<Id>>,
        poll: &mut Poll,
    ) -> Option<String> {
        let references: BTreeSet<Id> = self.open_references(balancer).into_keys().collect();
        if !references.is_empty()
            && let Some(reason) = self.still_open(&balancer.id, &references, None, open, poll)
        {
            if let (Some(why), Ok(place)) = (self.is_there(&references), around.projects.place(&balancer.project)) {
                poll.unknown(&place.namespace, &why);
            }
            return Some(reason);
        }
        let offers = self.parts.offers(balancer, &mut Vec::new());
        let mut pools = offers.iter().flat_map(|offer| offer.live_pools());
        if let Some(pool) = pools.find(|pool| !pool.members.is_empty() && !self.members.contains_key(&pool.id)) {
            return Some(format!("the members of pool {} are not known", pool.id));
        }
        // The row names those that went, and the list has those that came: between the two there is nothing. Once that is
        // a change; what stays so is believed.
        let mut pools = offers.iter().flat_map(|offer| offer.live_pools());
        let newer = |pool: &&Pool| self.members.get(&pool.id).is_some_and(|read| read.is_newer_than(pool));
        if let Some(pool) = pools.find(|pool| newer(pool) && !self.newer.contains(&pool.id)) {
            return Some(format!("the members of pool {} changed between two lists", pool.id));
        }
        // After a restart the writer may hold what cannot be read now. What was told by us never had it.
        let unread = self.unread(balancer).into_iter().next().filter(|_| !told)?;
        Some(format!("{} {} cannot be read", unread.kind, unread.id))
    }

    /// What a load balancer's lists name and no list has.
    pub(super) fn open_references(&self, balancer: &'a LoadBalancer) -> BTreeMap<Id, ObjectKind> {
        fn missing<'i, T: gimbal_octavia_rows::Row + 'i>(
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
            let offers = self.parts.offers(balancer, &mut Vec::new());
            let pools = offers.iter().flat_map(|offer| offer.live_pools());
            open.extend(
                pools.filter(|pool| self.run.gone.contains(&pool.id)).map(|pool| (pool.id.clone(), ObjectKind::Pool)),
            );
        }
        open
    }

    /// Notes open references. Three lists are no snapshot, so what they were once is no news; twice in a row it is, if what
    /// is missing is gone when it is asked for by itself, and no row that cannot be read may be it. For objects whose load
    /// balancer is `missing`, that is what was asked for.
    fn still_open(
        &self,
        id: &Id,
        references: &BTreeSet<Id>,
        missing: Option<&Id>,
        open: &mut BTreeMap<Id, BTreeSet<Id>>,
        poll: &mut Poll,
    ) -> Option<String> {
        open.insert(id.clone(), references.clone());
        let before = self.open.get(id);
        let hidden = |id: &Id| self.lists.listeners.may_be_unread(id) || self.lists.pools.may_be_unread(id);
        let missing = references.iter().find(|id| {
            before.is_none_or(|before| !before.contains(*id))
                || !self.is_gone(missing.unwrap_or(id))
                || (!self.run.gone.contains(*id) && hidden(id))
        })?;
        let trouble = Trouble::OpenReference { load_balancer: id.clone(), missing: missing.clone() };
        let reason = trouble.to_string();
        poll.outcome.troubles.push(trouble);
        Some(reason)
    }

    /// What belongs to a load balancer, is there, and could never be read.
    fn unread(&self, balancer: &'a LoadBalancer) -> Vec<crate::LeftOut> {
        let left_out = |kind, id: &Id| crate::LeftOut { kind, id: id.clone(), skip: Skip::Unreadable };
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

impl Poll {
    /// Notes what differs between what was told and what is, and returns what is; equal ones stay the same in memory.
    fn tell(
        &mut self,
        told: Vec<(SourceKey, Arc<Service>)>,
        now: Vec<(SourceKey, Service)>,
    ) -> Vec<(SourceKey, Arc<Service>)> {
        let mut told: BTreeMap<SourceKey, Arc<Service>> = told.into_iter().collect();
        let mut services = Vec::with_capacity(now.len());
        for (key, service) in now {
            services.push(match told.remove_entry(&key) {
                Some((key, old)) if *old == service => (key, old),
                _ => {
                    let service = Arc::new(service);
                    self.changes.insert(key.clone(), Some(service.clone()));
                    (key, service)
                }
            });
        }
        for key in told.into_keys() {
            self.changes.insert(key, None);
        }
        services
    }
}
