//! What is reported about an owner.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_kuryr_model::{
    DesiredEntry, DesiredKey, FloatingAllocation, ListenerId, LoadBalancerHeader, LoadBalancerReport, Phase,
    PortRefusal, ReportedCertificate, ReportedCondition, ReportedFloatingIp, ReportedListener, ReportedLoadBalancer,
    ReportedMember, ReportedObjects, ReportedPolicy, ReportedPool, Text,
};
use gimbal_octavia_plan::{
    Block, SeenBalancer, SeenFloatingIp, SeenListener, SeenMember, SeenPolicy, SeenPool, SeenSecret,
};

use crate::advance::SLOW;
use crate::cell::{Cell, CellState};
use crate::cluster::{ManagedCluster, NameCheck};
use crate::pace::Line;
use crate::replacements::AFTER_OTHERS;
use crate::routes::as_condition;
use crate::sharing::{OwnersShare, is_block_of_others, words_of};
use crate::turns::cost;
use crate::unreadable::RUNS;

/// Members in a report. Octavia has the others.
const MOST_MEMBERS: usize = 2_000;

impl ManagedCluster {
    /// Returns reports that differ from the last ones, until they have cost so much, and what they have cost.
    pub(crate) fn take_reports(
        &mut self,
        most: u32,
        now: Instant,
        at: Duration,
    ) -> (Vec<(DesiredKey, LoadBalancerReport)>, u32) {
        let (mut reports, mut spent) = (Vec::new(), 0);
        while spent < most {
            let Some(owner) = self.told.pop_first() else { break };
            let Some(cell) = self.cells.get(&owner) else { continue };
            spent = spent.saturating_add(cost(cell));
            if cell.is_former || cell.is_orphan || cell.is_dropped || !self.is_telling(&owner, cell, now) {
                continue;
            }
            if self.groups.is_wanted(&owner) {
                let mut all = self.reports_of_group(&owner, cell, now, at);
                all.retain(|(key, report)| self.groups.is_news(&owner, key, report));
                all.iter().for_each(|(key, report)| self.groups.tell(&owner, key, report));
                reports.extend(all);
                self.cells.get_mut(&owner).into_iter().for_each(|cell| cell.rests());
                continue;
            }
            let (key, report) = (cell.key.clone(), self.report(&owner, cell, now, at));
            let print = print_of(&report);
            if let Some(cell) = self.cells.get_mut(&owner) {
                cell.rests();
                if cell.reported.replace(print) != Some(print) {
                    reports.push((key, report));
                }
            }
        }
        (reports, spent)
    }

    /// Returns all reports. What differs from these is reported later.
    pub(crate) fn reports(&mut self, now: Instant, at: Duration) -> Vec<(DesiredKey, LoadBalancerReport)> {
        let is_known = |owner: &Text, cell: &Cell| {
            !cell.is_former && !cell.is_orphan && (cell.reported.is_some() || self.groups.is_wanted(owner))
        };
        let owners: Vec<Text> =
            self.cells.iter().filter(|(owner, cell)| is_known(owner, cell)).map(|(owner, _)| owner.clone()).collect();
        let mut reports = Vec::new();
        for owner in owners {
            let Some(cell) = self.cells.get(&owner) else { continue };
            if self.groups.is_wanted(&owner) {
                let mut all = self.reports_of_group(&owner, cell, now, at);
                all.retain(|(key, _)| self.groups.was_told(&owner, key));
                all.iter().for_each(|(key, report)| self.groups.tell(&owner, key, report));
                reports.extend(all);
                continue;
            }
            let (key, report) = (cell.key.clone(), self.report(&owner, cell, now, at));
            if let Some(cell) = self.cells.get_mut(&owner) {
                cell.reported = Some(print_of(&report));
                cell.rests();
            }
            reports.push((key, report));
        }
        reports
    }

    /// Returns the reports of a group's owners.
    fn reports_of_group(
        &self,
        group: &Text,
        cell: &Cell,
        now: Instant,
        at: Duration,
    ) -> Vec<(DesiredKey, LoadBalancerReport)> {
        let keys = self.groups.all.get(group).into_iter().flat_map(|one| one.wants.keys());
        keys.map(|key| (key.clone(), self.report_for(key, group, cell, now, at))).collect()
    }

