//! Load balancers that Octavia works on, and when to look whether it has finished.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gimbal_kuryr_model::Text;
use gimbal_octavia_plan::{ApiService, Provisioning};
use serde_json::Value;

use crate::call::CloudRead;
use crate::owner_look::{list, one};
use crate::settle_times::SettleTimes;

/// Up to this many are read one by one; above it, lists of those that are still pending are shorter.
const ONE_BY_ONE: usize = 4;
/// Where this part of all load balancers has settled at once, or more, one list of all costs Octavia less than a read of each.
const LIST_OF_ALL: usize = 8;
/// The time between two lists at least: Octavia takes long for them.
const BETWEEN_LISTS: Duration = Duration::from_millis(500);
/// The time between two looks at one that has been pending for too long.
const STUCK_PAUSE: Duration = Duration::from_secs(60);

/// A load balancer that is pending.
#[derive(Debug)]
pub(crate) struct PendingBalancer {
    pub(crate) owner: Text,
    pub(crate) project: Text,
    provider: String,
    status: Provisioning,
    since: Instant,
    /// A change of ours has begun then; else it was first seen then.
    is_ours: bool,
    next: Instant,
    pause: Option<Duration>,
    asked: bool,
    pub(crate) is_stuck: bool,
}

/// A read of the tracker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TrackRead {
    /// One load balancer.
    One(String),
    /// Those of a project that are in one status.
    Pending,
    /// All of a project, of which many have settled.
    All,
}

/// A read of the tracker, and the project that it is made in.
type PlannedTracking = (TrackRead, Text, CloudRead);

/// A round of lists.
#[derive(Debug)]
struct ListRound {
    begun: Instant,
    outstanding: usize,
    /// Projects of which a list could not be read: nothing is known of theirs.
    unread: BTreeSet<Text>,
    still: BTreeSet<String>,
}

/// The load balancers of one cluster that are pending.
#[derive(Debug, Default)]
pub(crate) struct PendingTracker {
    pending: BTreeMap<String, PendingBalancer>,
    round: Option<ListRound>,
    /// Not before this time the next lists.
    lists_after: Option<Instant>,
}

impl PendingTracker {
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn stuck(&self) -> usize {
        self.pending.values().filter(|one| one.is_stuck).count()
    }

    /// Returns how many have been pending for longer than that.
    pub(crate) fn pending_for(&self, time: Duration, now: Instant) -> usize {
        self.pending.values().filter(|one| one.since + time < now).count()
    }

    pub(crate) fn is_stuck(&self, owner: &str) -> Option<&str> {
        let mut stuck = self.pending.iter().filter(|(_, one)| one.is_stuck);
        stuck.find(|(_, one)| *one.owner == *owner).map(|(id, _)| id.as_str())
    }

    /// Begins to look at a load balancer, which is pending since our change was `sent`; unset: somebody else has changed it.
    pub(crate) fn track(
        &mut self,
        id: &str,
        (owner, project): (&Text, &Text),
        (provider, status): (&str, Provisioning),
        sent: Option<Instant>,
        times: &SettleTimes,
        now: Instant,
    ) {
        if self.pending.contains_key(id) {
            return;
        }
        let since = sent.unwrap_or(now);
        let next = (since + times.first_look(provider, status)).max(now);
        let pending = PendingBalancer {
            owner: owner.clone(),
            project: project.clone(),
            provider: provider.to_owned(),
            status,
            since,
            is_ours: sent.is_some(),
            next,
            pause: None,
            asked: false,
            is_stuck: false,
        };
        self.pending.insert(id.to_owned(), pending);
    }

    pub(crate) fn forget_owner(&mut self, owner: &str) {
        self.pending.retain(|_, one| *one.owner != *owner);
    }

    /// Returns the reads that are due.
    pub(crate) fn due(&mut self, cluster_tag: &str, now: Instant) -> Vec<PlannedTracking> {
        if self.pending.len() <= ONE_BY_ONE {
            let due = self.pending.iter_mut().filter(|(_, one)| !one.asked && one.next <= now);
            return due
                .map(|(id, one)| {
                    one.asked = true;
                    read_one(id, &one.project)
                })
                .collect();
        }
        let is_due = self.round.is_none()
            && self.lists_after.is_none_or(|after| after <= now)
            && self.pending.values().any(|one| !one.asked && one.next <= now);
        if !is_due {
            return Vec::new();
        }
        let lists: BTreeSet<_> = self.pending.values().map(|one| (one.project.clone(), word(one.status))).collect();
        self.round =
            Some(ListRound { begun: now, outstanding: lists.len(), unread: BTreeSet::new(), still: BTreeSet::new() });
        let read = |(project, status): (Text, &str)| {
            let query = vec![
                ("tags", cluster_tag.to_owned()),
                ("project_id", project.to_string()),
                ("provisioning_status", status.to_owned()),
                ("fields", "id".to_owned()),
            ];
            (TrackRead::Pending, project, list(ApiService::Octavia, "loadbalancer", "loadbalancers", query))
        };
        lists.into_iter().map(read).collect()
    }

