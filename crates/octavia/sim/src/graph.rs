//! The listeners, policies and pools in the request that creates a load balancer: `_graph_create`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::cloud::CloudModel;
use crate::http::ApiRefusal;
use crate::objects::ApiObject;
use crate::policies::sanitize;
use crate::schema::{self, ApiKind};

/// A pool in a listener or policy with no more keys than this is a reference by name. Octavia counts the keys, and two that it fills in.
const REFERENCE: usize = 1;
/// What a policy in a listener has besides its fields.
const OF_NESTED_POLICY: [&str; 2] = ["redirect_pool", "rules"];

impl CloudModel {
    /// Creates what a request lists below a load balancer. On an error the caller removes the load balancer.
    pub(crate) fn create_graph(&mut self, balancer: &str, body: &Value) -> Result<(), ApiRefusal> {
        let project = self.store.get(ApiKind::LoadBalancer, balancer)?.project.clone();
        let mut pools = items(body, "pools");
        let mut listeners = items(body, "listeners");
        let mut references = BTreeSet::new();
        for listener in &mut listeners {
            lift_pool(listener, "default_pool", &mut pools, &mut references)?;
            for policy in listener.get_mut("l7policies").and_then(Value::as_array_mut).into_iter().flatten() {
                lift_pool(policy, "redirect_pool", &mut pools, &mut references)?;
            }
        }
        let names: Vec<&str> = pools.iter().map(|pool| pool["name"].as_str().unwrap_or_default()).collect();
        if names.iter().collect::<BTreeSet<_>>().len() != names.len() {
            let words = "Pool names must be unique when creating a fully populated loadbalancer.";
            return Err(ApiRefusal::invalid(words));
        }
        if let Some(name) = references.iter().find(|name| !names.contains(&name.as_str())) {
            return Err(ApiRefusal::invalid(format!("Pool '{name}' was referenced but no full definition was found.")));
        }
        if !pools.is_empty() {
            self.quotas.check(&self.store, &project, ApiKind::Pool, pools.len())?;
        }
        let mut by_name = BTreeMap::new();
        for pool in &pools {
            let id = self.create_pool_below(balancer, &project, pool)?;
            by_name.insert(pool["name"].as_str().unwrap_or_default().to_owned(), id);
        }
        if !listeners.is_empty() {
            self.quotas.check(&self.store, &project, ApiKind::Listener, listeners.len())?;
        }
        for listener in &listeners {
            let mut fields = schema::created(ApiKind::Listener, listener, &["default_pool", "l7policies"])?;
            if let Some(pool) = listener["default_pool"]["name"].as_str().and_then(|name| by_name.get(name)) {
                fields.insert("default_pool_id", json!(pool));
            }
            let id = self.insert_listener(balancer, &project, fields)?;
            for policy in items(listener, "l7policies") {
                let mut fields = schema::created(ApiKind::Policy, &policy, &OF_NESTED_POLICY)?;
                let pool = policy["redirect_pool"]["name"].as_str().and_then(|name| by_name.get(name));
                fields.insert("redirect_pool_id", json!(pool));
                sanitize(&mut fields)?;
                let policy_id = self.insert_policy(&id, &project, fields)?;
                self.insert_rules(&policy_id, &project, &items(&policy, "rules"))?;
            }
        }
        Ok(())
    }

    /// Reads everything below a load balancer, as Octavia's framework does before anything else: a field that is invalid
    /// anywhere is refused first.
    pub(crate) fn check_graph(body: &Value) -> Result<(), ApiRefusal> {
        let check_pool = |pool: &Value| -> Result<(), ApiRefusal> {
            if pool["protocol"].is_null() {
                // A reference by name, or refused later by its own words.
                return Ok(());
            }
            schema::created(ApiKind::Pool, pool, &["members", "healthmonitor"])?;
            for member in items(pool, "members") {
                schema::created(ApiKind::Member, &member, &[])?;
            }
            let monitor = &pool["healthmonitor"];
            if monitor.is_null() { Ok(()) } else { schema::created(ApiKind::Monitor, monitor, &[]).map(drop) }
        };
        for listener in items(body, "listeners") {
            schema::created(ApiKind::Listener, &listener, &["default_pool", "l7policies"])?;
            check_pool(&listener["default_pool"])?;
            for policy in items(&listener, "l7policies") {
                if let Some(name) = ["redirect_pool_id", "listener_id"].iter().find(|name| !policy[**name].is_null()) {
                    return Err(schema::unknown(name));
                }
                schema::created(ApiKind::Policy, &policy, &OF_NESTED_POLICY)?;
                check_pool(&policy["redirect_pool"])?;
                items(&policy, "rules")
                    .iter()
                    .try_for_each(|rule| schema::created(ApiKind::Rule, rule, &[]).map(drop))?;
            }
        }
        items(body, "pools").iter().try_for_each(check_pool)
    }

    /// Creates a pool with its monitor and members.
    fn create_pool_below(&mut self, balancer: &str, project: &str, body: &Value) -> Result<String, ApiRefusal> {
        let name = body["name"].as_str().unwrap_or_default();
        for key in ["protocol", "lb_algorithm"] {
            if body[key].is_null() {
                return Err(ApiRefusal::invalid(format!(
                    "Pool definition for '{name}' missing required attribute: {key}"
                )));
            }
        }
        let fields = schema::created(ApiKind::Pool, body, &["members", "healthmonitor"])?;
        let id = self.insert_pool(balancer, project, fields)?;
        let monitor = &body["healthmonitor"];
        if !monitor.is_null() {
            self.quotas.check(&self.store, project, ApiKind::Monitor, 1)?;
            let fields = schema::created(ApiKind::Monitor, monitor, &[])?;
            self.insert_monitor(&id, project, fields)?;
        }
        let members = items(body, "members");
        if !members.is_empty() {
            self.quotas.check(&self.store, project, ApiKind::Member, members.len())?;
        }
        for member in &members {
            let fields = schema::created(ApiKind::Member, member, &[])?;
            self.insert_member(&id, project, fields)?;
        }
        Ok(id)
    }

    /// Adds an object in `PENDING_CREATE`.
    pub(crate) fn insert(&mut self, kind: ApiKind, parent: &str, project: &str, fields: schema::Fields) -> String {
        let id = self.store.new_id();
        self.store.insert(&id, ApiObject::new(kind, Some(parent), project, fields, self.now));
        id
    }
}

/// Moves a pool that a listener or policy describes to the other pools, and leaves its name.
fn lift_pool(
    user: &mut Value,
    key: &str,
    pools: &mut Vec<Value>,
    references: &mut BTreeSet<String>,
) -> Result<(), ApiRefusal> {
    let Some(pool) = user.get(key).filter(|pool| !pool.is_null()).cloned() else { return Ok(()) };
    let Some(name) = pool["name"].as_str().filter(|name| !name.is_empty()) else {
        return Err(ApiRefusal::invalid("Pools must be named when creating a fully populated loadbalancer."));
    };
    if pool.as_object().is_some_and(|pool| pool.len() > REFERENCE) {
        pools.push(pool.clone());
    } else {
        references.insert(name.to_owned());
    }
    user[key] = json!({"name": name});
    Ok(())
}

fn items(body: &Value, key: &str) -> Vec<Value> {
    body[key].as_array().cloned().unwrap_or_default()
}
