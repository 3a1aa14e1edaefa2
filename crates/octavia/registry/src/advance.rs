//! What an owner does next.

use std::time::Instant;

use gimbal_kuryr_model::{DesiredEntry, Text};
use gimbal_octavia_plan::{ApiService, BalancerStep, Block, CloudChange, Wait, is_group};
use gimbal_schedule::Urgency;

use crate::call::{CallToMake, CloudCall};
use crate::cell::{Cell, CellState};
use crate::cluster::{ManagedCluster, NameCheck};
use crate::event::RegistryEvent;
use crate::journal::Deed;
use crate::pace::Line;
use crate::places::Places;
use crate::removals::{self, GuardedOwner};
use crate::shared::{CallFor, RegistryCore};
use crate::turns::cost;

/// After this many other changes of what Octavia has, a creation comes first.
const CHANGES_PER_CREATION: u32 = 4;
/// After this many changes of other services, one of what Octavia has comes first: members must not wait for a crowd of floating IPs.
const CHANGES_BEFORE_OCTAVIA: u32 = 4;
/// After this time a report says that the work goes on.
pub(crate) const SLOW: std::time::Duration = std::time::Duration::from_secs(5);
/// What lists have to confirm waits for them at most for this long after a stream began, if its wish has changed: then it looks by itself.
const LISTS_AWAITED: std::time::Duration = std::time::Duration::from_secs(30);
/// For this long after a stream began, something may appear that another writer has asked for before it was killed.
const LATE: std::time::Duration = std::time::Duration::from_secs(10);

impl ManagedCluster {
    /// Asks those who are ready for the next step, until that has cost so much. Returns what it has cost.
    pub(crate) fn advance(&mut self, most: u32, shared: &mut RegistryCore, now: Instant) -> u32 {
        // Whoever is ready does not wait for thousands that are compared, nor they for those.
        let mut spent = self.compare(most.div_ceil(2), shared, now);
        self.regroup_stirred(shared, now);
        while spent < most {
            let Some(owner) = self.ready.pop_front() else { break };
            let Some(mut cell) = self.cells.remove(&owner) else { continue };
            spent = spent.saturating_add(cost(&cell));
            shared.sums.decisions += 1;
            if matches!(cell.state, CellState::Ready)
                && let Some((change, line)) = self.decide(&owner, &mut cell, None, shared, now)
            {
                drop(change);
                let urgency = if cell.is_orphan { Urgency::Bulk } else { Urgency::Fresh };
                self.get_in_line(&owner, &mut cell, line, urgency);
            }
            self.put_back(&owner, cell, now);
            self.regroup_stirred(shared, now);
        }
        if spent < most {
            spent = spent.saturating_add(self.compare(most - spent, shared, now));
            self.regroup_stirred(shared, now);
        }
        spent
    }

    fn put_back(&mut self, owner: &Text, cell: Box<Cell>, now: Instant) {
        let leaves = matches!(cell.state, CellState::Gone) && (cell.is_former || cell.is_orphan);
        self.cells.insert(owner.clone(), cell);
        if leaves {
            self.drop_cell(owner, now);
        }
    }

    /// Returns the next change that may be sent now.
    pub(crate) fn next_change(&mut self, shared: &mut RegistryCore, now: Instant) -> Option<CallToMake> {
        if !self.may_change(shared, now) || self.bucket.as_mut().is_some_and(|bucket| bucket.rests_until(now).is_some())
        {
            return None;
        }
        if let Some(call) = self.next_adoption_change(shared, now) {
            return Some(call);
        }
        let of_kind = |is_it: fn(&Line) -> bool| self.lines.keys().filter(move |line| is_it(line)).cloned();
        let mut lines = vec![Line::KeyManager, Line::Neutron];
        lines.extend(of_kind(|line| matches!(line, Line::VipPort(_))));
        let at = if self.since_creation >= CHANGES_PER_CREATION { lines.len() } else { lines.len() + 1 };
        lines.push(Line::Octavia);
        let creations: Vec<Line> = of_kind(|line| matches!(line, Line::Creation(_))).collect();
        lines.splice(at..at, creations);
        if self.since_octavia >= CHANGES_BEFORE_OCTAVIA {
            lines.insert(0, Line::Octavia);
        }
        lines
            .into_iter()
            .filter(|line| shared.pace.may_change(line, now))
            .collect::<Vec<_>>()
            .into_iter()
            .find_map(|line| self.next_of(&line, shared, now))
    }

