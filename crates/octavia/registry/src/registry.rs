//! The registry: what comes in, and what goes out.

use std::collections::BTreeMap;
use std::time::Instant;

use gimbal_guard::GuardEvent;
use gimbal_kuryr_model::{CertificateHash, CloudFacts, DesiredEntry, DesiredKey, LoadBalancerReport, Text};
use gimbal_octavia_plan::{ChangeOutcome, FoundContent, HiddenSecrets};

use crate::call::{CallAnswer, CallId, CallLane, CallToMake, CloudCall};
use crate::cell::{Cell, CellState};
use crate::cluster::{ManagedCluster, PlannedRead};
use crate::event::RegistryEvent;
use crate::listed_row::ListedRow;
use crate::looking::take_readable;
use crate::owner_look::LookPart;
use crate::pace::{CloudPace, Line};
use crate::removals::GuardedOwner;
use crate::settings::{ClusterSettings, RegistrySettings};
use crate::shared::{CallFor, ReadFor, RegistryCore};
use crate::sharing::sharing_owner;

/// How many other looks begin before one after a restart.
const LOOKS_PER_FIRST: u32 = 4;

/// All load balancers of all clusters.
#[derive(Debug)]
pub struct Registry {
    pub(crate) shared: RegistryCore,
    pub(crate) clusters: BTreeMap<Text, ManagedCluster>,
    /// The cluster that had the last turn.
    turn: Option<Text>,
    /// The cluster whose owners were asked last.
    pub(crate) advanced: Option<Text>,
    /// The cluster that was reported about last.
    pub(crate) reported: Option<Text>,
}

impl Registry {
    /// Returns a registry without clusters.
    #[must_use]
    pub fn new(settings: RegistrySettings, now: Instant) -> Self {
        let (shared, clusters) = (RegistryCore::new(settings, now), BTreeMap::new());
        Self { shared, clusters, turn: None, advanced: None, reported: None }
    }

    /// Returns the settings of the process.
    #[must_use]
    pub fn settings(&self) -> &RegistrySettings {
        &self.shared.settings
    }

    /// Adds a cluster, or changes its settings. Under another UID it is another cluster: everything that was known is
    /// forgotten, and nothing in OpenStack is touched.
    pub fn set_cluster(&mut self, settings: ClusterSettings, now: Instant) {
        match self.clusters.get_mut(&settings.name) {
            Some(cluster) if cluster.settings.uid == settings.uid => cluster.configure(settings, now),
            _ => {
                self.remove_cluster(&settings.name.clone());
                let number = self.shared.next_cluster();
                self.clusters.insert(settings.name.clone(), ManagedCluster::new(number, settings));
            }
        }
    }

    /// Forgets a cluster. Nothing in OpenStack is touched. Answers to calls under way are taken for nothing.
    pub fn remove_cluster(&mut self, cluster: &str) {
        if let Some(gone) = self.clusters.remove(cluster) {
            gone.cells.keys().for_each(|owner| self.shared.pace.forget(&(gone.settings.name.clone(), owner.clone())));
        }
    }

    /// Sets what the configuration and look-ups say about the cloud for a cluster.
    pub fn set_facts(&mut self, cluster: &str, facts: CloudFacts, _now: Instant) {
        if let Some(cluster) = self.clusters.get_mut(cluster) {
            cluster.set_facts(facts);
        }
    }

    /// Returns what is known about the cloud for a cluster, with what answers have taught.
    #[must_use]
    pub fn facts(&self, cluster: &str) -> Option<CloudFacts> {
        self.clusters.get(cluster).map(|cluster| cluster.facts.clone())
    }

    /// Takes note of a heartbeat of a cluster's stream, or of anything else that only its living controller can have sent.
    pub fn heard(&mut self, cluster: &str, now: Instant) {
        let age = self.shared.settings.heartbeat_age;
        if let Some(cluster) = self.clusters.get_mut(cluster) {
            cluster.heard(age, now);
        }
    }

    /// Takes note that a cluster's stream has ended: no call is handed out until the next heartbeat.
    pub fn stream_ended(&mut self, cluster: &str) {
        if let Some(cluster) = self.clusters.get_mut(cluster) {
            cluster.stream_ended();
            cluster.end_unsent_adoptions(&mut self.shared);
        }
    }

