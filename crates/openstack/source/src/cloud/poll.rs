//! One poll: what is still to be asked, and what has come of it so far.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use gimbal_model::{Service, SourceKey};
use gimbal_octavia_rows::Id;

use crate::outcome::Outcome;
use crate::query::Ask;

/// Whether this poll's word on projects is to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ProjectList {
    /// The last one will do, unless a project turns up that it lacks.
    #[default]
    Old,
    /// It was asked for.
    Awaited,
    /// It came in this poll.
    Fresh,
    /// It could not be had.
    Failed,
}

#[derive(Debug, Default)]
pub(super) struct Poll {
    pub(super) asks: VecDeque<Ask>,
    pub(super) asked: BTreeSet<Ask>,
    pub(super) elapsed: Duration,
    pub(super) projects: ProjectList,
    pub(super) changes: BTreeMap<SourceKey, Option<Arc<Service>>>,
    pub(super) outcome: Outcome,
    /// Projects that own load balancers and that a list made for this poll lacks.
    pub(super) gone: BTreeSet<Id>,
}

impl Poll {
    /// A part of the cloud was not seen. The first reason stays.
    pub(super) fn unknown(&mut self, namespace: &Arc<str>, reason: &str) {
        let namespaces = &mut self.outcome.unknown_namespaces;
        if !namespaces.contains_key(namespace) {
            namespaces.insert(namespace.clone(), reason.to_owned());
        }
    }

    /// Takes back what was not told yet; how much that is.
    pub(super) fn forget(&mut self, which: impl Fn(&Ask) -> bool) -> usize {
        let before = self.asks.len();
        self.asks.retain(|ask| !which(ask));
        before - self.asks.len()
    }

    /// The word on a project that the last list lacks. If there is none yet, the list is asked for.
    pub(super) fn newest_projects(&mut self) -> ProjectList {
        if self.projects == ProjectList::Old {
            self.projects = ProjectList::Awaited;
            self.asks.push_back(Ask::Projects);
        }
        self.projects
    }
}
