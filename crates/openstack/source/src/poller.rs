//! The poll as a state machine: decides what to fetch next, and at the end of a poll what changed.
//!
//! ```text
//!   begin --> next_query ... answer ... next_query --> finish: PollOutcome
//!             (any number at once, in any order)
//! ```
//!
//! Three lists are not a snapshot, a list can fail, and a role can be lost. None of these may look like a deletion
//! (docs/design.md#rule-4). A poll costs one list of each kind, and the members of the pools that may have changed: a
//! member's address and port never change, so the pool's row decides which endpoints exist.

mod poll;
mod scope;
mod sweep;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use gimbal_model::{Service, SourceKey};

use poll::{Poll, ProjectList};
use scope::PollContext;
pub(crate) use scope::{PublishedBalancer, ScopePoller};

use gimbal_octavia_rows::{CompleteList, ObjectKind, Project};

use crate::options::{ListMode, PollOptions, ServiceName};
use crate::outcome::{PollOutcome, PollTrouble};
use crate::projects::{KeepCriteria, Projects};
use crate::query::{ListScope, Query, Reply};
use crate::translate::PortSets;

/// The list of projects may fail for this many times `PollOptions::projects_for` before the poll reports that projects may
/// be missing.
const PATIENCE: u32 = 3;

/// Polls an OpenStack cloud. Holds the results of earlier polls and the state of the running poll. The caller supplies
/// every time.
///
/// After [`Self::begin`] the caller fetches each query that [`Self::next_query`] returns, concurrently if it likes, and
/// passes each result to [`Self::answer`], until [`Self::is_done`]. [`Self::finish`] ends the poll; queries that were
/// not answered by then count as failed.
#[derive(Debug)]
pub struct CloudPoller {
    mode: ListMode,
    options: PollOptions,
    projects: Projects,
    scopes: BTreeMap<ListScope, ScopePoller>,
    port_sets: PortSets,
    /// When the first poll began.
    made: Option<Instant>,
    began: Option<Instant>,
    projects_at: Option<Instant>,
    /// Since when every list of projects has failed; unset after one that succeeded.
    projects_failing: Option<Instant>,
    poll: Poll,
}

impl CloudPoller {
    /// Returns a poller that has seen nothing yet.
    #[must_use]
    pub fn new(mode: ListMode, options: PollOptions) -> Self {
        Self {
            mode,
            options,
            projects: Projects::default(),
            scopes: BTreeMap::new(),
            port_sets: PortSets::default(),
            made: None,
            began: None,
            projects_at: None,
            projects_failing: None,
            poll: Poll::default(),
        }
    }

    /// Begins a poll. A running poll is abandoned; the changes that it has made certain are kept.
    pub fn begin(&mut self, now: Instant) {
        self.made.get_or_insert(now);
        let elapsed = self.began.replace(now).map(|began| now.saturating_duration_since(began)).unwrap_or_default();
        // The changes that an abandoned poll had already made certain are still to be published.
        let changes = std::mem::take(&mut self.poll.changes);
        self.poll = Poll { elapsed, changes, ..Poll::default() };
        let recent = self.projects_at.is_some_and(|at| now.saturating_duration_since(at) < self.options.projects_for);
        if self.mode == ListMode::PerProject || !recent {
            self.poll.projects = ProjectList::Awaited;
            self.poll.asks.push_back(Query::Projects);
        }
        if self.mode == ListMode::Bulk {
            let everyones =
                self.scopes.entry(ListScope::AllProjects).or_insert_with(|| ScopePoller::new(ListScope::AllProjects));
            everyones.begin(&mut self.poll);
        }
    }

    /// Returns the next thing to fetch, if there is one now. An answer may bring more.
    pub fn next_query(&mut self) -> Option<Query> {
        let ask = self.poll.asks.pop_front()?;
        self.poll.asked.insert(ask.clone());
        Some(ask)
    }

