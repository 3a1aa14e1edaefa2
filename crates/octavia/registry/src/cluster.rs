//! One cluster: its owners, and what they wait for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use gimbal_guard::{Fall, Guard};
use gimbal_kuryr_model::{CloudFacts, DesiredEntry, DesiredKey, Text};
use gimbal_octavia_plan::{Actor, Mark, is_group};
use gimbal_schedule::{Queue, TokenBucket};

use crate::adoption::PendingAdoption;
use crate::call::CloudRead;
use crate::cell::{Cell, CellState};
use crate::contents::WantedContents;
use crate::journal::Deed;
use crate::kept_turns::KeptTurns;
use crate::learned::Learned;
use crate::left::LeftProjects;
use crate::newcomers::Newcomers;
use crate::orphans::Orphans;
use crate::owner_look::Stray;
use crate::pace::Line;
use crate::places::LeftBehind;
use crate::poll::Poller;
use crate::refused::RefusedEntries;
use crate::removals::{self, GuardedOwner};
use crate::replacements::Replacements;
use crate::settings::{ClusterSettings, OwnPort};
use crate::shared::{ReadFor, RegistryCore};
use crate::sharing::Groups;
use crate::tracker::PendingTracker;
use crate::unreadable::UnreadableProjects;

/// How much a cluster's limit of changes may save up.
const BURST: Duration = Duration::from_secs(1);
/// How long a new owner waits for the former one of its key to be gone. After that it is made beside it.
const BEHIND: Duration = Duration::from_secs(60);

/// Whether somebody else has the cluster's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NameCheck {
    /// It was not looked for.
    Unchecked,
    /// No other cluster, or none that matters.
    Ours,
    /// The cluster with this UID.
    Other(Text),
}

/// A read that waits for its turn.
#[derive(Debug)]
pub(crate) struct PlannedRead {
    pub(crate) what: ReadFor,
    pub(crate) project: Text,
    pub(crate) read: CloudRead,
}

/// One cluster.
#[derive(Debug)]
pub(crate) struct ManagedCluster {
    /// Tells its calls from those of another one that had its name and UID before.
    pub(crate) number: u64,
    /// The number of the last look.
    pub(crate) looks: u64,
    pub(crate) settings: ClusterSettings,
    given: CloudFacts,
    /// What was given, with what was learned.
    pub(crate) facts: CloudFacts,
    pub(crate) learned: Learned,
    pub(crate) heard: Option<Instant>,
    /// Grows when the stream comes back: what was seen before is to be confirmed.
    pub(crate) life: u32,
    /// When that life began.
    pub(crate) alive_since: Option<Instant>,
    /// Whether a snapshot has ended in that life: what is wanted from then on is new.
    pub(crate) has_snapshot: bool,
    /// Whether a snapshot of the open stream has ended. No other one follows where the stream was only silent for a moment.
    pub(crate) is_told_all: bool,
    /// Whether what is wanted is what the open stream wants. Until then nothing is changed.
    pub(crate) is_current: bool,
    /// Entries that a former stream has brought, and that the open one has neither sent nor proven: what they want may be days
    /// old.
    pub(crate) unproven: BTreeSet<DesiredKey>,
    /// Whether what is wanted is complete.
    pub(crate) is_complete: bool,
    pub(crate) name_check: NameCheck,
    pub(crate) confirmed: BTreeSet<Text>,
    pub(crate) keys: BTreeMap<DesiredKey, Text>,
    /// The former owner of a key, as long as something is left of it.
    former: BTreeMap<DesiredKey, Text>,
    pub(crate) refused: RefusedEntries,
    pub(crate) groups: Groups,
    pub(crate) cells: BTreeMap<Text, Box<Cell>>,
    pub(crate) ready: VecDeque<Text>,
    pub(crate) timers: BTreeSet<(Instant, Text)>,
    pub(crate) lines: BTreeMap<Line, Queue<Text, Text>>,
    /// Owners that look when there is room for their creations.
    pub(crate) newcomers: Newcomers,
    pub(crate) kept_turns: KeptTurns,
    pub(crate) bucket: Option<TokenBucket>,
    pub(crate) reads: VecDeque<PlannedRead>,
    /// Reads of first looks that lists have begun, of those that something may be changed of later.
    pub(crate) first_reads: VecDeque<PlannedRead>,
    /// Other looks since one of these.
    pub(crate) since_first: u32,
    pub(crate) poller: Poller,
    pub(crate) tracker: PendingTracker,
    pub(crate) members: Guard<GuardedOwner>,
    pub(crate) balancers: Guard<GuardedOwner>,
    /// Owners that the guard of load balancers counts.
    pub(crate) counted: BTreeSet<Text>,
    /// Owners that lists have shown floating IPs of.
    pub(crate) floating: BTreeSet<Text>,
    /// Owners that lists have shown ports of which nothing uses.
    pub(crate) with_ports: BTreeSet<Text>,
    /// Owners that were forgotten with something in OpenStack.
    pub(crate) left_behind: LeftBehind,
    /// Owners that a guard holds something of.
    pub(crate) held: BTreeSet<Text>,
    pub(crate) orphans: Orphans,
    /// When everything by which orphans are known was complete last, or since when there is a stream.
    pub(crate) searched_at: Option<Instant>,
    /// Projects that the policy does not allow any more.
    pub(crate) left: LeftProjects,
    pub(crate) unreadable: UnreadableProjects,
    /// Of owners that no entry wants, what a search for their mark does not find.
    pub(crate) strays: BTreeMap<Text, Vec<Stray>>,
    /// Owners whose report may have changed.
    pub(crate) told: BTreeSet<Text>,
    /// Owners that were forgotten: they wait for no quota any more.
    pub(crate) dropped: Vec<Text>,
    pub(crate) adoptions: BTreeMap<Text, PendingAdoption>,
    /// What owners have adopted, and when, until they have seen it.
    pub(crate) adopted: BTreeMap<Text, (Text, Instant)>,
    pub(crate) since_creation: u32,
    /// Changes of other services since the last one of what Octavia has.
    pub(crate) since_octavia: u32,
    pub(crate) replacements: Replacements,
    pub(crate) contents: WantedContents,
}