    /// Returns the report of an entry, which may be one of several of its owner.
    pub(crate) fn report_for(
        &self,
        key: &DesiredKey,
        owner: &Text,
        cell: &Cell,
        now: Instant,
        at: Duration,
    ) -> LoadBalancerReport {
        let group = self.groups.all.get(owner);
        let share = group.and_then(|one| Some(OwnersShare { wanted: one.wants.get(key)?, loss: one.losses.get(key) }));
        self.report_of(owner, cell, share, now, at)
    }

    /// Returns the report of an owner.
    pub(crate) fn report(&self, owner: &Text, cell: &Cell, now: Instant, at: Duration) -> LoadBalancerReport {
        self.report_of(owner, cell, None, now, at)
    }

    fn report_of(
        &self,
        owner: &Text,
        cell: &Cell,
        share: Option<OwnersShare<'_>>,
        now: Instant,
        at: Duration,
    ) -> LoadBalancerReport {
        let is_its = |port: ListenerId| share.is_none_or(|share| share.has(port));
        let stuck = self.tracker.is_stuck(owner);
        let is_anothers = is_block_of_others(cell, at, is_its);
        let phase = match self.phase(owner, cell, stuck.is_some()) {
            _ if share.is_some_and(|share| share.has_nothing()) => Phase::Blocked,
            Phase::Blocked | Phase::Degraded if is_anothers && cell.fault().is_some() => Phase::Degraded,
            Phase::Blocked | Phase::Degraded if is_anothers => Phase::Ready,
            phase => phase,
        };
        let mut conditions = Vec::new();
        let mut add = |kind: &str, reason: &str, message: &str| {
            if conditions.iter().all(|one: &ReportedCondition| *one.kind != *kind) {
                conditions.push(condition(kind, reason, message));
            }
        };
        if let NameCheck::Other(uid) = &self.name_check {
            add("Conflict", "OtherCluster", &format!("objects carry this cluster's name and the UID {uid}"));
        }
        let words = cell.last_error.as_deref().unwrap_or_default();
        if let Some(words) = self.unread(cell) {
            add("Degraded", "ProjectUnreadable", &words);
        }
        if cell.unsent >= RUNS {
            let words = format!("nothing can be changed in project {}: {words}", cell.project);
            add("Degraded", "ProjectUnreadable", &words);
        }
        let mut refused: Vec<PortRefusal> = Vec::new();
        let mut refuse = |listener, reason: &str, words: &str| {
            if refused.iter().all(|one| one.listener != listener) {
                refused.push(PortRefusal { listener, reason: reason.into(), message: words.into() });
            }
        };
        if let Some(loss) = share.and_then(|share| share.loss) {
            let reason = if loss.ports.is_empty() { "SharedSettings" } else { "PortTaken" };
            add("Conflict", reason, &words_of(loss));
            let taken = |holder: &Text| format!("{holder} has it on the shared load balancer");
            loss.ports.iter().for_each(|(port, holder)| refuse(*port, "PortTaken", &taken(holder)));
        }
        let unsupported = cell.actor.unsupported(&self.facts, at).into_iter().filter(|(port, _)| is_its(*port));
        unsupported.for_each(|(port, words)| refuse(port, "Provider", &words));
        let whole = match &cell.state {
            CellState::Blocked(block) if !is_anothers => Some((None, block)),
            _ => None,
        };
        let blocks = cell.actor.blocks(at).filter(|(port, _)| port.is_none_or(is_its));
        for (port, block) in blocks.chain(whole) {
            let (kind, reason, words) = as_condition(block, words);
            add(kind, reason, words);
            if let Some(port) = port {
                refuse(port, reason, words);
            }
        }
        if let Some(words) = cell.actor.missing_groups(&self.facts) {
            add("Unsupported", "SecurityGroups", words);
        }
        if let Some(words) = cell.actor.missing_address(&self.facts) {
            add("Unsupported", "SecondFamily", words);
        }
        if let Some(balancer) = stuck {
            add(
                "Degraded",
                "Stuck",
                &format!("load balancer {balancer} is pending for too long; Octavia's operator has to help"),
            );
        }
        if self.held.contains(owner) {
            let guard = if cell.is_deleting() { &self.balancers } else { &self.members };
            let hold = guard.held().map(|held| held.id).unwrap_or_default();
            add("Held", "Guard", &format!("a removal is held by the mass-change guard under {hold}"));
        }
        if self.is_quarantined(cell) {
            add("Held", "Quarantined", "the cluster is in quarantine: what is planned is not made");
        }
        if self.waits_for_others(cell, at) {
            add("Held", "Replacements", &format!("it stays, and {AFTER_OTHERS}"));
        }
        if let Some(words) = cell.fault() {
            match conditions.iter_mut().find(|one| *one.kind == *"Degraded") {
                // It says the same.
                Some(one) if *one.reason == *ReportedCondition::REPAIR_BUDGET => {}
                Some(one) => {
                    let message = format!("{words}; {}", one.message).into();
                    (one.reason, one.message) = (ReportedCondition::NOT_SERVING.into(), message);
                }
                None => conditions.push(condition("Degraded", ReportedCondition::NOT_SERVING, words)),
            }
        }
        let (generation, header) = match cell.wanted() {
            DesiredEntry::LoadBalancer(wanted) => (wanted.generation, Some(&*wanted.header)),
            DesiredEntry::Deleting { .. } => (0, None),
        };
        let its_header = share.map(|share| &*share.wanted.header).or(header);
        let phase = match phase {
            Phase::Ready if its_header.is_some_and(|header| serves_nothing(header, &refused)) => Phase::Blocked,
            phase => phase,
        };
        let its_own = share.map(|share| (&share.wanted.header.owner, share.wanted.generation));
        let (owner, generation) = its_own.unwrap_or((owner, generation));
        let tag = share.map(|_| self.mark(owner).owner_tag());
        let is_slow = cell.working_since.is_some_and(|since| since + SLOW <= now);
        LoadBalancerReport {
            owner: owner.clone(),
            generation,
            phase,
            conditions,
            refused_ports: refused,
            objects: objects(cell, header, tag.as_ref()),
            last_error: cell.last_error.clone().filter(|_| phase != Phase::Making || is_slow),
            missing: cell.missing.clone().filter(|_| !cell.is_deleting()),
        }
    }

