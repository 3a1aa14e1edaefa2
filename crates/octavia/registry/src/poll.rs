//! Lists of everything that a cluster has: what somebody else has changed, and what has no owner any more.

mod freed;
mod vip_ports;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gimbal_kuryr_model::{DesiredEntry, Text};
use gimbal_octavia_plan::{ApiService, SeenPort, is_group, marked_owner, owners_in};
use serde_json::Value;

use crate::agreement::{agrees, told_ports};
use crate::call::CloudRead;
use crate::cell::{Cell, CellState};
use crate::cluster::{ManagedCluster, NameCheck, PlannedRead};
use crate::event::{FoundOwner, RegistryEvent};
use crate::fingerprint::{floating_print, has_tag, print_of, seen_floating_print, tag_with, tags_of};
use crate::journal::Deed;
use crate::left::LeftRows;
use crate::owner_look::{OwnerRows, ids, list};
use crate::shared::{ReadFor, RegistryCore};
use crate::sharing::owners_of_row;
use crate::unreadable::RUNS;

/// The time between two lists of Neutron's objects whose owner is unknown.
const RARELY: Duration = Duration::from_secs(600);
/// Everything is looked at once in this time, whatever the lists show.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);
/// The pause after a list that failed.
const PAUSE: Duration = Duration::from_secs(5);

use vip_ports::ListedPorts;

/// A list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PollPart {
    Balancers,
    Listeners,
    Pools,
    Floating,
    /// Ports that nothing uses.
    Ports,
    /// Ports of the VIPs of load balancers that are looked at first.
    VipPorts,
    /// The load balancers, floating IPs or unused ports of a project that the policy does not allow any more.
    Left,
}

#[derive(Debug)]
struct PollRun {
    begun: Instant,
    life: u32,
    outstanding: usize,
    /// Projects that could not be read, and why.
    failed: BTreeMap<Text, Text>,
    /// Those of them whose load balancers could not be.
    unnamed: BTreeSet<Text>,
    balancers: Vec<Value>,
    listeners: BTreeMap<String, Value>,
    pools: BTreeMap<String, Value>,
    floating: Option<Vec<Value>>,
    ports: Option<Vec<Value>>,
    /// Ports of VIPs; unset: not asked for, or not all could be read.
    vip_ports: Option<Vec<Value>>,
    left: LeftRows,
}

/// When the next lists are due, and those that go on.
#[derive(Debug, Default)]
pub(crate) struct Poller {
    run: Option<PollRun>,
    due: Option<Instant>,
    /// The life of the stream in which lists were complete.
    listed_in: u32,
    /// The life of the stream in which what lists have shown was reported.
    told_in: u32,
    failures: u32,
    rarely_due: Option<Instant>,
}

impl Poller {
    /// Lists are due now.
    pub(crate) fn now(&mut self) {
        self.due = None;
    }

    /// All lists are due now, those that are rare as well.
    pub(crate) fn everything_now(&mut self) {
        (self.due, self.rarely_due) = (None, None);
    }

    pub(crate) fn has_listed(&self, life: u32) -> bool {
        self.listed_in == life
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        if self.run.is_some() { None } else { self.due }
    }

    /// Whether the last lists were not complete.
    pub(crate) fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// Takes note that a list could not be read, and why.
    pub(crate) fn list_failed(&mut self, part: PollPart, project: &Text, words: &str) {
        let Some(run) = self.run.as_mut().filter(|_| part != PollPart::Left) else { return };
        run.failed.entry(project.clone()).or_insert_with(|| words.into());
        if part == PollPart::Balancers {
            run.unnamed.insert(project.clone());
        }
    }

    /// Whether lists are to begin.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.run.is_none() && self.due.is_none_or(|due| due <= now)
    }
}