    /// Applies an answer. An answer to a query of an earlier poll is ignored.
    pub fn answer(&mut self, answer: Reply, now: Instant) {
        if !self.poll.asked.remove(&answer.query()) {
            return;
        }
        match answer {
            Reply::Projects(projects) => self.take_projects(projects, now),
            Reply::LoadBalancers(list_scope, list) => {
                self.take_list(&list_scope, ObjectKind::LoadBalancer, list, |scope, list, _| {
                    scope.load_balancers(list)
                });
            }
            Reply::Listeners(list_scope, list) => {
                self.take_list(&list_scope, ObjectKind::Listener, list, |scope, list, _| scope.listeners(list));
            }
            Reply::Pools(list_scope, list) => {
                self.take_list(&list_scope, ObjectKind::Pool, list, |scope, list, _| scope.pools(list))
            }
            Reply::L7Policies(list_scope, list) => {
                self.take_list(&list_scope, ObjectKind::L7Policy, list, ScopePoller::policies)
            }
            Reply::Members(list_scope, pool, members) => {
                if let Some(scope) = self.scopes.get_mut(&list_scope) {
                    scope.members(pool, members, now, &mut self.poll);
                }
            }
            Reply::LoadBalancer(list_scope, id, existence) => {
                if let Some(scope) = self.scopes.get_mut(&list_scope) {
                    scope.existence(&id, existence, &mut self.poll);
                }
            }
            Reply::Listener(list_scope, id, existence) | Reply::Pool(list_scope, id, existence) => {
                if let Some(scope) = self.scopes.get_mut(&list_scope) {
                    scope.proof(id, existence);
                }
            }
            Reply::Roles(list_scope, missing) => {
                if let Some(scope) = self.scopes.get_mut(&list_scope) {
                    scope.roles(missing, &self.options, &mut self.poll);
                }
            }
        }
        self.advance(now);
    }

