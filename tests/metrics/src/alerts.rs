//! The alerts in `deploy/alerts`.

const FILES: [&str; 2] =
    [include_str!("../../../deploy/alerts/discovery.yaml"), include_str!("../../../deploy/alerts/way-back.yaml")];

/// An alert: what it is called, what it asks, and where a person reads what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlertRule {
    pub name: &'static str,
    pub query: &'static str,
    /// From the root of the repository.
    pub runbook: &'static str,
}

/// Returns all of them. Each value is on the line of its key.
pub fn rules() -> Vec<AlertRule> {
    let mut rules: Vec<AlertRule> = Vec::new();
    for line in FILES.iter().flat_map(|text| text.lines()).map(str::trim) {
        if let Some(name) = line.strip_prefix("- alert: ") {
            rules.push(AlertRule { name, query: "", runbook: "" });
        } else if let (Some(rule), Some((key, value))) = (rules.last_mut(), line.split_once(": ")) {
            match key {
                "expr" => rule.query = value,
                "runbook" => rule.runbook = value,
                _ => {}
            }
        }
    }
    rules
}
