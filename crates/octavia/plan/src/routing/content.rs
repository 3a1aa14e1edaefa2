//! What policies and rules are compared by: two with one content take the same requests.

use crate::routing::fold::{WantedPolicy, WantedRule};
use crate::seen_policy::SeenRule;

impl WantedRule {
    /// Returns what it compares.
    pub(crate) fn content(&self) -> String {
        format!("{} {} {}", self.kind, self.compare, self.value)
    }
}

/// Returns what a policy takes: two with one content take the same requests.
pub(crate) fn content(action: &str, rules: &[SeenRule]) -> String {
    joined(action, rules.iter().map(rule_content).collect())
}

/// The same, of a wanted one.
pub(crate) fn wanted_content(policy: &WantedPolicy) -> String {
    joined(policy.action(), policy.rules.iter().map(WantedRule::content).collect())
}

fn joined(action: &str, mut rules: Vec<String>) -> String {
    rules.sort();
    format!("{action}\n{}", rules.join("\n"))
}

/// Returns what a rule compares. One that is not as ours are is like none of them.
pub(crate) fn rule_content(rule: &SeenRule) -> String {
    let usual = !rule.invert && rule.admin_state_up && rule.key.is_none();
    let other = if usual { String::new() } else { format!("{} {} {:?} ", rule.invert, rule.admin_state_up, rule.key) };
    format!("{other}{} {} {}", rule.kind, rule.compare, rule.value)
}