impl ManagedCluster {
    /// Begins lists if they are due.
    pub(crate) fn poll(&mut self, now: Instant) {
        if !self.poller.is_due(now) {
            return;
        }
        let rarely = self.poller.rarely_due.is_none_or(|due| due <= now);
        let floats = |cell: &Cell| match cell.wanted() {
            DesiredEntry::LoadBalancer(wanted) => wanted.header.floating.is_some() || cell.actor.has_floating_ip(),
            DesiredEntry::Deleting { .. } => false,
        };
        let floating = rarely || !self.floating.is_empty() || self.cells.values().any(|cell| floats(cell));
        let mut reads: Vec<(PollPart, Text, CloudRead)> = Vec::new();
        for project in &self.settings.projects {
            let of = |key, tags: String| vec![(key, tags), ("project_id", project.to_string())];
            let octavia = |resource, path, query| list(ApiService::Octavia, resource, path, query);
            // The first lists show as well what another cluster of the name has.
            let is_checked = self.name_check == NameCheck::Ours && self.unreadable.words(project).is_none();
            let balancers = if is_checked {
                of("tags", self.cluster_tag())
            } else {
                of("tags-any", format!("{},gimbal-cluster:{}", self.cluster_tag(), self.settings.name))
            };
            let mut add = |part, read| reads.push((part, project.clone(), read));
            add(PollPart::Balancers, octavia("loadbalancer", "loadbalancers", balancers));
            add(PollPart::Listeners, octavia("listener", "listeners", of("tags", self.cluster_tag())));
            add(PollPart::Pools, octavia("pool", "pools", of("tags", self.cluster_tag())));
            let all = || vec![("project_id", project.to_string())];
            if floating {
                add(PollPart::Floating, list(ApiService::Neutron, "floatingip", "floatingips", all()));
            }
            if rarely {
                let mut unused = all();
                unused.push(("device_id", String::new()));
                add(PollPart::Ports, list(ApiService::Neutron, "port", "ports", unused));
            }
        }
        if rarely {
            self.poller.rarely_due = Some(now + RARELY);
            reads.extend(self.left_reads(now));
        }
        self.poller.run = Some(PollRun {
            begun: now,
            life: self.life,
            outstanding: reads.len(),
            failed: BTreeMap::new(),
            unnamed: BTreeSet::new(),
            balancers: Vec::new(),
            listeners: BTreeMap::new(),
            pools: BTreeMap::new(),
            floating: floating.then(Vec::new),
            ports: rarely.then(Vec::new),
            vip_ports: None,
            left: LeftRows::default(),
        });
        for (part, project, read) in reads.into_iter().rev() {
            self.reads.push_front(PlannedRead { what: ReadFor::Poll(part), project, read });
        }
    }