    /// Returns which projects are in the way of an owner because they cannot be read, and why.
    fn unread(&self, cell: &Cell) -> Option<String> {
        let words = |project: &Text| match self.unreadable.words(project) {
            Some(words) => format!("project {project} cannot be read: {words}"),
            None => format!("project {project} cannot be read"),
        };
        let all: Vec<String> = cell.unread.iter().map(words).collect();
        (cell.failed_looks >= RUNS && !all.is_empty()).then(|| all.join("; "))
    }

    /// Whether there is something to report. Work that ends soon is reported when it has ended.
    fn is_telling(&self, owner: &Text, cell: &Cell, now: Instant) -> bool {
        match cell.state {
            // Nothing is said before it is known: after each start it would be ready for a minute.
            CellState::Done if cell.may_be_down() => false,
            CellState::Done | CellState::Blocked(_) | CellState::Gone => true,
            _ if (self.held.contains(owner) && cell.is_deleting()) || cell.fault().is_some() => true,
            _ if self.unread(cell).is_some() || cell.unsent >= RUNS || self.is_quarantined(cell) => true,
            _ => cell.working_since.is_some_and(|since| since + SLOW <= now),
        }
    }

    /// Whether a change waits because the cluster is in quarantine.
    fn is_quarantined(&self, cell: &Cell) -> bool {
        self.settings.quarantine && matches!(&cell.state, CellState::InLine(line) if *line != Line::Looks)
    }

    fn phase(&self, owner: &Text, cell: &Cell, is_stuck: bool) -> Phase {
        if cell.is_deleting() {
            return match cell.state {
                CellState::Gone => Phase::Gone,
                _ if self.held.contains(owner) || self.is_quarantined(cell) => Phase::Held,
                _ => Phase::Removing,
            };
        }
        match &cell.state {
            _ if is_stuck => Phase::Degraded,
            CellState::Done if self.held.contains(owner) => Phase::Held,
            CellState::Blocked(Block::RepairBudget) => Phase::Degraded,
            CellState::Blocked(_) => Phase::Blocked,
            CellState::Unproven => Phase::Waiting,
            _ if cell.fault().is_some() => Phase::Degraded,
            CellState::Done => Phase::Ready,
            _ if cell.looked_at.is_none() => Phase::Waiting,
            _ if self.is_quarantined(cell) => Phase::Held,
            _ => Phase::Making,
        }
    }
}

