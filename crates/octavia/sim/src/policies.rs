//! `/l7policies`.

use serde_json::{Value, json};

use crate::cloud::CloudModel;
use crate::http::{ApiRefusal, SimResponse};
use crate::listeners::{check_protocols, text};
use crate::objects::Progress;
use crate::rules::check_rule;
use crate::schema::{self, ApiKind, Fields};

impl CloudModel {
    pub(crate) fn create_policy(&mut self, body: &Value) -> Result<SimResponse, ApiRefusal> {
        let mut fields = schema::created(ApiKind::Policy, body, &["listener_id", "rules"])?;
        let rules = body["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
        let read = rules.iter().map(|rule| schema::created(ApiKind::Rule, rule, &[])).collect::<Result<Vec<_>, _>>()?;
        let listener = body["listener_id"].as_str().unwrap_or_default().to_owned();
        let found = self.store.get(ApiKind::Listener, &listener)?;
        let (project, protocol) = (found.project.clone(), found.text("protocol").to_owned());
        if protocol == "PROMETHEUS" {
            return Err(ApiRefusal::invalid("A PROMETHEUS listener can have no children."));
        }
        self.check_target(&fields, &protocol)?;
        self.quotas.check(&self.store, &project, ApiKind::Policy, 1)?;
        sanitize(&mut fields)?;
        read.iter().try_for_each(check_rule)?;
        let balancer = self.store.balancer_of(&listener);
        let id = self.transaction(&balancer, |cloud| {
            cloud.lock_listener(&listener)?;
            if !read.is_empty() {
                // Only a load balancer's creation makes rules with their policies.
                return Err(ApiRefusal::new(500, "'dict' object has no attribute '_sa_instance_state'"));
            }
            let id = cloud.insert_policy(&listener, &project, std::mem::take(&mut fields))?;
            cloud.check_l7("creating l7policies")?;
            cloud.dispatch(&id)?;
            Ok(id)
        })?;
        self.answer(201, ApiKind::Policy, &id)
    }

    pub(crate) fn update_policy(&mut self, id: &str, body: &Value) -> Result<SimResponse, ApiRefusal> {
        let listener = self.store.get(ApiKind::Policy, id)?.parent.clone().unwrap_or_default();
        let protocol = self.store.get(ApiKind::Listener, &listener)?.text("protocol").to_owned();
        let mut fields = schema::updated(ApiKind::Policy, body)?;
        if body["position"].is_null() {
            fields.remove("position");
        }
        if body.as_object().is_some_and(serde_json::Map::is_empty) {
            return Err(ApiRefusal::new(400, "Invalid L7 Policy arguments: Invalid update options"));
        }
        sanitize(&mut fields)?;
        self.check_target(&fields, &protocol)?;
        let balancer = self.store.balancer_of(id);
        self.transaction(&balancer, |cloud| {
            cloud.lock_listener(&listener)?;
            cloud.check_l7("updating l7policies")?;
            cloud.check_same_balancer(&balancer, &fields)?;
            forget_other_targets(&mut fields);
            let position = fields.remove("position").as_ref().and_then(Value::as_i64);
            if let Some(policy) = cloud.store.get_mut(id) {
                policy.provisioning = Progress::PendingUpdate;
                policy.fields.extend(fields);
            }
            if let Some(position) = position {
                cloud.place(&listener, id, position);
            }
            cloud.dispatch(id)
        })?;
        self.answer(200, ApiKind::Policy, id)
    }

    pub(crate) fn delete_policy(&mut self, id: &str) -> Result<SimResponse, ApiRefusal> {
        let listener = self.store.get(ApiKind::Policy, id)?.parent.clone().unwrap_or_default();
        let balancer = self.store.balancer_of(id);
        self.transaction(&balancer, |cloud| {
            cloud.lock_listener(&listener)?;
            cloud.check_l7("deleting l7policies")?;
            cloud.store.mark(id, Progress::PendingDelete);
            cloud.dispatch(id)
        })?;
        Ok(SimResponse::empty(204))
    }

    /// Adds a policy: `L7PolicyRepository.create`, after `sanitize`.
    pub(crate) fn insert_policy(
        &mut self,
        listener: &str,
        project: &str,
        mut fields: Fields,
    ) -> Result<String, ApiRefusal> {
        self.check_same_balancer(&self.store.balancer_of(listener), &fields)?;
        let position = fields.insert("position", json!(schema::LAST_POSITION));
        let id = self.insert(ApiKind::Policy, listener, project, fields);
        self.place(listener, &id, position.as_ref().and_then(Value::as_i64).unwrap_or(schema::LAST_POSITION));
        Ok(id)
    }

    /// Moves a policy to a position, counted from 1; one beyond the end is the end.
    fn place(&mut self, listener: &str, id: &str, position: i64) {
        let mut order = self.store.policies_of(listener);
        order.retain(|one| one != id);
        let at = usize::try_from(position - 1).unwrap_or_default().min(order.len());
        order.insert(at, id.to_owned());
        self.number(&order);
    }

    /// Numbers the policies of a listener from 1, so that the place of one that is gone closes.
    pub(crate) fn renumber(&mut self, listener: &str) {
        self.number(&self.store.policies_of(listener));
    }

    fn number(&mut self, order: &[String]) {
        for (id, position) in order.iter().zip(1_i64..) {
            let Some(policy) = self.store.get_mut(id) else { continue };
            if policy.number("position") != position {
                policy.fields.insert("position", json!(position));
                // The row is written, so its time is another. A new one has none.
                policy.updated = (policy.provisioning != Progress::PendingCreate).then_some(self.now);
            }
        }
    }

    /// Locks a listener and its load balancer for a change of its policies.
    pub(crate) fn lock_listener(&mut self, listener: &str) -> Result<(), ApiRefusal> {
        let balancer = self.store.balancer_of(listener);
        self.store.lock(&balancer, Progress::PendingUpdate)?;
        self.store.mark(listener, Progress::PendingUpdate);
        Ok(())
    }

    pub(crate) fn check_l7(&self, what: &str) -> Result<(), ApiRefusal> {
        let name = &self.provider.name;
        let words =
            || format!("Provider '{name}' does not support a requested action: This provider does not support {what}.");
        if self.provider.l7 { Ok(()) } else { Err(ApiRefusal::new(501, words())) }
    }

    fn check_target(&self, fields: &Fields, protocol: &str) -> Result<(), ApiRefusal> {
        match text(fields, "redirect_pool_id") {
            "" => Ok(()),
            pool => check_protocols(protocol, self.store.get(ApiKind::Pool, pool)?.text("protocol")),
        }
    }

    /// Checks that a policy leads to a pool of its own load balancer: `_validate_l7policy_pool_data`.
    fn check_same_balancer(&self, balancer: &str, fields: &Fields) -> Result<(), ApiRefusal> {
        if text(fields, "action") != "REDIRECT_TO_POOL" {
            return Ok(());
        }
        let pool = text(fields, "redirect_pool_id");
        let is_own = self.store.get(ApiKind::Pool, pool).is_ok_and(|pool| pool.parent.as_deref() == Some(balancer));
        if is_own { Ok(()) } else { Err(ApiRefusal::not_found(ApiKind::Pool.name(), pool)) }
    }
}

/// Makes an action and its targets agree: `sanitize_l7policy_api_args`.
pub(crate) fn sanitize(fields: &mut Fields) -> Result<(), ApiRefusal> {
    let wrong = |words: &str| Err(ApiRefusal::new(400, format!("Invalid L7 Policy arguments: {words}")));
    let has = |fields: &Fields, key: &str| !text(fields, key).is_empty();
    match fields.get("action").map(|action| action.as_str().unwrap_or_default()) {
        None => {}
        Some("REJECT") => clear(fields, &["redirect_url", "redirect_pool_id"]),
        Some("REDIRECT_TO_URL") if has(fields, "redirect_url") => clear(fields, &["redirect_pool_id"]),
        Some("REDIRECT_TO_URL") => return wrong("redirect_url must not be None"),
        Some("REDIRECT_TO_POOL") if has(fields, "redirect_pool_id") => clear(fields, &["redirect_url"]),
        Some("REDIRECT_TO_POOL") => return wrong("redirect_pool_id or redirect_pool must not be None"),
        Some("REDIRECT_PREFIX") if has(fields, "redirect_prefix") => {}
        Some("REDIRECT_PREFIX") => return wrong("redirect_prefix must not be None"),
        Some(_) => return Err(ApiRefusal::new(400, "Invalid L7 Policy action specified: None")),
    }
    if has(fields, "redirect_pool_id") {
        if has(fields, "redirect_url") || has(fields, "redirect_prefix") {
            return wrong("Cannot specify redirect_pool_id and redirect_url or redirect_prefix at the same time");
        }
        fields.insert("action", json!("REDIRECT_TO_POOL"));
        clear(fields, &["redirect_url", "redirect_prefix", "redirect_http_code"]);
    }
    if has(fields, "redirect_url") {
        fields.insert("action", json!("REDIRECT_TO_URL"));
        clear(fields, &["redirect_pool_id", "redirect_prefix"]);
    }
    if has(fields, "redirect_prefix") {
        fields.insert("action", json!("REDIRECT_PREFIX"));
        clear(fields, &["redirect_pool_id", "redirect_url"]);
    }
    if has(fields, "redirect_url") || has(fields, "redirect_prefix") {
        let code = fields.entry("redirect_http_code").or_default();
        if code.is_null() {
            *code = json!(302);
        }
    }
    Ok(())
}

/// Clears the targets of other actions than the one that an update sets: `L7PolicyRepository.update`.
fn forget_other_targets(fields: &mut Fields) {
    match text(fields, "action") {
        "REJECT" => clear(fields, &["redirect_url", "redirect_pool_id", "redirect_prefix", "redirect_http_code"]),
        "REDIRECT_TO_URL" => clear(fields, &["redirect_pool_id", "redirect_prefix"]),
        "REDIRECT_TO_POOL" => clear(fields, &["redirect_url", "redirect_prefix", "redirect_http_code"]),
        "REDIRECT_PREFIX" => clear(fields, &["redirect_url", "redirect_pool_id"]),
        _ => {}
    }
}

fn clear(fields: &mut Fields, keys: &[&'static str]) {
    fields.extend(keys.iter().map(|key| (*key, Value::Null)));
}
