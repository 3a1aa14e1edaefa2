//! Projects that the policy of a cluster does not allow any more. What was made there is found, so that it goes with its owner.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gimbal_kuryr_model::Text;
use gimbal_octavia_plan::{ApiService, marked_owner};
use serde_json::Value;

use crate::call::CloudRead;
use crate::cell::CellState;
use crate::cluster::ManagedCluster;
use crate::event::RegistryEvent;
use crate::fingerprint::tags_of;
use crate::owner_look::list;
use crate::poll::PollPart;
use crate::settings::ClusterSettings;
use crate::shared::RegistryCore;

/// The most such projects that entries name. They can name any.
const MOST: usize = 16;
/// How long one of those is left alone that could not be read: it may be invented.
const REST: Duration = Duration::from_secs(3600);

/// What is known of one.
#[derive(Debug, Default)]
struct LeftProject {
    /// An entry has named it; else it was in the policy.
    is_named: bool,
    /// Until when it is not read.
    rests_until: Option<Instant>,
    owners: BTreeSet<Text>,
    /// What was reported last.
    told: Option<Option<usize>>,
}

/// Projects that the policy does not allow any more.
#[derive(Debug, Default)]
pub(crate) struct LeftProjects(BTreeMap<Text, LeftProject>);

/// Rows of lists of such projects, as they come; unset for one that could not be read.
#[derive(Debug, Default)]
pub(crate) struct LeftRows(BTreeMap<Text, Option<Vec<Value>>>);

impl LeftRows {
    pub(crate) fn add(&mut self, project: &Text, rows: Option<Vec<Value>>) {
        let all = self.0.entry(project.clone()).or_insert_with(|| Some(Vec::new()));
        *all = all.take().zip(rows).map(|(mut all, rows)| {
            all.extend(rows);
            all
        });
    }
}

impl LeftProjects {
    /// Returns those that a policy names.
    pub(crate) fn new(settings: &ClusterSettings) -> Self {
        let mut left = Self::default();
        left.policy_changed(&[], settings);
        left
    }

    /// Adds a project that an entry names. Returns whether that is new.
    pub(crate) fn named(&mut self, project: &Text) -> bool {
        let named = self.0.values().filter(|left| left.is_named).count();
        let is_new = !project.is_empty() && named < MOST && !self.0.contains_key(project);
        if is_new {
            self.0.insert(project.clone(), LeftProject { is_named: true, ..LeftProject::default() });
        }
        is_new
    }

    /// The policy allows other projects than before.
    pub(crate) fn policy_changed(&mut self, before: &[Text], settings: &ClusterSettings) {
        for project in before.iter().chain(&settings.former_projects) {
            let left = self.0.entry(project.clone()).or_default();
            (left.is_named, left.rests_until) = (false, None);
        }
        self.0.retain(|project, _| !project.is_empty() && !settings.projects.contains(project));
    }

    fn owners(&self) -> BTreeSet<Text> {
        self.0.values().flat_map(|left| left.owners.iter().cloned()).collect()
    }

    /// Returns where an owner has something.
    pub(crate) fn of(&self, owner: &Text) -> impl Iterator<Item = &Text> {
        self.0.iter().filter(|(_, left)| left.owners.contains(owner)).map(|(project, _)| project)
    }
}

impl ManagedCluster {
    /// Returns the lists that show what is left.
    pub(crate) fn left_reads(&self, now: Instant) -> Vec<(PollPart, Text, CloudRead)> {
        let lists = |project: &Text| {
            let of = || vec![("project_id", project.to_string())];
            let mut balancers = of();
            balancers.push(("tags", self.cluster_tag()));
            let mut unused = of();
            unused.push(("device_id", String::new()));
            [
                list(ApiService::Octavia, "loadbalancer", "loadbalancers", balancers),
                list(ApiService::Neutron, "floatingip", "floatingips", of()),
                list(ApiService::Neutron, "port", "ports", unused),
            ]
            .map(|read| (PollPart::Left, project.clone(), read))
        };
        let is_read = |left: &LeftProject| left.rests_until.is_none_or(|until| until <= now);
        self.left.0.iter().filter(|(_, left)| is_read(left)).flat_map(|(project, _)| lists(project)).collect()
    }

    /// Takes what the lists have shown, and returns the owners of it.
    pub(crate) fn compare_left(&mut self, rows: LeftRows, shared: &mut RegistryCore, now: Instant) -> BTreeSet<Text> {
        let tag = self.cluster_tag();
        let before: BTreeSet<Text> = self.left.owners();
        for (project, rows) in rows.0 {
            self.add_strays(rows.iter().flatten());
            let owners = rows.map(|rows| rows.iter().filter_map(|row| self.owner_of_left(row, &tag)).collect());
            let Some(left) = self.left.0.get_mut(&project) else { continue };
            let count = owners.as_ref().map(BTreeSet::len);
            left.rests_until = (left.is_named && count.is_none()).then(|| now + REST);
            // What was seen there before still is, for all that is known.
            left.owners = owners.unwrap_or_else(|| std::mem::take(&mut left.owners));
            if left.told.replace(count) != Some(count) && count != Some(0) {
                let cluster = self.settings.name.clone();
                let is_named = left.is_named;
                shared.events.push(RegistryEvent::Left { cluster, project, owners: count, is_named });
            }
        }
        let owners = self.left.owners();
        for owner in owners.difference(&before) {
            // It has looked elsewhere only.
            if let Some(cell) = self.cells.get_mut(owner).filter(|cell| matches!(cell.state, CellState::Done)) {
                cell.actor.look_again();
                self.wake(owner);
            }
        }
        owners
    }

    fn owner_of_left(&self, row: &Value, tag: &str) -> Option<Text> {
        let tagged = marked_owner(tags_of(row), tag, &self.settings.name).map(Text::from);
        tagged.or_else(|| self.owner_in(&row["description"]))
    }
}