    /// Takes a list; `None` if it could not be read.
    pub(crate) fn polled(
        &mut self,
        part: PollPart,
        project: &Text,
        rows: Option<Vec<Value>>,
        shared: &mut RegistryCore,
        now: Instant,
    ) {
        let Some(run) = self.poller.run.as_mut() else { return };
        run.outstanding = run.outstanding.saturating_sub(1);
        match (rows, part) {
            // Whoever may not use a project any more may not be able to read it.
            (rows, PollPart::Left) => run.left.add(project, rows),
            (None, PollPart::VipPorts) => run.vip_ports = None,
            (Some(rows), PollPart::VipPorts) => {
                run.vip_ports.iter_mut().for_each(|all| all.extend(rows.iter().cloned()))
            }
            (None, _) => {}
            (Some(rows), PollPart::Balancers) => run.balancers.extend(rows),
            (Some(rows), PollPart::Listeners) => run.listeners.extend(by_id(rows)),
            (Some(rows), PollPart::Pools) => run.pools.extend(by_id(rows)),
            (Some(rows), PollPart::Floating) => run.floating.get_or_insert_default().extend(rows),
            (Some(rows), PollPart::Ports) => run.ports.get_or_insert_default().extend(rows),
        }
        if run.outstanding > 0 {
            return;
        }
        if part != PollPart::VipPorts && self.ask_for_vip_ports() {
            return;
        }
        let Some(run) = self.poller.run.take() else { return };
        if run.life != self.life {
            (self.poller.rarely_due, self.poller.due) = (None, None);
            return;
        }
        self.tell_unreadable(&run.failed, shared);
        let tag = self.cluster_tag();
        if run.failed.is_empty() {
            self.poller.failures = 0;
            self.poller.due = Some((run.begun + shared.settings.drift_interval).max(now));
            self.check_name(&run, &tag, shared);
            self.tell_found(&run, &tag, shared);
        } else {
            self.poller.failures = self.poller.failures.saturating_add(1);
            let failures = self.poller.failures;
            self.poller.due = Some(now + PAUSE.saturating_mul(failures).min(shared.settings.drift_interval));
            // A project that cannot be read stops what is wanted there, and nothing else.
            let is_any_named = self.settings.projects.iter().any(|project| !run.unnamed.contains(project));
            let lasts = failures >= RUNS && is_any_named;
            if lasts || run.unnamed.is_empty() {
                self.check_name(&run, &tag, shared);
                self.tell_found(&run, &tag, shared);
            }
            if failures > 1 && self.name_check == NameCheck::Ours {
                // A list that fails must not stop what can be asked for one by one.
                self.end_unlisted();
            }
            if !lasts {
                // What was not listed may be there.
                self.poller.rarely_due = None;
                return;
            }
        }
        self.compare(run, shared, now);
        self.end_unlisted();
        self.tick_learned(shared, now);
    }

    fn tell_unreadable(&mut self, failed: &BTreeMap<Text, Text>, shared: &mut RegistryCore) {
        for (project, words) in self.unreadable.listed(failed) {
            let cluster = self.settings.name.clone();
            shared.events.push(RegistryEvent::Unreadable { cluster, project, words });
        }
    }

    fn end_unlisted(&mut self) {
        self.poller.listed_in = self.life;
        let waiting = self.cells.iter().filter(|(_, cell)| matches!(cell.state, CellState::Unlisted));
        let owners: Vec<Text> = waiting.map(|(owner, _)| owner.clone()).collect();
        owners.iter().for_each(|owner| self.wake(owner));
    }

    fn tick_learned(&mut self, shared: &mut RegistryCore, now: Instant) {
        if self.learned.forget_old(now) && self.relearn() {
            shared.events.push(RegistryEvent::FactsChanged { cluster: self.settings.name.clone() });
        }
    }