    /// Takes note that what was wanted when a snapshot began at `begun` is complete: an owner that is neither wanted
    /// nor refused is gone.
    pub fn snapshot_complete(&mut self, cluster: &str, begun: Instant, now: Instant) {
        self.set_current(cluster, true, true);
        self.snapshot_of(cluster, None, begun, now);
    }

    /// Sets whether what is wanted is what the open stream wants, and if so, whether it is complete. Until the first holds,
    /// nothing is changed, and until the second, no owner is gone for it is not wanted. The end of the stream ends both.
    pub fn set_current(&mut self, cluster: &str, is_current: bool, is_complete: bool) {
        if let Some(cluster) = self.clusters.get_mut(cluster) {
            cluster.is_current = is_current;
            cluster.is_complete = is_current && is_complete;
        }
    }

    /// Takes note that a snapshot of these namespaces, or of all, began at `begun` and is complete. It confirms losses there
    /// that a guard holds, if they are older.
    pub fn snapshot_of(&mut self, cluster: &str, namespaces: Option<&[Text]>, begun: Instant, now: Instant) {
        let Some(cluster) = self.clusters.get_mut(cluster) else { return };
        (cluster.has_snapshot, cluster.is_told_all) = (true, true);
        let cells = &cluster.cells;
        let covers = |owner: &GuardedOwner| {
            let is_in =
                |namespaces: &[Text]| cells.get(&owner.0).is_some_and(|cell| namespaces.contains(&cell.key.namespace));
            namespaces.is_none_or(is_in)
        };
        let all = namespaces.is_none();
        let members = cluster.members.snapshot_complete(begun, all, covers, now);
        let balancers = cluster.balancers.snapshot_complete(begun, all, covers, now);
        if members || balancers {
            cluster.wake_held();
        }
    }

    /// Wants an entry. The newest replaces those before it. One that comes before the first [`Self::snapshot_of`] of a stream
    /// may have been wanted from another writer before. Returns `false`, and does nothing, if another key has the owner:
    /// until that one is forgotten, or has another owner, no other may change or remove what it has.
    pub fn want(&mut self, cluster: &str, key: DesiredKey, entry: DesiredEntry, now: Instant) -> bool {
        let shared = &self.shared;
        self.clusters.get_mut(cluster).is_none_or(|cluster| cluster.want(key, entry, shared, now))
    }

    /// Takes note that an entry is refused. Nothing is done for it, and until it is wanted or forgotten, what exists of its owner
    /// is not taken for an orphan's. What was wanted under the key before still is.
    pub fn refuse(&mut self, cluster: &str, key: &DesiredKey, entry: &DesiredEntry, now: Instant) {
        let mut owners = vec![entry.owner().clone()];
        owners.extend(sharing_owner(entry));
        if let Some(cluster) = self.clusters.get_mut(cluster) {
            cluster.refuse(key.clone(), owners, now);
        }
    }

    /// Looks for what is left of a cluster in a project, although its policy does not allow that: an entry names it.
    pub fn search_too(&mut self, cluster: &str, project: &Text) {
        if let Some(cluster) = self.clusters.get_mut(cluster)
            && !cluster.settings.projects.contains(project)
            && cluster.left.named(project)
        {
            cluster.poller.everything_now();
        }
    }

    /// Takes note that an entry has left the stream. That alone removes nothing, and what is being deleted goes on.
    pub fn forget(&mut self, cluster: &str, key: &DesiredKey, now: Instant) {
        if let Some(cluster) = self.clusters.get_mut(cluster) {
            cluster.forget(key, &self.shared, now);
        }
    }

    /// Lets go what a guard of the cluster holds under this ID. Returns whether there is such a hold.
    pub fn approve(&mut self, cluster: &str, hold: &str, _now: Instant) -> bool {
        let Some(cluster) = self.clusters.get_mut(cluster) else { return false };
        let released = [cluster.members.approve(hold), cluster.balancers.approve(hold)];
        let is_released = released.iter().any(Option::is_some);
        if is_released {
            cluster.wake_held();
            cluster.poller.now();
        }
        is_released
    }

    /// Lets the cluster go on although objects of a cluster with its name and this UID exist. Those stay untouched. Returns
    /// whether it was blocked by that.
    pub fn confirm(&mut self, cluster: &str, uid: &str, _now: Instant) -> bool {
        self.clusters.get_mut(cluster).is_some_and(|cluster| cluster.confirm(uid))
    }

