//! `/l7policies/{id}/rules`.

use regex::Regex;
use serde_json::Value;

use crate::cloud::CloudModel;
use crate::http::{ApiRefusal, SimRequest, SimResponse};
use crate::listeners::text;
use crate::objects::{ApiObject, Progress};
use crate::schema::{self, ApiKind, Fields};

/// `MAX_L7RULES_PER_L7POLICY`.
const MOST_RULES: usize = 50;
/// What Octavia calls a policy in answers about its rules.
const POLICY: &str = "L7Policy";

impl CloudModel {
    pub(crate) fn list_rules(&self, policy: &str, request: &SimRequest) -> Result<SimResponse, ApiRefusal> {
        self.policy_of_path(policy)?;
        let rows = self.store.below(policy, ApiKind::Rule).map(|(id, one)| (id, self.store.row(id, one)));
        self.page(ApiKind::Rule, rows, request)
    }

    /// Shows a rule, whichever policy it is asked for by.
    pub(crate) fn show_rule(&self, policy: &str, id: &str) -> Result<SimResponse, ApiRefusal> {
        self.policy_of_path(policy)?;
        self.show(ApiKind::Rule, id)
    }

    pub(crate) fn create_rule(&mut self, policy: &str, body: &Value) -> Result<SimResponse, ApiRefusal> {
        let project = self.policy_of_path(policy)?.project.clone();
        let mut fields = schema::created(ApiKind::Rule, body, &[])?;
        check_rule(&fields)?;
        if self.store.below(policy, ApiKind::Rule).count() >= MOST_RULES {
            return Err(too_many(policy));
        }
        self.quotas.check(&self.store, &project, ApiKind::Rule, 1)?;
        let balancer = self.store.balancer_of(policy);
        let id = self.transaction(&balancer, |cloud| {
            cloud.lock_policy(policy)?;
            cloud.check_l7("creating l7rules")?;
            let id = cloud.insert(ApiKind::Rule, policy, &project, std::mem::take(&mut fields));
            cloud.dispatch(&id)?;
            Ok(id)
        })?;
        self.answer(201, ApiKind::Rule, &id)
    }

    pub(crate) fn update_rule(&mut self, policy: &str, id: &str, body: &Value) -> Result<SimResponse, ApiRefusal> {
        self.policy_of_path(policy)?;
        let mut merged = self.store.get(ApiKind::Rule, id)?.fields.clone();
        let mut fields = schema::updated(ApiKind::Rule, body)?;
        merged.extend(fields.clone());
        check_rule(&merged)?;
        if !has_key(&merged) {
            fields.insert("key", Value::Null);
        }
        let balancer = self.store.balancer_of(policy);
        self.transaction(&balancer, |cloud| {
            cloud.lock_policy(policy)?;
            cloud.check_l7("updating l7rules")?;
            if let Some(rule) = cloud.store.get_mut(id) {
                rule.provisioning = Progress::PendingUpdate;
                rule.fields.extend(fields);
            }
            cloud.dispatch_rule(policy, id)
        })?;
        self.answer(200, ApiKind::Rule, id)
    }

    pub(crate) fn delete_rule(&mut self, policy: &str, id: &str) -> Result<SimResponse, ApiRefusal> {
        self.policy_of_path(policy)?;
        self.store.get(ApiKind::Rule, id)?;
        let balancer = self.store.balancer_of(policy);
        self.transaction(&balancer, |cloud| {
            cloud.lock_policy(policy)?;
            cloud.check_l7("deleting l7rules")?;
            cloud.store.mark(id, Progress::PendingDelete);
            cloud.dispatch_rule(policy, id)
        })?;
        Ok(SimResponse::empty(204))
    }

    /// Adds the rules of a policy that is created with its load balancer.
    pub(crate) fn insert_rules(&mut self, policy: &str, project: &str, rules: &[Value]) -> Result<(), ApiRefusal> {
        if rules.len() > MOST_RULES {
            return Err(too_many(policy));
        }
        for rule in rules {
            let fields = schema::created(ApiKind::Rule, rule, &[])?;
            check_rule(&fields)?;
            self.insert(ApiKind::Rule, policy, project, fields);
        }
        Ok(())
    }

    /// Hands the change of a rule to the provider. Octavia does not check that it is one of the policy's: another one is changed
    /// too, under the lock of the policy's load balancer, and stays pending until its own settles.
    fn dispatch_rule(&mut self, policy: &str, id: &str) -> Result<(), ApiRefusal> {
        let is_own = self.store.find(id).is_some_and(|rule| rule.parent.as_deref() == Some(policy));
        self.dispatch(if is_own { id } else { policy })
    }

    fn policy_of_path(&self, policy: &str) -> Result<&ApiObject, ApiRefusal> {
        self.store.get(ApiKind::Policy, policy).map_err(|_| ApiRefusal::not_found(POLICY, policy))
    }

    /// Locks a policy, its listener and its load balancer for a change of its rules.
    fn lock_policy(&mut self, policy: &str) -> Result<(), ApiRefusal> {
        let found = self.policy_of_path(policy)?;
        if found.provisioning != Progress::Active {
            return Err(ApiRefusal::immutable(POLICY, policy));
        }
        let listener = found.parent.clone().unwrap_or_default();
        self.lock_listener(&listener)?;
        self.store.mark(policy, Progress::PendingUpdate);
        Ok(())
    }
}

fn too_many(policy: &str) -> ApiRefusal {
    ApiRefusal::new(409, format!("Too many rules on L7 policy {policy}"))
}

fn has_key(fields: &Fields) -> bool {
    matches!(text(fields, "type"), "HEADER" | "COOKIE")
}

/// Checks what a rule compares: `validate.l7rule_data`.
pub(crate) fn check_rule(fields: &Fields) -> Result<(), ApiRefusal> {
    let wrong = |words: &str| Err(ApiRefusal::new(400, format!("Error parsing L7Rule: Invalid L7 Rule: {words}")));
    let (value, key) = (text(fields, "value"), text(fields, "key"));
    if value.is_empty() {
        return wrong("L7 rule type requires a value");
    }
    if has_key(fields) && (key.is_empty() || !key.bytes().all(is_token)) {
        return wrong("L7 rule type requires a key");
    }
    if value.contains(['\r', '\n']) || key.contains(['\r', '\n']) {
        return Err(ApiRefusal::new(400, "Invalid input for field/attribute value."));
    }
    let printed = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_graphic());
    let quoted = |text: &str| {
        let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        inner.is_some_and(|text| text.bytes().all(|c| c.is_ascii_graphic() || c == b' ' || c == b'\t'))
    };
    let compare = text(fields, "compare_type");
    let fits = match (text(fields, "type"), compare) {
        ("", _) | (_, "") => false,
        (_, "REGEX") => Regex::new(value).is_ok(),
        ("FILE_TYPE", compare) if compare != "EQUAL_TO" => false,
        ("COOKIE", _) => printed(value) && !value.contains(['"', ';', '\\']),
        _ => printed(value) || quoted(value),
    };
    if fits { Ok(()) } else { wrong("the value does not fit its comparison") }
}

/// `HTTP_HEADER_NAME_REGEX`, whose `+-.` is a range.
fn is_token(c: u8) -> bool {
    c.is_ascii_alphanumeric() || b"!#$%&'*+,-.^_`|~".contains(&c)
}
