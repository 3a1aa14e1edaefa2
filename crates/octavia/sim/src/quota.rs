//! Quotas of projects.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::cloud::CloudModel;
use crate::http::{ApiRefusal, SimRequest, SimResponse};
use crate::objects::ObjectTree;
use crate::schema::ApiKind;

const KINDS: [(ApiKind, &str); 5] = [
    (ApiKind::LoadBalancer, "load_balancer"),
    (ApiKind::Listener, "listener"),
    (ApiKind::Pool, "pool"),
    (ApiKind::Member, "member"),
    (ApiKind::Monitor, "health_monitor"),
];

/// How many objects of each kind a project may have; `None` for any number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)] // The kinds of objects.
pub struct ProjectQuota {
    pub load_balancers: Option<u64>,
    pub listeners: Option<u64>,
    pub pools: Option<u64>,
    pub members: Option<u64>,
    pub monitors: Option<u64>,
}

impl ProjectQuota {
    fn of(&mut self, kind: ApiKind) -> &mut Option<u64> {
        match kind {
            ApiKind::LoadBalancer => &mut self.load_balancers,
            ApiKind::Listener => &mut self.listeners,
            ApiKind::Pool => &mut self.pools,
            ApiKind::Member => &mut self.members,
            ApiKind::Monitor => &mut self.monitors,
        }
    }
}

/// The quotas by project.
#[derive(Debug, Clone, Default)]
pub(crate) struct Quotas(HashMap<String, ProjectQuota>);

impl Quotas {
    /// Checks that a project may have `more` objects of a kind. What is being deleted still counts.
    pub(crate) fn check(
        &self,
        store: &ObjectTree,
        project: &str,
        kind: ApiKind,
        more: usize,
    ) -> Result<(), ApiRefusal> {
        let Some(limit) = self.0.get(project).and_then(|quota| *quota.clone().of(kind)) else { return Ok(()) };
        let used = store.all(kind).filter(|(_, object)| object.project == project).count();
        if (used + more) as u64 > limit { Err(ApiRefusal::quota(kind.name())) } else { Ok(()) }
    }
}

impl CloudModel {
    /// Sets the quota of a project.
    pub fn set_quota(&mut self, project: &str, quota: ProjectQuota) {
        self.quotas.0.insert(project.to_owned(), quota);
    }

    pub(crate) fn show_quota(&self, project: &str) -> SimResponse {
        let mut quota = self.quotas.0.get(project).copied().unwrap_or_default();
        let limits = KINDS.map(|(kind, key)| {
            let limit = quota.of(kind).map_or(json!(-1), |limit| json!(limit));
            (key.to_owned(), limit)
        });
        SimResponse::ok(200, json!({"quota": Map::from_iter(limits)}))
    }

    pub(crate) fn update_quota(&mut self, project: &str, request: &SimRequest) -> Result<SimResponse, ApiRefusal> {
        let mut quota = self.quotas.0.get(project).copied().unwrap_or_default();
        for (kind, key) in KINDS {
            match request.body["quota"].get(key).map(Value::as_i64) {
                None => {}
                Some(Some(-1)) => *quota.of(kind) = None,
                Some(Some(limit)) if limit >= 0 => *quota.of(kind) = Some(limit.unsigned_abs()),
                Some(_) => return Err(ApiRefusal::new(400, format!("Invalid input for field/attribute {key}."))),
            }
        }
        self.quotas.0.insert(project.to_owned(), quota);
        let SimResponse { body, .. } = self.show_quota(project);
        Ok(SimResponse::ok(202, body))
    }
}
