//! Compares what lists have shown with what was expected, owner by owner and in several turns.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use gimbal_kuryr_model::Text;
use gimbal_octavia_plan::{SeenPort, is_group, marked_owner};
use serde_json::Value;

use super::vip_ports::ListedPorts;
use super::{LOOK_AGAIN, PollRun, RARELY};
use crate::advance::waits_for_lists;
use crate::agreement::{agrees, told_ports};
use crate::cell::{Cell, CellState};
use crate::cluster::ManagedCluster;
use crate::fingerprint::{floating_print, print_of, seen_floating_print, tags_of};
use crate::journal::Deed;
use crate::listed_row::{ListedRow, PackedOwnerRows};
use crate::owner_look::OwnerRows;
use crate::pace::Line;
use crate::shared::RegistryCore;
use crate::sharing::owners_of_row;
use crate::turns::cost;

/// Rows of an owner.
#[derive(Debug, Default)]
struct ListedRows {
    octavia: PackedOwnerRows,
    floating: Vec<Value>,
}

/// What lists have shown, as far as it was not compared yet.
#[derive(Debug)]
pub(super) struct ListComparison {
    begun: Instant,
    pub(super) life: u32,
    /// Projects that could not be read, and why.
    failed: BTreeMap<Text, Text>,
    /// Owners that are to be compared.
    waiting: VecDeque<Text>,
    owners: BTreeMap<Text, ListedRows>,
    groups: BTreeMap<Text, BTreeSet<Text>>,
    /// Who has anything at all in Octavia, and in Neutron or in the key manager.
    present: BTreeSet<Text>,
    in_neutron: BTreeSet<Text>,
    ports: ListedPorts,
    /// The owners whose VIPs' ports were read.
    asked: BTreeSet<Text>,
    lists_floating: bool,
    /// Who has something in projects that the policy does not allow any more; unset: not listed, as unused ports.
    in_left: Option<BTreeSet<Text>>,
}

impl ManagedCluster {
    pub(super) fn begin_comparison(&mut self, mut run: PollRun, shared: &mut RegistryCore, now: Instant) {
        let tag = self.cluster_tag();
        let is_whole = run.failed.is_empty();
        let mut owners: BTreeMap<Text, ListedRows> = BTreeMap::new();
        let mut owner_of_port: BTreeMap<String, Text> = BTreeMap::new();
        let mut groups: BTreeMap<Text, BTreeSet<Text>> = BTreeMap::new();
        for listed in std::mem::take(&mut run.balancers) {
            let row = listed.get();
            let owner = marked_owner(tags_of(&row), &tag, &self.settings.name).map(Text::from);
            let Some(owner) = owner else { continue };
            if let Some(port) = row["vip_port_id"].as_str() {
                owner_of_port.insert(port.to_owned(), owner.clone());
            }
            let named = is_group(&owner).then(|| groups.entry(owner.clone()).or_default());
            let from = [&mut run.listeners, &mut run.pools, &mut run.policies];
            let parts = owners.entry(owner).or_default().octavia.add_balancer(listed, &row, from);
            if let Some(named) = named {
                // Of an owner that is gone, a change that came late may have made a part again.
                let parts = parts.map(ListedRow::get).chain([row.clone()]);
                named.extend(parts.flat_map(|row| owners_of_row(&row)));
            }
        }
        let present: BTreeSet<Text> = owners.keys().cloned().collect();
        let mut in_neutron = BTreeSet::new();
        let lists_floating = run.floating.is_some();
        self.look_for_freed(&run);
        if run.ports.is_some() {
            self.strays.clear();
            self.add_strays(run.floating.iter().chain(&run.ports).flatten());
        }
        let mut floating = BTreeSet::new();
        for row in run.floating.take().unwrap_or_default() {
            let marked = self.owner_in(&row["description"]);
            in_neutron.extend(marked.clone());
            let of_port = row["port_id"].as_str().and_then(|port| owner_of_port.get(port).cloned());
            // Somebody may have led it to another's port: both have to know.
            let other = marked.filter(|marked| of_port.as_ref() != Some(marked));
            let mut found = |owner: Text, row| {
                floating.insert(owner.clone());
                owners.entry(owner).or_default().floating.push(row);
            };
            match (of_port, other) {
                (Some(owner), Some(other)) => {
                    found(owner, row.clone());
                    found(other, row);
                }
                (Some(owner), None) | (None, Some(owner)) => found(owner, row),
                (None, None) => {}
            }
        }
        if lists_floating {
            if is_whole {
                self.floating.clear();
            }
            self.floating.append(&mut floating);
        }
        if let Some(listed) = run.secrets.take() {
            in_neutron.extend(self.compare_secrets(&listed, run.begun));
        }
        let lists_ports = run.ports.is_some();
        let ports = self.listed_ports(&mut run);
        let in_left = lists_ports.then(|| self.compare_left(std::mem::take(&mut run.left), shared, now));
        let PollRun { begun, life, failed, asked, .. } = run;
        let waiting = self.cells.keys().cloned().collect();
        let comparison = ListComparison {
            begun,
            life,
            failed,
            waiting,
            owners,
            groups,
            present,
            in_neutron,
            ports,
            asked,
            lists_floating,
            in_left,
        };
        self.poller.comparison = Some(Box::new(comparison));
    }