    /// Whether changes may be made for it at all.
    pub(crate) fn may_change(&self, shared: &RegistryCore, now: Instant) -> bool {
        let settings = &shared.settings;
        !settings.dry_run
            && !self.settings.quarantine
            && self.name_check == NameCheck::Ours
            && self.is_current
            && self.is_live(settings.heartbeat_age, now)
    }

    fn next_of(&mut self, line: &Line, shared: &mut RegistryCore, now: Instant) -> Option<CallToMake> {
        loop {
            let owner = self.next_in_line(line, now)?;
            let Some(mut cell) = self.cells.remove(&owner) else { continue };
            let mut call = None;
            if matches!(&cell.state, CellState::InLine(at) if at == line || cell.waits_beside(line)) {
                // The newest wish counts, not that of when it got in line.
                cell.state = CellState::Ready;
                match self.decide(&owner, &mut cell, Some(line), shared, now) {
                    Some((change, now_in)) if now_in == *line => {
                        call = Some(self.send(&owner, &mut cell, change, now_in, shared, now));
                    }
                    Some((_, other)) => self.get_in_line(&owner, &mut cell, other, Urgency::Fresh),
                    None => self.keep_turn(&owner, &cell, line),
                }
            }
            self.put_back(&owner, cell, now);
            if call.is_some() {
                return call;
            }
        }
    }

    fn send(
        &mut self,
        owner: &Text,
        cell: &mut Cell,
        change: CloudChange,
        line: Line,
        shared: &mut RegistryCore,
        now: Instant,
    ) -> CallToMake {
        match line {
            Line::Creation(_) => self.since_creation = 0,
            Line::Octavia => {
                self.since_creation += 1;
                self.since_octavia = 0;
            }
            Line::Neutron | Line::VipPort(_) | Line::KeyManager | Line::Looks => self.since_octavia += 1,
        }
        if let Some(bucket) = &mut self.bucket {
            bucket.take(now);
        }
        shared.pace.change_begins(&line);
        shared.sums.changes += 1;
        if std::mem::take(&mut cell.is_suspect) {
            shared.sums.drift += 1;
            shared.sums.drift_missing += u64::from(std::mem::take(&mut cell.is_missing));
        }
        cell.journal.change(shared.at(now), Deed::Sent, &change);
        cell.places.asks_for(&change);
        if matches!(change, CloudChange::CreateBalancer { .. }) {
            cell.asks_for_balancer();
        }
        cell.changing_since.get_or_insert(now);
        if change.request().service == ApiService::Octavia {
            // The time is that of one change.
            self.track_pending(owner, cell, shared, now);
            (cell.sent_at, cell.settled, cell.proven) = (Some(now), None, 0);
        }
        let lane = line.lane();
        let project = cell.project.clone();
        let what = CallFor::Change { owner: owner.clone(), line, change: change.clone(), project: project.clone() };
        let name = self.settings.name.clone();
        let id = shared.begin(&name, self.number, what, now);
        cell.state = CellState::Sending(id);
        let not_after = self.live_until(shared.settings.heartbeat_age);
        CallToMake { id, cluster: name, project, lane, what: CloudCall::Change(change), not_after }
    }