impl ManagedCluster {
    pub(crate) fn new(number: u64, settings: ClusterSettings) -> Self {
        let bucket = bucket(&settings);
        Self {
            number,
            looks: 0,
            given: CloudFacts::default(),
            facts: CloudFacts::default(),
            learned: Learned::default(),
            heard: None,
            life: 0,
            alive_since: None,
            has_snapshot: false,
            is_told_all: false,
            is_current: false,
            unproven: BTreeSet::new(),
            is_complete: false,
            name_check: NameCheck::Unchecked,
            confirmed: BTreeSet::new(),
            keys: BTreeMap::new(),
            former: BTreeMap::new(),
            refused: RefusedEntries::default(),
            groups: Groups::default(),
            cells: BTreeMap::new(),
            ready: VecDeque::new(),
            timers: BTreeSet::new(),
            lines: BTreeMap::new(),
            newcomers: Newcomers::default(),
            kept_turns: KeptTurns::default(),
            bucket,
            reads: VecDeque::new(),
            first_reads: VecDeque::new(),
            since_first: 0,
            poller: Poller::default(),
            tracker: PendingTracker::default(),
            members: Guard::new(settings.guards.members),
            balancers: Guard::new(settings.guards.load_balancers),
            counted: BTreeSet::new(),
            floating: BTreeSet::new(),
            with_ports: BTreeSet::new(),
            left_behind: LeftBehind::default(),
            held: BTreeSet::new(),
            orphans: Orphans::default(),
            searched_at: None,
            left: LeftProjects::new(&settings),
            unreadable: UnreadableProjects::default(),
            strays: BTreeMap::new(),
            told: BTreeSet::new(),
            dropped: Vec::new(),
            adoptions: BTreeMap::new(),
            adopted: BTreeMap::new(),
            since_creation: 0,
            since_octavia: 0,
            replacements: Replacements::default(),
            contents: WantedContents::default(),
            settings,
        }
    }