    /// Whether something that lists have shown was not compared yet.
    pub(crate) fn is_comparing(&self) -> bool {
        self.poller.comparison.is_some()
    }

    /// Goes on with a comparison, until it has cost so much. Returns what it has cost.
    pub(crate) fn compare(&mut self, most: u32, shared: &mut RegistryCore, now: Instant) -> u32 {
        let Some(mut comparison) = self.poller.comparison.take() else { return 0 };
        let (mut spent, tag) = (0, self.cluster_tag());
        while spent < most {
            let Some(owner) = comparison.waiting.pop_front() else {
                self.end_comparison(*comparison, shared, now);
                return spent.saturating_add(1);
            };
            spent = spent.saturating_add(self.compare_next(&owner, &mut comparison, &tag, shared, now));
        }
        self.poller.comparison = Some(comparison);
        spent
    }

    fn compare_next(
        &mut self,
        owner: &Text,
        comparison: &mut ListComparison,
        tag: &str,
        shared: &RegistryCore,
        now: Instant,
    ) -> u32 {
        let Some(mut cell) = self.cells.remove(owner) else { return 0 };
        let cost = cost(&cell);
        if !is_unread(&cell, &comparison.failed) {
            let listed = comparison.owners.remove(owner).unwrap_or_default();
            let mut rows =
                OwnerRows { floating: comparison.lists_floating.then_some(listed.floating), ..OwnerRows::default() };
            listed.octavia.unpack(&mut rows);
            // Who has come since they were asked for is not among them.
            let exact = comparison.ports.exact.as_mut().filter(|_| comparison.asked.contains(owner));
            rows.ports = exact.map(|exact| exact.remove(owner).unwrap_or_default());
            self.count_balancer(owner, !rows.balancers.is_empty(), now);
            // Unknown so far: its creation was taken for lost. Or somebody has given it other groups.
            let is_same = |one: &SeenPort, port: &SeenPort| {
                one.id == port.id && same_texts(&one.security_groups, &port.security_groups)
            };
            let is_new = |port: &SeenPort| !cell.actor.seen().ports.iter().any(|one| is_same(one, port));
            let new_port = comparison.ports.unused.get(owner).is_some_and(|ports| ports.iter().any(is_new));
            self.compare_cell(owner, &mut cell, (rows, new_port), comparison.begun, tag, shared, now);
        }
        self.cells.insert(owner.clone(), cell);
        cost
    }

    fn end_comparison(&mut self, comparison: ListComparison, shared: &mut RegistryCore, now: Instant) {
        let ListComparison {
            begun, failed, groups, mut present, mut in_neutron, ports, lists_floating, in_left, ..
        } = comparison;
        let is_whole = failed.is_empty();
        let in_groups = self.groups_listed(groups, is_whole);
        // What was not listed proves nothing.
        if is_whole {
            self.left_behind.listed(begun, &present, lists_floating, in_left.is_some());
            present.retain(|owner| !self.cells.contains_key(owner));
            let lists_ports = in_left.is_some();
            if lists_ports {
                self.with_ports = ports.unused.keys().cloned().collect();
            }
            in_neutron.extend(ports.unused.into_keys());
            in_neutron.extend(in_left.into_iter().flatten());
            in_neutron.retain(|owner| !self.cells.contains_key(owner));
            self.compare_orphans(&present, &in_groups, lists_ports.then_some(&in_neutron), shared, now);
        }
        self.end_unlisted();
        self.tick_learned(shared, now);
    }