    /// Takes over a load balancer that Kuryr or cloud-provider-openstack made: it gets the entry's mark, and is then made as
    /// the entry wants it. With `dry_run` nothing is changed. The end is [`RegistryEvent::Adopted`]; one that is ordered again
    /// meanwhile has the same end. Returns `false`, and does nothing, if another adoption by the entry, or of the load balancer,
    /// is under way.
    pub fn adopt(&mut self, cluster: &str, key: &DesiredKey, balancer: &str, dry_run: bool, now: Instant) -> bool {
        let cluster = self.clusters.get_mut(cluster);
        cluster.is_some_and(|cluster| cluster.adopt(key, balancer, dry_run, &mut self.shared, now))
    }

    /// Takes note that somebody else has changed what an owner has, or taken its mark off: it is looked at before anything is
    /// done about it.
    pub fn look_anew(&mut self, cluster: &str, owner: &Text, now: Instant) {
        if let Some(cluster) = self.clusters.get_mut(cluster) {
            cluster.look_anew(owner, now);
        }
    }

    /// Takes the answer of a cluster's controller that was asked for the content of a certificate.
    pub fn found_content(&mut self, cluster: &str, hash: CertificateHash, found: &FoundContent, now: Instant) {
        if let Some(cluster) = self.clusters.get_mut(cluster) {
            cluster.found_content(hash, found, &self.shared, now);
        }
    }

    /// Returns the next call to make, or `None` if there is none to make now.
    pub fn next_call(&mut self, now: Instant) -> Option<CallToMake> {
        self.prepare(now);
        let names = self.turns();
        if self.shared.pace.has_room_to_read() {
            for name in &names {
                let call = self.clusters.get_mut(name).and_then(|cluster| next_read(cluster, &mut self.shared, now));
                if call.is_some() {
                    self.turn = Some(name.clone());
                    return call;
                }
            }
        }
        for name in &names {
            let call = self.clusters.get_mut(name).and_then(|cluster| cluster.next_change(&mut self.shared, now));
            if call.is_some() {
                self.turn = Some(name.clone());
                return call;
            }
            // Whose turn in line has ended without a change may have to read, or is to be asked again.
        }
        None
    }

    /// Returns the clusters in the order of their turns.
    fn turns(&self) -> Vec<Text> {
        let (mut after, mut before) = (Vec::new(), Vec::new());
        for name in self.clusters.keys() {
            let list = if self.turn.as_ref().is_some_and(|turn| name <= turn) { &mut before } else { &mut after };
            list.push(name.clone());
        }
        after.append(&mut before);
        after
    }

    /// Lets everybody decide whose time has come.
    fn prepare(&mut self, now: Instant) {
        for (name, owner) in std::mem::take(&mut self.shared.freed) {
            if let Some(cluster) = self.clusters.get_mut(&name) {
                cluster.quota_freed(&owner);
            }
        }
        for cluster in self.clusters.values_mut() {
            cluster.tick(&mut self.shared, now);
        }
        self.advance(now);
    }

