//! What is known of the cloud. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_discoverer::{Changed, Known, Standing};
use gimbal_model::SourceKey;
use gimbal_openstack_source::{CloudPoller, Mode, Options, PollOutcome, Query, Reply};
use gimbal_session::{Freshness, Scope};

use gimbal_openstack_client::Dialect;

use crate::entry::{AccessMode, ProjectsFrom};
use crate::fetch::kind;

/// The kinds whose freshness is told.
pub(crate) const KINDS: [&str; 5] = ["projects", "loadbalancers", "listeners", "pools", "members"];

/// The cloud as the polls have shown it.
#[derive(Debug)]
pub(crate) struct PollState {
    /// Keystone's URL and the region.
    keystone: String,
    /// What is told of them, once it is known who serves load balancing.
    incarnation: Option<String>,
    options: Options,
    cloud: CloudPoller,
    heard: BTreeMap<&'static str, Instant>,
    poll: Poll,
    standing: Standing,
    /// What could not be seen in the last polls, since the first of them began; all of the cloud without a name.
    failing: BTreeMap<Option<Arc<str>>, Instant>,
    /// Whether anything was seen since the mode was entered.
    was_seen: bool,
    /// Namespaces that were seen whole since then.
    known: BTreeSet<Arc<str>>,
    /// A part that was seen is called unknown when it could not be seen for two of these.
    interval: Duration,
    began: Option<Instant>,
    /// There may be what is not told now, and was before the start.
    rest_is_known: bool,
    whole: bool,
    trouble: Option<String>,
    /// What went wrong in the last poll.
    troubles: BTreeSet<String>,
    changed: Changed,
}

/// How it goes with the kinds in the poll that runs.
#[derive(Debug, Default)]
struct Poll {
    awaited: BTreeMap<&'static str, usize>,
    answered: BTreeSet<&'static str>,
    failed: BTreeSet<&'static str>,
}

/// What a poll came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) result: PollResult,
    /// What went wrong in this poll and not in the one before.
    pub(crate) new_troubles: Vec<String>,
    pub(crate) needed: usize,
    pub(crate) swept: usize,
}

/// How much a poll showed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum PollResult {
    /// Everything.
    #[default]
    Complete,
    /// Some namespaces are unknown.
    Partial,
    /// Nothing.
    Failed,
}

impl PollResult {
    /// For metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::Failed => "failed",
        }
    }
}

