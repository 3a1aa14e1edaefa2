//! `/pools`.

use serde_json::{Value, json};

use crate::cloud::CloudModel;
use crate::http::{ApiRefusal, SimResponse};
use crate::listeners::{check_protocols, text};
use crate::objects::Progress;
use crate::schema::{self, ApiKind, Fields};

impl CloudModel {
    pub(crate) fn create_pool(&mut self, body: &Value) -> Result<SimResponse, ApiRefusal> {
        // Octavia reads members and a monitor here too, and makes neither.
        let extra = ["loadbalancer_id", "listener_id", "members", "healthmonitor"];
        let mut fields = schema::created(ApiKind::Pool, body, &extra)?;
        if fields["lb_algorithm"].is_null() {
            return Err(ApiRefusal::new(
                400,
                "Invalid input for field/attribute lb_algorithm. Mandatory field missing.",
            ));
        }
        let listener = body["listener_id"].as_str().map(str::to_owned);
        let balancer = match (body["loadbalancer_id"].as_str(), &listener) {
            (Some(balancer), _) => balancer.to_owned(),
            (None, Some(listener)) => {
                let found = self.store.get(ApiKind::Listener, listener)?;
                check_protocols(found.text("protocol"), text(&fields, "protocol"))?;
                self.store.balancer_of(listener)
            }
            (None, None) => {
                return Err(ApiRefusal::invalid("Must provide at least one of: loadbalancer_id, listener_id"));
            }
        };
        let project = self.store.get(ApiKind::LoadBalancer, &balancer)?.project.clone();
        check_persistence(&fields)?;
        self.quotas.check(&self.store, &project, ApiKind::Pool, 1)?;
        let id = self.transaction(&balancer, |cloud| {
            if let Some(listener) = &listener
                && !cloud.store.get(ApiKind::Listener, listener)?.text("default_pool_id").is_empty()
            {
                return Err(ApiRefusal::new(409, "This listener already has a default pool"));
            }
            cloud.store.lock(&balancer, Progress::PendingUpdate)?;
            let id = cloud.insert_pool(&balancer, &project, std::mem::take(&mut fields))?;
            if let Some(listener) = listener.as_deref().and_then(|id| cloud.store.get_mut(id)) {
                listener.provisioning = Progress::PendingUpdate;
                listener.fields.insert("default_pool_id", json!(id));
            }
            cloud.dispatch(&id)?;
            Ok(id)
        })?;
        self.answer(201, ApiKind::Pool, &id)
    }

    pub(crate) fn update_pool(&mut self, id: &str, body: &Value) -> Result<SimResponse, ApiRefusal> {
        let pool = self.store.get(ApiKind::Pool, id)?;
        let mut fields = schema::updated(ApiKind::Pool, body)?;
        fields.insert("protocol", json!(pool.text("protocol")));
        check_persistence(&fields)?;
        if let Some(algorithm) = fields.get("lb_algorithm").and_then(Value::as_str) {
            self.provider.check_algorithm(algorithm)?;
        }
        self.change_pool(id, Progress::PendingUpdate, |cloud| {
            if let Some(pool) = cloud.store.get_mut(id) {
                pool.fields.extend(fields);
            }
            Ok(())
        })?;
        self.answer(200, ApiKind::Pool, id)
    }

    pub(crate) fn delete_pool(&mut self, id: &str) -> Result<SimResponse, ApiRefusal> {
        self.store.get(ApiKind::Pool, id)?;
        if let Some(policy) = self.store.policies_to(id).first() {
            return Err(ApiRefusal::new(409, format!("Pool {id} is in use by L7 policy {policy}")));
        }
        self.change_pool(id, Progress::PendingDelete, |_| Ok(()))?;
        Ok(SimResponse::empty(204))
    }

    /// Changes a pool under the lock of its load balancer, which takes its listeners along.
    fn change_pool(
        &mut self,
        id: &str,
        status: Progress,
        change: impl FnOnce(&mut Self) -> Result<(), ApiRefusal>,
    ) -> Result<(), ApiRefusal> {
        let balancer = self.store.balancer_of(id);
        self.transaction(&balancer, |cloud| {
            cloud.store.lock(&balancer, Progress::PendingUpdate)?;
            cloud.mark_listeners(id);
            cloud.store.mark(id, status);
            change(cloud)?;
            cloud.dispatch(id)
        })
    }

    /// Locks a pool and its listeners for a change of what is below it.
    pub(crate) fn lock_pool(&mut self, id: &str) -> Result<(), ApiRefusal> {
        if self.store.get(ApiKind::Pool, id)?.provisioning != Progress::Active {
            return Err(ApiRefusal::immutable("Pool", id));
        }
        let balancer = self.store.balancer_of(id);
        self.store.lock(&balancer, Progress::PendingUpdate)?;
        self.mark_listeners(id);
        self.store.mark(id, Progress::PendingUpdate);
        Ok(())
    }

    fn mark_listeners(&mut self, pool: &str) {
        for listener in self.store.listeners_of(pool) {
            self.store.mark(&listener, Progress::PendingUpdate);
        }
    }

    /// Adds a pool.
    pub(crate) fn insert_pool(&mut self, balancer: &str, project: &str, fields: Fields) -> Result<String, ApiRefusal> {
        let protocol = text(&fields, "protocol");
        if !self.provider.protocols.iter().any(|one| one == protocol) {
            return Err(self.provider.refuse(&format!("protocol {protocol}")));
        }
        self.provider.check_algorithm(text(&fields, "lb_algorithm"))?;
        Ok(self.insert(ApiKind::Pool, balancer, project, fields))
    }
}

/// Only UDP and SCTP pools keep clients for a time.
fn check_persistence(fields: &Fields) -> Result<(), ApiRefusal> {
    let Some(persistence) = fields.get("session_persistence").filter(|value| !value.is_null()) else { return Ok(()) };
    let datagrams = matches!(text(fields, "protocol"), "UDP" | "SCTP");
    let timed = ["persistence_timeout", "persistence_granularity"].iter().any(|key| !persistence[*key].is_null());
    if timed && !datagrams {
        let words = "persistence_timeout and persistence_granularity is only for UDP and SCTP protocol pools.";
        return Err(ApiRefusal::invalid(words));
    }
    let cookie = matches!(persistence["type"].as_str(), Some("HTTP_COOKIE" | "APP_COOKIE"));
    if cookie && datagrams {
        return Err(ApiRefusal::invalid("Session persistence of type is not supported for UDP/SCTP protocol pools."));
    }
    Ok(())
}
