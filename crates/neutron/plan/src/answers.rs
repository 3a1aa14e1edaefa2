//! What the answer to a change says.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use gimbal_kuryr_model::Text;
use gimbal_octavia_plan::{ChangeOutcome, ServiceRefusal};
use serde_json::Value;

use crate::call::{PortAnswer, PortCallId, PortErrand};
use crate::cells::{PortDoubt, RETRY};
use crate::due::PortSubject;
use crate::plan::{PortFlight, PortPlan};
use crate::{PodPort, PortObstacle, PortPoolKey};

/// How long a used-up quota is left alone, unless a port was removed, and how long none is made in advance after it.
const QUOTA_PAUSE: Duration = Duration::from_secs(300);
/// When tags are tried again that Neutron has refused.
const TAGS_AGAIN: Duration = Duration::from_secs(300);

impl PortPlan {
    /// Takes the answer to a call.
    pub fn answered(&mut self, id: PortCallId, answer: PortAnswer, now: Instant) {
        let Some(PortFlight { project, errand }) = self.calls.remove(&id) else { return };
        self.sequence += 1;
        if let Some(port) = errand.port().and_then(|port| self.table.get_mut(port)) {
            port.busy = None;
        }
        match (errand, answer) {
            (errand @ (PortErrand::List | PortErrand::Read { .. } | PortErrand::Look { .. }), answer) => {
                self.read(id, &project, errand, answer, now);
            }
            (errand, PortAnswer::NotSent) => self.not_sent(errand, now),
            (errand, PortAnswer::Changed(outcome)) => self.changed(id, &project, errand, outcome, now),
            // Whoever answers a change like a read knows nothing about it.
            (errand, PortAnswer::Rows(_) | PortAnswer::ReadFailed { .. }) => {
                self.changed(id, &project, errand, ChangeOutcome::Unknown(String::new()), now);
            }
        }
        let oldest = self.calls.keys().next().map_or(self.sequence, |id| id.0);
        self.table.forget_removed(oldest);
    }

    fn not_sent(&mut self, errand: PortErrand, now: Instant) {
        match errand {
            PortErrand::Create { pool, pods, .. } => self.end_creation(&pool, &pods, now),
            PortErrand::Assign { port, .. } => {
                self.end_assignment(&port, now);
                self.due.port(&port);
            }
            errand => errand.port().into_iter().for_each(|port| self.due.port(port)),
        }
    }

    fn changed(&mut self, id: PortCallId, project: &Text, errand: PortErrand, outcome: ChangeOutcome, now: Instant) {
        if let ChangeOutcome::Refused(ServiceRefusal::Busy(pause) | ServiceRefusal::ProjectBusy(pause)) = outcome {
            self.pause.begin(pause, now);
            return self.not_sent(errand, now);
        }
        match errand {
            PortErrand::Create { pool, pods, count } => self.created(id, project, &pool, pods, count, outcome, now),
            PortErrand::Assign { port, pod } => self.assigned(id, &port, &pod, outcome, now),
            PortErrand::Update { port } => self.updated(id, &port, true, outcome, now),
            PortErrand::Retire { port } => self.updated(id, &port, false, outcome, now),
            PortErrand::Delete { port } => self.deleted(project, &port, outcome, now),
            PortErrand::Tag { port, tags } => self.tagged(&port, tags, &outcome, now),
            PortErrand::List | PortErrand::Read { .. } | PortErrand::Look { .. } => {}
        }
    }

