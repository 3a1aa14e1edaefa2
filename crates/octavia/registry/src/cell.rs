//! One owner.

use std::collections::BTreeSet;
use std::time::Instant;

use gimbal_kuryr_model::{DesiredEntry, DesiredKey, DesiredMembers, ReportedMissing, ReportedRoutes, Text};
use gimbal_octavia_plan::{Actor, Block};

use crate::call::CallId;
use crate::health::BalancerHealth;
use crate::journal::Journal;
use crate::owner_look::OwnerLook;
use crate::pace::Line;
use crate::places::Places;

/// What an owner's actor is doing.
#[derive(Debug)]
pub(crate) enum CellState {
    /// It is asked for its next step.
    Ready,
    /// It looks at everything that it has.
    Looking(Box<OwnerLook>),
    /// It reads something.
    Reading,
    /// Its next change waits for its turn.
    InLine(Line),
    /// A change of it is under way.
    Sending(CallId),
    /// It does nothing until its timer goes off.
    Resting,
    /// Octavia works on its load balancer.
    Pending,
    /// It waits for the lists of everything that the cluster has.
    Unlisted,
    /// It waits until the former owner of its key is gone.
    Behind,
    /// It waits until a group has let its owner go.
    Grouped,
    /// It waits until the open stream says that this is still wanted.
    Unproven,
    /// Everything is as it is wanted.
    Done,
    /// Nothing can be done.
    Blocked(Block),
    /// Nothing of it is left.
    Gone,
}

/// One owner.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) key: DesiredKey,
    pub(crate) actor: Actor,
    /// What is wanted, if the guard lets the actor want only a part of it.
    pub(crate) held: Option<Box<DesiredEntry>>,
    /// Members of a router that there was no room for, until a first look shows which are there.
    pub(crate) waiting: Option<DesiredMembers>,
    pub(crate) state: CellState,
    /// The project that its reads and changes are made in.
    pub(crate) project: Text,
    pub(crate) timer: Option<Instant>,
    /// The life of the stream in which what was seen was last confirmed; 0: it has never looked.
    pub(crate) confirmed: u32,
    /// What lists should show if nothing changes.
    pub(crate) print: u64,
    pub(crate) floating_print: u64,
    /// When a look first saw the things without a mark that the last one saw, and a number for what they are.
    pub(crate) strangers: Option<(Instant, u64)>,
    /// Lists have shown something else than was expected, and nothing was made of it yet.
    pub(crate) is_suspect: bool,
    /// That look found something missing; else what differs was changed.
    pub(crate) is_missing: bool,
    /// What it has seen was all there when the look began that goes on, or somebody else has changed it.
    pub(crate) is_certain: bool,
    /// What somebody else has removed, the latest.
    pub(crate) missing: Option<Box<ReportedMissing>>,
    /// What was deleted, so that its quota may have room when Octavia has finished.
    pub(crate) frees: &'static [&'static str],
    pub(crate) looked_at: Option<Instant>,
    /// When that look began: what appeared since may be missing in it.
    pub(crate) looked_from: Option<Instant>,
    /// Somebody else has changed what it has since its look began, which may have missed that.
    pub(crate) is_outdated: bool,
    pub(crate) failed_looks: u32,
    /// Changes in a row that could not be sent.
    pub(crate) unsent: u32,
    /// Projects that the last look could not read.
    pub(crate) unread: BTreeSet<Text>,
    /// When its last change was answered. Lists that began before show less.
    pub(crate) changed_at: Option<Instant>,
    /// When lists showed last what the answers to its changes had shown, so that nothing was read.
    pub(crate) agreed_at: Option<Instant>,
    /// A number for the row of its load balancer when that had settled after its last change: any change below it moves the row.
    pub(crate) settled: Option<u64>,
    /// Pools whose members were read since then.
    pub(crate) proven: u16,
    /// Ports were taken from lists, which lack those with the mark that something else uses.
    pub(crate) lists_ports: bool,
    /// When it received what is wanted now, until that is so.
    pub(crate) wanted_at: Option<Instant>,
    /// When the first change was sent for what is wanted now, until that is so.
    pub(crate) changing_since: Option<Instant>,
    /// When it began to make what is wanted now.
    pub(crate) working_since: Option<Instant>,
    /// When its last change in Octavia was sent, until its end is waited for or nothing is under way.
    pub(crate) sent_at: Option<Instant>,
    /// Its places in the limits of the policy.
    pub(crate) places: Places,
    /// Members, as the guard knows them.
    pub(crate) members: u64,
    /// What the last report was.
    pub(crate) reported: Option<u64>,
    pub(crate) journal: Journal,
    pub(crate) last_error: Option<Text>,
    /// How far the routes of a router were when that was certain last.
    pub(crate) routes: Option<Box<ReportedRoutes>>,
    /// Whether its load balancer serves.
    pub(crate) health: BalancerHealth,
    /// The entry has left the stream, or its key has another owner: what is left to do is done without a report.
    pub(crate) is_former: bool,
    /// Its key has another owner, and no one has said that this one is being deleted: its removal passes the guard.
    pub(crate) is_replaced: bool,
    /// It is dropped as soon as no change of it is under way.
    pub(crate) is_dropped: bool,
    /// It may have been wanted before this stream began, from a writer that made something of it.
    pub(crate) is_resumed: bool,
    /// It was found in OpenStack, without an owner.
    pub(crate) is_orphan: bool,
    /// What groups have for its owner may go: it has what it wants, or wants nothing.
    pub(crate) lets_go: bool,
}

