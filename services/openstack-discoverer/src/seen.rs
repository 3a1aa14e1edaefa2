//! What is known of the cloud. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use gimbal_agent::{Changed, Known, Standing};
use gimbal_load_balancing::{Answer, Ask, Cloud, Mode, Options, Outcome};
use gimbal_model::SourceKey;
use gimbal_stream::{Freshness, Scope};

use crate::fetch::kind;

/// The kinds whose freshness is told.
pub(crate) const KINDS: [&str; 5] = ["projects", "loadbalancers", "listeners", "pools", "members"];

/// The cloud as the polls have shown it.
#[derive(Debug)]
pub(crate) struct Seen {
    incarnation: String,
    options: Options,
    cloud: Cloud,
    heard: BTreeMap<&'static str, Instant>,
    poll: Poll,
    standing: Standing,
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

impl Seen {
    /// `incarnation`: Keystone's URL and the region.
    pub(crate) fn new(incarnation: String, options: Options) -> Self {
        Self {
            incarnation,
            cloud: Cloud::new(Mode::PerProject, options.clone()),
            options,
            heard: BTreeMap::new(),
            poll: Poll::default(),
            standing: Standing::Nothing,
            trouble: None,
            troubles: BTreeSet::new(),
            changed: Vec::new(),
        }
    }

    /// From now on, or again, lists are asked for in this way. What was seen in another way does not count any more.
    pub(crate) fn enter(&mut self, mode: Mode) {
        self.cloud = Cloud::new(mode, self.options.clone());
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
        self.cloud.begin(now);
    }

    pub(crate) fn next_ask(&mut self) -> Option<Ask> {
        let ask = self.cloud.next_ask()?;
        *self.poll.awaited.entry(kind(&ask)).or_default() += 1;
        Some(ask)
    }

    pub(crate) fn answer(&mut self, answer: Answer, failed: bool, now: Instant) {
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
        self.standing = standing(&outcome);
        self.trouble = trouble(&outcome);
        let result = match (&outcome.unknown, outcome.unknown_namespaces.is_empty()) {
            (Some(_), _) => PollResult::Failed,
            (None, false) => PollResult::Partial,
            (None, true) => PollResult::Complete,
        };
        Summary { result, new_troubles, needed: outcome.members_needed, swept: outcome.members_swept }
    }

    /// A kind is fresh when every list of it came. Where no members were asked for, the pools said that none had changed.
    fn freshen(&mut self, outcome: &Outcome, now: Instant) {
        let Poll { awaited, answered, failed } = std::mem::take(&mut self.poll);
        for kind in KINDS {
            let owed = failed.contains(kind) || awaited.get(kind).is_some_and(|count| *count > 0);
            let told = answered.contains(kind) || (kind == "members" && outcome.is_complete());
            if told && !owed {
                self.heard.insert(kind, now);
            }
        }
    }

    /// What changed since the last call.
    pub(crate) fn take_changed(&mut self) -> Changed {
        std::mem::take(&mut self.changed)
    }
}

fn standing(outcome: &Outcome) -> Standing {
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

fn trouble(outcome: &Outcome) -> Option<String> {
    if let Some(reason) = &outcome.unknown {
        return Some(reason.clone());
    }
    let (namespace, reason) = outcome.unknown_namespaces.first_key_value()?;
    Some(match outcome.unknown_namespaces.len() - 1 {
        0 => format!("namespace {namespace} is not known: {reason}"),
        others => format!("namespace {namespace} and {others} more are not known: {reason}"),
    })
}

impl Known for Seen {
    fn incarnation(&self) -> Option<&str> {
        Some(&self.incarnation)
    }

    fn identified_by(&self) -> &'static str {
        "Keystone's URL and the region"
    }

    fn standing(&self) -> Standing {
        self.standing.clone()
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
