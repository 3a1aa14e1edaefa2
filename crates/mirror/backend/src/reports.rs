//! When a status is written: once for each change of state that lasts, not for each change of a count.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gimbal_model::BackendName;

use crate::status::{INCARNATION_REFUSED, Stated};
use crate::{BackendAnswer, BackendCondition, BackendResourceStatus, ConditionType, StatusFacts};

/// What has to last before it is said: an agent that dials again, and a change that is written at once, are no news.
const SETTLED: Duration = Duration::from_secs(5);
/// How old counts may be.
const COUNTS: Duration = Duration::from_secs(60);

/// The status of an object as it was read last.
#[derive(Debug, Clone, Copy)]
pub struct ReadStatus<'a> {
    /// UID of the object.
    pub uid: &'a str,
    /// Version of the object.
    pub version: &'a str,
    /// The status; `None` if it has none that can be read.
    pub status: Option<&'a BackendResourceStatus>,
}

/// What was said of each backend, and what would be said if it lasts.
#[derive(Debug, Default)]
pub struct StatusReports(BTreeMap<BackendName, Report>);

#[derive(Debug)]
struct Report {
    uid: String,
    /// What was written last; `None` before the first time.
    written: Option<Written>,
    /// What differs from what was said, and since when.
    differs: BTreeMap<ConditionType, (Instant, Stated)>,
}

#[derive(Debug)]
struct Written {
    at: Instant,
    status: BackendResourceStatus,
    /// The object's version that has it.
    version: String,
}

impl Written {
    /// Whether it is not known yet what became of it: what was read is from before.
    fn is_newer_than(&self, there: &ReadStatus<'_>) -> bool {
        match (self.version.parse::<u64>(), there.version.parse::<u64>()) {
            (Ok(written), Ok(read)) => written > read,
            _ => false,
        }
    }
}

impl StatusReports {
    /// Forgets what was written: another process may have written since.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// The cluster's store was put back to an older state: what is read from now on is how it is, whatever its version.
    pub fn went_back(&mut self) {
        self.0.values_mut().filter_map(|report| report.written.as_mut()).for_each(|written| written.version.clear());
    }

    fn written(&self, name: &BackendName, there: &ReadStatus<'_>) -> Option<&Written> {
        self.0.get(name).filter(|report| report.uid == there.uid)?.written.as_ref()
    }

    /// Returns what was written last, as long as that was not read.
    fn unread(&self, name: &BackendName, there: &ReadStatus<'_>) -> Option<&Written> {
        self.written(name, there).filter(|written| written.is_newer_than(there))
    }

    /// Returns the status that the object has: what this process wrote last, until that or what came after it is read.
    #[must_use]
    pub fn said(&self, name: &BackendName, there: ReadStatus<'_>) -> BackendResourceStatus {
        let written = self.unread(name, &there);
        written.map(|written| &written.status).or(there.status).cloned().unwrap_or_default()
    }

    /// Returns that status with the answers that were written and that somebody took out of it since: what they are about was done.
    #[must_use]
    pub fn said_and_answered(&self, name: &BackendName, there: ReadStatus<'_>) -> BackendResourceStatus {
        let mut said = self.said(name, there);
        let written = self.written(name, &there).into_iter().flat_map(|written| &written.status.answers);
        let lost = |answer: &&BackendAnswer| said.answers.iter().all(|known| known.annotation != answer.annotation);
        let lost: Vec<_> = written.filter(lost).cloned().collect();
        said.answers.extend(lost);
        said
    }

    /// Returns the version of the object that is known to this process: what it writes is about that one.
    #[must_use]
    pub fn version(&self, name: &BackendName, there: ReadStatus<'_>) -> String {
        let written = self.unread(name, &there);
        written.map_or_else(|| there.version.to_owned(), |written| written.version.clone())
    }

    /// Returns the status to write for an object, or `None` if it says what there is to say. `wall` is the time for its conditions,
    /// in RFC 3339.
    pub fn due(
        &mut self,
        name: &BackendName,
        there: ReadStatus<'_>,
        facts: &StatusFacts<'_>,
        now: Instant,
        wall: &str,
    ) -> Option<BackendResourceStatus> {
        let (said, uid) = (self.said(name, there), there.uid);
        let report = self.0.entry(name.clone()).or_insert_with(|| Report::new(uid));
        if report.uid != uid {
            *report = Report::new(uid);
        }
        let mut next = facts.rest();
        for stated in facts.conditions() {
            let before = said.conditions.iter().find(|condition| condition.type_ == stated.0);
            let before = before.filter(|before| !report.is_news(before, &stated, facts.generation, now));
            next.conditions.push(match before {
                Some(before) => before.clone(),
                None => condition(stated, &said, facts.generation, wall),
            });
        }
        let age = report.written.as_ref().map(|written| now.saturating_duration_since(written.at));
        let is_old = age.is_none_or(|age| age >= COUNTS);
        let is_news = said.conditions != next.conditions
            || said.observed_generation != next.observed_generation
            || said.incarnation != next.incarnation
            || said.refused_incarnation != next.refused_incarnation
            || said.held_changes != next.held_changes
            || said.answers != next.answers
            || said.removal.is_some() != next.removal.is_some()
            || next.removal.as_ref().is_some_and(|removal| removal.is_news(said.removal.as_ref()));
        (is_news || (is_old && said != next)).then_some(next)
    }

    /// Notes that a status was written, and which version the object has since.
    pub fn wrote(&mut self, name: &BackendName, status: BackendResourceStatus, version: &str, now: Instant) {
        if let Some(report) = self.0.get_mut(name) {
            report.written = Some(Written { at: now, status, version: version.to_owned() });
        }
    }
}

impl Report {
    fn new(uid: &str) -> Self {
        Self { uid: uid.to_owned(), written: None, differs: BTreeMap::new() }
    }

    /// Whether what is stated differs from what was said, and is to be said now.
    fn is_news(&mut self, before: &BackendCondition, stated: &Stated, generation: i64, now: Instant) -> bool {
        let (type_, status, reason, message) = stated;
        let same = before.status == *status && before.reason == *reason && before.message == *message;
        // What is said of a new spec is news, even if it is the same.
        if before.observed_generation != generation {
            return true;
        }
        if same {
            self.differs.remove(type_);
            return false;
        }
        let lasting = self.differs.entry(*type_).or_insert_with(|| (now, stated.clone()));
        if lasting.1.1 != *status || lasting.1.2 != *reason {
            *lasting = (now, stated.clone());
        }
        // What needs somebody is said at once. That an agent of another source was refused needs no one while that of the right one
        // only dials again.
        let is_urgent = matches!(
            type_,
            ConditionType::Held | ConditionType::Lost | ConditionType::Stalled | ConditionType::Removed
        ) && *reason != INCARNATION_REFUSED;
        let is_news = is_urgent || now.saturating_duration_since(lasting.0) >= SETTLED;
        if is_news {
            self.differs.remove(type_);
        }
        is_news
    }
}

fn condition(stated: Stated, said: &BackendResourceStatus, generation: i64, wall: &str) -> BackendCondition {
    let (type_, status, reason, message) = stated;
    let before = said.conditions.iter().find(|before| before.type_ == type_ && before.status == status);
    BackendCondition {
        type_,
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: before.map_or_else(|| wall.to_owned(), |before| before.last_transition_time.clone()),
        observed_generation: generation,
    }
}
