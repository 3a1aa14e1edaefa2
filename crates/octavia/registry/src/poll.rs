//! Lists of everything that a cluster has: what somebody else has changed, and what has no owner any more.

mod comparison;
mod freed;
mod secrets;
mod vip_ports;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gimbal_kuryr_model::{DesiredEntry, Text};
use gimbal_octavia_plan::{ApiService, SeenPort, cluster_name_tag, clusters_in, is_group, marked_owner, owners_in};
use serde_json::Value;

use self::comparison::ListComparison;
use self::secrets::SecretsByOwner;
use crate::call::CloudRead;
use crate::cell::{Cell, CellState};
use crate::cluster::{ManagedCluster, NameCheck, PlannedRead};
use crate::event::{FoundOwner, RegistryEvent};
use crate::fingerprint::{has_tag, tags_of};
use crate::left::LeftRows;
use crate::listed_row::{ListedRow, RowsById, by_id};
use crate::owner_look::{ids, list, secrets_of_project};
use crate::shared::{ReadFor, RegistryCore};
use crate::unreadable::RUNS;

/// The time between two lists of Neutron's objects whose owner is unknown.
const RARELY: Duration = Duration::from_secs(600);
/// Everything is looked at once in this time, whatever the lists show.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);
/// The first lists of a stream wait for its entries at most so long.
const ENTRIES_AWAITED: Duration = Duration::from_secs(10);
/// The pause after a list that failed.
const PAUSE: Duration = Duration::from_secs(5);

/// A list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PollPart {
    Balancers,
    Listeners,
    Pools,
    /// Policies, where there are any.
    Policies,
    Floating,
    /// Ports that nothing uses.
    Ports,
    /// Ports of the VIPs of load balancers that are looked at first.
    VipPorts,
    /// The load balancers, floating IPs or unused ports of a project that the policy does not allow any more.
    Left,
    /// Secrets of the key manager, where there may be certificates.
    Secrets,
}

impl PollPart {
    /// Whether its rows are kept packed until they are compared. Those of the others are few, or are looked at at once.
    pub(crate) fn is_long(self) -> bool {
        matches!(self, Self::Balancers | Self::Listeners | Self::Pools | Self::Policies)
    }

    /// Whether it is needed to tell which owners have something, and how many members.
    fn finds_owners(self) -> bool {
        matches!(self, Self::Balancers | Self::Pools)
    }
}

#[derive(Debug)]
struct PollRun {
    begun: Instant,
    life: u32,
    outstanding: usize,
    /// Those of them that show which owners have something.
    finding: usize,
    /// Projects that could not be read, and why.
    failed: BTreeMap<Text, Text>,
    /// Those of them whose load balancers could not be.
    unnamed: BTreeSet<Text>,
    balancers: Vec<ListedRow>,
    listeners: RowsById,
    pools: RowsById,
    policies: RowsById,
    floating: Option<Vec<Value>>,
    ports: Option<Vec<Value>>,
    /// Ports of VIPs, with their descriptions; unset: not asked for, or not all could be read.
    vip_ports: Option<Vec<(SeenPort, Value)>>,
    /// The owners whose VIPs these are.
    asked: BTreeSet<Text>,
    left: LeftRows,
    /// The references of secrets, by owner; unset: not listed, or not all could be read.
    secrets: Option<SecretsByOwner>,
}

impl PollRun {
    /// Returns how many members the pools of a load balancer have; `None` if not all could be listed.
    fn members_of(&self, balancer: &Value) -> Option<u64> {
        if balancer["project_id"].as_str().is_some_and(|project| self.failed.contains_key(project)) {
            return None;
        }
        let pools = ids(&balancer["pools"]);
        Some(pools.iter().filter_map(|id| self.pools.get(id)).map(|pool| u64::from(pool.members())).sum())
    }
}

/// When the next lists are due, and those that go on.
#[derive(Debug, Default)]
pub(crate) struct Poller {
    run: Option<PollRun>,
    /// Lists that ended before the first entry came, and until when they wait for it.
    early: Option<(PollRun, Instant)>,
    comparison: Option<Box<ListComparison>>,
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
        match &self.early {
            Some((_, until)) => Some(*until),
            None if self.run.is_some() || self.comparison.is_some() => None,
            None => self.due,
        }
    }

    /// Whether the last lists were not complete.
    pub(crate) fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// Takes note that a list could not be read, and why.
    pub(crate) fn list_failed(&mut self, part: PollPart, project: &Text, words: &str) {
        // Without a key manager the rest goes on.
        let is_spared = matches!(part, PollPart::Left | PollPart::Secrets);
        let Some(run) = self.run.as_mut().filter(|_| !is_spared) else { return };
        run.failed.entry(project.clone()).or_insert_with(|| words.into());
        if part == PollPart::Balancers {
            run.unnamed.insert(project.clone());
        }
    }

    /// Whether lists are to begin.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let goes_on = self.run.is_some() || self.early.is_some() || self.comparison.is_some();
        !goes_on && self.due.is_none_or(|due| due <= now)
    }
}