impl PollState {
    /// `incarnation`: Keystone's URL and the region. `interval`: from one poll to the next.
    pub(crate) fn new(keystone: String, options: Options, interval: Duration) -> Self {
        Self {
            keystone,
            incarnation: None,
            cloud: CloudPoller::new(Mode::PerProject, options.clone()),
            options,
            heard: BTreeMap::new(),
            poll: Poll::default(),
            standing: Standing::Nothing,
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

    /// From now on, or again, lists are asked for in this way. What was seen in another way does not count any more.
    pub(crate) fn enter(&mut self, mode: Mode, terms: &AccessMode) {
        let doubted = terms.place.dialect() == Dialect::NeutronLbaas;
        // While Octavia is missing in the catalog an old plug-in of Neutron may answer, with nothing in it: at a start nobody
        // else could tell that from a cloud in which everything was deleted.
        let by = if doubted { " neutron-lbaas" } else { "" };
        self.incarnation = Some(format!("{}{by}", self.keystone));
        let options = Options {
            by_role: terms.projects == ProjectsFrom::Roles,
            // Neutron says 404 also of what this user may not see.
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
        self.standing = Standing::Nothing;
        self.changed.clear();
    }

    /// The cloud could not be entered. What was known stands.
    pub(crate) fn not_entered(&mut self, reason: String) {
        self.standing = Standing::Unknown(vec![(Scope::All, reason.clone())]);
        self.trouble = Some(reason);
    }

    pub(crate) fn begin(&mut self, now: Instant) {
        self.poll = Poll::default();
        self.began = Some(now);
        self.cloud.begin(now);
    }

    pub(crate) fn next_query(&mut self) -> Option<Query> {
        let ask = self.cloud.next_query()?;
        *self.poll.awaited.entry(kind(&ask)).or_default() += 1;
        Some(ask)
    }

    pub(crate) fn answer(&mut self, answer: Reply, failed: bool, now: Instant) {
        let kind = kind(&answer.ask());
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
    pub(crate) fn finish(&mut self, now: Instant) -> Summary {
        let outcome = self.cloud.finish(now);
        self.changed.extend(outcome.changes.iter().cloned());
        self.freshen(&outcome, now);
        let troubles: BTreeSet<String> = outcome.troubles.iter().map(ToString::to_string).collect();
        let new_troubles = troubles.difference(&self.troubles).cloned().collect();
        self.troubles = troubles;
        self.standing = self.patient(&outcome, now);
        self.whole = outcome.unlisted.is_none();
        self.rest_is_known = outcome.rest.is_none();
        self.trouble = trouble(&outcome);
        let result = match &outcome.unknown {
            Some(_) => PollResult::Failed,
            None if outcome.is_complete() => PollResult::Complete,
            None => PollResult::Partial,
        };
        Summary { result, new_troubles, needed: outcome.members_needed, swept: outcome.members_swept }
    }

    /// One poll that fails soon is no news of a cloud that was seen before: nothing is removed by it, and what was told stands.
    fn patient(&mut self, outcome: &PollOutcome, now: Instant) -> Standing {
        let all = outcome.unknown.iter().map(|reason| (None, reason));
        let parts = outcome.unknown_namespaces.iter().map(|(namespace, reason)| (Some(namespace.clone()), reason));
        let mut before = std::mem::take(&mut self.failing);
        let mut told = PollOutcome::default();
        for (part, reason) in all.chain(parts) {
            let since = before.remove(&part).or(self.began).unwrap_or(now);
            let lasts = now.saturating_duration_since(since) >= self.interval * 2;
            self.failing.insert(part.clone(), since);
            match part {
                None if lasts || !self.was_seen => told.unknown = Some(reason.clone()),
                Some(namespace) if lasts || !self.known.contains(&namespace) => {
                    told.unknown_namespaces.insert(namespace, reason.clone());
                }
                _ => {}
            }
        }
        if outcome.unknown.is_some() {
            // It showed nothing of single namespaces either.
            self.failing.append(&mut before);
        }
        if outcome.unknown.is_none() {
            let namespaces =
                self.cloud.namespaces().filter(|namespace| !outcome.unknown_namespaces.contains_key(*namespace));
            self.known.extend(namespaces.cloned());
            self.was_seen = true;
        } else if told.unknown.is_none() {
            // What a failed poll says of single namespaces is nothing new either.
            return self.standing.clone();
        }
        standing(&told)
    }

    /// A kind is fresh when every list of it came. Where no members were asked for, the pools said that none had changed.
    fn freshen(&mut self, outcome: &PollOutcome, now: Instant) {
        let Poll { awaited, answered, failed } = std::mem::take(&mut self.poll);
        for kind in KINDS {
            let owed = failed.contains(kind) || awaited.get(kind).is_some_and(|count| *count > 0);
            let told = answered.contains(kind) || (kind == "members" && outcome.is_complete());
            if told && !owed {
                self.heard.insert(kind, now);
            }
        }
    }

    /// How much is offered.
    #[cfg(test)]
    pub(crate) fn services(&self) -> usize {
        self.cloud.services().count()
    }

    /// What changed since the last call.
    pub(crate) fn take_changed(&mut self) -> Changed {
        std::mem::take(&mut self.changed)
    }
}

fn standing(outcome: &PollOutcome) -> Standing {
    if let Some(reason) = &outcome.unknown {
        return Standing::Unknown(vec![(Scope::All, reason.clone())]);
    }
    let mut by_reason: BTreeMap<&String, Vec<Arc<str>>> = BTreeMap::new();
    for (namespace, reason) in &outcome.unknown_namespaces {
        by_reason.entry(reason).or_default().push(namespace.clone());
    }
    match by_reason.is_empty() {
        true => Standing::Complete,
        false => {
            let part = |(reason, namespaces): (&String, _)| (Scope::Namespaces(namespaces), reason.clone());
            Standing::Unknown(by_reason.into_iter().map(part).collect())
        }
    }
}

fn trouble(outcome: &PollOutcome) -> Option<String> {
    if let Some(reason) = &outcome.unknown {
        return Some(reason.clone());
    }
    let Some((namespace, reason)) = outcome.unknown_namespaces.first_key_value() else {
        return outcome.unlisted.clone();
    };
    Some(match outcome.unknown_namespaces.len() - 1 {
        0 => format!("namespace {namespace} is not known: {reason}"),
        others => format!("namespace {namespace} and {others} more are not known: {reason}"),
    })
}

impl Known for PollState {
    fn incarnation(&self) -> Option<&str> {
        self.incarnation.as_deref()
    }

    fn identified_by(&self) -> &'static str {
        "Keystone's URL, the region, and whether neutron-lbaas serves load balancing"
    }

    fn standing(&self) -> Standing {
        self.standing.clone()
    }

    fn is_whole(&self) -> bool {
        self.whole
    }

    fn rest_is_known(&self) -> bool {
        self.rest_is_known
    }

    fn freshness(&self, now: Instant) -> Vec<Freshness> {
        let age = |kind| self.heard.get(kind).map(|heard| now.saturating_duration_since(*heard));
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
}

#[cfg(test)]
mod tests;
