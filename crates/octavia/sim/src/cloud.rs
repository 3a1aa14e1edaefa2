//! The cloud: one Octavia and one Neutron, a provider, a clock.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::data_plane::Forwarding;
use crate::http::{ApiRefusal, Method, SimRequest, SimResponse};
use crate::key_manager::KeyManager;
use crate::network::Network;
use crate::objects::ObjectTree;
use crate::provider::{Fate, Provider, Work};
use crate::quota::Quotas;
use crate::requests::Frontend;
use crate::schema::ApiKind;
use crate::version;

/// The most bytes of a body: the default of oslo.middleware's `max_request_body_size`, which Octavia uses.
const LARGEST_BODY: usize = 114_688;

/// A cloud with one provider.
#[derive(Debug, Clone, Default)]
pub struct CloudModel {
    pub(crate) provider: Provider,
    pub(crate) store: ObjectTree,
    pub(crate) network: Network,
    pub(crate) keys: KeyManager,
    pub(crate) quotas: Quotas,
    pub(crate) now: Duration,
    /// How the next changes end.
    pub(crate) fates: VecDeque<Fate>,
    /// What the provider works on, by load balancer.
    pub(crate) work: BTreeMap<String, Work>,
    /// What each load balancer forwards.
    pub(crate) applied: BTreeMap<String, Vec<Forwarding>>,
    /// What the HTTP listeners of each do with requests.
    pub(crate) routed: BTreeMap<String, Vec<Frontend>>,
    /// The minor version of Octavia's API; unset: the newest.
    version: Option<u16>,
}

impl CloudModel {
    /// Returns an empty cloud, at time zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty cloud with this provider.
    #[must_use]
    pub fn with_provider(provider: Provider) -> Self {
        Self { provider, ..Self::default() }
    }

    /// Returns the provider, to change what it can do.
    pub fn provider_mut(&mut self) -> &mut Provider {
        &mut self.provider
    }

    /// Lets Octavia's API have version 2.`minor` from now on, as after an upgrade, or after one that was taken back. What an older
    /// one does not know of is kept, and not shown.
    pub fn set_version(&mut self, minor: u16) {
        self.version = Some(minor);
    }

    /// Lets IDs be in no order from now on, as the real ones are: rows name parts in the order of IDs, which is not that of creation
    /// then.
    pub fn shuffle_ids(&mut self) {
        self.store.shuffles_ids = true;
    }

    /// Says how the next change that reaches the provider ends. May be called several times for the changes after that.
    pub fn expect(&mut self, fate: Fate) {
        self.fates.push_back(fate);
    }

    /// Lets the changes that come now end well.
    pub fn forget_expectations(&mut self) {
        self.fates.clear();
    }