impl ManagedCluster {
    /// Begins lists if they are due.
    pub(crate) fn poll(&mut self, shared: &mut RegistryCore, now: Instant) {
        let is_former = self.poller.early.take_if(|(run, _)| run.life != self.life).is_some();
        if self.poller.comparison.take_if(|comparison| comparison.life != self.life).is_some() || is_former {
            // What was shown before the stream was lost counts for nothing.
            self.poller.everything_now();
        }
        if let Some((run, _)) = self.poller.early.take_if(|(_, until)| self.is_complete || *until <= now) {
            self.begin_comparison(run, shared, now);
        }
        if !self.poller.is_due(now) {
            return;
        }
        let rarely = self.poller.rarely_due.is_none_or(|due| due <= now);
        let floats = |cell: &Cell| match cell.wanted() {
            DesiredEntry::LoadBalancer(wanted) => wanted.header.floating.is_some() || cell.actor.has_floating_ip(),
            DesiredEntry::Deleting { .. } => false,
        };
        let floating = rarely || !self.floating.is_empty() || self.cells.values().any(|cell| floats(cell));
        let routes = self.cells.values().any(|cell| routes(cell));
        let mut reads: Vec<(PollPart, Text, CloudRead)> = Vec::new();
        for project in &self.settings.projects {
            let of = |key, tags: String| vec![(key, tags), ("project_id", project.to_string())];
            let octavia = |resource, path, query| {
                let read = list(ApiService::Octavia, resource, path, query);
                CloudRead { is_long: true, ..read }
            };
            // The first lists show as well what another cluster of the name has.
            let is_checked = self.name_check == NameCheck::Ours && self.unreadable.words(project).is_none();
            let balancers = if is_checked {
                of("tags", self.cluster_tag())
            } else {
                of("tags-any", format!("{},{}", self.cluster_tag(), cluster_name_tag(&self.settings.name)))
            };
            let mut add = |part, read| reads.push((part, project.clone(), read));
            add(PollPart::Balancers, octavia("loadbalancer", "loadbalancers", balancers));
            add(PollPart::Listeners, octavia("listener", "listeners", of("tags", self.cluster_tag())));
            add(PollPart::Pools, octavia("pool", "pools", of("tags", self.cluster_tag())));
            if routes {
                add(PollPart::Policies, octavia("l7policy", "l7policies", of("tags", self.cluster_tag())));
            }
            let all = || vec![("project_id", project.to_string())];
            if floating {
                add(PollPart::Floating, list(ApiService::Neutron, "floatingip", "floatingips", all()));
            }
            if rarely {
                let mut unused = all();
                unused.push(("device_id", String::new()));
                add(PollPart::Ports, list(ApiService::Neutron, "port", "ports", unused));
                if self.facts.certificates {
                    add(PollPart::Secrets, secrets_of_project());
                }
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
            finding: reads.iter().filter(|(part, ..)| part.finds_owners()).count(),
            failed: BTreeMap::new(),
            unnamed: BTreeSet::new(),
            balancers: Vec::new(),
            listeners: RowsById::new(),
            pools: RowsById::new(),
            policies: RowsById::new(),
            floating: floating.then(Vec::new),
            ports: rarely.then(Vec::new),
            vip_ports: None,
            asked: BTreeSet::new(),
            left: LeftRows::default(),
            secrets: (rarely && self.facts.certificates).then(SecretsByOwner::new),
        });
        for (part, project, read) in reads.into_iter().rev() {
            self.reads.push_front(PlannedRead { what: ReadFor::Poll(part), project, read });
        }
    }

    /// Takes a [long](PollPart::is_long) list.
    pub(crate) fn listed(&mut self, part: PollPart, rows: Vec<ListedRow>, shared: &mut RegistryCore, now: Instant) {
        let Some(run) = self.poller.run.as_mut() else { return };
        match part {
            PollPart::Balancers => run.balancers.extend(rows),
            PollPart::Listeners => run.listeners.extend(by_id(rows)),
            PollPart::Pools => run.pools.extend(by_id(rows)),
            PollPart::Policies => run.policies.extend(by_id(rows)),
            PollPart::Floating | PollPart::Ports | PollPart::VipPorts | PollPart::Left | PollPart::Secrets => {}
        }
        run.outstanding = run.outstanding.saturating_sub(1);
        self.list_ends(part, shared, now);
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
        let listed = (part == PollPart::Secrets).then(|| self.owners_of_secrets(rows.as_deref()));
        let rows = match rows {
            Some(rows) if part.is_long() => {
                return self.listed(part, rows.into_iter().map(ListedRow::from).collect(), shared, now);
            }
            rows => rows,
        };
        let Some(run) = self.poller.run.as_mut() else { return };
        run.outstanding = run.outstanding.saturating_sub(1);
        match (rows, part) {
            // Whoever may not use a project any more may not be able to read it.
            (rows, PollPart::Left) => run.left.add(project, rows),
            (_, PollPart::Secrets) => run.add_secrets(listed.flatten()),
            (None, PollPart::VipPorts) => run.vip_ports = None,
            (Some(rows), PollPart::VipPorts) => {
                let described = |row: &Value| (SeenPort::read(row), row["description"].clone());
                run.vip_ports.iter_mut().for_each(|all| all.extend(rows.iter().map(described)));
            }
            (Some(rows), PollPart::Floating) => run.floating.get_or_insert_default().extend(rows),
            (Some(rows), PollPart::Ports) => run.ports.get_or_insert_default().extend(rows),
            (_, PollPart::Balancers | PollPart::Listeners | PollPart::Pools | PollPart::Policies) => {}
            (None, PollPart::Floating | PollPart::Ports) => {}
        }
        self.list_ends(part, shared, now);
    }

