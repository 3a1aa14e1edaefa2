//! Policies of a listener, and their rules, as they were seen.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::mark::identity_in;
use crate::seen::{Provisioning, SeenListener, status, text, texts};

/// A policy: where a listener leads the requests that match all of its rules.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs)] // Octavia's own fields.
pub struct SeenPolicy {
    pub id: String,
    pub provisioning: Provisioning,
    pub name: String,
    /// From 1 on.
    pub position: u32,
    pub action: String,
    /// The pool that requests go to.
    pub pool: Option<String>,
    /// The prefix of the addresses that clients are sent to.
    pub prefix: Option<String>,
    /// The address that clients are sent to.
    pub url: Option<String>,
    pub admin_state_up: bool,
    pub tags: Vec<String>,
    pub rules: Vec<SeenRule>,
}

/// A rule of a policy.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs)] // Octavia's own fields.
pub struct SeenRule {
    pub id: String,
    pub provisioning: Provisioning,
    /// What is compared: `HOST_NAME`, `PATH` and others.
    pub kind: String,
    /// How it is compared: `REGEX`, `EQUAL_TO` and others.
    pub compare: String,
    /// The header or cookie that is compared.
    pub key: Option<String>,
    pub value: String,
    pub invert: bool,
    pub admin_state_up: bool,
    pub tags: Vec<String>,
}

impl SeenPolicy {
    /// Whether it sends clients to HTTPS.
    pub(crate) fn sends_to_https(&self) -> bool {
        self.admin_state_up && self.prefix.as_deref().is_some_and(|to| to.starts_with("https://"))
    }

    /// Reads a row, without its rules: rows of lists name only their IDs.
    #[must_use]
    pub fn read(row: &Value) -> Self {
        let optional = |key: &str| row[key].as_str().map(str::to_owned);
        Self {
            id: text(row, "id"),
            provisioning: status(row),
            name: text(row, "name"),
            position: row["position"].as_u64().and_then(|position| u32::try_from(position).ok()).unwrap_or_default(),
            action: text(row, "action"),
            pool: optional("redirect_pool_id"),
            prefix: optional("redirect_prefix"),
            url: optional("redirect_url"),
            admin_state_up: row["admin_state_up"] != false,
            tags: texts(row, "tags"),
            rules: Vec::new(),
        }
    }

    /// Whether it or one of its rules is in `ERROR`.
    pub(crate) fn is_broken(&self) -> bool {
        let error = |one: Provisioning| one == Provisioning::Error;
        error(self.provisioning) || self.rules.iter().any(|rule| error(rule.provisioning))
    }

    /// Returns the identity of the wanted policy that it was made for, else of what it takes.
    pub(crate) fn identity(&self) -> String {
        let marked = self.tags.iter().find_map(|tag| identity_in(tag));
        let mut rules: Vec<[&str; 3]> = self.rules.iter().map(|one| [&*one.kind, &*one.compare, &*one.value]).collect();
        rules.sort_unstable();
        marked.map_or_else(|| identity(&self.action, &rules), str::to_owned)
    }

    /// Reads a policy in the answer to a creation, which has its rules in it.
    pub(crate) fn read_tree(row: &Value) -> Self {
        let rules = row["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
        Self { rules: rules.iter().map(SeenRule::read).collect(), ..Self::read(row) }
    }
}

impl SeenRule {
    /// Reads a row.
    #[must_use]
    pub fn read(row: &Value) -> Self {
        Self {
            id: text(row, "id"),
            provisioning: status(row),
            kind: text(row, "type"),
            compare: text(row, "compare_type"),
            key: row["key"].as_str().map(str::to_owned),
            value: text(row, "value"),
            invert: row["invert"] == true,
            admin_state_up: row["admin_state_up"] != false,
            tags: texts(row, "tags"),
        }
    }
}

impl SeenListener {
    /// Takes a new policy: it comes last, for none is made elsewhere.
    pub(crate) fn policy_made(&mut self, policy: SeenPolicy) {
        self.policies.push(policy);
        self.number_policies();
    }

    /// Takes what a change has made of a policy, and its new place if it has one. Octavia takes it out first, and then puts it
    /// where it belongs, or last; the others are numbered anew.
    pub(crate) fn policy_changed(&mut self, changed: SeenPolicy, position: Option<usize>) {
        let Some(at) = self.policies.iter().position(|one| one.id == changed.id) else { return };
        let rules = std::mem::take(&mut self.policies[at].rules);
        self.policies[at] = SeenPolicy { rules, ..changed };
        if let Some(position) = position {
            let policy = self.policies.remove(at);
            let to = position.saturating_sub(1).min(self.policies.len());
            self.policies.insert(to, policy);
        }
        self.number_policies();
    }

    /// Takes the removal of a policy: its rules went with it.
    pub(crate) fn policy_gone(&mut self, id: &str) {
        self.policies.retain(|one| one.id != id);
        self.number_policies();
    }

    /// Puts policies that were read in any order into theirs.
    pub(crate) fn order_policies(&mut self) {
        self.policies.sort_by_key(|one| one.position);
    }

    fn number_policies(&mut self) {
        for (policy, position) in self.policies.iter_mut().zip(1..) {
            policy.position = position;
        }
    }
}

/// Returns what tells a policy from the others of its listener, whatever it is called and wherever its requests go: two with one
/// identity take the same requests. The rules are sorted; of each the kind, the comparison and the value.
pub(crate) fn identity(action: &str, rules: &[[&str; 3]]) -> String {
    let mut hash = Sha256::new();
    for text in std::iter::once(action).chain(rules.iter().flatten().copied()) {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