    /// Returns the time since the start.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.now
    }

    /// Moves the clock, and ends the provider's work that is due by then.
    pub fn advance(&mut self, by: Duration) {
        self.now += by;
        self.settle();
    }

    /// Answers a request of a token that may do everything.
    pub fn handle(&mut self, request: &SimRequest) -> SimResponse {
        let path: Vec<&str> = request.path.split('/').filter(|segment| !segment.is_empty()).collect();
        if request.body.to_string().len() > LARGEST_BODY {
            return ApiRefusal::new(413, "Request is too large.").by_octavia();
        }
        match path.as_slice() {
            ["v2", "lbaas", rest @ ..] => self.versioned(rest, request),
            ["v2.0", rest @ ..] => self.neutron(rest, request).unwrap_or_else(ApiRefusal::by_neutron),
            ["v1", rest @ ..] => self.key_manager(rest, request).unwrap_or_else(ApiRefusal::by_barbican),
            _ => ApiRefusal::new(404, "The resource could not be found.").by_octavia(),
        }
    }

    fn versioned(&mut self, path: &[&str], request: &SimRequest) -> SimResponse {
        let Some(minor) = self.version else {
            return self.octavia(path, request).unwrap_or_else(ApiRefusal::by_octavia);
        };
        let answer = version::check(minor, request).and_then(|()| self.octavia(path, request));
        let mut answer = answer.unwrap_or_else(ApiRefusal::by_octavia);
        version::hide(minor, &mut answer.body);
        answer
    }

    fn octavia(&mut self, path: &[&str], request: &SimRequest) -> Result<SimResponse, ApiRefusal> {
        if request.method == Method::Get {
            return self.route(path, request);
        }
        // What a refused request took from a quota is rolled back with it.
        let used = self.quotas.used.clone();
        self.route(path, request).inspect_err(|_| self.quotas.used = used)
    }

    fn route(&mut self, path: &[&str], request: &SimRequest) -> Result<SimResponse, ApiRefusal> {
        use Method::{Delete, Get, Post, Put};
        let body = &request.body;
        match (request.method, path) {
            (Get, ["quotas", project]) => Ok(self.show_quota(project)),
            (Put, ["quotas", project]) => self.update_quota(project, request),
            (Get, ["pools", pool, "members"]) => self.list_members(pool, request),
            (Post, ["pools", pool, "members"]) => self.create_member(pool, &body["member"]),
            (Put, ["pools", pool, "members"]) => {
                self.replace_members(pool, &body["members"], request.flag("additive_only"))
            }
            (Get, ["pools", pool, "members", id]) => self.show_member(pool, id),
            (Put, ["pools", pool, "members", id]) => self.update_member(pool, id, &body["member"]),
            (Delete, ["pools", pool, "members", id]) => self.delete_member(pool, id),
            (Get, [plural]) => self.list(top_level(plural)?, request),
            (Get, [plural, id]) => self.show(top_level(plural)?, id),
            (Post, ["loadbalancers"]) => self.create_balancer(&body["loadbalancer"]),
            (Put, ["loadbalancers", id]) => self.update_balancer(id, &body["loadbalancer"]),
            (Put, ["loadbalancers", id, "failover"]) => self.fail_over(id),
            (Delete, ["loadbalancers", id]) => self.delete_balancer(id, request.flag("cascade")),
            (Post, ["listeners"]) => self.create_listener(&body["listener"]),
            (Put, ["listeners", id]) => self.update_listener(id, &body["listener"]),
            (Delete, ["listeners", id]) => self.delete_listener(id),
            (Post, ["pools"]) => self.create_pool(&body["pool"]),
            (Put, ["pools", id]) => self.update_pool(id, &body["pool"]),
            (Delete, ["pools", id]) => self.delete_pool(id),
            (Get, ["l7policies", policy, "rules"]) => self.list_rules(policy, request),
            (Post, ["l7policies", policy, "rules"]) => self.create_rule(policy, &body["rule"]),
            (Get, ["l7policies", policy, "rules", id]) => self.show_rule(policy, id),
            (Put, ["l7policies", policy, "rules", id]) => self.update_rule(policy, id, &body["rule"]),
            (Delete, ["l7policies", policy, "rules", id]) => self.delete_rule(policy, id),
            (Post, ["l7policies"]) => self.create_policy(&body["l7policy"]),
            (Put, ["l7policies", id]) => self.update_policy(id, &body["l7policy"]),
            (Delete, ["l7policies", id]) => self.delete_policy(id),
            (Post, ["healthmonitors"]) => self.create_monitor(&body["healthmonitor"]),
            (Put, ["healthmonitors", id]) => self.update_monitor(id, &body["healthmonitor"]),
            (Delete, ["healthmonitors", id]) => self.delete_monitor(id),
            _ => Err(ApiRefusal::new(404, "The resource could not be found.")),
        }
    }

    /// Runs a change as one transaction: on an error everything is as before.
    ///
    /// Only the tree of `balancer` may change in it, besides new objects.
    pub(crate) fn transaction<T>(
        &mut self,
        balancer: &str,
        change: impl FnOnce(&mut Self) -> Result<T, ApiRefusal>,
    ) -> Result<T, ApiRefusal> {
        let before: Vec<_> = self.store.tree(balancer).into_iter().collect();
        let saved: Vec<_> = before.iter().filter_map(|id| Some((id, self.store.find(id)?.clone()))).collect();
        change(self).inspect_err(|_| {
            for id in self.store.tree(balancer) {
                if !before.contains(&id) {
                    self.store.remove(&id);
                }
            }
            for (id, object) in saved {
                if let Some(current) = self.store.get_mut(id) {
                    *current = object;
                }
            }
        })
    }
}

impl CloudModel {
    /// Removes what the provider has deleted, with everything below it, and gives it back to the quotas: what goes with its pool
    /// in one amount, as `DecrementPoolQuota` does. What goes with its listener or policy is not given back.
    pub(crate) fn remove_deleted(&mut self, id: &str) {
        let mut with_pools = BTreeMap::<_, usize>::new();
        for one in self.store.tree(id) {
            let Some(object) = self.store.find(&one) else { continue };
            if one != id && matches!(object.kind, ApiKind::Policy | ApiKind::Rule) {
                continue;
            }
            let is_below_pool = matches!(object.kind, ApiKind::Member | ApiKind::Monitor);
            if is_below_pool && one != id {
                *with_pools.entry((object.project.clone(), object.kind)).or_default() += 1;
            } else {
                self.quotas.give_back(&object.project, object.kind, 1);
            }
        }
        for ((project, kind), count) in with_pools {
            self.quotas.give_back(&project, kind, count);
        }
        self.store.remove(id);
    }
}

fn top_level(plural: &str) -> Result<ApiKind, ApiRefusal> {
    let kinds = [ApiKind::LoadBalancer, ApiKind::Listener, ApiKind::Pool, ApiKind::Monitor, ApiKind::Policy];
    let not_found = || ApiRefusal::new(404, "The resource could not be found.");
    kinds.into_iter().find(|kind| kind.plural() == plural).ok_or_else(not_found)
}
