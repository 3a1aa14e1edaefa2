//! One poll: the queries still to be answered, and the results so far.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use gimbal_model::{Service, SourceKey};
use gimbal_octavia_rows::Id;

use crate::outcome::PollOutcome;
use crate::query::Query;

/// Whether this poll has a list of projects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ProjectList {
    /// The last list is recent enough, unless an unknown project turns up.
    #[default]
    Old,
    /// The list was queried in this poll.
    Awaited,
    /// The list arrived in this poll.
    Fresh,
    /// The list failed in this poll.
    Failed,
}

#[derive(Debug, Default)]
pub(super) struct Poll {
    /// Queries that the caller has not taken yet.
    pub(super) asks: VecDeque<Query>,
    /// Queries that the caller has taken and not answered.
    pub(super) asked: BTreeSet<Query>,
    /// The time since the poll before began.
    pub(super) elapsed: Duration,
    pub(super) projects: ProjectList,
    pub(super) changes: BTreeMap<SourceKey, Option<Arc<Service>>>,
    pub(super) outcome: PollOutcome,
    /// Projects that own load balancers and that a list made for this poll lacks.
    pub(super) gone: BTreeSet<Id>,
}

impl Poll {
    /// Reports that a namespace was not seen completely. The first reason stays.
    pub(super) fn unknown(&mut self, namespace: &Arc<str>, reason: &str) {
        let namespaces = &mut self.outcome.unknown_namespaces;
        if !namespaces.contains_key(namespace) {
            namespaces.insert(namespace.clone(), reason.to_owned());
        }
    }

    /// Withdraws queries that the caller has not taken yet. Returns how many.
    pub(super) fn forget(&mut self, which: impl Fn(&Query) -> bool) -> usize {
        let before = self.asks.len();
        self.asks.retain(|ask| !which(ask));
        before - self.asks.len()
    }

    /// Returns whether this poll has a list of projects, and queries it if not.
    pub(super) fn newest_projects(&mut self) -> ProjectList {
        if self.projects == ProjectList::Old {
            self.projects = ProjectList::Awaited;
            self.asks.push_back(Query::Projects);
        }
        self.projects
    }

    /// Records the changes from the Services `published` before to those wanted `now`. Returns the wanted ones; those
    /// that did not change share their memory with `published`.
    pub(super) fn publish(
        &mut self,
        published: Vec<(SourceKey, Arc<Service>)>,
        now: Vec<(SourceKey, Service)>,
    ) -> Vec<(SourceKey, Arc<Service>)> {
        let mut published: BTreeMap<SourceKey, Arc<Service>> = published.into_iter().collect();
        let mut services = Vec::with_capacity(now.len());
        for (key, service) in now {
            services.push(match published.remove_entry(&key) {
                Some((key, old)) if *old == service => (key, old),
                _ => {
                    let service = Arc::new(service);
                    self.changes.insert(key.clone(), Some(service.clone()));
                    (key, service)
                }
            });
        }
        for key in published.into_keys() {
            self.changes.insert(key, None);
        }
        services
    }
}
