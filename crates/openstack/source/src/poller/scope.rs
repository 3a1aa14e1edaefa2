//! One scope's part of a poll: the objects of all projects in bulk mode, of one project in per-project mode.

mod answers;
mod fetch;
mod prove;
mod publish;
mod view;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use gimbal_model::{Service, SourceKey};
use gimbal_octavia_rows::{CompleteList, Existence, Id, Listener, LoadBalancer, Member, Pool, Reading, Table};

use super::poll::{Poll, ProjectList};
use super::sweep::SweepBudget;
use crate::lists::{Lists, merge};
use crate::members::PoolMembers;
use crate::options::PollOptions;
use crate::outcome::PollTrouble;
use crate::projects::Projects;
use crate::query::{ListScope, Query};
use crate::skip::LeftOut;
use crate::translate::PortSets;

/// What a scope needs from its poller.
#[derive(Debug, Clone, Copy)]
pub(super) struct PollContext<'a> {
    pub(super) options: &'a PollOptions,
    pub(super) projects: &'a Projects,
    pub(super) now: Instant,
}

/// What is published of one load balancer.
#[derive(Debug)]
pub(crate) struct PublishedBalancer {
    pub(crate) project: Id,
    /// The Services that were published last.
    pub(crate) services: Vec<(SourceKey, Arc<Service>)>,
    pub(crate) left_out: Vec<LeftOut>,
    /// Why the published Services are kept although the lists may have changed.
    pub(crate) held: Option<String>,
}

/// By listener that has L7 policies: the IDs in its row when the policies were last read, and that reading.
type PoliciesOf = HashMap<Id, (Vec<Id>, Reading)>;

/// The state of a scope. Between polls it holds what the last complete poll listed.
#[derive(Debug)]
pub(crate) struct ScopePoller {
    list_scope: ListScope,
    lists: Lists,
    members: HashMap<Id, PoolMembers>,
    standings: BTreeMap<Id, PublishedBalancer>,
    /// Projects that vanished from the lists of all projects' objects, and since when; see [`PollOptions::second_look`].
    vanished: BTreeMap<Id, Instant>,
    /// How often in a row the members of a pool could not be read, for pools with members that were never read.
    unread: HashMap<Id, u32>,
    /// By load balancer: the objects that one list named and another lacked in the poll before, if that was complete.
    open: BTreeMap<Id, BTreeSet<Id>>,
    /// Since when each load balancer and object in `open` is there without a failed poll in between; see
    /// [`PollOptions::second_look`].
    open_since: HashMap<Id, Instant>,
    /// Pools whose members were newer than the pool's row, in the poll before.
    newer: BTreeSet<Id>,
    /// The missing object that was looked up last. The next poll continues after it, so that each has its turn.
    proved: Option<Id>,
    policies_of: PoliciesOf,
    savings: SweepBudget,
    run: Run,
}

/// The stage of a scope in this poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// The three lists are awaited, and the list of projects if they need it.
    #[default]
    Listing,
    /// Lookups of vanished projects, and the L7 policies, are awaited.
    Checking,
    /// Lookups of objects that one list names and another lacks, for the second poll in a row, are awaited.
    Proving,
    /// Members are awaited.
    Reading,
    /// Nothing more is awaited.
    Done,
}

/// State of one poll.
#[derive(Debug, Default)]
struct Run {
    stage: Stage,
    waiting: usize,
    failed: Option<String>,
    load_balancers: Option<CompleteList<LoadBalancer>>,
    listeners: Option<CompleteList<Listener>>,
    pools: Option<CompleteList<Pool>>,
    /// The new lists, after they are merged with those of the last poll.
    lists: Option<Lists>,
    policies_of: Option<PoliciesOf>,
    /// Projects that the lists lack and whose deletion is not proven, with the reason.
    unseen: BTreeMap<Id, String>,
    /// Pools that were gone (404) when their members were read.
    gone: BTreeSet<Id>,
    /// Pools whose members could not be read, for any reason.
    unread: BTreeSet<Id>,
    /// Projects that had load balancers and have none in the new list.
    vanished: BTreeSet<Id>,
    /// Projects of which nothing is known while the list of projects fails or their rows cannot be read.
    unjudged: BTreeSet<Id>,
    /// Whether the token may see less than before, so that a 404 proves nothing.
    roles_doubted: bool,
    /// Objects that the API reports as gone and that are not yet treated as gone.
    doubted: HashSet<Id>,
    /// The results of lookups of objects that one list names and another lacks.
    proofs: BTreeMap<Id, Result<Existence, String>>,
}

impl Run {
    fn done() -> Self {
        Self { stage: Stage::Done, ..Self::default() }
    }
}

impl ScopePoller {
    pub(super) fn new(list_scope: ListScope) -> Self {
        Self {
            list_scope,
            lists: Lists::default(),
            members: HashMap::new(),
            standings: BTreeMap::new(),
            vanished: BTreeMap::new(),
            unread: HashMap::new(),
            open: BTreeMap::new(),
            open_since: HashMap::new(),
            newer: BTreeSet::new(),
            proved: None,
            policies_of: HashMap::new(),
            savings: SweepBudget::default(),
            run: Run::done(),
        }
    }

    pub(super) fn begin(&mut self, poll: &mut Poll) {
        self.run = Run { waiting: 3, ..Run::default() };
        let list_scope = || self.list_scope.clone();
        poll.asks.extend([
            Query::LoadBalancers(list_scope()),
            Query::Listeners(list_scope()),
            Query::Pools(list_scope()),
        ]);
    }