/// Whether none of the wanted ports can be served.
fn serves_nothing(header: &LoadBalancerHeader, refused: &[PortRefusal]) -> bool {
    let is_refused = |port: ListenerId| refused.iter().any(|one| one.listener == port);
    !header.listeners.is_empty() && header.listeners.iter().all(|wish| is_refused(wish.id))
}

/// Whether what comes of an entry is to be reported although the same was: whoever lost it needs it again, and so does one who
/// cannot tell by the generation what it is about.
pub(crate) fn is_told_anew(before: &DesiredEntry, now: &DesiredEntry) -> bool {
    let of = |entry: &DesiredEntry| match entry {
        DesiredEntry::LoadBalancer(wanted) => (Some(wanted.generation), wanted.header.known),
        DesiredEntry::Deleting { .. } => (None, true),
    };
    !of(now).1 || (before != now && of(before).0 == of(now).0 && !differs_in_known(before, now))
}

/// Whether nothing but that the status names what exists is different: that is what came of the report.
fn differs_in_known(before: &DesiredEntry, now: &DesiredEntry) -> bool {
    let (DesiredEntry::LoadBalancer(before), DesiredEntry::LoadBalancer(now)) = (before, now) else { return false };
    let mut header = before.header.clone();
    Arc::make_mut(&mut header).known = now.header.known;
    header == now.header && before.members == now.members
}

fn condition(kind: &str, reason: &str, message: &str) -> ReportedCondition {
    ReportedCondition { kind: kind.into(), reason: reason.into(), message: message.into() }
}

pub(crate) fn print_of(report: &LoadBalancerReport) -> u64 {
    /// Hashes what is written to it.
    struct Written(DefaultHasher);
    impl std::fmt::Write for Written {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            text.hash(&mut self.0);
            Ok(())
        }
    }
    let mut written = Written(DefaultHasher::new());
    let is_written = std::fmt::Write::write_fmt(&mut written, format_args!("{report:?}"));
    debug_assert!(is_written.is_ok(), "a hasher takes everything");
    written.0.finish()
}

/// Returns what exists, in an order of its own: answers, lists and looks show parts in different ones, and that is no news. Of listeners
/// and pools it has those that carry the tag.
fn objects(cell: &Cell, header: Option<&LoadBalancerHeader>, tag: Option<&String>) -> ReportedObjects {
    let is_its = |tags: &[String]| tag.is_none_or(|tag| tags.contains(tag));
    let seen = cell.actor.seen();
    // Another one may be there for a while: a twin, or one that somebody led to a port of the owner's.
    let leads =
        |one: &SeenFloatingIp| cell.actor.balancer().is_some_and(|lb| one.port.as_deref() == Some(&*lb.vip_port));
    let floating = seen.floating.iter().min_by_key(|one| (!leads(one), &one.id)).and_then(|one| {
        let asked = header.and_then(|header| header.floating.as_ref()).is_some_and(|wish| wish.address.is_some());
        Some(ReportedFloatingIp {
            id: one.id.as_str().into(),
            address: one.address.parse().ok()?,
            allocation: if asked { FloatingAllocation::User } else { FloatingAllocation::Pool },
        })
    });
    let routes = cell.routes.as_deref().cloned();
    let certificate =
        |one: &SeenSecret| Some(ReportedCertificate { reference: one.reference.as_str().into(), hash: one.hash()? });
    let mut certificates: Vec<_> = cell.actor.secrets().iter().filter_map(certificate).collect();
    certificates.sort_unstable_by(|one, other| one.reference.cmp(&other.reference));
    let Some(balancer) = cell.actor.balancer() else {
        return ReportedObjects { floating_ip: floating, routes, certificates, ..ReportedObjects::default() };
    };
    let of = |pool: &str| {
        let leading = balancer.listeners.iter().filter(|one| one.default_pool.as_deref() == Some(pool));
        leading.min_by_key(|one| (one.port, &one.id))
    };
    let pool = |pool: &SeenPool| ReportedPool {
        id: pool.id.as_str().into(),
        listener: of(&pool.id).map(|one| one.id.as_str().into()).unwrap_or_default(),
        name: pool.name.as_str().into(),
        protocol: pool.protocol.as_str().into(),
    };
    let policies = |listener: &SeenListener| {
        let policy = |one: &SeenPolicy| ReportedPolicy {
            id: one.id.as_str().into(),
            listener: listener.id.as_str().into(),
            position: one.position,
            name: one.name.as_str().into(),
        };
        listener.policies.iter().map(policy).collect::<Vec<_>>()
    };
    let mut listeners: Vec<&SeenListener> = balancer.listeners.iter().filter(|one| is_its(&one.tags)).collect();
    listeners.sort_unstable_by_key(|one| (one.port, &one.id));
    let mut pools: Vec<&SeenPool> = balancer.pools.iter().filter(|one| is_its(&one.tags)).collect();
    pools.sort_unstable_by_key(|one| (&one.name, &one.id));
    let (members, member_count) = members(balancer, &pools, cell.wanted());
    ReportedObjects {
        load_balancer: reported(balancer, cell.actor.security_groups()),
        listeners: listeners.iter().copied().map(listener).collect(),
        pools: pools.into_iter().map(pool).collect(),
        members,
        member_count,
        floating_ip: floating,
        policies: listeners.iter().copied().flat_map(policies).collect(),
        routes,
        certificates,
    }
}

