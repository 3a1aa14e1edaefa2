//! How an owner looks at what it has.

use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

use gimbal_kuryr_model::{DesiredEntry, Text};
use gimbal_octavia_plan::{ApiService, CloudLook};
use gimbal_schedule::Urgency;

use crate::advance::waits_for_lists;
use crate::cell::{Cell, CellState};
use crate::cluster::{ManagedCluster, PlannedRead};
use crate::owner_look::{OwnerLook, OwnerRows, list, one};
use crate::pace::{CloudPace, Line};
use crate::shared::{ReadFor, RegistryCore};

/// The most of a project that wait to be made while others look whether they have something.
const MOST_NEWCOMERS: usize = 16;

impl ManagedCluster {
    /// Begins what an actor wants to see.
    pub(crate) fn read(&mut self, owner: &Text, cell: &mut Cell, look: CloudLook, now: Instant) {
        let project = cell.actor.project_of_look(&look).map_or_else(|| cell.project.clone(), Text::from);
        let (what, read) = match look {
            CloudLook::Owner => {
                // Looks begin in turns: who has many of them waits for himself.
                if is_newcomer(owner, cell) {
                    self.works(owner, cell, now);
                    self.rest(owner, cell, CellState::Resting, None, now);
                    self.newcomers.push(&cell.project, &cell.key.namespace, owner);
                } else {
                    let line = self.lines.entry(Line::Looks).or_default();
                    line.push(owner, &cell.key.namespace, Urgency::Fresh);
                }
                cell.state = CellState::InLine(Line::Looks);
                return;
            }
            CloudLook::Members { pool } => {
                let read = list(ApiService::Octavia, "member", &format!("pools/{pool}/members"), Vec::new());
                (ReadFor::Members { owner: owner.clone(), pool }, read)
            }
            CloudLook::FloatingIp { address, network } => {
                let mut query = vec![("floating_ip_address", address)];
                query.extend(network.map(|network| ("floating_network_id", network)));
                let read = list(ApiService::Neutron, "floatingip", "floatingips", query);
                (ReadFor::FloatingIp { owner: owner.clone() }, read)
            }
            CloudLook::Balancer { id } => {
                let read = one(ApiService::Octavia, "loadbalancer", format!("loadbalancers/{id}"));
                (ReadFor::AskedBalancer { owner: owner.clone(), id, is_list: false }, read)
            }
            CloudLook::AddressHolder { subnet, address } => {
                let query =
                    vec![("fixed_ips", format!("ip_address={address}")), ("fixed_ips", format!("subnet_id={subnet}"))];
                let read = list(ApiService::Neutron, "port", "ports", query);
                (ReadFor::Holder { owner: owner.clone() }, read)
            }
        };
        cell.state = CellState::Reading;
        self.reads.push_back(PlannedRead { what, project, read });
    }

    /// Begins the next look that waits for its turn. Returns whether there was one.
    pub(crate) fn next_look(&mut self, shared: &RegistryCore, now: Instant) -> bool {
        while let Some(owner) = self.next_looker(shared, now) {
            let Some(mut cell) = self.cells.remove(&owner) else { continue };
            let is_next = matches!(cell.state, CellState::InLine(Line::Looks));
            if is_next {
                self.look(&owner, &mut cell, None, now);
            }
            self.cells.insert(owner, cell);
            if is_next {
                return true;
            }
        }
        false
    }

    fn next_looker(&mut self, shared: &RegistryCore, now: Instant) -> Option<Text> {
        self.newcomers.are_next = !self.newcomers.are_next;
        let newcomer = if self.newcomers.are_next { self.next_newcomer(shared, now) } else { None };
        let other = || self.lines.get_mut(&Line::Looks).and_then(|line| line.pop(now));
        newcomer.or_else(other).or_else(|| self.next_newcomer(shared, now))
    }