    pub(crate) fn configure(&mut self, settings: ClusterSettings, now: Instant) {
        if settings == self.settings {
            return;
        }
        if settings.mutations_per_second != self.settings.mutations_per_second {
            self.bucket = bucket(&settings);
        }
        self.members.configure(settings.guards.members, now);
        self.balancers.configure(settings.guards.load_balancers, now);
        let former = |settings: &ClusterSettings| settings.former_projects.clone();
        if settings.projects != self.settings.projects || former(&settings) != former(&self.settings) {
            self.left.policy_changed(&self.settings.projects, &settings);
            self.poller.everything_now();
        }
        self.settings = settings;
        let actors = self.cells.values_mut().map(|cell| &mut cell.actor);
        actors.for_each(|actor| self.settings.apply_to(actor));
        self.wake_all();
    }

    pub(crate) fn set_facts(&mut self, facts: CloudFacts) {
        let former = std::mem::replace(&mut self.given, facts).api_version;
        if former != self.given.api_version {
            self.learned = Learned::default();
            self.cells.values_mut().for_each(|cell| cell.actor.octavia_changed());
        }
        if self.relearn() {
            self.wake_all();
        }
    }

    /// Applies what was learned. Returns whether anything is different.
    pub(crate) fn relearn(&mut self) -> bool {
        let facts = self.learned.applied(&self.given);
        let differs = facts != self.facts;
        self.facts = facts;
        differs
    }

    pub(crate) fn mark(&self, owner: &Text) -> Mark {
        Mark { cluster_uid: self.settings.uid.clone(), cluster: self.settings.name.clone(), owner: owner.clone() }
    }

    pub(crate) fn cluster_tag(&self) -> String {
        gimbal_octavia_plan::cluster_tag(&self.settings.uid)
    }

    /// An entry, or the removal of its owner, has the key from now on.
    pub(crate) fn take_key(&mut self, key: &DesiredKey, owner: &Text, shared: &RegistryCore, now: Instant) {
        self.refused.remove(key);
        let before = self.keys.insert(key.clone(), owner.clone());
        if let Some(before) = before.filter(|before| before != owner) {
            self.remove_former(key, &before, shared, now);
        }
    }

    /// Wants an entry that does not share.
    pub(crate) fn want_alone(&mut self, key: DesiredKey, entry: DesiredEntry, shared: &RegistryCore, now: Instant) {
        self.take_key(&key, &entry.owner().clone(), shared, now);
        let entry = self.with_own_port(entry);
        self.want_cell(key, entry, shared, now);
    }

    /// Wants the entry of an owner, or of a group.
    pub(crate) fn want_cell(&mut self, key: DesiredKey, entry: DesiredEntry, shared: &RegistryCore, now: Instant) {
        let owner = entry.owner().clone();
        let deed = if entry.is_deleting() { Deed::Deleting } else { Deed::Wanted };
        let at = shared.at(now);
        if let Some(mut cell) = self.cells.remove(&owner) {
            cell.waiting = None;
            let is_wiped = matches!(&entry, DesiredEntry::LoadBalancer(wanted) if !wanted.header.known);
            let differs = *cell.wanted() != entry;
            if cell.is_deleting() != entry.is_deleting() {
                // The same words may be due again.
                cell.reported = None;
                if matches!(cell.state, CellState::InLine(_)) {
                    // What waits in a line of its own (creations while nothing may be changed) is no longer what is next.
                    cell.state = CellState::Ready;
                    self.ready.push_back(owner.clone());
                }
            }
            if crate::reporting::is_told_anew(cell.wanted(), &entry) {
                cell.reported = None;
            }
            if differs || is_wiped {
                if differs {
                    cell.journal.note(at, deed);
                    cell.forget_later_routes(&entry);
                }
                if let DesiredEntry::LoadBalancer(wanted) = &entry {
                    cell.project = wanted.header.placement.project.clone();
                }
                cell.held = None;
                if differs && deed == Deed::Wanted {
                    cell.wanted_at.get_or_insert(now);
                }
                cell.actor.want(entry);
                cell.search_ports();
            }
            if matches!(cell.state, CellState::Gone) && (differs || is_wiped) {
                cell.actor.look_again();
            }
            let left = std::mem::replace(&mut cell.key, key);
            (cell.is_former, cell.is_dropped, cell.is_orphan) = (false, false, false);
            if std::mem::take(&mut cell.is_replaced) {
                self.balancers.pending(&GuardedOwner(owner.clone()), 0, 0, now);
                self.held.remove(&owner);
            }
            cell.lets_go &= !differs;
            if left != cell.key {
                self.former_left(&left, &owner);
            }
            self.told.insert(owner.clone());
            self.count_surplus(&cell, &owner, now);
            self.cells.insert(owner.clone(), cell);
            self.is_no_orphan(&owner, now);
            self.wake(&owner);
            return;
        }
        let project = match &entry {
            DesiredEntry::LoadBalancer(wanted) => wanted.header.placement.project.clone(),
            DesiredEntry::Deleting { .. } => self.settings.projects.first().cloned().unwrap_or_default(),
        };
        let mut actor = Actor::new(key.clone(), self.mark(&owner), entry, shared.settings.repair)
            .with_drift_interval(shared.settings.drift_interval);
        self.settings.apply_to(&mut actor);
        let mut cell = Box::new(Cell::new(key, actor, project));
        cell.is_resumed = !self.has_snapshot;
        // What is there after a restart says nothing about how long it took.
        cell.wanted_at = Some(now).filter(|_| self.is_told_all && deed == Deed::Wanted);
        cell.journal.note(at, deed);
        self.is_no_orphan(&owner, now);
        self.cells.insert(owner.clone(), cell);
        self.ready.push_back(owner);
    }

