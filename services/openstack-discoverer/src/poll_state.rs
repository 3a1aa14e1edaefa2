//! The state of the cloud as the polls have shown it. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_discoverer::{Changed, Coverage, SourceStatus};
use gimbal_model::{AddressInSource, SourceKey};
use gimbal_octavia_rows::ObjectKind;
use gimbal_openstack_source::{CloudPoller, ListMode, PollOptions, PollOutcome, PollTrouble, Query, Reply};
use gimbal_session::{Freshness, Scope};

use gimbal_openstack_client::Dialect;

use crate::entry::{AccessMode, ProjectsFrom};
use crate::fetch::kind;

/// The kinds whose freshness is reported.
pub(crate) const KINDS: [&str; 5] = ["projects", "loadbalancers", "listeners", "pools", "members"];

/// What is known of the cloud, and what is reported of it to the writer.
#[derive(Debug)]
pub(crate) struct PollState {
    /// Keystone's URL and the region.
    keystone: String,
    /// The incarnation that is reported, once it is known which service implements load balancing.
    incarnation: Option<String>,
    options: PollOptions,
    cloud: CloudPoller,
    last_listed: BTreeMap<&'static str, Instant>,
    poll: Poll,
    coverage: Coverage,
    /// The namespaces that could not be listed in the last polls, and when the first of these polls began. `None` is
    /// the whole cloud.
    failing: BTreeMap<Option<Arc<str>>, Instant>,
    /// Whether a poll has shown anything since the mode was entered.
    was_seen: bool,
    /// Namespaces that were listed completely since then.
    known: BTreeSet<Arc<str>>,
    /// The poll interval. A part of the cloud that was listed before is reported as unknown after it could not be
    /// listed for two intervals.
    interval: Duration,
    began: Option<Instant>,
    /// Whether no further Services may exist that an earlier process published; see `PollOutcome::rest`.
    rest_is_known: bool,
    whole: bool,
    trouble: Option<String>,
    /// The troubles of the last poll.
    troubles: BTreeSet<String>,
    changed: Changed,
}

/// Progress of the running poll, by kind.
#[derive(Debug, Default)]
struct Poll {
    awaited: BTreeMap<&'static str, usize>,
    answered: BTreeSet<&'static str>,
    failed: BTreeSet<&'static str>,
}

/// The result of a poll.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PollSummary {
    pub(crate) result: PollResult,
    /// The troubles of this poll that the poll before did not have.
    pub(crate) new_troubles: Vec<String>,
    pub(crate) needed: usize,
    pub(crate) swept: usize,
}

/// How much of the cloud a poll showed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum PollResult {
    /// All of the cloud.
    #[default]
    Complete,
    /// Some namespaces are unknown.
    Partial,
    /// Nothing of the cloud.
    Failed,
}

impl PollResult {
    /// Returns the value for metric labels.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::Failed => "failed",
        }
    }
}

impl PollState {
    /// Returns the state before the first poll. `keystone` is Keystone's URL and the region, `interval` the time from
    /// one poll to the next.
    pub(crate) fn new(keystone: String, options: PollOptions, interval: Duration) -> Self {
        Self {
            keystone,
            incarnation: None,
            cloud: CloudPoller::new(ListMode::PerProject, options.clone()),
            options,
            last_listed: BTreeMap::new(),
            poll: Poll::default(),
            coverage: Coverage::Nothing,
            failing: BTreeMap::new(),
            was_seen: false,
            known: BTreeSet::new(),
            interval,
            began: None,
            rest_is_known: true,
            whole: true,
            trouble: None,
            troubles: BTreeSet::new(),
            changed: Vec::new(),
        }
    }

    /// Enters `mode`. What was listed in another mode is dropped.
    pub(crate) fn enter(&mut self, mode: ListMode, terms: &AccessMode) {
        let doubted = terms.place.dialect() == Dialect::NeutronLbaas;
        // While Octavia is missing in the catalog, an old neutron-lbaas plug-in may answer with empty lists. With the
        // same incarnation the writer could not distinguish that, after a start, from a cloud in which everything was
        // deleted.
        let by = if doubted { " neutron-lbaas" } else { "" };
        self.incarnation = Some(format!("{}{by}", self.keystone));
        let options = PollOptions {
            by_role: terms.projects == ProjectsFrom::Roles,
            // Neutron answers 404 also for objects that this user may not see.
            second_look: self.options.second_look.filter(|_| doubted),
            own: terms.own.clone(),
            ..self.options.clone()
        };
        self.begin_anew(CloudPoller::new(mode, options));
    }