    /// Takes the answer to a call. Every call is to be answered, once.
    pub fn answered(&mut self, id: CallId, answer: CallAnswer, now: Instant) {
        let Some(call) = self.shared.calls.remove(&id) else { return };
        let shared = &mut self.shared;
        let cluster = self.clusters.get_mut(&call.cluster).filter(|cluster| cluster.number == call.number);
        match (call.what, answer) {
            (CallFor::Read { what: ReadFor::Poll(part), read, .. }, CallAnswer::Listed(rows)) if part.is_long() => {
                shared.pace.read_ends(read.service, None, now);
                if let Some(cluster) = cluster {
                    cluster.listed(part, rows, shared, now);
                }
            }
            (CallFor::Read { what, read, project }, answer) => {
                let is_refused = matches!(answer, CallAnswer::ReadRefused { .. });
                let (rows, words, retry_after) = match answer {
                    CallAnswer::Rows(rows) => (Some(rows), String::new(), None),
                    CallAnswer::Listed(rows) => {
                        (Some(rows.into_iter().map(ListedRow::into_row).collect()), String::new(), None)
                    }
                    CallAnswer::ReadFailed { words, retry_after } => (None, words, retry_after),
                    CallAnswer::ReadRefused { words } => (None, words, None),
                    CallAnswer::Changed(_) | CallAnswer::NotSent | CallAnswer::Unsendable { .. } => {
                        (None, String::new(), None)
                    }
                };
                shared.pace.read_ends(read.service, retry_after, now);
                if let Some(cluster) = cluster {
                    match (&what, &rows) {
                        (ReadFor::Poll(part), None) => cluster.poller.list_failed(*part, &project, &words),
                        (ReadFor::Look { owner, number, part: LookPart::Secrets }, None) => {
                            cluster.secrets_hidden(owner, *number, &project, HiddenSecrets { words, is_refused });
                        }
                        _ => {}
                    }
                    cluster.was_read(PlannedRead { what, project, read }, rows, shared, now);
                }
            }
            (CallFor::Change { owner, line, change, project }, answer) => {
                let outcome = answer.into_outcome();
                shared.pace.change_ends(&line, call.sent, outcome.as_ref().ok(), now);
                count(shared, outcome.as_ref().ok());
                if let Some(cluster) = cluster {
                    cluster.was_changed(id, (&owner, &project), &change, outcome, shared, now);
                }
            }
            (CallFor::Adoption { balancer, line }, answer) => {
                let outcome = answer.into_outcome().ok();
                shared.pace.change_ends(&line, call.sent, outcome.as_ref(), now);
                count(shared, outcome.as_ref());
                if let Some(cluster) = cluster {
                    cluster.adoption_changed(&balancer, outcome, shared, now);
                }
            }
        }
    }

    /// Returns when to ask for a call again, if nothing comes in before: at once if there is more to do than one turn allows.
    /// Whoever asks sees to everything else before that.
    #[must_use]
    pub fn next_wake(&mut self, now: Instant) -> Option<Instant> {
        if self.shared.turn.is_cut() {
            return Some(now);
        }
        let shared = &self.shared;
        let clusters = self.clusters.values_mut().filter_map(|cluster| cluster.next_wake(shared, now));
        clusters.chain(shared.pace.next(now)).filter(|at| *at > now).min()
    }

    /// Returns every report of a cluster, for a stream that begins.
    #[must_use]
    pub fn reports(&mut self, cluster: &str, now: Instant) -> Vec<(DesiredKey, LoadBalancerReport)> {
        let at = self.shared.at(now);
        self.clusters.get_mut(cluster).map(|cluster| cluster.reports(now, at)).unwrap_or_default()
    }

    /// Returns what happened since the last call.
    pub fn take_events(&mut self) -> Vec<RegistryEvent> {
        std::mem::take(&mut self.shared.events)
    }
}

fn count(shared: &mut RegistryCore, outcome: Option<&ChangeOutcome>) {
    match outcome {
        Some(ChangeOutcome::Unknown(_)) => shared.sums.unknown += 1,
        Some(ChangeOutcome::Refused(_)) => shared.sums.refused += 1,
        Some(ChangeOutcome::Accepted(_)) | None => {}
    }
}

fn next_read(cluster: &mut ManagedCluster, shared: &mut RegistryCore, now: Instant) -> Option<CallToMake> {
    if !cluster.is_live(shared.settings.heartbeat_age, now) {
        return None;
    }
    loop {
        let pace = &shared.pace;
        let next = take_readable(&mut cluster.reads, pace, now).or_else(|| cluster.next_first_read(pace, now));
        let Some(planned) = next else {
            if pace.may_look(now) && cluster.next_look(shared, now) {
                cluster.since_first += 1;
                continue;
            }
            cluster.since_first = LOOKS_PER_FIRST;
            if !cluster.first_reads.iter().any(|planned| pace.may_read(planned.read.service, now)) {
                return None;
            }
            continue;
        };
        if !cluster.is_awaited(&planned.what) {
            continue;
        }
        shared.pace.read_begins();
        shared.sums.reads += 1;
        let (read, project) = (planned.read.clone(), planned.project.clone());
        let what = CallFor::Read { what: planned.what, read, project };
        let name = cluster.settings.name.clone();
        let id = shared.begin(&name, cluster.number, what, now);
        let what = CloudCall::Read(planned.read);
        return Some(CallToMake {
            id,
            cluster: name,
            project: planned.project,
            lane: CallLane::Reads,
            what,
            not_after: None,
        });
    }
}