    /// An entry of these owners is refused: of its own, and of the group that it wants.
    pub(crate) fn refuse(&mut self, key: DesiredKey, owners: Vec<Text>, now: Instant) {
        owners.iter().for_each(|owner| self.is_wanted_again(owner, now));
        for group in self.refused.insert(key, owners) {
            let others: Vec<Text> = self.groups.owners_of(&group).cloned().collect();
            others.iter().for_each(|owner| self.is_wanted_again(owner, now));
        }
    }

    /// What was taken for an orphan's has an owner, or may have.
    pub(crate) fn is_wanted_again(&mut self, owner: &Text, now: Instant) {
        self.is_no_orphan(owner, now);
        match self.cells.get_mut(owner).filter(|cell| cell.is_orphan) {
            Some(cell) if matches!(cell.state, CellState::Sending(_)) => cell.is_dropped = true,
            Some(_) => self.drop_cell(owner, now),
            None => {}
        }
    }

    fn is_no_orphan(&mut self, owner: &Text, now: Instant) {
        if self.orphans.forget(owner) {
            self.balancers.pending(&GuardedOwner(owner.clone()), 0, 0, now);
        }
    }

    /// Whether another key wants something of an owner, or its removal.
    pub(crate) fn is_held_elsewhere(&self, owner: &Text, key: &DesiredKey) -> bool {
        let holder = self.cells.get(owner).map(|cell| &cell.key).filter(|holder| *holder != key);
        holder.is_some_and(|holder| self.keys.get(holder) == Some(owner))
    }

    /// The former owner of a key is gone: another one has its place.
    fn remove_former(&mut self, key: &DesiredKey, owner: &Text, shared: &RegistryCore, now: Instant) {
        let Some(cell) = self.cells.get_mut(owner) else { return };
        if matches!(cell.state, CellState::Gone) {
            return self.drop_cell(owner, now);
        }
        // A store that was restored has former owners again under their names, which no one has deleted.
        cell.is_replaced |= !cell.is_deleting();
        if cell.is_replaced {
            self.balancers.pending(&GuardedOwner(owner.clone()), u64::from(self.counted.contains(owner)), 1, now);
        }
        cell.is_former = true;
        cell.held = None;
        cell.actor.want(DesiredEntry::Deleting { owner: owner.clone() });
        cell.search_ports();
        cell.journal.note(shared.at(now), Deed::Deleting);
        self.former.insert(key.clone(), owner.clone());
        self.wake(owner);
    }

    /// Returns whether an owner has to wait for the former one of its key, and until when.
    pub(crate) fn is_behind(&self, owner: &Text, cell: &Cell, now: Instant) -> Option<Instant> {
        let former = self.former.get(&cell.key).filter(|former| *former != owner)?;
        let since = cell.working_since.unwrap_or(now);
        let until = since + BEHIND;
        (self.cells.contains_key(former) && now < until).then_some(until)
    }