    fn compare(&mut self, mut run: PollRun, shared: &mut RegistryCore, now: Instant) {
        let tag = self.cluster_tag();
        let is_whole = run.failed.is_empty();
        let mut owners: BTreeMap<Text, OwnerRows> = BTreeMap::new();
        let mut owner_of_port: BTreeMap<String, Text> = BTreeMap::new();
        let mut groups: BTreeMap<Text, BTreeSet<Text>> = BTreeMap::new();
        for row in std::mem::take(&mut run.balancers) {
            let owner = marked_owner(tags_of(&row), &tag, &self.settings.name).map(Text::from);
            let Some(owner) = owner else { continue };
            if let Some(port) = row["vip_port_id"].as_str() {
                owner_of_port.insert(port.to_owned(), owner.clone());
            }
            let named = is_group(&owner).then(|| groups.entry(owner.clone()).or_default());
            let rows = owners.entry(owner).or_default();
            let parts =
                [("listeners", &mut run.listeners, &mut rows.listeners), ("pools", &mut run.pools, &mut rows.pools)];
            for (key, from, to) in parts {
                to.extend(ids(&row[key]).into_iter().filter_map(|id| from.remove_entry(&id)));
            }
            if let Some(named) = named {
                // Of an owner that is gone, a change that came late may have made a part again.
                let parts = rows.listeners.values().chain(rows.pools.values());
                named.extend(parts.chain([&row]).flat_map(owners_of_row));
            }
            rows.balancers.push(row);
        }
        // Who has anything at all, in Octavia and in Neutron.
        let mut present: BTreeSet<Text> = owners.keys().cloned().collect();
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
            in_neutron.extend(marked.clone().filter(|_| !is_kept(&row)));
            let owner = row["port_id"].as_str().and_then(|port| owner_of_port.get(port).cloned()).or(marked);
            let Some(owner) = owner else { continue };
            floating.insert(owner.clone());
            owners.entry(owner).or_default().floating.get_or_insert_default().push(row);
        }
        if lists_floating {
            if is_whole {
                self.floating.clear();
            }
            self.floating.append(&mut floating);
        }
        let lists_ports = run.ports.is_some();
        let ListedPorts { unused: ports, exact } = self.listed_ports(&mut run);
        let in_left = lists_ports.then(|| self.compare_left(std::mem::take(&mut run.left), shared, now));
        for owner in self.cells.keys().cloned().collect::<Vec<_>>() {
            if self.cells.get(&owner).is_none_or(|cell| is_unread(cell, &run.failed)) {
                continue;
            }
            let mut rows = owners.remove(&owner).unwrap_or_default();
            rows.floating = lists_floating.then(|| rows.floating.unwrap_or_default());
            rows.ports = exact.as_ref().map(|exact| exact.get(&owner).cloned().unwrap_or_default());
            let Some(mut cell) = self.cells.remove(&owner) else { continue };
            self.count_balancer(&owner, !rows.balancers.is_empty(), now);
            // Unknown so far: its creation was taken for lost. Or somebody has given it other groups.
            let is_same = |one: &SeenPort, port: &SeenPort| {
                one.id == port.id && same_texts(&one.security_groups, &port.security_groups)
            };
            let is_new = |port: &SeenPort| !cell.actor.seen().ports.iter().any(|one| is_same(one, port));
            let new_port = ports.get(&owner).is_some_and(|ports| ports.iter().any(is_new));
            self.compare_cell(&owner, &mut cell, (rows, new_port), &run, &tag, shared, now);
            self.cells.insert(owner, cell);
        }
        let in_groups = self.groups_listed(groups, is_whole);
        present.retain(|owner| !self.cells.contains_key(owner));
        if !is_whole {
            // What was not listed proves nothing.
            return;
        }
        in_neutron.extend(ports.into_keys());
        in_neutron.extend(in_left.into_iter().flatten());
        in_neutron.retain(|owner| !self.cells.contains_key(owner));
        self.compare_orphans(&present, &in_groups, lists_ports.then_some(&in_neutron), shared, now);
    }

    #[allow(clippy::too_many_arguments)]
    fn compare_cell(
        &mut self,
        owner: &Text,
        cell: &mut Cell,
        (rows, new_port): (OwnerRows, bool),
        run: &PollRun,
        tag: &str,
        shared: &RegistryCore,
        now: Instant,
    ) {
        // Whoever is at work sees for himself, and what was changed since is not in the lists.
        if cell.is_busy()
            || cell.changed_at.is_some_and(|at| at >= run.begun)
            || matches!(cell.state, CellState::Behind)
        {
            return;
        }
        let projects = self.settings.projects.clone();
        let Some(looked_at) = cell.looked_at else {
            if matches!(cell.state, CellState::Unlisted) {
                let ports = rows.ports.filter(|_| !cell.is_deleting());
                cell.lists_ports = ports.is_some();
                let known = Some(OwnerRows { ports, ..rows }).filter(|rows| !rows.balancers.is_empty());
                let planned = self.reads.len();
                self.look(owner, cell, known, run.begun);
                // After a restart there are as many as load balancers, and whoever wants something new has no time for them.
                self.first_reads.extend(self.reads.drain(planned..));
            }
            return;
        };
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
            (cell.agreed_at, cell.confirmed) = (Some(run.begun), self.life);
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
            if cell.is_suspect {
                cell.journal.note(shared.at(now), Deed::Drifted);
            }
            let ports = if changed && !new_port { told_ports(cell) } else { None };
            let known = Some(OwnerRows { ports, ..rows }).filter(|rows| !rows.balancers.is_empty());
            self.look(owner, cell, known, run.begun);
        }
    }

    /// Tells once in a life of the stream what exists.
    fn tell_found(&mut self, run: &PollRun, tag: &str, shared: &mut RegistryCore) {
        if std::mem::replace(&mut self.poller.told_in, self.life) == self.life {
            return;
        }
        let balancers = run.balancers.iter();
        let mut rows: Vec<(&str, &str, &str)> = balancers
            .filter_map(|row| {
                let text = |key: &str| row[key].as_str().unwrap_or_default();
                let owner = marked_owner(tags_of(row), tag, &self.settings.name)?;
                let owners = owners_in(tags_of(row)).take(if is_group(owner) { usize::MAX } else { 1 });
                Some(owners.map(move |owner| (text("created_at"), owner, text("name"))))
            })
            .flatten()
            .collect();
        rows.sort_unstable();
        let mut seen = BTreeSet::new();
        let oldest = rows.into_iter().filter(|(_, owner, _)| seen.insert(*owner));
        let found = oldest.map(|(_, owner, name)| FoundOwner { owner: owner.into(), name: name.into() }).collect();
        let (cluster, is_complete) = (self.settings.name.clone(), run.unnamed.is_empty());
        shared.events.push(RegistryEvent::Listed { cluster, found, is_complete });
    }

    fn check_name(&mut self, run: &PollRun, tag: &str, shared: &mut RegistryCore) {
        let rows = &run.balancers;
        let name = format!("gimbal-cluster:{}", self.settings.name);
        let other = rows.iter().filter(|row| has_tag(row, &name) && !has_tag(row, tag));
        let uids = other.filter_map(|row| tag_with(row, "k8s-cluster:")).map(Text::from);
        let other = uids.into_iter().find(|uid| !self.confirmed.contains(uid));
        if other.is_none() && !run.unnamed.is_empty() && matches!(self.name_check, NameCheck::Other(_)) {
            // Its objects may be where nothing could be read.
            return;
        }
        let before = std::mem::replace(&mut self.name_check, NameCheck::Ours);
        if let Some(uid) = other {
            self.name_check = NameCheck::Other(uid.clone());
            if self.name_check != before {
                shared.events.push(RegistryEvent::OtherCluster { cluster: self.settings.name.clone(), uid });
            }
        }
    }

    /// Returns the owner that a description of Neutron's names, if it is one of this cluster.
    pub(crate) fn owner_in(&self, description: &Value) -> Option<Text> {
        let words = description.as_str()?.split_whitespace();
        marked_owner(words, &self.cluster_tag(), &self.settings.name).map(Text::from)
    }
}

/// Whether something of an owner may be where nothing could be read.
fn is_unread(cell: &Cell, failed: &BTreeMap<Text, Text>) -> bool {
    let is_failed = |project: &str| failed.contains_key(project);
    !failed.is_empty()
        && (is_failed(&cell.project) || cell.actor.seen().balancers.iter().any(|one| is_failed(&one.project)))
}

/// Whether a floating IP stays when its owner goes.
fn is_kept(row: &Value) -> bool {
    row["description"].as_str().is_some_and(|words| words.split_whitespace().any(|word| word == "gimbal:keep"))
}

/// Whether these are the same, in any order.
fn same_texts(one: &[String], other: &[String]) -> bool {
    one.len() == other.len() && one.iter().all(|text| other.contains(text))
}

fn by_id(rows: Vec<Value>) -> impl Iterator<Item = (String, Value)> {
    rows.into_iter().filter_map(|row| Some((row["id"].as_str()?.to_owned(), row)))
}