impl ManagedCluster {
    /// Returns a read of a first look after a restart, if it is its turn.
    fn next_first_read(&mut self, pace: &CloudPace, now: Instant) -> Option<PlannedRead> {
        if self.since_first < LOOKS_PER_FIRST {
            return None;
        }
        self.since_first = 0;
        take_readable(&mut self.first_reads, pace, now)
    }

    /// Whether a planned read is still of use.
    fn is_awaited(&self, what: &ReadFor) -> bool {
        match what {
            ReadFor::Look { owner, number, .. } => {
                let is_its = |cell: &Cell| matches!(&cell.state, CellState::Looking(look) if look.number == *number);
                self.cells.get(owner).is_some_and(|cell| is_its(cell))
            }
            ReadFor::Members { owner, .. }
            | ReadFor::FloatingIp { owner }
            | ReadFor::AskedBalancer { owner, .. }
            | ReadFor::Holder { owner }
            | ReadFor::HolderBalancer { owner, .. }
            | ReadFor::HolderBalancers { owner, .. } => {
                self.cells.get(owner).is_some_and(|cell| matches!(cell.state, CellState::Reading))
            }
            ReadFor::Track(_) | ReadFor::Poll(_) | ReadFor::Adoption { .. } => true,
        }
    }

    /// Does what its time has come for.
    fn tick(&mut self, shared: &mut RegistryCore, now: Instant) {
        self.tell_unwanted(shared);
        for owner in std::mem::take(&mut self.dropped) {
            shared.pace.forget(&(self.settings.name.clone(), owner));
        }
        self.timers_due(now);
        let events = self.members.tick(now);
        self.tell_guard(events, shared, |cluster, event| RegistryEvent::MemberGuard { cluster, event });
        let events = self.balancers.tick(now);
        self.tell_guard(events, shared, |cluster, event| RegistryEvent::BalancerGuard { cluster, event });
        for (owner, balancer) in self.tracker.find_stuck(shared.settings.stuck_after, now) {
            self.told.insert(owner.clone());
            if let Some(cell) = self.cells.get_mut(&owner) {
                cell.working_since.get_or_insert(now);
            }
            shared.events.push(RegistryEvent::Stuck { cluster: self.settings.name.clone(), owner, balancer });
        }
        if !self.is_live(shared.settings.heartbeat_age, now) {
            return;
        }
        self.poll(shared, now);
        let reads = self.tracker.due(&self.cluster_tag(), now);
        self.plan_tracking(reads);
    }

    fn tell_guard(
        &mut self,
        events: Vec<GuardEvent>,
        shared: &mut RegistryCore,
        event_of: impl Fn(Text, GuardEvent) -> RegistryEvent,
    ) {
        if !events.is_empty() {
            self.wake_held();
        }
        shared.events.extend(events.into_iter().map(|event| event_of(self.settings.name.clone(), event)));
    }

    fn next_wake(&mut self, shared: &RegistryCore, now: Instant) -> Option<Instant> {
        let stuck = self.tracker.next(shared.settings.stuck_after);
        if !self.is_live(shared.settings.heartbeat_age, now) {
            return self.next_timer();
        }
        let has_lines = !self.kept_turns.is_empty()
            || self.lines.iter().any(|(kind, line)| *kind != Line::Looks && !line.is_empty());
        let bucket = self.bucket.as_mut().filter(|_| has_lines).and_then(|bucket| bucket.rests_until(now));
        let holds = !self.held.is_empty();
        let guard = holds.then(|| now + std::time::Duration::from_secs(1));
        [self.next_timer(), self.poller.next(), stuck, bucket, guard].into_iter().flatten().min()
    }

    fn confirm(&mut self, uid: &str) -> bool {
        self.confirmed.insert(uid.into());
        let was = matches!(&self.name_check, crate::cluster::NameCheck::Other(other) if **other == *uid);
        if was {
            // There may be a third one.
            self.name_check = crate::cluster::NameCheck::Unchecked;
            self.poller.now();
            self.told.extend(self.cells.keys().cloned());
        }
        was
    }

    /// Something was deleted in the project of an owner that a quota is in the way of.
    fn quota_freed(&mut self, owner: &Text) {
        if let Some(cell) = self.cells.get_mut(owner) {
            cell.actor.quota_freed();
            self.wake(owner);
        }
    }
}