fn reported(balancer: &SeenBalancer, mut groups: Vec<String>) -> Option<ReportedLoadBalancer> {
    groups.sort_unstable();
    Some(ReportedLoadBalancer {
        id: balancer.id.as_str().into(),
        name: balancer.name.as_str().into(),
        address: balancer.vip_address.parse().ok()?,
        port: balancer.vip_port.as_str().into(),
        subnet: balancer.vip_subnet.as_str().into(),
        project: balancer.project.as_str().into(),
        provider: balancer.provider.as_str().into(),
        security_groups: groups.iter().map(|one| one.as_str().into()).collect(),
    })
}

fn listener(one: &SeenListener) -> ReportedListener {
    let timeout = |key: &str| one.row[key].as_u64().and_then(|value| u32::try_from(value).ok());
    ReportedListener {
        id: one.id.as_str().into(),
        name: one.name.as_str().into(),
        protocol: one.protocol.as_str().into(),
        port: one.port,
        timeout_client_data: timeout("timeout_client_data"),
        timeout_member_data: timeout("timeout_member_data"),
    }
}

/// Texts that members have in common are kept once, and names are those of what is wanted.
fn members(balancer: &SeenBalancer, pools: &[&SeenPool], wanted: &DesiredEntry) -> (Vec<ReportedMember>, u32) {
    let mut texts: BTreeSet<Text> = match wanted {
        DesiredEntry::LoadBalancer(wanted) => {
            wanted.members.as_slice().iter().flat_map(|one| [&one.name, &one.subnet]).flatten().cloned().collect()
        }
        DesiredEntry::Deleting { .. } => BTreeSet::new(),
    };
    let mut shared = |text: &str| match texts.get(text) {
        Some(known) => known.clone(),
        None => {
            let text = Text::from(text);
            texts.insert(text.clone());
            text
        }
    };
    let member = |(pool, member): (&SeenPool, &SeenMember)| {
        let subnet = member.subnet.as_deref().unwrap_or(&balancer.vip_subnet);
        Some(ReportedMember {
            id: Some(member.id.as_str()).filter(|id| !id.is_empty())?.into(),
            pool: shared(&pool.id),
            name: shared(&member.name),
            address: member.address.parse().ok()?,
            port: member.port,
            subnet: shared(subnet),
        })
    };
    let count = pools.iter().map(|pool| pool.members.len()).sum::<usize>();
    let all = pools.iter().flat_map(|pool| in_order(pool).into_iter().map(move |member| (*pool, member)));
    (all.filter_map(member).take(MOST_MEMBERS).collect(), u32::try_from(count).unwrap_or(u32::MAX))
}

fn in_order(pool: &SeenPool) -> Vec<&SeenMember> {
    let mut members: Vec<&SeenMember> = pool.members.iter().collect();
    members.sort_by_cached_key(|one| (one.address.parse::<IpAddr>().ok(), one.port));
    members
}