    /// Decides what an owner does next, and lets it begin. A change is returned instead, with the line that it belongs in. `turn` is
    /// the line in which it is the owner's turn.
    fn decide(
        &mut self,
        owner: &Text,
        cell: &mut Cell,
        turn: Option<&Line>,
        shared: &mut RegistryCore,
        now: Instant,
    ) -> Option<(CloudChange, Line)> {
        self.set_timer(owner, cell, None);
        if let Some(until) = self.is_behind(owner, cell, now) {
            cell.working_since.get_or_insert(now);
            cell.state = CellState::Behind;
            self.set_timer(owner, cell, Some(until));
            return None;
        }
        if cell.confirmed != self.life {
            if waits_for_lists(owner, cell) && !self.poller.has_listed(self.life) {
                // What is wanted of it has changed, and one slow list must not hold that up.
                let is_late = cell.looked_at.is_some() && cell.wanted_at.is_some();
                let until = self.alive_since.filter(|_| is_late).map(|since| since + LISTS_AWAITED);
                if until.is_none_or(|until| now < until) {
                    cell.state = CellState::Unlisted;
                    self.set_timer(owner, cell, until);
                    return None;
                }
            }
            cell.actor.look_again();
        }
        self.ask_for_contents(owner, cell, shared, now);
        let may_change = self.refresh_shared(owner, cell);
        let is_proven = self.is_proven(owner, cell);
        if may_change && is_proven && self.is_held(owner, cell, shared, now) {
            return None;
        }
        self.stays_for_now(owner, cell, shared, now);
        self.learned.tell(&mut cell.actor, shared);
        let mut step = cell.actor.step(&self.facts, shared.at(now));
        if !is_proven && !matches!(step, BalancerStep::Look(_) | BalancerStep::Wait(_)) {
            self.rest(owner, cell, CellState::Unproven, None, now);
            return None;
        }
        if let Some(until) = self.is_early(cell, &step) {
            self.works(owner, cell, now);
            cell.actor.look_again();
            if now < until {
                self.rest(owner, cell, CellState::Resting, Some(until), now);
                return None;
            }
            step = cell.actor.step(&self.facts, shared.at(now));
        }
        if cell.note_health(now) {
            self.told.insert(owner.clone());
        }
        self.let_owners_go(owner, cell, &step);
        if !may_change && !matches!(step, BalancerStep::Look(_) | BalancerStep::Wait(_) | BalancerStep::Gone) {
            // Some of its owners have not been heard yet.
            self.groups.stir(owner);
            let later = Some(now + shared.settings.drift_interval);
            self.rest(owner, cell, CellState::Grouped, later, now);
            return None;
        }
        let step = self.within_quotas(owner, cell, step, shared, now);
        let step = self.meanwhile(owner, cell, step, turn, shared, now);
        self.note_replacement(owner, cell, &step, now);
        // Before a change, too: where one comes after the other, no owner would hear of routes that are there or gone.
        if !matches!(step, BalancerStep::Look(_) | BalancerStep::Wait(Wait::Pending { .. }) | BalancerStep::Gone) {
            self.note_routes(owner, cell, shared.at(now));
        }
        if matches!(step, BalancerStep::Done | BalancerStep::Blocked(_) | BalancerStep::Gone) {
            // What its own does not need is for others.
            shared.may_have_room(&cell.project, std::mem::take(&mut cell.frees));
        }
        // While another change waits for its turn, members follow: the end of each change is heard of all the same.
        let waits = match &step {
            BalancerStep::Wait(_) | BalancerStep::Blocked(_) => true,
            BalancerStep::Change(change) => !Line::of(change, &cell.project).stops_members(),
            _ => false,
        };
        if waits {
            self.track_pending(owner, cell, shared, now);
        }
        match step {
            BalancerStep::Look(look) => self.read(owner, cell, look, now),
            BalancerStep::Change(change) => return Some(self.change(owner, cell, change, now)),
            BalancerStep::Wait(Wait::Until(at)) => {
                self.works(owner, cell, now);
                let at = shared.instant(at);
                self.rest(owner, cell, CellState::Resting, Some(at), now);
            }
            BalancerStep::Wait(Wait::Pending { .. }) => {
                self.works(owner, cell, now);
                // One that is stuck is not in the way of what else there is to be tried again.
                let at = cell.actor.retry_at(shared.at(now)).map(|at| shared.instant(at));
                self.rest(owner, cell, CellState::Pending, at, now);
            }
            BalancerStep::Done => {
                if cell.working_since.take().is_some() {
                    cell.journal.note(shared.at(now), Deed::Finished);
                }
                self.lets_go(owner, cell);
                (cell.is_suspect, cell.is_missing, cell.last_error, cell.unsent) = (false, false, None, 0);
                let changing = cell.changing_since.take().map(|since| now.saturating_duration_since(since));
                if let Some(wanted) = cell.wanted_at.take() {
                    let (cluster, took) = (self.settings.name.clone(), now.saturating_duration_since(wanted));
                    shared.events.push(RegistryEvent::Served { cluster, key: cell.key.clone(), took, changing });
                }
                self.told.insert(owner.clone());
                let at = cell.actor.retry_at(shared.at(now)).map(|at| shared.instant(at));
                self.rest(owner, cell, CellState::Done, at, now);
            }
            BalancerStep::Blocked(block) => {
                if matches!(block, Block::Quota(_)) {
                    self.wait_for_quota(owner, cell, shared, now);
                }
                self.told.insert(owner.clone());
                let at = cell.actor.retry_at(shared.at(now)).map(|at| shared.instant(at));
                self.rest(owner, cell, CellState::Blocked(block), at, now);
            }
            BalancerStep::Gone if !cell.unread.is_empty() => {
                self.works(owner, cell, now);
                cell.actor.look_again();
                self.look_failed(owner, cell, now);
            }
            BalancerStep::Gone if self.lets_go(owner, cell) => {
                self.works(owner, cell, now);
                self.rest(owner, cell, CellState::Grouped, None, now);
            }
            BalancerStep::Gone => {
                (cell.working_since, cell.unsent) = (None, 0);
                self.gone(owner, cell, shared, now);
            }
        }
        None
    }