    /// Takes a list of those in a project that are still pending; `None` if it could not be read. Returns the reads of those that
    /// have left; the cluster has `all` load balancers.
    pub(crate) fn listed(
        &mut self,
        project: &Text,
        rows: Option<&[Value]>,
        (cluster_tag, all): (&str, usize),
        now: Instant,
    ) -> Vec<PlannedTracking> {
        let Some(round) = self.round.as_mut() else { return Vec::new() };
        round.outstanding = round.outstanding.saturating_sub(1);
        match rows {
            Some(rows) => round.still.extend(rows.iter().filter_map(|row| row["id"].as_str().map(str::to_owned))),
            None => _ = round.unread.insert(project.clone()),
        }
        if round.outstanding > 0 {
            return Vec::new();
        }
        let Some(round) = self.round.take() else { return Vec::new() };
        self.lists_after = Some(now + BETWEEN_LISTS);
        let mut left: BTreeMap<Text, Vec<&String>> = BTreeMap::new();
        for (id, one) in self.pending.iter_mut().filter(|(_, one)| !one.asked && one.since < round.begun) {
            if round.unread.contains(&one.project) || round.still.contains(id) {
                one.again(now);
            } else {
                one.asked = true;
                left.entry(one.project.clone()).or_default().push(id);
            }
        }
        let mut reads = Vec::new();
        for (project, left) in left {
            if left.len() > ONE_BY_ONE && left.len() * LIST_OF_ALL >= all {
                let query = vec![("tags", cluster_tag.to_owned()), ("project_id", project.to_string())];
                let read = list(ApiService::Octavia, "loadbalancer", "loadbalancers", query);
                reads.push((TrackRead::All, project, read));
            } else {
                reads.extend(left.into_iter().map(|id| read_one(id, &project)));
            }
        }
        reads
    }

    /// Returns what is still asked about in a project that was listed, and reads of those that the list lacks: somebody may have
    /// taken the cluster's tag away.
    pub(crate) fn listed_all<'a>(
        &mut self,
        project: &Text,
        rows: &'a [Value],
    ) -> (Vec<(String, &'a Value)>, Vec<PlannedTracking>) {
        let by_id: BTreeMap<&str, &Value> = rows.iter().filter_map(|row| Some((row["id"].as_str()?, row))).collect();
        let (mut found, mut reads) = (Vec::new(), Vec::new());
        for id in self.pending.iter().filter(|(_, one)| one.asked && one.project == *project).map(|(id, _)| id) {
            match by_id.get(id.as_str()) {
                Some(row) => found.push((id.clone(), *row)),
                None => reads.push(read_one(id, project)),
            }
        }
        (found, reads)
    }

    /// Takes note that a list of all failed.
    pub(crate) fn list_failed(&mut self, project: &Text, now: Instant) {
        for one in self.pending.values_mut().filter(|one| one.asked && one.project == *project) {
            one.asked = false;
            one.again(now);
        }
    }

    /// Takes the row of one load balancer. Returns its owner once there is something to tell, and how long it took, if it is
    /// known.
    pub(crate) fn read(
        &mut self,
        id: &str,
        row: Option<&Value>,
        times: &mut SettleTimes,
        now: Instant,
    ) -> Option<Text> {
        let one = self.pending.get_mut(id)?;
        one.asked = false;
        let status = row.map(|row| Provisioning::read(row["provisioning_status"].as_str().unwrap_or_default()));
        if status.is_some_and(Provisioning::is_pending) {
            one.again(now);
            return None;
        }
        let one = self.pending.remove(id)?;
        // Of somebody else's change it is not known when it began, and it may be a longer one.
        if one.is_ours && !one.is_stuck {
            times.settled(&one.provider, one.status, now.saturating_duration_since(one.since));
        }
        Some(one.owner)
    }

    /// Takes note that a read failed.
    pub(crate) fn read_failed(&mut self, id: &str, now: Instant) {
        if let Some(one) = self.pending.get_mut(id) {
            one.asked = false;
            one.again(now);
        }
    }

    /// Returns those that have become stuck.
    pub(crate) fn find_stuck(&mut self, after: Duration, now: Instant) -> Vec<(Text, Text)> {
        let stuck = self.pending.iter_mut().filter(|(_, one)| !one.is_stuck && one.since + after <= now);
        stuck
            .map(|(id, one)| {
                one.is_stuck = true;
                (one.owner.clone(), Text::from(id.as_str()))
            })
            .collect()
    }

    /// Returns when the next look is due, or the next one becomes stuck.
    pub(crate) fn next(&self, stuck_after: Duration) -> Option<Instant> {
        let stuck = self.pending.values().filter(|one| !one.is_stuck).map(|one| one.since + stuck_after);
        let looks = self.pending.values().filter(|one| !one.asked).map(|one| one.next);
        let next = if self.pending.len() <= ONE_BY_ONE {
            looks.min()
        } else if self.round.is_some() {
            None
        } else {
            looks.min().map(|next| self.lists_after.map_or(next, |after| after.max(next)))
        };
        next.into_iter().chain(stuck).min()
    }
}

impl PendingBalancer {
    fn again(&mut self, now: Instant) {
        let first = self.next.saturating_duration_since(self.since);
        let pause = SettleTimes::next_pause(self.pause, first);
        self.pause = Some(pause);
        self.next = now + if self.is_stuck { STUCK_PAUSE } else { pause };
    }
}

fn read_one(id: &str, project: &Text) -> PlannedTracking {
    let read = one(ApiService::Octavia, "loadbalancer", format!("loadbalancers/{id}"));
    (TrackRead::One(id.to_owned()), project.clone(), read)
}

fn word(status: Provisioning) -> &'static str {
    match status {
        Provisioning::PendingCreate => "PENDING_CREATE",
        Provisioning::PendingDelete => "PENDING_DELETE",
        _ => "PENDING_UPDATE",
    }
}
