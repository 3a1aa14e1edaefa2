//! One scope's share of a poll: everyone's objects in bulk mode, one project's in the other.

mod answers;
mod fetch;
mod prove;
mod publish;
mod view;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use gimbal_model::{Service, SourceKey};
use gimbal_octavia_rows::{Existence, Id, List, Listener, LoadBalancer, Member, Pool, Reading, Table};

use super::poll::{Poll, ProjectList};
use super::sweep::SweepBudget;
use crate::lists::{Lists, merge};
use crate::members::PoolMembers;
use crate::options::Options;
use crate::outcome::Trouble;
use crate::projects::Projects;
use crate::query::{ListScope, Query};
use crate::skip::LeftOut;
use crate::translate::PortSets;

/// What a scope needs of its cloud.
#[derive(Debug, Clone, Copy)]
pub(super) struct PollContext<'a> {
    pub(super) options: &'a Options,
    pub(super) projects: &'a Projects,
    pub(super) now: Instant,
}

/// How one load balancer stands.
#[derive(Debug)]
pub(crate) struct PublishedBalancer {
    pub(crate) project: Id,
    /// What was told of it last.
    pub(crate) services: Vec<(SourceKey, Arc<Service>)>,
    pub(crate) left_out: Vec<LeftOut>,
    /// Why what was told last stands although there may be news.
    pub(crate) held: Option<String>,
}

/// The L7 policies of each listener that has some, as they were listed when the policies were read last.
type PoliciesOf = HashMap<Id, (Vec<Id>, Reading)>;

/// A scope. What is kept between polls is what the last complete one saw.
#[derive(Debug)]
pub(crate) struct Scope {
    whose: ListScope,
    lists: Lists,
    members: HashMap<Id, PoolMembers>,
    standings: BTreeMap<Id, PublishedBalancer>,
    /// Projects that have vanished from everyone's lists, since when; see [`Options::second_look`].
    vanished: BTreeMap<Id, Instant>,
    /// How often in a row the members of a pool could not be read, where the pool has some that never were.
    unread: HashMap<Id, u32>,
    /// By load balancer: what was named in one list and missing in another, in the poll before, if that was complete.
    open: BTreeMap<Id, BTreeSet<Id>>,
    /// Since when each of these is open, in polls without a failed one between them; see [`Options::second_look`].
    open_since: HashMap<Id, Instant>,
    /// Pools whose members were listed after they had changed, in the poll before.
    newer: BTreeSet<Id>,
    /// What was asked about last of these, so that those behind it have their turn.
    proved: Option<Id>,
    policies_of: PoliciesOf,
    savings: SweepBudget,
    run: Run,
}

/// How far a scope has come in this poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// The three lists are awaited, and whatever they turn out to need.
    #[default]
    Listing,
    /// Projects that are missing are asked for; L7 policies too.
    Checking,
    /// Objects that are named in one list and missing in another, for the second time, are asked for by themselves.
    Proving,
    /// Members are awaited.
    Reading,
    /// Nothing more is awaited.
    Done,
}

/// What is known only for the time of one poll.
#[derive(Debug, Default)]
struct Run {
    stage: Stage,
    waiting: usize,
    failed: Option<String>,
    load_balancers: Option<List<LoadBalancer>>,
    listeners: Option<List<Listener>>,
    pools: Option<List<Pool>>,
    /// The new lists, once they are merged with the last ones.
    lists: Option<Lists>,
    policies_of: Option<PoliciesOf>,
    /// Projects that the lists lack, for which one load balancer could not be shown to be gone.
    unseen: BTreeMap<Id, String>,
    /// Pools that were gone when their members were asked for.
    gone: BTreeSet<Id>,
    /// Pools whose members could not be read, whatever the reason.
    unread: BTreeSet<Id>,
    /// Projects that had load balancers, and have none in the list.
    vanished: BTreeSet<Id>,
    /// Projects of which nothing is known, while their list cannot be had.
    unjudged: BTreeSet<Id>,
    /// The token may show less than it did, so that a 404 proves nothing.
    roles_doubted: bool,
    /// What is said to be gone, and not believed yet.
    doubted: HashSet<Id>,
    /// What was asked for by itself since lists name it and do not have it, and what came of that.
    proofs: BTreeMap<Id, Result<Existence, String>>,
}

impl Run {
    fn done() -> Self {
        Self { stage: Stage::Done, ..Self::default() }
    }
}

impl Scope {
    pub(super) fn new(whose: ListScope) -> Self {
        Self {
            whose,
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
        let whose = || self.whose.clone();
        poll.asks.extend([Query::LoadBalancers(whose()), Query::Listeners(whose()), Query::Pools(whose())]);
    }

    /// Returns whose objects the scope lists.
    pub(super) fn whose(&self) -> &ListScope {
        &self.whose
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

    /// Goes on as far as the answers allow.
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

    /// This poll shows nothing of the scope: everything stands.
    pub(super) fn fail(&mut self, reason: &str, context: PollContext<'_>, poll: &mut Poll) {
        self.run = Run::done();
        // What is open after it may be another change, or the same role lost again.
        self.open.clear();
        self.open_since.clear();
        self.vanished.clear();
        match &self.whose {
            ListScope::AllProjects => poll.outcome.unknown = Some(reason.to_owned()),
            ListScope::Project(id) => {
                if let Ok(place) = context.projects.place(id) {
                    poll.unknown(&place.namespace, reason);
                }
                let told = self.standings.values().flat_map(|standing| &standing.services);
                told.for_each(|(key, _)| poll.unknown(&key.namespace, reason));
            }
        }
    }

    /// Makes one picture of the three lists. Not before the projects are known that it names.
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
        if self.whose != ListScope::AllProjects {
            return true;
        }
        if strange.is_empty() {
            self.run.unjudged = unread_owners(lists, context.projects);
            return true;
        }
        match poll.newest_projects() {
            ProjectList::Fresh => {
                self.run.unjudged = unread_owners(lists, context.projects);
                // There is no need to ask again at once.
                poll.gone.extend(self.run.unjudged.iter().cloned());
                true
            }
            ProjectList::Old | ProjectList::Awaited => false,
            ProjectList::Failed => {
                for (project, load_balancer) in &strange {
                    let (project, load_balancer) = ((*project).clone(), (*load_balancer).clone());
                    let trouble = Trouble::ProjectUnknown { project, load_balancer };
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

/// The projects of load balancers that are listed, and whose own rows cannot be read.
fn unread_owners(lists: &Lists, projects: &Projects) -> BTreeSet<Id> {
    if projects.unread().is_none() {
        return BTreeSet::new();
    }
    let owners = lists.load_balancers.iter().map(|row| &row.project);
    owners.filter(|project| projects.is_unread(project)).cloned().collect()
}