    /// Returns from when on a look must have shown nothing before a step that is wrong if something is on its way: a creation
    /// that a killed writer has sent appears in no list before OpenStack has finished it.
    fn is_early(&self, cell: &Cell, step: &BalancerStep) -> Option<Instant> {
        use CloudChange::{CreateBalancer, CreateFloatingIp, CreatePort, DeletePort};
        let until = self.alive_since.filter(|_| cell.is_resumed)? + LATE;
        let is_wrong = match step {
            // It would be there twice.
            BalancerStep::Change(CreateBalancer { .. } | CreatePort { .. } | CreateFloatingIp { .. }) => true,
            // The load balancer that is made on the port would lose it.
            BalancerStep::Change(DeletePort { .. }) => cell.is_deleting(),
            // A listener that is on its way may refer to it.
            BalancerStep::Change(CloudChange::DeleteSecret { .. }) => true,
            // It would stand there without an owner.
            BalancerStep::Gone => true,
            _ => false,
        };
        (is_wrong && cell.looked_from.is_none_or(|at| at < until)).then_some(until)
    }

    /// Rests in a state, at most until `at`.
    pub(crate) fn rest(&mut self, owner: &Text, cell: &mut Cell, state: CellState, at: Option<Instant>, now: Instant) {
        cell.state = state;
        // A report is due once the work takes long.
        let slow = cell.working_since.map(|since| since + SLOW).filter(|slow| *slow > now);
        let first = at.into_iter().chain(slow).min();
        self.set_timer(owner, cell, first);
    }

    /// Takes note that there is something to do.
    pub(crate) fn works(&mut self, owner: &Text, cell: &mut Cell, now: Instant) {
        if cell.working_since.is_none() {
            cell.working_since = Some(now);
            self.told.insert(owner.clone());
        }
    }

    /// Whether the guard holds everything that could be done. Of members it holds only the removal.
    fn is_held(&mut self, owner: &Text, cell: &mut Cell, shared: &RegistryCore, now: Instant) -> bool {
        let key = GuardedOwner(owner.clone());
        let DesiredEntry::LoadBalancer(wanted) = cell.wanted().clone() else {
            let is_guarded = !cell.is_orphan && (self.settings.guards.explicit || cell.is_replaced);
            let may_go = !is_guarded || removals::may_go(&mut self.balancers, &key, now);
            if may_go {
                self.held.remove(owner);
                return false;
            }
            self.hold(owner, cell, shared, now);
            cell.state = CellState::Resting;
            return true;
        };
        if cell.looked_at.is_none() {
            return false;
        }
        let surplus = removals::surplus(&cell.actor, &wanted, &self.mark(owner).owner_tag());
        self.members.pending(&key, surplus.len() as u64, cell.members, now);
        if surplus.is_empty() || removals::may_go(&mut self.members, &key, now) {
            self.held.remove(owner);
            if let Some(wanted) = cell.held.take() {
                cell.actor.want(*wanted);
                self.told.insert(owner.clone());
            }
        } else {
            self.hold(owner, cell, shared, now);
            let partly = removals::with_members(&wanted, surplus);
            // A wish whose status was wiped makes an actor look each time that it is given one.
            if *cell.actor.desired() != partly {
                cell.actor.want(partly);
            }
            cell.held = Some(Box::new(DesiredEntry::LoadBalancer(wanted)));
        }
        false
    }

