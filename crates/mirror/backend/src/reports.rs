//! When a status is written: once for each change of state that lasts, not for each change of a count.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gimbal_model::BackendName;

use crate::status::Stated;
use crate::{BackendCondition, BackendResourceStatus, ConditionType, StatusFacts};

/// What has to last before it is said: an agent that dials again, and a change that is written at once, are no news.
const SETTLED: Duration = Duration::from_secs(5);
/// How old counts may be.
const COUNTS: Duration = Duration::from_secs(60);

/// What was said of each backend, and what would be said if it lasts.
#[derive(Debug, Default)]
pub struct StatusReports(BTreeMap<BackendName, Report>);

#[derive(Debug)]
struct Report {
    uid: String,
    /// What was written last; `None` before the first time.
    written: Option<(Instant, BackendResourceStatus)>,
    /// What differs from what was said, and since when.
    differs: BTreeMap<ConditionType, (Instant, Stated)>,
}

impl StatusReports {
    /// Forgets what was written: another process may have written since.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// Returns the status that was written last for the object with this UID: by this process, else as it was read.
    #[must_use]
    pub fn said(&self, name: &BackendName, uid: &str, there: Option<&BackendResourceStatus>) -> BackendResourceStatus {
        let written = self.0.get(name).filter(|report| report.uid == uid).and_then(|report| report.written.as_ref());
        written.map(|(_, status)| status).or(there).cloned().unwrap_or_default()
    }

    /// Returns the status to write for the object with this UID, or `None` if it says what there is to say. `there` is its
    /// status as it was read; what was written since counts more. `wall` is the time for its conditions, in RFC 3339.
    pub fn due(
        &mut self,
        name: &BackendName,
        uid: &str,
        there: Option<&BackendResourceStatus>,
        facts: &StatusFacts<'_>,
        now: Instant,
        wall: &str,
    ) -> Option<BackendResourceStatus> {
        let said = self.said(name, uid, there);
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
        let is_old = report.written.as_ref().is_none_or(|(at, _)| now.saturating_duration_since(*at) >= COUNTS);
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

    /// Notes that a status was written.
    pub fn wrote(&mut self, name: &BackendName, status: BackendResourceStatus, now: Instant) {
        if let Some(report) = self.0.get_mut(name) {
            report.written = Some((now, status));
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
        // What needs somebody is said at once.
        let is_urgent = matches!(
            type_,
            ConditionType::Held | ConditionType::Lost | ConditionType::Stalled | ConditionType::Removed
        );
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