    /// Returns whether every query of this poll was answered.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.poll.asks.is_empty() && self.poll.asked.is_empty()
    }

    /// Returns the changes that are certain already, so that one slow project does not delay the others.
    pub fn take_changes(&mut self) -> Vec<(SourceKey, Option<Arc<Service>>)> {
        std::mem::take(&mut self.poll.changes).into_iter().collect()
    }

    /// Ends the poll.
    pub fn finish(&mut self, now: Instant) -> PollOutcome {
        if self.poll.projects == ProjectList::Awaited {
            self.take_projects(Err("it did not come in time".into()), now);
        }
        let unanswered = std::mem::take(&mut self.poll.asks).into_iter().chain(std::mem::take(&mut self.poll.asked));
        let mut members: BTreeMap<ListScope, Vec<gimbal_octavia_rows::Id>> = BTreeMap::new();
        for ask in unanswered {
            if let Query::Members(list_scope, pool) = ask {
                members.entry(list_scope).or_default().push(pool);
            }
        }
        let context = PollContext { options: &self.options, projects: &self.projects, now };
        for scope in self.scopes.values_mut().filter(|scope| !scope.is_done()) {
            match members.remove(scope.list_scope()) {
                // The lists are complete: publish the members that were read, and keep the rest as published.
                Some(pools) => scope.give_up(pools, context, &mut self.port_sets, &mut self.poll),
                None => scope.fail("not every question was answered in time", context, &mut self.poll),
            }
        }
        if let Some(since) = self.projects_failing
            && now.saturating_duration_since(since) >= self.options.projects_for.saturating_mul(PATIENCE)
        {
            let reason = "the list of projects fails, so that new projects are not seen".to_owned();
            self.poll.outcome.unlisted.get_or_insert(reason);
        }
        if let Some(reason) = self.projects.unread() {
            self.poll.outcome.unlisted.get_or_insert_with(|| reason.to_owned());
        }
        self.poll.outcome.rest = self.rest(now);
        for namespace in self.projects.contested(now, self.options.project_hold) {
            self.poll.unknown(namespace, "the names of several projects yield it, and no project holds it");
        }
        if !self.projects.is_known() {
            self.poll.outcome.unknown = Some("the projects are not known".into());
        }
        let poll = std::mem::take(&mut self.poll);
        PollOutcome { changes: poll.changes.into_iter().collect(), ..poll.outcome }
    }

    /// Returns why Services that an earlier process published may still exist, if so. The row of a project cannot be
    /// read; or the list of projects is by role: it lacks projects that are disabled or on which the role was lost, and
    /// after a start the earlier projects are not known. That doubt ends after `project_hold`, the time for which a
    /// project that leaves the list is held.
    fn rest(&self, now: Instant) -> Option<String> {
        if let Some(reason) = self.projects.unread() {
            return Some(reason.to_owned());
        }
        let by_role = self.mode == ListMode::PerProject || self.options.by_role;
        let lately = |made| now.saturating_duration_since(made) < self.options.project_hold;
        let reason = || "projects may have left the list before the start (--project-hold)".to_owned();
        (by_role && self.made.is_some_and(lately)).then(reason)
    }

    fn take_list<T>(
        &mut self,
        list_scope: &ListScope,
        kind: ObjectKind,
        list: Result<CompleteList<T>, String>,
        take: impl FnOnce(&mut ScopePoller, CompleteList<T>, &mut Poll),
    ) {
        let Some(scope) = self.scopes.get_mut(list_scope) else { return };
        match list {
            Ok(list) => take(scope, list, &mut self.poll),
            Err(reason) => scope.list_failed(kind, reason, &mut self.poll),
        }
    }

    fn take_projects(&mut self, projects: Result<CompleteList<Project>, String>, now: Instant) {
        let taken = projects.and_then(|list| {
            let unreadable = list.unreadable.clone();
            let seen = self.scopes.get(&ListScope::AllProjects).map(|scope| scope.lists().load_balancers.listed());
            let seen = seen.into_iter().flatten().map(|row| row.project.clone()).collect();
            self.projects.update(list, &self.options, KeepCriteria { mode: self.mode, now, seen })?;
            Ok(unreadable)
        });
        match &taken {
            Ok(_) => self.projects_failing = None,
            Err(_) => drop(self.projects_failing.get_or_insert(now)),
        }
        match taken {
            Ok(unreadable) => {
                self.poll.projects = ProjectList::Fresh;
                self.projects_at = Some(now);
                let trouble = |row| PollTrouble::unreadable(ObjectKind::Project, row);
                self.poll.outcome.troubles.extend(unreadable.into_iter().map(trouble));
                self.poll.outcome.troubles.extend(self.projects.conflicts());
            }
            Err(reason) => {
                self.poll.projects = ProjectList::Failed;
                self.poll.outcome.troubles.push(PollTrouble::List { kind: ObjectKind::Project, project: None, reason });
            }
        }
        if self.mode == ListMode::PerProject {
            self.begin_projects(now);
        }
    }

    /// Begins a scope for each selected project, and withdraws the scopes of all others.
    fn begin_projects(&mut self, now: Instant) {
        let wanted: Vec<ListScope> = self.projects.assigned().map(|(id, _)| ListScope::Project(id.clone())).collect();
        let (kept, gone) =
            std::mem::take(&mut self.scopes).into_iter().partition(|(list_scope, _)| wanted.contains(list_scope));
        self.scopes = kept;
        let gone: BTreeMap<ListScope, ScopePoller> = gone;
        gone.into_values().for_each(|scope| scope.withdraw(&mut self.poll));
        let context = PollContext { options: &self.options, projects: &self.projects, now };
        for list_scope in wanted {
            let scope = self.scopes.entry(list_scope.clone()).or_insert_with(|| ScopePoller::new(list_scope));
            match self.projects.left_trouble(scope.list_scope()) {
                None => scope.begin(&mut self.poll),
                Some(trouble) => {
                    scope.fail(&trouble.to_string(), context, &mut self.poll);
                    self.poll.outcome.troubles.push(trouble);
                }
            }
        }
    }

    fn advance(&mut self, now: Instant) {
        for scope in self.scopes.values_mut() {
            let context = PollContext { options: &self.options, projects: &self.projects, now };
            scope.advance(context, &mut self.port_sets, &mut self.poll);
        }
        self.projects.confirm_gone(std::mem::take(&mut self.poll.gone));
    }

    /// Returns the namespaces of all selected projects.
    pub fn namespaces(&self) -> impl Iterator<Item = &Arc<str>> {
        self.projects.assigned().map(|(_, namespace)| namespace)
    }

    pub(crate) fn projects(&self) -> &Projects {
        &self.projects
    }

    pub(crate) fn scopes(&self) -> impl Iterator<Item = &ScopePoller> {
        self.scopes.values()
    }

    pub(crate) fn service_name(&self) -> ServiceName {
        self.options.service_name
    }

    /// Returns all published Services.
    pub fn services(&self) -> impl Iterator<Item = (&SourceKey, &Arc<Service>)> {
        let standings = self.scopes.values().flat_map(|scope| scope.standings().values());
        standings.flat_map(|standing| &standing.services).map(|(key, service)| (key, service))
    }
}