    fn begin_anew(&mut self, cloud: CloudPoller) {
        self.cloud = cloud;
        self.failing.clear();
        self.was_seen = false;
        self.known.clear();
        self.whole = true;
        self.rest_is_known = true;
        self.poll = Poll::default();
        self.coverage = Coverage::Nothing;
        self.changed.clear();
    }

    /// Called when the cloud could not be entered. The published Services stay as they are.
    pub(crate) fn entry_failed(&mut self, reason: String) {
        self.coverage = Coverage::Unknown(vec![(Scope::All, reason.clone())]);
        self.trouble = Some(reason);
    }

    pub(crate) fn begin(&mut self, now: Instant) {
        self.poll = Poll::default();
        self.began = Some(now);
        self.cloud.begin(now);
    }

    pub(crate) fn next_query(&mut self) -> Option<Query> {
        let query = self.cloud.next_query()?;
        *self.poll.awaited.entry(kind(&query)).or_default() += 1;
        Some(query)
    }

    pub(crate) fn answer(&mut self, answer: Reply, failed: bool, now: Instant) {
        let kind = kind(&answer.query());
        if let Some(awaited) = self.poll.awaited.get_mut(kind) {
            *awaited = awaited.saturating_sub(1);
        }
        let kinds = if failed { &mut self.poll.failed } else { &mut self.poll.answered };
        kinds.insert(kind);
        self.cloud.answer(answer, now);
        self.changed.extend(self.cloud.take_changes());
    }

    pub(crate) fn is_done(&self) -> bool {
        self.cloud.is_done()
    }

    /// Ends the poll.
    pub(crate) fn finish(&mut self, now: Instant) -> PollSummary {
        let outcome = self.cloud.finish(now);
        self.changed.extend(outcome.changes.iter().cloned());
        self.record_freshness(&outcome, now);
        let troubles: BTreeSet<String> = outcome.troubles.iter().map(ToString::to_string).collect();
        let new_troubles = troubles.difference(&self.troubles).cloned().collect();
        self.troubles = troubles;
        self.coverage = self.coverage_after(&outcome, now);
        self.whole = outcome.unlisted.is_none();
        self.rest_is_known = outcome.rest.is_none();
        self.trouble = trouble(&outcome);
        let result = match &outcome.unknown {
            Some(_) => PollResult::Failed,
            None if outcome.is_complete() => PollResult::Complete,
            None => PollResult::Partial,
        };
        PollSummary { result, new_troubles, needed: outcome.members_needed, swept: outcome.members_swept }
    }

    /// Returns what to report after a poll. A part of the cloud that was listed before is not reported as unknown until
    /// it could not be listed for two intervals; nothing is removed meanwhile.
    fn coverage_after(&mut self, outcome: &PollOutcome, now: Instant) -> Coverage {
        let all = outcome.unknown.iter().map(|reason| (None, reason));
        let parts = outcome.unknown_namespaces.iter().map(|(namespace, reason)| (Some(namespace.clone()), reason));
        let mut before = std::mem::take(&mut self.failing);
        let mut reported = PollOutcome::default();
        for (part, reason) in all.chain(parts) {
            let since = before.remove(&part).or(self.began).unwrap_or(now);
            let lasts = now.saturating_duration_since(since) >= self.interval * 2;
            self.failing.insert(part.clone(), since);
            match part {
                None if lasts || !self.was_seen => reported.unknown = Some(reason.clone()),
                Some(namespace) if lasts || !self.known.contains(&namespace) => {
                    reported.unknown_namespaces.insert(namespace, reason.clone());
                }
                _ => {}
            }
        }
        if outcome.unknown.is_some() {
            // The failed poll showed nothing of single namespaces either, so they keep their times.
            self.failing.append(&mut before);
        }
        if outcome.unknown.is_none() {
            let namespaces =
                self.cloud.namespaces().filter(|namespace| !outcome.unknown_namespaces.contains_key(*namespace));
            self.known.extend(namespaces.cloned());
            self.was_seen = true;
        } else if reported.unknown.is_none() {
            // A failed poll shows nothing new of single namespaces either.
            return self.coverage.clone();
        }
        coverage(&reported)
    }