    #[expect(clippy::too_many_arguments, reason = "they are the parts of one call and of its answer")]
    fn created(
        &mut self,
        id: PortCallId,
        project: &Text,
        key: &PortPoolKey,
        pods: BTreeSet<Text>,
        count: usize,
        outcome: ChangeOutcome,
        now: Instant,
    ) {
        let refusal = match outcome {
            ChangeOutcome::Accepted(body) => {
                let rows = body["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
                let taken = rows.iter().filter(|row| self.take(row, id.0, self.sequence, now)).count();
                let made: Vec<PodPort> = rows.iter().filter_map(PodPort::read).collect();
                made.iter().for_each(|row| self.set_held(&row.id, true));
                if taken < count {
                    return self.doubt(key, pods, now);
                }
                let pool = self.pools.entry(key.clone()).or_default();
                if made.iter().any(PodPort::is_broken) {
                    pool.fail(PortObstacle::Unbound(key.node.clone()), now);
                } else {
                    pool.succeed();
                }
                return self.end_creation(key, &pods, now);
            }
            // A driver that fails may have made them.
            ChangeOutcome::Unknown(_) | ChangeOutcome::Refused(ServiceRefusal::ProviderFailed) => {
                return self.doubt(key, pods, now);
            }
            ChangeOutcome::Refused(refusal) => refusal,
        };
        let pool = self.pools.entry(key.clone()).or_default();
        let is_short = matches!(refusal, ServiceRefusal::Quota(_) | ServiceRefusal::Exhausted(_));
        if is_short {
            pool.most = Some((count / 2).max(1));
        }
        if !is_short || count == 1 {
            if let ServiceRefusal::Quota(words) = &refusal {
                let full = (words.clone(), now + QUOTA_PAUSE);
                self.projects.entry(project.clone()).or_default().full = Some(full);
            } else {
                pool.fail(PortObstacle::of(&refusal), now);
            }
        }
        // From here on nothing is made in advance, and what others have ready makes room.
        if let ServiceRefusal::Quota(_) = refusal {
            self.projects.entry(project.clone()).or_default().scarce = Some(now + QUOTA_PAUSE);
            self.due.calm.extend(self.pools.keys().filter(|one| one.project == *project).cloned());
        } else if is_short {
            self.exhausted.insert(key.network.clone(), now + QUOTA_PAUSE);
            self.due.calm.extend(self.pools.keys().filter(|one| one.network == key.network).cloned());
        }
        self.end_creation(key, &pods, now);
        self.tell_waiting(key);
    }

    /// Notes that it is unknown whether ports were made: it is looked for them before any are made again.
    fn doubt(&mut self, key: &PortPoolKey, pods: BTreeSet<Text>, now: Instant) {
        let node = self.nodes.get(&key.node).cloned();
        if node.is_none() && pods.is_empty() {
            return self.end_creation(key, &pods, now);
        }
        let pool = self.pools.entry(key.clone()).or_default();
        pool.making = None;
        pool.doubt = Some(PortDoubt::new(pods, node, now));
        self.due.pool(key);
        self.look_for(key, now);
    }

    /// Lets a pool that is in doubt be looked at when it is time.
    pub(crate) fn look_for(&mut self, key: &PortPoolKey, now: Instant) {
        let Some(at) = self.pools.get(key).and_then(|pool| pool.doubt.as_ref()).and_then(PortDoubt::next) else {
            return;
        };
        let is_look = |flight: &PortFlight| matches!(&flight.errand, PortErrand::Look { pool } if pool == key);
        if at > now {
            self.due.at(at, PortSubject::Pool(key.clone()));
        } else if self.calls.values().any(is_look) {
            // Its answer decides when the next one is.
        } else if let Some(project) = self.projects.get_mut(&key.project) {
            project.looks.insert(key.clone());
        }
    }

    /// It is known what came of a creation.
    pub(crate) fn end_creation(&mut self, key: &PortPoolKey, pods: &BTreeSet<Text>, now: Instant) {
        if let Some(pool) = self.pools.get_mut(key) {
            (pool.making, pool.doubt) = (None, None);
        }
        self.set_making(pods.iter(), None);
        pods.iter().for_each(|pod| self.settle(pod, now));
        self.due.pool(key);
    }

    /// It is known what came of giving a port to a Pod.
    pub(crate) fn end_assignment(&mut self, port: &Text, now: Instant) {
        let Some(pod) = self.assigning.remove(port) else { return };
        self.set_making([&pod].into_iter(), None);
        self.settle(&pod, now);
    }

    fn assigned(&mut self, id: PortCallId, port: &Text, pod: &Text, outcome: ChangeOutcome, now: Instant) {
        let place = self.pods.get(pod).and_then(|cell| cell.wish.as_ref()).map(|wish| wish.place.clone());
        match outcome {
            ChangeOutcome::Accepted(body) => {
                if !self.take(&body["port"], id.0, self.sequence, now) {
                    return self.doubt_port(port, now);
                }
                self.set_held(port, true);
                if let Some(pool) = place.as_ref().and_then(|place| self.pools.get_mut(place)) {
                    pool.succeed();
                }
                self.end_assignment(port, now);
            }
            // Another writer may have given it to this Pod or to another one: the Pod waits until that is known.
            ChangeOutcome::Unknown(_)
            | ChangeOutcome::Refused(
                ServiceRefusal::Changed(_) | ServiceRefusal::NotFound(_) | ServiceRefusal::ProviderFailed,
            ) => self.doubt_port(port, now),
            ChangeOutcome::Refused(refusal) => {
                self.fail_port(port, now);
                self.end_assignment(port, now);
                if let Some(place) = place {
                    if let Some(pool) = self.pools.get_mut(&place) {
                        pool.fail(PortObstacle::of(&refusal), now);
                    }
                    self.tell_waiting(&place);
                }
            }
        }
    }

    fn updated(&mut self, id: PortCallId, port: &Text, is_kept: bool, outcome: ChangeOutcome, now: Instant) {
        match outcome {
            ChangeOutcome::Accepted(body) => {
                if !self.take(&body["port"], id.0, self.sequence, now) {
                    return self.doubt_port(port, now);
                }
                self.set_held(port, is_kept);
                self.relieve_port(port, now);
            }
            ChangeOutcome::Refused(ServiceRefusal::NotFound(words)) => {
                // It is the port that is not there, or a group that it was to carry.
                self.blame(port, PortObstacle::Missing(words), now);
                self.doubt_port(port, now);
            }
            ChangeOutcome::Unknown(_)
            | ChangeOutcome::Refused(ServiceRefusal::Changed(_) | ServiceRefusal::ProviderFailed) => {
                self.doubt_port(port, now);
            }
            ChangeOutcome::Refused(refusal) => self.blame(port, PortObstacle::of(&refusal), now),
        }
    }

    fn deleted(&mut self, project: &Text, port: &Text, outcome: ChangeOutcome, now: Instant) {
        match outcome {
            ChangeOutcome::Accepted(_) | ChangeOutcome::Refused(ServiceRefusal::NotFound(_)) => {
                let Some(known) = self.table.get(port) else { return };
                let (owner, network) = (known.owner.clone(), known.row.network.clone());
                self.table.remove(port, self.sequence);
                self.freed(project, &network);
                self.settle(&owner, now);
            }
            ChangeOutcome::Unknown(_) | ChangeOutcome::Refused(ServiceRefusal::ProviderFailed) => {
                self.doubt_port(port, now)
            }
            ChangeOutcome::Refused(refusal) => self.blame(port, PortObstacle::of(&refusal), now),
        }
    }

    /// There is room for a port more.
    fn freed(&mut self, project: &Text, network: &Text) {
        if let Some(project) = self.projects.get_mut(project) {
            project.full = None;
        }
        for (key, pool) in &mut self.pools {
            if !pool.waiting.is_empty() {
                if key.network == *network && matches!(pool.obstacle, Some(PortObstacle::Exhausted(_))) {
                    pool.pause = None;
                }
                self.due.urgent.insert(key.clone());
            }
        }
    }

    fn tagged(&mut self, port: &Text, tags: Vec<Text>, outcome: &ChangeOutcome, now: Instant) {
        match outcome {
            ChangeOutcome::Accepted(_) => {
                if let Some(known) = self.table.get_mut(port) {
                    // The answer does not say it. If it is another one, the next change is refused, and the port is read.
                    known.row.revision += 1;
                    known.row.tags = tags;
                }
            }
            ChangeOutcome::Unknown(_) | ChangeOutcome::Refused(ServiceRefusal::NotFound(_)) => {
                self.doubt_port(port, now)
            }
            ChangeOutcome::Refused(_) => self.due.at(now + TAGS_AGAIN, PortSubject::Tags(port.clone())),
        }
        self.due.ports.insert(port.clone());
    }

    /// Takes the row of a port. Returns whether it is one of this cluster.
    pub(crate) fn take(&mut self, row: &Value, began: u64, number: u64, now: Instant) -> bool {
        let Some(row) = PodPort::read(row) else { return false };
        let id = row.id.clone();
        let before = self.wake_around(&id);
        let is_ours = self.table.take(row, began, number, &self.ownership, now);
        let after = self.wake_around(&id);
        if let Some(before) = before.filter(|before| after.as_ref() != Some(before)) {
            self.settle(&before, now);
        }
        if let Some(after) = after {
            self.settle(&after, now);
        }
        self.due.port(&id);
        is_ours
    }

    /// Lets the pool of a port be looked at. Returns the port's owner.
    pub(crate) fn wake_around(&mut self, id: &Text) -> Option<Text> {
        if let Some(key) = self.pool_of(id)
            && self.pools.contains_key(&key)
        {
            self.due.pool(&key);
        }
        self.table.get(id).map(|port| port.owner.clone())
    }

    /// Lets a port be read before anything else is done about it.
    fn doubt_port(&mut self, id: &Text, now: Instant) {
        match self.table.get_mut(id) {
            Some(port) => port.stale = Some(self.sequence),
            None => self.end_assignment(id, now),
        }
        self.want_row(id);
    }

    /// Leaves a port alone for a while, which grows with each failure.
    fn fail_port(&mut self, id: &Text, now: Instant) {
        if let Some(port) = self.table.get_mut(id) {
            port.pause = Some(now + RETRY.delay(port.failures));
            port.failures += 1;
        }
        self.due.port(id);
    }

    fn blame(&mut self, id: &Text, obstacle: PortObstacle, now: Instant) {
        self.fail_port(id, now);
        let Some(owner) = self.table.get(id).map(|port| port.owner.clone()) else { return };
        if let Some(cell) = self.pods.get_mut(&owner) {
            cell.obstacle = Some(obstacle);
        }
        self.tell(&owner);
    }

    fn relieve_port(&mut self, id: &Text, now: Instant) {
        let Some(port) = self.table.get_mut(id) else { return };
        (port.failures, port.pause) = (0, None);
        let owner = port.owner.clone();
        if let Some(cell) = self.pods.get_mut(&owner) {
            cell.obstacle = None;
        }
        self.settle(&owner, now);
    }
}
