//! What answers make of owners.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use gimbal_guard::Fall;
use gimbal_kuryr_model::{DesiredEntry, Text};
use gimbal_octavia_plan::{
    AddressHolder, ApiService, ApiVerb, ChangeOutcome, CloudChange, MissingAbility, Seen, SeenFloatingIp, SeenPort,
    ServiceRefusal,
};
use serde_json::Value;

use crate::call::CallId;
use crate::cell::{Cell, CellState};
use crate::cluster::{ManagedCluster, PlannedRead};
use crate::event::RegistryEvent;
use crate::fingerprint::{floating_print, print_of, row_print, strangers_print};
use crate::journal::Deed;
use crate::owner_look::{LookPart, list, one};
use crate::pace::{Line, WITH_A_BALANCER, freed_by};
use crate::removals::{self, GuardedOwner};
use crate::shared::{ReadFor, RegistryCore};
use crate::tracker::TrackRead;

/// The first and the longest pause after a look that failed, or a change that could not be sent.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl ManagedCluster {
    /// Takes what came of a read; `None` if it failed.
    pub(crate) fn was_read(
        &mut self,
        planned: PlannedRead,
        rows: Option<Vec<Value>>,
        shared: &mut RegistryCore,
        now: Instant,
    ) {
        let planned = match rows {
            None => self.repeat(planned),
            Some(_) => Some(planned),
        };
        let Some(PlannedRead { what, project, .. }) = planned else { return };
        let project = &project;
        match what {
            ReadFor::Look { owner, number, part } => {
                self.look_read(&owner, (number, &part), project, rows, shared, now);
            }
            ReadFor::Members { owner, pool } => self.with_reading(&owner, now, |cell, _| {
                cell.proven = cell.proven.saturating_add(u16::from(rows.is_some()));
                rows.map(|rows| cell.actor.read_members(&pool, &rows)).is_some()
            }),
            ReadFor::FloatingIp { owner } => self.with_reading(&owner, now, |cell, _| {
                let found = |rows: Vec<Value>| rows.first().map(SeenFloatingIp::read);
                rows.map(|rows| cell.actor.found_floating_ip(found(rows))).is_some()
            }),
            // As below, one read that finds nothing is no proof.
            ReadFor::AskedBalancer { owner, id, is_list: false } if rows.as_ref().is_some_and(Vec::is_empty) => {
                let read = list(ApiService::Octavia, "loadbalancer", "loadbalancers", vec![("id", id.clone())]);
                let what = ReadFor::AskedBalancer { owner, id, is_list: true };
                self.reads.push_back(PlannedRead { what, project: project.clone(), read });
            }
            ReadFor::AskedBalancer { owner, id, .. } => {
                let at = shared.at(now);
                self.with_reading(&owner, now, |cell, _| {
                    // One that cannot be read may be there, in a project of somebody else for instance.
                    let is_there = rows.is_none_or(|rows| !rows.is_empty());
                    cell.actor.found_balancer(&id, is_there, at);
                    true
                });
            }
            ReadFor::Holder { owner } => {
                let port = rows.as_ref().and_then(|rows| rows.first()).map(SeenPort::read);
                if let Some(port) = port
                    && let Some(balancer) = AddressHolder::balancer(&port).map(str::to_owned)
                {
                    let read = one(ApiService::Octavia, "loadbalancer", format!("loadbalancers/{balancer}"));
                    let what = ReadFor::HolderBalancer { owner, port: Box::new(port) };
                    self.reads.push_back(PlannedRead { what, project: project.clone(), read });
                    return;
                }
                let at = shared.at(now);
                self.with_reading(&owner, now, |cell, _| {
                    let found = |rows: Vec<Value>| {
                        rows.first().map(|row| AddressHolder { port: SeenPort::read(row), in_use: false })
                    };
                    rows.map(|rows| cell.actor.found_holder(found(rows), at)).is_some()
                });
            }
            // One read that finds nothing is no proof: some gateway may not know the way, and the port is not ours.
            ReadFor::HolderBalancer { owner, port } if rows.as_ref().is_some_and(Vec::is_empty) => {
                let query = vec![("vip_port_id", port.id.clone())];
                let read = list(ApiService::Octavia, "loadbalancer", "loadbalancers", query);
                let what = ReadFor::HolderBalancers { owner, port };
                self.reads.push_back(PlannedRead { what, project: project.clone(), read });
            }
            ReadFor::HolderBalancer { owner, port } | ReadFor::HolderBalancers { owner, port } => {
                let at = shared.at(now);
                self.with_reading(&owner, now, |cell, _| {
                    // What cannot be known counts as in use.
                    let in_use = rows.is_none_or(|rows| !rows.is_empty());
                    cell.actor.found_holder(Some(AddressHolder { port: *port, in_use }), at);
                    true
                });
            }
            ReadFor::Track(TrackRead::Pending) => {
                let tag = self.cluster_tag();
                let more = self.tracker.listed(project, rows.as_deref(), (&tag, self.cells.len()), now);
                self.plan_tracking(more);
            }
            ReadFor::Track(TrackRead::All) => {
                let Some(rows) = rows else { return self.tracker.list_failed(project, now) };
                let (found, more) = self.tracker.listed_all(project, &rows);
                found.into_iter().for_each(|(id, row)| self.tracked(&id, Some(row), project, shared, now));
                self.plan_tracking(more);
            }
            ReadFor::Track(TrackRead::One(balancer)) => match rows {
                Some(rows) => self.tracked(&balancer, rows.first(), project, shared, now),
                None => self.tracker.read_failed(&balancer, now),
            },
            ReadFor::Poll(part) => self.polled(part, project, rows, shared, now),
            ReadFor::Adoption { balancer, number, part } => {
                self.adoption_read(&balancer, (number, &part), project, rows, shared, now);
            }
        }
    }

    /// Plans a read of a look that failed once more, if it is worth that. Returns it otherwise.
    fn repeat(&mut self, planned: PlannedRead) -> Option<PlannedRead> {
        if let ReadFor::Look { owner, number, part } = &planned.what
            && *part != LookPart::Secrets
            && let Some(CellState::Looking(look)) = self.cells.get_mut(owner).map(|cell| &mut cell.state)
            && look.number == *number
            && look.repeats(&planned.project)
        {
            self.reads.push_back(planned);
            return None;
        }
        Some(planned)
    }

    /// Ends a read of an owner. `take` returns whether there was anything to take.
    fn with_reading(&mut self, owner: &Text, now: Instant, take: impl FnOnce(&mut crate::cell::Cell, Instant) -> bool) {
        let Some(mut cell) = self.cells.remove(owner) else { return };
        if matches!(cell.state, CellState::Reading) {
            if take(&mut cell, now) {
                cell.failed_looks = 0;
                cell.state = CellState::Ready;
                self.ready.push_back(owner.clone());
            } else {
                self.look_failed(owner, &mut cell, now);
            }
        }
        self.cells.insert(owner.clone(), cell);
    }

    pub(crate) fn look_failed(&mut self, owner: &Text, cell: &mut crate::cell::Cell, now: Instant) {
        let pause = pause_after(cell.failed_looks);
        cell.failed_looks += 1;
        cell.state = CellState::Resting;
        self.set_timer(owner, cell, Some(now + pause));
    }

    fn look_read(
        &mut self,
        owner: &Text,
        (number, part): (u64, &LookPart),
        project: &Text,
        rows: Option<Vec<Value>>,
        shared: &mut RegistryCore,
        now: Instant,
    ) {
        let Some(mut cell) = self.cells.remove(owner) else { return };
        let mut more = Vec::new();
        if let CellState::Looking(look) = &mut cell.state
            && look.number == number
        {
            look.answered();
            match rows {
                Some(rows) => more = look.rows(part, project, rows),
                None if *part == LookPart::Secrets => more = look.secrets_unread(project),
                None => more = look.read_failed(project),
            }
            more = look.plan(more);
            if look.is_over()
                && let CellState::Looking(mut look) = std::mem::replace(&mut cell.state, CellState::Ready)
            {
                let (life, from) = (look.life, look.from);
                cell.unread.clone_from(look.unread());
                for (group, owners) in look.take_groups() {
                    self.group_found(&group, &owners);
                }
                match look.end() {
                    Some((seen, rows)) => {
                        let tag = self.cluster_tag();
                        let projects = &self.settings.projects;
                        cell.print = print_of(&rows, &tag, projects);
                        let floating = rows.floating.iter().flatten();
                        cell.floating_print = floating_print(floating, projects);
                        let floating = match cell.wanted() {
                            DesiredEntry::LoadBalancer(wanted) => wanted.header.floating.as_deref(),
                            DesiredEntry::Deleting { .. } => None,
                        };
                        let strangers = strangers_print(&seen, &self.mark(owner).owner_tag(), floating);
                        let known = cell.strangers.map(|(_, print)| print);
                        if strangers.is_some() && cell.looked_at.is_some() && strangers != known {
                            shared.sums.drift_added += 1;
                        }
                        // Until there is something to be done about it, there may be several looks.
                        cell.is_missing = cell.is_suspect && (cell.is_missing || is_missing(cell.actor.seen(), &seen));
                        // Another writer may have been at work in another life of the stream.
                        let is_certain = std::mem::take(&mut cell.is_certain) && cell.confirmed == life;
                        if is_certain && cell.unread.is_empty() && !cell.is_deleting() {
                            cell.note_missing(&seen, &self.mark(owner).owner_tag());
                        }
                        cell.strangers = strangers
                            .map(|print| cell.strangers.filter(|(_, same)| *same == print).unwrap_or((now, print)));
                        if !seen.balancers.iter().any(|one| one.provisioning.is_pending()) {
                            // What begins from now on is somebody else's.
                            cell.sent_at = None;
                        }
                        cell.confirmed = life;
                        (cell.looked_at, cell.looked_from) = (Some(now), from);
                        // No owner is gone as long as it may have something there.
                        if cell.unread.is_empty() || !cell.is_deleting() {
                            cell.failed_looks = 0;
                        }
                        self.looked(owner, &mut cell, seen, shared, now);
                        cell.see_health(&rows, from.unwrap_or(now));
                        cell.search_ports();
                        if std::mem::take(&mut cell.is_outdated) {
                            cell.actor.look_again();
                        }
                        self.ready.push_back(owner.clone());
                    }
                    None => {
                        cell.journal.note(shared.at(now), Deed::LookFailed);
                        cell.actor.look_again();
                        self.look_failed(owner, &mut cell, now);
                    }
                }
            }
        }
        self.cells.insert(owner.clone(), cell);
        self.plan_look(owner, number, more);
    }

    fn looked(
        &mut self,
        owner: &Text,
        cell: &mut crate::cell::Cell,
        seen: Seen,
        shared: &mut RegistryCore,
        now: Instant,
    ) {
        cell.journal.note(shared.at(now), Deed::Looked);
        let (balancers, ports) =
            (seen.balancers.iter().map(|one| &one.project), seen.ports.iter().map(|one| &one.project));
        let others = seen.floating.iter().map(|one| &one.project).chain(seen.secrets.iter().map(|one| &one.project));
        let mut projects = balancers.chain(ports).chain(others);
        let found = projects.find(|project| !project.is_empty());
        if cell.is_deleting()
            && let Some(project) = found
        {
            cell.project = project.as_str().into();
        }
        cell.places.has(&seen);
        cell.keep_those_there(&seen);
        if let Some(missing) = cell.actor.looked(seen, shared.at(now)) {
            self.learn(missing, cell, shared, now);
        }
        cell.gives_up_places();
        self.count_members(owner, cell, Fall::Forgiven, now);
        self.told.insert(owner.clone());
    }

    fn learn(&mut self, missing: MissingAbility, cell: &crate::cell::Cell, shared: &mut RegistryCore, now: Instant) {
        let names_none =
            matches!(cell.wanted(), DesiredEntry::LoadBalancer(wanted) if wanted.header.placement.provider.is_none());
        if names_none && !missing.provider.is_empty() {
            self.learned.add(MissingAbility { provider: String::new(), ..missing }, now);
        }
        self.learned.add(missing, now);
        if self.relearn() {
            shared.events.push(RegistryEvent::FactsChanged { cluster: self.settings.name.clone() });
        }
    }

    /// Tells the guard how many members an owner has now.
    fn count_members(&mut self, owner: &Text, cell: &mut crate::cell::Cell, fall: Fall, now: Instant) {
        let (before, after) = (cell.members, cell.seen_members());
        cell.members = after;
        removals::observe(&mut self.members, &GuardedOwner(owner.clone()), before, after, fall, now);
        self.count_surplus(cell, owner, now);
    }

    fn tracked(
        &mut self,
        balancer: &str,
        row: Option<&Value>,
        project: &Text,
        shared: &mut RegistryCore,
        now: Instant,
    ) {
        let Some(owner) = self.tracker.read(balancer, row, &mut shared.times, now) else { return };
        let Some(cell) = self.cells.get_mut(&owner) else { return };
        cell.actor.tracked(balancer, row);
        cell.settled = row.map(row_print);
        let deed = if row.is_some() { Deed::Settled } else { Deed::Vanished };
        cell.journal.note(shared.at(now), deed);
        if row.is_none() {
            if is_to_have_one(cell, project) {
                // Who had one has its place first: whoever waits for a quota, or tries by himself, would leave him without.
                cell.frees = &WITH_A_BALANCER;
            } else {
                cell.frees = &[];
                shared.may_have_room(project, &WITH_A_BALANCER);
            }
        }
        self.wake(&owner);
    }

    /// Plans the tracker's reads: they come before any other.
    pub(crate) fn plan_tracking(&mut self, reads: Vec<(TrackRead, Text, crate::call::CloudRead)>) {
        for (what, project, read) in reads.into_iter().rev() {
            self.reads.push_front(PlannedRead { what: ReadFor::Track(what), project, read });
        }
    }

    /// Takes what came of a change, or that it was not sent, and if it could not be, why.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn was_changed(
        &mut self,
        id: CallId,
        (owner, project): (&Text, &Text),
        change: &CloudChange,
        outcome: Result<ChangeOutcome, Option<Text>>,
        shared: &mut RegistryCore,
        now: Instant,
    ) {
        let line = Line::of(change, project);
        if let Ok(ChangeOutcome::Refused(ServiceRefusal::Quota(words))) = &outcome {
            shared.pace.filled(project, change, words, now);
        }
        if let Ok(outcome) = &outcome {
            let name = (self.settings.name.clone(), owner.clone());
            let found = shared.pace.tried(project, &name, change, outcome);
            shared.may_have_room(project, &found);
            if line.lane() == crate::CallLane::Neutron && matches!(outcome, ChangeOutcome::Accepted(_)) {
                shared.may_have_room(project, freed_by(change));
            }
        }
        let Some(mut cell) = self.cells.remove(owner) else { return };
        if matches!(cell.state, CellState::Sending(sending) if sending == id) {
            let at = shared.at(now);
            cell.state = CellState::Ready;
            if !matches!(outcome, Ok(ChangeOutcome::Accepted(_) | ChangeOutcome::Unknown(_))) {
                cell.sent_at = None;
            }
            match outcome {
                Err(None) => cell.journal.change(at, Deed::NotSent, change),
                Err(Some(words)) => {
                    cell.journal.change(at, Deed::NotSent, change);
                    cell.last_error = Some(words);
                    cell.state = CellState::Resting;
                    let pause = pause_after(cell.unsent);
                    cell.unsent += 1;
                    self.set_timer(owner, &mut cell, Some(now + pause));
                    self.told.insert(owner.clone());
                }
                Ok(outcome) => {
                    cell.unsent = 0;
                    let deed = match &outcome {
                        ChangeOutcome::Accepted(_) => Deed::Accepted,
                        ChangeOutcome::Refused(_) => Deed::Refused,
                        ChangeOutcome::Unknown(_) => Deed::Unknown,
                    };
                    cell.journal.change(at, deed, change);
                    cell.changed_at = Some(now);
                    let words = match &outcome {
                        ChangeOutcome::Refused(refusal) => words_of(refusal, change),
                        ChangeOutcome::Unknown(words) => (!words.is_empty()).then(|| words.as_str().into()),
                        ChangeOutcome::Accepted(_) => None,
                    };
                    cell.last_error = words.or_else(|| cell.last_error.take());
                    // What was refused has made no room, and what one has freed stays his until he needs no more of it.
                    let freed = freed_by(change);
                    if line == Line::Octavia && !freed.is_empty() && may_have_been_done(&outcome) {
                        cell.frees = freed;
                    }
                    if let Some(missing) = cell.actor.answered(change, outcome, at) {
                        self.learn(missing, &cell, shared, now);
                    }
                    cell.gives_up_places();
                    let by_us = matches!(change, CloudChange::SetMembers { .. } | CloudChange::DeleteMember { .. });
                    let fall = if by_us && !cell.is_deleting() { Fall::Lost } else { Fall::Forgiven };
                    self.count_members(owner, &mut cell, fall, now);
                }
            }
            self.ready.push_back(owner.clone());
        }
        let is_dropped = cell.is_dropped;
        self.cells.insert(owner.clone(), cell);
        if is_dropped {
            self.drop_cell(owner, now);
        }
    }
}