    /// Marks the kinds of which every list arrived as fresh. If a complete poll queried no members, the pools have
    /// shown that none changed.
    fn record_freshness(&mut self, outcome: &PollOutcome, now: Instant) {
        let Poll { awaited, answered, failed } = std::mem::take(&mut self.poll);
        for kind in KINDS {
            let owed = failed.contains(kind) || awaited.get(kind).is_some_and(|count| *count > 0);
            let is_answered = answered.contains(kind) || (kind == "members" && outcome.is_complete());
            if is_answered && !owed {
                self.last_listed.insert(kind, now);
            }
        }
    }

    /// Returns the number of published Services.
    #[cfg(test)]
    pub(crate) fn services(&self) -> usize {
        self.cloud.services().count()
    }

    /// Returns the changes since the last call.
    pub(crate) fn take_changed(&mut self) -> Changed {
        std::mem::take(&mut self.changed)
    }
}

fn coverage(outcome: &PollOutcome) -> Coverage {
    if let Some(reason) = &outcome.unknown {
        return Coverage::Unknown(vec![(Scope::All, reason.clone())]);
    }
    let mut by_reason: BTreeMap<&String, Vec<Arc<str>>> = BTreeMap::new();
    for (namespace, reason) in &outcome.unknown_namespaces {
        by_reason.entry(reason).or_default().push(namespace.clone());
    }
    match by_reason.is_empty() {
        true => Coverage::Complete,
        false => {
            let part = |(reason, namespaces): (&String, _)| (Scope::Namespaces(namespaces), reason.clone());
            Coverage::Unknown(by_reason.into_iter().map(part).collect())
        }
    }
}

fn trouble(outcome: &PollOutcome) -> Option<String> {
    if let Some(reason) = &outcome.unknown {
        return Some(reason.clone());
    }
    let Some((namespace, reason)) = outcome.unknown_namespaces.first_key_value() else {
        let projects = |trouble: &&PollTrouble| matches!(trouble, PollTrouble::List { kind: ObjectKind::Project, .. });
        let failed = || outcome.troubles.iter().find(projects).map(ToString::to_string);
        return outcome.unlisted.clone().or_else(failed);
    };
    Some(match outcome.unknown_namespaces.len() - 1 {
        0 => format!("namespace {namespace} is not known: {reason}"),
        others => format!("namespace {namespace} and {others} more are not known: {reason}"),
    })
}

impl SourceStatus for PollState {
    fn incarnation(&self) -> Option<&str> {
        self.incarnation.as_deref()
    }

    fn identified_by(&self) -> &'static str {
        "Keystone's URL, the region, and whether neutron-lbaas serves load balancing"
    }

    fn coverage(&self) -> Coverage {
        self.coverage.clone()
    }

    fn is_whole(&self) -> bool {
        self.whole
    }

    fn rest_is_known(&self) -> bool {
        self.rest_is_known
    }

    fn freshness(&self, now: Instant) -> Vec<Freshness> {
        let age = |kind| self.last_listed.get(kind).map(|last_listed| now.saturating_duration_since(*last_listed));
        KINDS.iter().map(|kind| Freshness { kind: (*kind).to_owned(), age: age(kind) }).collect()
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.clone()
    }

    fn skipped(&self) -> Vec<(&'static str, u64)> {
        self.cloud.skipped().into_iter().map(|(skip, count)| (skip.as_str(), count)).collect()
    }

    fn explain(&self, key: &SourceKey) -> Vec<String> {
        self.cloud.explain(key)
    }

    fn explain_address(&self, key: &SourceKey, address: IpAddr) -> AddressInSource {
        self.cloud.explain_address(key, address)
    }
}

#[cfg(test)]
mod tests;
