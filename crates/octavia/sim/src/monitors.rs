//! `/healthmonitors`.

use serde_json::{Value, json};

use crate::cloud::CloudModel;
use crate::http::{ApiRefusal, SimResponse};
use crate::listeners::text;
use crate::objects::Progress;
use crate::schema::{self, ApiKind, Fields};

impl CloudModel {
    pub(crate) fn create_monitor(&mut self, body: &Value) -> Result<SimResponse, ApiRefusal> {
        let mut fields = schema::created(ApiKind::Monitor, body, &["pool_id"])?;
        let pool = body["pool_id"].as_str().unwrap_or_default().to_owned();
        let project = self.store.get(ApiKind::Pool, &pool)?.project.clone();
        self.quotas.check(&self.store, &project, ApiKind::Monitor, 1)?;
        let balancer = self.store.balancer_of(&pool);
        let id = self.transaction(&balancer, |cloud| {
            cloud.lock_pool(&pool)?;
            let id = cloud.insert_monitor(&pool, &project, std::mem::take(&mut fields))?;
            cloud.dispatch(&id)?;
            Ok(id)
        })?;
        self.answer(201, ApiKind::Monitor, &id)
    }

    pub(crate) fn update_monitor(&mut self, id: &str, body: &Value) -> Result<SimResponse, ApiRefusal> {
        let monitor = self.store.get(ApiKind::Monitor, id)?;
        let speaks_http = matches!(monitor.text("type"), "HTTP" | "HTTPS");
        let fields = schema::updated(ApiKind::Monitor, body)?;
        for key in ["http_method", "url_path", "expected_codes"] {
            if !speaks_http && fields.contains_key(key) {
                return Err(ApiRefusal::new(400, format!("{key} is not a valid option for this health monitor")));
            }
        }
        self.change_monitor(id, Progress::PendingUpdate, Some(fields))?;
        self.answer(200, ApiKind::Monitor, id)
    }

    pub(crate) fn delete_monitor(&mut self, id: &str) -> Result<SimResponse, ApiRefusal> {
        self.store.get(ApiKind::Monitor, id)?;
        self.change_monitor(id, Progress::PendingDelete, None)?;
        Ok(SimResponse::empty(204))
    }

    fn change_monitor(&mut self, id: &str, status: Progress, fields: Option<Fields>) -> Result<(), ApiRefusal> {
        let balancer = self.store.balancer_of(id);
        let pool = self.store.get(ApiKind::Monitor, id)?.parent.clone().unwrap_or_default();
        self.transaction(&balancer, |cloud| {
            cloud.lock_pool(&pool)?;
            cloud.store.mark(id, status);
            if let (Some(monitor), Some(fields)) = (cloud.store.get_mut(id), fields) {
                monitor.fields.extend(fields);
            }
            cloud.dispatch(id)
        })
    }

    /// Adds a monitor, with what Octavia fills in for one that speaks HTTP.
    pub(crate) fn insert_monitor(
        &mut self,
        pool: &str,
        project: &str,
        mut fields: Fields,
    ) -> Result<String, ApiRefusal> {
        let kind = text(&fields, "type").to_owned();
        let http = [("http_method", "GET"), ("url_path", "/"), ("expected_codes", "200")];
        for (key, usual) in http {
            let given = fields.get(key).is_some_and(|value| !value.is_null());
            match kind.as_str() {
                "HTTP" | "HTTPS" if !given => _ = fields.insert(key, json!(usual)),
                "HTTP" | "HTTPS" => {}
                _ if given => {
                    let words = format!("{key} is not a valid option for health monitors of type {kind}");
                    return Err(ApiRefusal::new(400, words));
                }
                _ => {}
            }
        }
        let datagrams = matches!(self.store.get(ApiKind::Pool, pool)?.text("protocol"), "UDP" | "SCTP");
        let fits = match kind.as_str() {
            "UDP-CONNECT" | "SCTP" => datagrams,
            "TCP" | "HTTP" => true,
            _ => !datagrams,
        };
        if !fits {
            return Err(ApiRefusal::invalid(format!(
                "A health monitor of type {kind} does not fit the pool's protocol."
            )));
        }
        if self.store.below(pool, ApiKind::Monitor).next().is_some() {
            return Err(ApiRefusal::new(409, "This pool already has a health monitor"));
        }
        Ok(self.insert(ApiKind::Monitor, pool, project, fields))
    }
}