impl Cell {
    pub(crate) fn new(key: DesiredKey, actor: Actor, project: Text) -> Self {
        Self {
            key,
            actor,
            held: None,
            waiting: None,
            state: CellState::Ready,
            project,
            timer: None,
            confirmed: 0,
            print: 0,
            floating_print: 0,
            strangers: None,
            is_suspect: false,
            is_missing: false,
            is_certain: false,
            missing: None,
            frees: &[],
            looked_at: None,
            looked_from: None,
            is_outdated: false,
            failed_looks: 0,
            unsent: 0,
            unread: BTreeSet::new(),
            changed_at: None,
            agreed_at: None,
            settled: None,
            proven: 0,
            lists_ports: false,
            wanted_at: None,
            changing_since: None,
            working_since: None,
            sent_at: None,
            places: Places::default(),
            members: 0,
            reported: None,
            journal: Journal::default(),
            last_error: None,
            routes: None,
            health: BalancerHealth::default(),
            is_former: false,
            is_replaced: false,
            is_dropped: false,
            is_resumed: false,
            is_orphan: false,
            lets_go: false,
        }
    }

    /// Returns what is wanted, whatever the guard says.
    pub(crate) fn wanted(&self) -> &DesiredEntry {
        self.held.as_deref().unwrap_or_else(|| self.actor.desired())
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.wanted().is_deleting()
    }

    /// Lets what is to be removed be searched for by its mark, if some of it may be in no list: nothing of it may be left.
    pub(crate) fn search_ports(&mut self) {
        let is_looking = matches!(self.state, CellState::Looking(_));
        if self.lists_ports && !is_looking && self.actor.desired().is_deleting() {
            self.lists_ports = false;
            self.actor.look_again();
        }
    }

    /// Takes less memory while there is nothing to do.
    pub(crate) fn rests(&mut self) {
        if matches!(self.state, CellState::Done) {
            self.actor.rests();
        }
    }

    /// Whether an answer is awaited that will lead to the next step.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.state, CellState::Looking(_) | CellState::Reading | CellState::Sending(_))
    }

    /// Whether it waits for its turn in a line, where it is asked again. Other lines than Octavia's may stand still for minutes: the
    /// members of a load balancer that serves do not wait for that.
    pub(crate) fn is_asked_in_line(&self) -> bool {
        match &self.state {
            CellState::InLine(line) => line.stops_members() || !self.actor.has_balancer(),
            _ => false,
        }
    }

    /// Whether a change of it waits in a line beside Octavia's, while it waits in that.
    pub(crate) fn waits_beside(&self, line: &Line) -> bool {
        line.is_beside() && matches!(self.state, CellState::InLine(Line::Octavia | Line::Neutron))
    }

    /// Returns the number of members that its load balancer was seen with.
    pub(crate) fn seen_members(&self) -> u64 {
        let pools = self.actor.balancer().map(|balancer| balancer.pools.as_slice()).unwrap_or_default();
        pools.iter().map(|pool| pool.members.len() as u64).sum()
    }
}