    /// Returns the next one that has nothing yet, unless enough of its project wait to be made. What they have seen would grow old in
    /// that line, and their reads and ports would take the time of OpenStack that creations need. A namespace of which nothing waits
    /// there has room: the others do not stand before it.
    fn next_newcomer(&mut self, shared: &RegistryCore, now: Instant) -> Option<Text> {
        // Where nothing is made, no one waits for long.
        let is_made = self.may_change(shared, now);
        let Self { lines, newcomers, .. } = self;
        newcomers.waiting.iter_mut().find_map(|(project, waiting)| {
            let ahead = [Line::VipPort(project.clone()), Line::Creation(project.clone())];
            let ahead: Vec<_> = ahead.iter().filter_map(|line| lines.get(line)).collect();
            let is_open = !is_made || ahead.iter().map(|line| line.len()).sum::<usize>() < MOST_NEWCOMERS;
            waiting.pop(|namespace| is_open || !ahead.iter().any(|line| line.has_line(namespace)))
        })
    }

    /// Begins a look at everything that an owner has; `from` is when the first of its reads began.
    pub(crate) fn look(&mut self, owner: &Text, cell: &mut Cell, known: Option<OwnerRows>, from: Instant) {
        self.set_timer(owner, cell, None);
        let mut projects = self.settings.projects.clone();
        if !projects.contains(&cell.project) && !cell.project.is_empty() {
            projects.insert(0, cell.project.clone());
        }
        projects.extend(self.left.of(owner).filter(|project| **project != cell.project).cloned());
        // Lists show nothing of other projects, nor of those that cannot be read.
        let is_listed = projects.len() == self.settings.projects.len() && !self.poller.is_failing();
        let known = known.filter(|_| is_listed);
        if known.as_ref().is_none_or(|rows| rows.ports.is_none()) {
            cell.lists_ports = false;
        }
        let (mut look, mut reads) = OwnerLook::begin(&self.mark(owner), &projects, known, self.life);
        (look.number, look.from) = (self.next_number(), Some(from));
        let listed = projects.clone();
        look.spare(self.spared(cell, projects));
        if self.may_have_secrets(cell) {
            let is_wanted = !cell.is_orphan && !cell.is_deleting();
            let needed = is_wanted.then(|| cell.project.clone()).filter(|project| !project.is_empty());
            reads.extend(look.add_secrets(self.mark(owner), &listed, needed));
        }
        if cell.is_orphan || cell.is_deleting() {
            reads.extend(look.add(self.strays.get(owner).map(Vec::as_slice).unwrap_or_default()));
        }
        let reads = look.plan(reads);
        self.plan_look(owner, look.number, reads);
        cell.is_outdated = false;
        cell.state = CellState::Looking(Box::new(look));
    }

    /// Returns the projects that a look needs not read: those that the policy does not allow any more, and those that cannot be
    /// read for some time. Where the owner's load balancer is made, everything is to be known before.
    fn spared(&self, cell: &Cell, mut projects: Vec<Text>) -> BTreeSet<Text> {
        let own = match cell.wanted() {
            DesiredEntry::LoadBalancer(wanted) => Some(&wanted.header.placement.project),
            DesiredEntry::Deleting { .. } => None,
        };
        let own = own.map(|own| if own.is_empty() { &cell.project } else { own });
        let may_fail = |one: &Text| !self.settings.projects.contains(one) || self.unreadable.lasts(one);
        projects.retain(|one| Some(one) != own && may_fail(one));
        projects.into_iter().collect()
    }

    /// Returns the number of a look that begins.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.looks += 1;
        self.looks
    }

    pub(crate) fn plan_look(&mut self, owner: &Text, number: u64, reads: Vec<crate::owner_look::LookRead>) {
        let planned = reads.into_iter().map(|(part, project, read)| {
            let what = ReadFor::Look { owner: owner.clone(), number, part };
            PlannedRead { what, project, read }
        });
        self.reads.extend(planned);
    }
}

/// Takes the first of these reads whose service does not ask for a pause: those of the others need not wait for it.
pub(crate) fn take_readable(reads: &mut VecDeque<PlannedRead>, pace: &CloudPace, now: Instant) -> Option<PlannedRead> {
    let at = reads.iter().position(|planned| pace.may_read(planned.read.service, now))?;
    reads.remove(at)
}

/// Whether an owner has nothing, as far as is known, and would have something made.
pub(crate) fn is_newcomer(owner: &str, cell: &Cell) -> bool {
    cell.looked_at.is_none() && !waits_for_lists(owner, cell)
}
