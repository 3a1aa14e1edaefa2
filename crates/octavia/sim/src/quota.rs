//! Quotas of projects.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};

use crate::cloud::CloudModel;
use crate::http::{ApiRefusal, SimRequest, SimResponse};
use crate::objects::ObjectTree;
use crate::schema::ApiKind;

const KINDS: [(ApiKind, &str); 7] = [
    (ApiKind::LoadBalancer, "load_balancer"),
    (ApiKind::Listener, "listener"),
    (ApiKind::Pool, "pool"),
    (ApiKind::Member, "member"),
    (ApiKind::Monitor, "health_monitor"),
    (ApiKind::Policy, "l7policy"),
    (ApiKind::Rule, "l7rule"),
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
    pub policies: Option<u64>,
    pub rules: Option<u64>,
}

impl ProjectQuota {
    fn of(&mut self, kind: ApiKind) -> &mut Option<u64> {
        match kind {
            ApiKind::LoadBalancer => &mut self.load_balancers,
            ApiKind::Listener => &mut self.listeners,
            ApiKind::Pool => &mut self.pools,
            ApiKind::Member => &mut self.members,
            ApiKind::Monitor => &mut self.monitors,
            ApiKind::Policy => &mut self.policies,
            ApiKind::Rule => &mut self.rules,
        }
    }
}

/// How many objects of each kind a project has, as Octavia remembers it. It may fall below zero.
pub(crate) type Used = BTreeMap<(String, ApiKind), i64>;

/// The quotas by project.
#[derive(Debug, Clone, Default)]
pub(crate) struct Quotas {
    limits: HashMap<String, ProjectQuota>,
    pub(crate) used: Used,
}

impl Quotas {
    /// Takes `more` objects of a kind from a project's quota. What is being deleted still counts.
    ///
    /// As in `Repositories.check_quota_met`, the rows are counted only while the remembered number is 0. It is not always theirs:
    /// a batch that replaces members takes only what it adds to their number, and gives back each one that goes.
    pub(crate) fn check(
        &mut self,
        store: &ObjectTree,
        project: &str,
        kind: ApiKind,
        more: usize,
    ) -> Result<(), ApiRefusal> {
        let limit = self.limits.get(project).and_then(|quota| *quota.clone().of(kind));
        let used = self.used.entry((project.to_owned(), kind)).or_default();
        let before = match *used {
            0 => number(store.all(kind).filter(|(_, object)| object.project == project).count()),
            remembered => remembered,
        };
        let after = before + number(more);
        if limit.is_some_and(|limit| after > i64::try_from(limit).unwrap_or(i64::MAX)) {
            return Err(ApiRefusal::quota(kind.name()));
        }
        *used = after;
        Ok(())
    }

