//! What is said of a discoverer in the status of its Backend.

use serde::{Deserialize, Serialize};

/// The type of the condition. The writer's conditions are beside it.
pub const DISCOVERER_READY: &str = "DiscovererReady";
/// Reason while nothing is missing, and no pod is available.
pub(crate) const NOT_AVAILABLE: &str = "NotAvailable";

/// The condition, as everywhere in Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiscovererCondition {
    /// [`DISCOVERER_READY`].
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// Why, for programs.
    pub reason: String,
    /// Why, in words.
    pub message: String,
    /// When the status last changed.
    pub last_transition_time: String,
    /// Generation of the spec that it is about.
    pub observed_generation: i64,
}

/// The condition without its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyStatement {
    /// Whether a pod of the discoverer is available.
    pub ready: bool,
    /// Why, for programs.
    pub reason: &'static str,
    /// Why, in words.
    pub message: String,
}

impl ReadyStatement {
    /// Something keeps the discoverer from being ready.
    #[must_use]
    pub fn not(reason: &'static str, message: impl Into<String>) -> Self {
        Self { ready: false, reason, message: message.into() }
    }

    /// Whether something is missing or in the way, so that somebody has to do something.
    #[must_use]
    pub fn is_problem(&self) -> bool {
        !self.ready && self.reason != NOT_AVAILABLE
    }
}

/// Returns the condition to write, or `None` if it says so already. `wall` is the time of day in RFC 3339.
#[must_use]
pub fn condition_to_write(
    stated: &ReadyStatement,
    generation: i64,
    there: Option<&DiscovererCondition>,
    wall: &str,
) -> Option<DiscovererCondition> {
    let status = if stated.ready { "True" } else { "False" };
    let since = there.filter(|there| there.status == status).map(|there| there.last_transition_time.clone());
    let next = DiscovererCondition {
        type_: DISCOVERER_READY.into(),
        status: status.into(),
        reason: stated.reason.into(),
        message: stated.message.clone(),
        last_transition_time: since.unwrap_or_else(|| wall.to_owned()),
        observed_generation: generation,
    };
    (there != Some(&next)).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_already_is_not_written_and_its_time_lasts_as_long_as_its_status() {
        let missing = ReadyStatement::not("SecretMissing", "no Secret");
        let first = condition_to_write(&missing, 1, None, "at 1").unwrap();
        assert_eq!((first.status.as_str(), first.last_transition_time.as_str()), ("False", "at 1"));
        assert_eq!(condition_to_write(&missing, 1, Some(&first), "at 2"), None);
        let again = condition_to_write(&ReadyStatement::not("NameTaken", ""), 2, Some(&first), "at 3").unwrap();
        assert_eq!((again.observed_generation, again.last_transition_time.as_str()), (2, "at 1"));
        let ready = ReadyStatement { ready: true, reason: "Available", message: String::new() };
        assert_eq!(condition_to_write(&ready, 2, Some(&again), "at 4").unwrap().last_transition_time, "at 4");
    }
}