    /// An entry has left the stream.
    pub(crate) fn forget(&mut self, key: &DesiredKey, shared: &RegistryCore, now: Instant) {
        self.refused.remove(key);
        let Some(owner) = self.keys.remove(key) else { return };
        if is_group(&owner) {
            return self.forget_shared(key, &owner, shared, now);
        }
        let Some(cell) = self.cells.get_mut(&owner).filter(|cell| cell.key == *key) else { return };
        match cell.state {
            CellState::Gone => self.drop_cell(&owner, now),
            // A person has asked for it, and it goes on.
            _ if cell.is_deleting() => cell.is_former = true,
            // Its answer is awaited: who comes back meanwhile must not make it twice.
            CellState::Sending(_) => cell.is_dropped = true,
            _ => self.drop_cell(&owner, now),
        }
    }

    /// Forgets an owner. What exists of it is touched no more, unless the lists show that it is an orphan.
    pub(crate) fn drop_cell(&mut self, owner: &Text, now: Instant) {
        let Some(cell) = self.cells.remove(owner) else { return };
        self.left_behind.left(owner, cell.places, now);
        let key = GuardedOwner(owner.clone());
        removals::observe(&mut self.members, &key, cell.members, 0, Fall::Forgiven, now);
        self.members.pending(&key, 0, 0, now);
        if let Some(timer) = cell.timer {
            self.timers.remove(&(timer, owner.clone()));
        }
        self.tracker.forget_owner(owner);
        self.held.remove(owner);
        self.told.remove(owner);
        self.dropped.push(owner.clone());
        self.contents.forget(owner);
        self.replacements.ended(owner);
        self.former_left(&cell.key, owner);
    }

    /// Lets the next owner of a key go on if it waited for this one.
    fn former_left(&mut self, key: &DesiredKey, owner: &Text) {
        if self.former.get(key) == Some(owner) {
            self.former.remove(key);
            if let Some(next) = self.keys.get(key).cloned() {
                self.wake(&next);
            }
        }
    }

    /// Lets an owner be asked for its next step, unless it waits for an answer, or will be asked soon.
    pub(crate) fn wake(&mut self, owner: &Text) {
        let Some(cell) = self.cells.get_mut(owner) else { return };
        if cell.is_busy() || matches!(cell.state, CellState::Ready) || cell.is_asked_in_line() {
            return;
        }
        cell.state = CellState::Ready;
        self.ready.push_back(owner.clone());
    }

    pub(crate) fn wake_all(&mut self) {
        let owners: Vec<Text> = self.cells.keys().cloned().collect();
        owners.iter().for_each(|owner| self.wake(owner));
    }

    pub(crate) fn wake_held(&mut self) {
        let owners: Vec<Text> = self.held.iter().cloned().collect();
        owners.iter().for_each(|owner| self.wake(owner));
    }

    /// Tells the guard what would go. It has to know of every loss before it is asked about the first.
    pub(crate) fn count_surplus(&mut self, cell: &Cell, owner: &Text, now: Instant) {
        let loss = match cell.wanted() {
            DesiredEntry::LoadBalancer(wanted) => {
                removals::surplus(&cell.actor, wanted, &self.mark(owner).owner_tag()).len() as u64
            }
            DesiredEntry::Deleting { .. } => 0,
        };
        let key = GuardedOwner(owner.clone());
        self.members.pending(&key, loss, cell.members, now);
        if self.settings.guards.explicit && cell.is_deleting() {
            self.balancers.pending(&key, u64::from(self.counted.contains(owner)), 1, now);
        }
    }

    /// Makes an entry ask for its own port where the policy says so.
    pub(crate) fn with_own_port(&self, mut entry: DesiredEntry) -> DesiredEntry {
        let DesiredEntry::LoadBalancer(wanted) = &mut entry else { return entry };
        let own = match self.settings.own_port {
            OwnPort::LoadBalancer => return entry,
            OwnPort::Never => false,
            OwnPort::Always => true,
        };
        if wanted.header.vip.from_outside != own {
            std::sync::Arc::make_mut(&mut wanted.header).vip.from_outside = own;
        }
        entry
    }
}

fn bucket(settings: &ClusterSettings) -> Option<TokenBucket> {
    (settings.mutations_per_second > 0).then(|| TokenBucket::new(settings.mutations_per_second.into(), BURST))
}