    #[allow(clippy::too_many_arguments)]
    fn compare_cell(
        &mut self,
        owner: &Text,
        cell: &mut Cell,
        (rows, new_port): (OwnerRows, bool),
        begun: Instant,
        tag: &str,
        shared: &RegistryCore,
        now: Instant,
    ) {
        // Whoever is at work sees for himself, and what was changed since is not in the lists.
        if cell.is_busy() || cell.changed_at.is_some_and(|at| at >= begun) || matches!(cell.state, CellState::Behind) {
            return;
        }
        let projects = self.settings.projects.clone();
        let Some(looked_at) = cell.looked_at else {
            // Where thousands are ready, lists may come before all of them were asked.
            let will_be = matches!(cell.state, CellState::Ready) && waits_for_lists(owner, cell);
            if will_be || matches!(cell.state, CellState::Unlisted) {
                let ports = rows.ports.filter(|_| !cell.is_deleting());
                cell.lists_ports = ports.is_some();
                let known = Some(OwnerRows { ports, ..rows }).filter(|rows| !rows.balancers.is_empty());
                let planned = self.reads.len();
                self.look(owner, cell, known, begun);
                // After a restart there are as many as load balancers, and whoever wants something new has no time for them.
                self.first_reads.extend(self.reads.drain(planned..));
            }
            return;
        };
        // Who has nothing but a port yet waits to be made, and lists say the same. A port that is gone is found by the creation.
        let is_made = !rows.balancers.is_empty() || cell.actor.has_balancer();
        if !is_made && !cell.is_deleting() && matches!(cell.state, CellState::InLine(Line::Creation(_))) {
            cell.confirmed = self.life;
            return;
        }
        // Nothing is to be looked at where Octavia only thinks otherwise of it.
        if cell.see_health(&rows, begun) {
            self.told.insert(owner.clone());
        }
        let floats = rows.floating.as_ref().map(|all| floating_print(all.iter(), &projects));
        // What was seen before a change of ours says nothing about now, even where the lists show the same again: what was
        // made since may have been deleted by hand.
        let known_at = cell.agreed_at.map_or(looked_at, |at| at.max(looked_at));
        let changed = cell.changed_at.is_some_and(|at| at >= known_at);
        let is_calm = !new_port && cell.strangers.is_none() && cell.unread.is_empty();
        if changed
            && is_calm
            && matches!(cell.state, CellState::Done)
            && looked_at + LOOK_AGAIN > now
            && agrees(cell, &rows, floats, &projects)
        {
            cell.print = print_of(&rows, tag, &projects);
            cell.floating_print = seen_floating_print(&cell.actor.seen().floating, &projects);
            (cell.agreed_at, cell.confirmed) = (Some(begun), self.life);
            return;
        }
        let same = !changed
            && !new_port
            && print_of(&rows, tag, &projects) == cell.print
            && floats.is_none_or(|print| print == cell.floating_print);
        // What somebody added goes at a look that sees it a drift interval after the first: looks in between do not count.
        let second = cell.strangers.is_some_and(|(first, _)| {
            let due = first + shared.settings.drift_interval;
            looked_at < due && due <= now
        });
        let settled = !matches!(cell.state, CellState::Pending);
        // What could not be read then may be readable now.
        let again = if cell.unread.is_empty() { LOOK_AGAIN } else { RARELY };
        if same && !second && looked_at + again > now {
            cell.confirmed = self.life;
        } else if settled {
            cell.is_suspect = !same && !changed;
            cell.is_missing &= cell.is_suspect;
            // Where all is done, answers have shown what its changes made.
            cell.is_certain = cell.is_suspect || matches!(cell.state, CellState::Done);
            if cell.is_suspect {
                cell.journal.note(shared.at(now), Deed::Drifted);
            }
            let ports = if changed && !new_port { told_ports(cell) } else { None };
            let known = Some(OwnerRows { ports, ..rows }).filter(|rows| !rows.balancers.is_empty());
            self.look(owner, cell, known, begun);
        }
    }
}

/// Whether something of an owner may be where nothing could be read.
fn is_unread(cell: &Cell, failed: &BTreeMap<Text, Text>) -> bool {
    let is_failed = |project: &str| failed.contains_key(project);
    !failed.is_empty()
        && (is_failed(&cell.project) || cell.actor.seen().balancers.iter().any(|one| is_failed(&one.project)))
}

/// Whether these are the same, in any order.
fn same_texts(one: &[String], other: &[String]) -> bool {
    one.len() == other.len() && one.iter().all(|text| other.contains(text))
}