    /// Gives back objects of a kind that are gone: `Repositories.decrement_quota`, which looks only whether there is anything
    /// to give back, not whether it is as much.
    pub(crate) fn give_back(&mut self, project: &str, kind: ApiKind, count: usize) {
        if let Some(used) = self.used.get_mut(&(project.to_owned(), kind))
            && *used > 0
        {
            *used -= number(count);
        }
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl CloudModel {
    /// Sets the quota of a project.
    pub fn set_quota(&mut self, project: &str, quota: ProjectQuota) {
        self.quotas.limits.insert(project.to_owned(), quota);
    }

    pub(crate) fn show_quota(&self, project: &str) -> SimResponse {
        let mut quota = self.quotas.limits.get(project).copied().unwrap_or_default();
        let limits = KINDS.map(|(kind, key)| {
            let limit = quota.of(kind).map_or(json!(-1), |limit| json!(limit));
            (key.to_owned(), limit)
        });
        SimResponse::ok(200, json!({"quota": Map::from_iter(limits)}))
    }

    pub(crate) fn update_quota(&mut self, project: &str, request: &SimRequest) -> Result<SimResponse, ApiRefusal> {
        let mut quota = self.quotas.limits.get(project).copied().unwrap_or_default();
        for (kind, key) in KINDS {
            match request.body["quota"].get(key).map(Value::as_i64) {
                None => {}
                Some(Some(-1)) => *quota.of(kind) = None,
                Some(Some(limit)) if limit >= 0 => *quota.of(kind) = Some(limit.unsigned_abs()),
                Some(_) => return Err(ApiRefusal::new(400, format!("Invalid input for field/attribute {key}."))),
            }
        }
        self.quotas.limits.insert(project.to_owned(), quota);
        let SimResponse { body, .. } = self.show_quota(project);
        Ok(SimResponse::ok(202, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Method;
    use std::time::Duration;

    const SUBNET: &str = "50b00000-0000-4000-8000-000000000000";

    /// A cloud with a load balancer whose pool has three members.
    fn cloud() -> (CloudModel, String) {
        let mut cloud = CloudModel::new();
        cloud.provider_mut().invents_vips = true;
        let pool = json!({"name": "p", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "members": members(1..=3)});
        let body = json!({"loadbalancer": {"project_id": "p", "vip_subnet_id": SUBNET, "pools": [pool]}});
        assert_eq!(send(&mut cloud, Method::Post, "loadbalancers", body), 201);
        let pool = cloud.store.all(ApiKind::Pool).next().unwrap().0.to_owned();
        (cloud, pool)
    }

    fn members(numbers: std::ops::RangeInclusive<u32>) -> Value {
        numbers.map(|n| json!({"address": format!("10.0.0.{n}"), "protocol_port": 80})).collect()
    }

    fn send(cloud: &mut CloudModel, method: Method, path: &str, body: Value) -> u16 {
        let answer = cloud.handle(&SimRequest::new(method, &format!("/v2/lbaas/{path}"), body));
        cloud.advance(Duration::from_secs(60));
        answer.status
    }

    fn used(cloud: &CloudModel, kind: ApiKind) -> i64 {
        cloud.quotas.used[&("p".to_owned(), kind)]
    }

    #[test]
    fn what_goes_with_a_pool_is_given_back() {
        let (mut cloud, pool) = cloud();
        assert_eq!((used(&cloud, ApiKind::Pool), used(&cloud, ApiKind::Member)), (1, 3));
        assert_eq!(send(&mut cloud, Method::Delete, &format!("pools/{pool}"), Value::Null), 204);
        assert_eq!((used(&cloud, ApiKind::Pool), used(&cloud, ApiKind::Member)), (0, 0));
    }

    #[test]
    fn what_a_refused_request_took_is_given_back() {
        let (mut cloud, _) = cloud();
        cloud.set_quota("p", ProjectQuota { members: Some(4), ..ProjectQuota::default() });
        // The new pool passes its check before a member of it is refused.
        let pool = json!({"name": "q", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "members": members(1..=2)});
        let body = json!({"loadbalancer": {"project_id": "p", "vip_subnet_id": SUBNET, "pools": [pool]}});
        assert_eq!(send(&mut cloud, Method::Post, "loadbalancers", body), 403);
        let kinds = [ApiKind::LoadBalancer, ApiKind::Pool, ApiKind::Member];
        assert_eq!(kinds.map(|kind| used(&cloud, kind)), [1, 1, 3]);
    }

    /// As the real one does: a project whose members were replaced may have more of them than its quota says.
    #[test]
    fn a_batch_that_replaces_members_gives_back_more_than_it_takes() {
        let (mut cloud, pool) = cloud();
        cloud.set_quota("p", ProjectQuota { members: Some(3), ..ProjectQuota::default() });
        let path = format!("pools/{pool}/members");
        let put = |cloud: &mut CloudModel, members: Value| send(cloud, Method::Put, &path, json!({"members": members}));
        assert_eq!(put(&mut cloud, members(1..=4)), 403);
        // Two are replaced: nothing is taken, and two are given back.
        assert_eq!(put(&mut cloud, members(3..=5)), 202);
        assert_eq!(used(&cloud, ApiKind::Member), 1);
        assert_eq!(put(&mut cloud, members(3..=7)), 202);
        assert_eq!(used(&cloud, ApiKind::Member), 3);
        assert_eq!(put(&mut cloud, members(4..=6)), 202);
        assert_eq!(used(&cloud, ApiKind::Member), 1);
        assert_eq!(send(&mut cloud, Method::Delete, &format!("pools/{pool}"), Value::Null), 204);
        assert_eq!(used(&cloud, ApiKind::Member), -2);
    }
}