    fn hold(&mut self, owner: &Text, cell: &mut Cell, shared: &RegistryCore, now: Instant) {
        if self.held.insert(owner.clone()) {
            cell.journal.note(shared.at(now), Deed::Held);
        }
        self.told.insert(owner.clone());
    }

    /// Notes the project that a change is made in: that of its object. An owner may have something in several.
    pub(crate) fn in_project(&self, cell: &mut Cell, change: &CloudChange) {
        if let Some(project) = cell.actor.project_of(change).map(Text::from) {
            cell.project = project;
        }
    }

    fn change(&mut self, owner: &Text, cell: &mut Cell, change: CloudChange, now: Instant) -> (CloudChange, Line) {
        self.works(owner, cell, now);
        let line = Line::of(&change, &cell.project);
        self.rest(owner, cell, CellState::Ready, None, now);
        (change, line)
    }

    /// Lets every load balancer of an owner be looked at that Octavia works on, until it has finished.
    fn track_pending(&mut self, owner: &Text, cell: &mut Cell, shared: &RegistryCore, now: Instant) {
        let pending = cell.actor.seen().balancers.iter().filter(|one| one.provisioning.is_pending());
        let mut is_any = false;
        for one in pending {
            let project = if one.project.is_empty() { cell.project.clone() } else { one.project.as_str().into() };
            let what = (one.provider.as_str(), one.provisioning);
            self.tracker.track(&one.id, (owner, &project), what, cell.sent_at, &shared.times, now);
            is_any = true;
        }
        if is_any {
            cell.sent_at = None;
        }
    }

    fn gone(&mut self, owner: &Text, cell: &mut Cell, shared: &mut RegistryCore, now: Instant) {
        if self.counted.remove(owner) {
            let key = GuardedOwner(owner.clone());
            let is_implied = cell.is_orphan || cell.is_replaced;
            let fall = if is_implied { gimbal_guard::Fall::Lost } else { gimbal_guard::Fall::Forgiven };
            removals::observe(&mut self.balancers, &key, 1, 0, fall, now);
        } else if cell.is_orphan {
            // It had a part of a load balancer, or something in Neutron.
            self.balancers.pending(&GuardedOwner(owner.clone()), 0, 0, now);
        }
        if cell.is_orphan {
            shared
                .events
                .push(RegistryEvent::OrphanRemoved { cluster: self.settings.name.clone(), owner: owner.clone() });
        }
        let may_be_left = self.facts.certificates || !cell.actor.secrets().is_empty();
        if let Some(words) = cell.actor.secrets_left(shared.at(now)).filter(|_| may_be_left) {
            let cluster = self.settings.name.clone();
            shared.events.push(RegistryEvent::SecretsLeft { cluster, owner: owner.clone(), words: words.into() });
        }
        let changing = cell.changing_since.take().map(|since| now.saturating_duration_since(since));
        // Of a key that has another owner by now, that one's end is what counts.
        if self.keys.get(&cell.key).is_none_or(|holder| holder == owner) {
            let (cluster, key) = (self.settings.name.clone(), cell.key.clone());
            shared.events.push(RegistryEvent::Removed { cluster, key, changing });
        }
        cell.state = CellState::Gone;
        cell.places = Places::default();
        self.left_behind.nothing_left(owner);
        self.told.insert(owner.clone());
    }
}

/// Whether an owner waits for the lists of what there is, before it looks for the first time: something of it may be there.
pub(crate) fn waits_for_lists(owner: &str, cell: &Cell) -> bool {
    let is_new = matches!(cell.wanted(), DesiredEntry::LoadBalancer(wanted) if !wanted.header.known);
    !is_new || is_group(owner)
}