    /// Tells what exists as soon as that is known: everything that is wanted waits for it after a start, and must not wait for the
    /// slowest list of all.
    fn tell_found_early(&mut self, part: PollPart, shared: &mut RegistryCore) {
        let Some(run) = self.poller.run.as_mut().filter(|_| part.finds_owners()) else { return };
        run.finding = run.finding.saturating_sub(1);
        if run.finding > 0 || !run.failed.is_empty() || run.life != self.life {
            return;
        }
        let Some(run) = self.poller.run.take() else { return };
        let tag = self.cluster_tag();
        self.check_name(&run, &tag, shared);
        self.tell_found(&run, &tag, shared);
        self.poller.run = Some(run);
    }

    /// Goes on when all lists have come.
    fn list_ends(&mut self, part: PollPart, shared: &mut RegistryCore, now: Instant) {
        self.tell_found_early(part, shared);
        if self.poller.run.as_ref().is_none_or(|run| run.outstanding > 0) {
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
        if self.cells.is_empty() && !self.is_complete {
            // Entries wait for these lists, or come just then. Each would have to look alone if the lists were over.
            self.poller.early = Some((run, now + ENTRIES_AWAITED));
            return;
        }
        self.begin_comparison(run, shared, now);
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

    /// Lets everybody try again what providers were shown to lack a day ago: what was refused for it comes by nothing else.
    fn tick_learned(&mut self, shared: &mut RegistryCore, now: Instant) {
        if !self.learned.forget_old(now) {
            return;
        }
        if self.relearn() {
            shared.events.push(RegistryEvent::FactsChanged { cluster: self.settings.name.clone() });
        }
        self.wake_all();
    }

    /// Tells once in a life of the stream what exists.
    fn tell_found(&mut self, run: &PollRun, tag: &str, shared: &mut RegistryCore) {
        if std::mem::replace(&mut self.poller.told_in, self.life) == self.life {
            return;
        }
        let mut rows: Vec<(Text, Text, Text, Option<u64>)> = Vec::new();
        for row in run.balancers.iter().map(ListedRow::get) {
            let text = |key: &str| Text::from(row[key].as_str().unwrap_or_default());
            let Some(owner) = marked_owner(tags_of(&row), tag, &self.settings.name) else { continue };
            let owners = owners_in(tags_of(&row)).take(if is_group(owner) { usize::MAX } else { 1 });
            let members = run.members_of(&row);
            rows.extend(owners.map(|owner| (text("created_at"), owner.into(), text("name"), members)));
        }
        rows.sort_unstable();
        let mut seen = BTreeSet::new();
        let oldest = rows.into_iter().filter(|(_, owner, ..)| seen.insert(owner.clone()));
        let found = oldest.map(|(_, owner, name, members)| FoundOwner { owner, name, members }).collect();
        let (cluster, is_complete) = (self.settings.name.clone(), run.unnamed.is_empty());
        shared.events.push(RegistryEvent::Listed { cluster, found, is_complete });
    }

    fn check_name(&mut self, run: &PollRun, tag: &str, shared: &mut RegistryCore) {
        let name = cluster_name_tag(&self.settings.name);
        let other = run.balancers.iter().map(ListedRow::get).find_map(|row| {
            let is_others = has_tag(&row, &name) && !has_tag(&row, tag);
            let uid = Text::from(clusters_in(tags_of(&row)).next().filter(|_| is_others)?);
            let id = row["id"].as_str().filter(|_| !self.confirmed.contains(&uid))?.to_owned();
            Some((uid, id))
        });
        if other.is_none() && !run.unnamed.is_empty() && matches!(self.name_check, NameCheck::Other(_)) {
            // Its objects may be where nothing could be read.
            return;
        }
        let before = std::mem::replace(&mut self.name_check, NameCheck::Ours);
        if let Some((uid, balancer)) = other {
            self.name_check = NameCheck::Other(uid.clone());
            if self.name_check != before {
                let (cluster, balancer) = (self.settings.name.clone(), balancer.into());
                shared.events.push(RegistryEvent::OtherCluster { cluster, uid, balancer });
            }
        }
    }

    /// Returns the owner that a description of Neutron's names, if it is one of this cluster.
    pub(crate) fn owner_in(&self, description: &Value) -> Option<Text> {
        let words = description.as_str()?.split_whitespace();
        marked_owner(words, &self.cluster_tag(), &self.settings.name).map(Text::from)
    }
}

/// Whether there are policies of an owner, or are going to be.
fn routes(cell: &Cell) -> bool {
    cell.is_router() || cell.actor.has_policies()
}