/// Returns the pause after a failure that follows as many others.
fn pause_after(others: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << others.min(10)).min(LONGEST_PAUSE)
}

/// Whether something that was seen before is gone.
fn is_missing(before: &Seen, now: &Seen) -> bool {
    let ids = |seen: &Seen| -> BTreeSet<String> {
        let mut ids = BTreeSet::new();
        ids.extend(seen.floating.iter().map(|one| one.id.clone()));
        ids.extend(seen.secrets.iter().map(|one| one.id.clone()));
        for balancer in &seen.balancers {
            ids.insert(balancer.id.clone());
            for listener in &balancer.listeners {
                ids.insert(listener.id.clone());
                for policy in &listener.policies {
                    ids.insert(policy.id.clone());
                    ids.extend(policy.rules.iter().map(|one| one.id.clone()));
                }
            }
            for pool in &balancer.pools {
                ids.insert(pool.id.clone());
                ids.extend(pool.monitor.iter().map(|one| one.id.clone()));
                // A batch answers without IDs.
                ids.extend(pool.members.iter().map(|one| format!("{}/{}/{}", pool.id, one.address, one.port)));
            }
        }
        ids
    };
    !ids(before).is_subset(&ids(now))
}

fn words_of(refusal: &ServiceRefusal, change: &CloudChange) -> Option<Text> {
    Some(match refusal {
        ServiceRefusal::Quota(words)
        | ServiceRefusal::Exhausted(words)
        | ServiceRefusal::Unreachable(words)
        | ServiceRefusal::Forbidden(words)
        | ServiceRefusal::Invalid(words)
        | ServiceRefusal::Unsupported(words) => words.as_str().into(),
        ServiceRefusal::Duplicate => "such an object exists already".into(),
        ServiceRefusal::InUse => "another object uses it".into(),
        ServiceRefusal::ProviderFailed => "the provider failed".into(),
        // What is made needs something that is not there, or is in the way of something.
        ServiceRefusal::Changed(words) | ServiceRefusal::NotFound(words)
            if change.request().verb == ApiVerb::Create && !words.is_empty() =>
        {
            words.as_str().into()
        }
        // These pass by themselves.
        ServiceRefusal::Pending
        | ServiceRefusal::Changed(_)
        | ServiceRefusal::NotFound(_)
        | ServiceRefusal::Busy(_)
        | ServiceRefusal::ProjectBusy(_) => return None,
    })
}

/// Whether a change may have been carried out, or finds nothing to do.
fn may_have_been_done(outcome: &ChangeOutcome) -> bool {
    match outcome {
        ChangeOutcome::Accepted(_) | ChangeOutcome::Unknown(_) => true,
        ChangeOutcome::Refused(refusal) => {
            matches!(refusal, ServiceRefusal::ProviderFailed | ServiceRefusal::NotFound(_))
        }
    }
}

/// Whether an owner without a load balancer is to have one in this project.
fn is_to_have_one(cell: &Cell, project: &Text) -> bool {
    let is_wanted =
        matches!(cell.wanted(), DesiredEntry::LoadBalancer(wanted) if wanted.header.placement.project == *project);
    is_wanted && !cell.actor.has_balancer()
}