    /// Returns whether the scope lists all projects' objects or those of one project.
    pub(super) fn list_scope(&self) -> &ListScope {
        &self.list_scope
    }

    /// Returns what is published, by load balancer.
    pub(crate) fn standings(&self) -> &BTreeMap<Id, PublishedBalancer> {
        &self.standings
    }

    /// Returns the lists of the last complete poll.
    pub(crate) fn lists(&self) -> &Lists {
        &self.lists
    }

    /// Returns the members of a pool that the row lists and that were read.
    pub(crate) fn members_of<'s>(&'s self, pool: &'s Pool) -> impl Iterator<Item = &'s Member> {
        self.members.get(&pool.id).into_iter().flat_map(|read| read.listed(pool))
    }

    /// Returns whether this poll needs nothing more of the scope.
    pub(super) fn is_done(&self) -> bool {
        self.run.stage == Stage::Done
    }

    /// Advances through the stages as far as the answers allow.
    pub(super) fn advance(&mut self, context: PollContext<'_>, port_sets: &mut PortSets, poll: &mut Poll) {
        while self.run.waiting == 0 && !self.is_done() {
            if let Some(reason) = self.run.failed.take() {
                self.fail(&reason, context, poll);
                return;
            }
            self.run.stage = match self.run.stage {
                Stage::Listing => {
                    if !self.merge(context, poll) {
                        return;
                    }
                    if self.run.failed.is_some() {
                        continue;
                    }
                    self.check(context, poll);
                    Stage::Checking
                }
                Stage::Checking => {
                    self.prove(context, poll);
                    Stage::Proving
                }
                Stage::Proving => {
                    self.read(context, poll);
                    Stage::Reading
                }
                Stage::Reading | Stage::Done => {
                    self.publish(context, port_sets, poll);
                    Stage::Done
                }
            };
        }
    }

    /// Called when this poll shows nothing of the scope. Everything that is published stays, and its namespaces are
    /// reported as unknown.
    pub(super) fn fail(&mut self, reason: &str, context: PollContext<'_>, poll: &mut Poll) {
        self.run = Run::done();
        // A reference that is open in a later poll may be due to another change, or to the same role lost again.
        self.open.clear();
        self.open_since.clear();
        self.vanished.clear();
        match &self.list_scope {
            ListScope::AllProjects => poll.outcome.unknown = Some(reason.to_owned()),
            ListScope::Project(id) => {
                if let Ok(place) = context.projects.place(id) {
                    poll.unknown(&place.namespace, reason);
                }
                let known = self.standings.values().flat_map(|standing| &standing.services);
                known.for_each(|(key, _)| poll.unknown(&key.namespace, reason));
            }
        }
    }

    /// Merges the three lists with those of the last poll. Returns false while lists are missing, or the projects that
    /// they name are not known yet.
    fn merge(&mut self, context: PollContext<'_>, poll: &mut Poll) -> bool {
        let troubles = &mut poll.outcome.troubles;
        let run = &mut self.run;
        if let (Some(load_balancers), Some(listeners), Some(pools)) =
            (run.load_balancers.take(), run.listeners.take(), run.pools.take())
        {
            run.lists = Some(Lists {
                load_balancers: merge(load_balancers, Some(&self.lists.load_balancers), troubles),
                listeners: merge(listeners, Some(&self.lists.listeners), troubles),
                pools: merge(pools, Some(&self.lists.pools), troubles),
                policies: Table::default(),
            });
        }
        let Some(lists) = &self.run.lists else { return false };
        if poll.projects == ProjectList::Awaited {
            return false;
        }
        let strange = lists.load_balancers.iter().filter(|row| !context.projects.has_judged(&row.project));
        let strange: BTreeMap<&Id, &Id> = strange.map(|row| (&row.project, &row.id)).collect();
        if self.list_scope != ListScope::AllProjects {
            return true;
        }
        if strange.is_empty() {
            self.run.unjudged = unread_owners(lists, context.projects);
            return true;
        }
        match poll.newest_projects() {
            ProjectList::Fresh => {
                self.run.unjudged = unread_owners(lists, context.projects);
                // The fresh list does not show these projects, so another list at once would not help.
                poll.gone.extend(self.run.unjudged.iter().cloned());
                true
            }
            ProjectList::Old | ProjectList::Awaited => false,
            ProjectList::Failed => {
                for (project, load_balancer) in &strange {
                    let (project, load_balancer) = ((*project).clone(), (*load_balancer).clone());
                    let trouble = PollTrouble::ProjectUnknown { project, load_balancer };
                    poll.outcome.unlisted.get_or_insert_with(|| trouble.to_string());
                    poll.outcome.troubles.push(trouble);
                }
                self.run.unjudged = strange.into_keys().cloned().collect();
                self.run.unjudged.extend(unread_owners(lists, context.projects));
                true
            }
        }
    }
}

/// Returns the projects of listed load balancers whose own rows cannot be read.
fn unread_owners(lists: &Lists, projects: &Projects) -> BTreeSet<Id> {
    if projects.unread().is_none() {
        return BTreeSet::new();
    }
    let owners = lists.load_balancers.iter().map(|row| &row.project);
    owners.filter(|project| projects.is_unread(project)).cloned().collect()
}
