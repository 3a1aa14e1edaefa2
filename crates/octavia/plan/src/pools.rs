//! Pools with their members and monitors.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gimbal_kuryr_model::PoolId;
use serde_json::{Map, Value, json};

use crate::actor::Actor;
use crate::change::CloudChange;
use crate::children::listener_at;
use crate::fields::{ALGORITHM, FieldTags};
use crate::mark::{KEEP, is_pool_tag, is_port_tag, tag_of_pool};
use crate::seen::{Provisioning, SeenBalancer, SeenPool};
use crate::sharing::retagged;
use crate::step::BalancerStep;
use crate::target::{SOURCE_IP_PORT, WantedBalancer, WantedPool};

/// The pools of a load balancer by what they are marked for. With hundreds of them, looking through all for each would take
/// longer than everything else.
pub(crate) struct PoolsByTag<'a> {
    /// By the tag of their port or Service.
    marked: BTreeMap<&'a str, Vec<&'a SeenPool>>,
    unmarked: Vec<&'a SeenPool>,
    /// Those that a listener or a policy leads to.
    used: BTreeSet<&'a str>,
}

impl<'a> PoolsByTag<'a> {
    pub(crate) fn of(balancer: &'a SeenBalancer) -> Self {
        let (mut marked, mut unmarked) = (BTreeMap::<&str, Vec<&SeenPool>>::new(), Vec::new());
        for pool in &balancer.pools {
            let mut tags = pool.tags.iter().filter(|tag| is_port_tag(tag) || is_pool_tag(tag)).peekable();
            if tags.peek().is_none() {
                unmarked.push(pool);
            }
            tags.for_each(|tag| marked.entry(tag.as_str()).or_default().push(pool));
        }
        let by_listeners = balancer.listeners.iter().filter_map(|one| one.default_pool.as_deref());
        let policies = balancer.listeners.iter().flat_map(|one| &one.policies);
        let used = by_listeners.chain(policies.filter_map(|one| one.pool.as_deref())).collect();
        Self { marked, unmarked, used }
    }

    /// Whether a listener or a policy leads to the pool with this ID.
    pub(crate) fn is_used(&self, id: &str) -> bool {
        self.used.contains(id)
    }

    /// Returns the pool that is the wanted one: marked for it, of the right protocol, and not broken. A listener that points to
    /// the pool of another port was led there by somebody: two ports would change that pool in turn, for ever.
    pub(crate) fn of_wanted(&self, balancer: &SeenBalancer, wanted: &WantedPool) -> Option<&'a SeenPool> {
        let fits = |pool: &&SeenPool| pool.protocol == wanted.protocol && pool.provisioning != Provisioning::Error;
        let tag = tag_of_pool(&wanted.id);
        let marked = self.marked.get(tag.as_str()).map(Vec::as_slice).unwrap_or_default();
        // Of several the one that is in use.
        match &wanted.id {
            PoolId::Listener(id) => {
                let listener = listener_at(balancer, *id);
                let points_to = |pool: &SeenPool| listener.and_then(|one| one.default_pool.as_ref()) == Some(&pool.id);
                let others = self.unmarked.iter().filter(|pool| points_to(pool));
                others.chain(marked).copied().filter(fits).max_by_key(|pool| points_to(pool))
            }
            PoolId::Service(_) => {
                let all = marked.iter().copied().filter(fits);
                all.max_by_key(|pool| (self.is_used(&pool.id), std::cmp::Reverse(&pool.id)))
            }
        }
    }
}

impl Actor {
    /// Returns a pool that has its members and its monitor, if that is not left alone; or the next step towards that if there is one.
    pub(crate) fn pool_made<'a>(
        &self,
        target: &WantedBalancer<'_>,
        (balancer, pools): (&SeenBalancer, &PoolsByTag<'a>),
        wanted: &WantedPool,
        now: Duration,
    ) -> Result<&'a SeenPool, Option<BalancerStep>> {
        let may = self.member_changes(&wanted.id, now);
        let Some(pool) = pools.of_wanted(balancer, wanted) else {
            let tag = tag_of_pool(&wanted.id);
            let of_wanted = |pool: &SeenPool| pool.tags.contains(&tag) && pool.protocol == wanted.protocol;
            let has_broken_one = || balancer.pools.iter().any(of_wanted);
            if !may.repair && has_broken_one() {
                // Nothing in it can be changed.
                return Err(None);
            }
            let mut body = wanted.body(&target.pool_tags(&wanted.id));
            body["loadbalancer_id"] = json!(balancer.id);
            return Err(Some(BalancerStep::Change(CloudChange::CreatePool { body })));
        };
        // Those of a pool in use come in their turn.
        let has_turn = !(self.memory.others_first() && pools.is_used(&pool.id));
        let members = || self.members_step(pool, &target.members(&wanted.id), &target.abilities, may);
        if let Some(step) = has_turn.then(members).flatten() {
            return Err(Some(step));
        }
        // One that is refused does not keep the members from serving.
        let change = self.monitor_change(pool, wanted, may.repair).map(BalancerStep::Change);
        match change.and_then(|step| self.unless_blocked(step, now)) {
            Some(step) => Err(Some(step)),
            None => Ok(pool),
        }
    }

    /// Returns the pool of a port or Service, broken or not: the one that is in use, else one that is marked for it.
    pub(crate) fn pool_in_use<'a>(&self, balancer: &'a SeenBalancer, id: &PoolId) -> Option<&'a SeenPool> {
        let tag = tag_of_pool(id);
        let ours = balancer.pools.iter().filter(|pool| pool.tags.contains(&tag));
        match id {
            PoolId::Listener(id) => {
                let used = listener_at(balancer, *id).and_then(|one| one.default_pool.as_ref());
                ours.max_by_key(|pool| used == Some(&pool.id))
            }
            PoolId::Service(_) => {
                let led_to = |pool: &SeenPool| {
                    let mut listeners = balancer.listeners.iter();
                    listeners.any(|one| {
                        let by_policy = one.policies.iter().any(|policy| policy.pool.as_ref() == Some(&pool.id));
                        by_policy || one.default_pool.as_ref() == Some(&pool.id)
                    })
                };
                ours.max_by_key(|pool| led_to(pool))
            }
        }
    }

    fn monitor_change(&self, pool: &SeenPool, wanted: &WantedPool, repair: bool) -> Option<CloudChange> {
        let at = pool.id.clone();
        match (&wanted.monitor, &pool.monitor) {
            (None, None) => None,
            (None, Some(seen)) => {
                let keep = seen.row["tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| tag == KEEP));
                let mark = json!(self.mark.owner_tag());
                let ours = seen.row["tags"].as_array().is_some_and(|tags| tags.contains(&mark));
                let goes = !keep && (ours || self.memory.is_condemned(&seen.id));
                goes.then(|| CloudChange::DeleteMonitor { pool: at, id: seen.id.clone() })
            }
            (Some(wanted_monitor), None) => {
                let mut body = wanted_monitor.clone();
                body.insert("pool_id".into(), json!(pool.id));
                Some(CloudChange::CreateMonitor { pool: at, body: Value::Object(body) })
            }
            (Some(wanted), Some(seen)) => {
                let mut fields: Map<String, Value> = differing(&seen.row, wanted);
                if let Some(tags) = fields.remove("tags") {
                    let present: Vec<String> = texts(&seen.row["tags"]);
                    fields.extend(
                        retagged(self.sharing.as_deref(), &present, &texts(&tags))
                            .map(|tags| ("tags".to_owned(), tags)),
                    );
                }
                let broken = repair && seen.provisioning == Provisioning::Error;
                if fields.is_empty() && !broken {
                    return None;
                }
                // The type is for life.
                if fields.contains_key("type") || broken {
                    return Some(CloudChange::DeleteMonitor { pool: at, id: seen.id.clone() });
                }
                Some(CloudChange::UpdateMonitor { pool: at, id: seen.id.clone(), fields: Value::Object(fields) })
            }
        }
    }
}

/// Returns the wanted fields that a row does not have so. Octavia returns lists in an order of its own.
pub(crate) fn differing(row: &Value, wanted: &Map<String, Value>) -> Map<String, Value> {
    let same = |seen: &Value, wanted: &Value| match (seen, wanted) {
        (Value::Array(seen), Value::Array(wanted)) => {
            seen.len() == wanted.len() && wanted.iter().all(|one| seen.contains(one))
        }
        _ => seen == wanted,
    };
    let differs = |(key, value): &(&String, &Value)| !same(&row[key.as_str()], value);
    wanted.iter().filter(differs).map(|(key, value)| (key.clone(), value.clone())).collect()
}

pub(crate) fn texts(list: &Value) -> Vec<String> {
    let all = list.as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

/// Returns what has to be changed about a pool itself.
pub(crate) fn pool_change(
    seen: &SeenPool,
    wanted: &WantedPool,
    tags: &[String],
    target: &WantedBalancer<'_>,
) -> Option<CloudChange> {
    let WantedPool { id: _, name, protocol: _, algorithm, is_chosen, persistence, monitor: _ } = wanted;
    let mut fields = Map::new();
    if seen.name != *name {
        fields.insert("name".into(), json!(name));
    }
    let asked = FieldTags { present: &seen.tags, asked: wanted.asked() };
    let is_given_up = asked.given_up().any(|field| field == ALGORITHM);
    // Where none was asked for, this one may be all that the provider knows, which a restart has forgotten.
    if seen.algorithm != *algorithm && (*is_chosen || is_given_up || seen.algorithm != SOURCE_IP_PORT) {
        fields.insert("lb_algorithm".into(), json!(algorithm));
    }
    let same_persistence = match persistence.as_object() {
        None => seen.persistence.is_null(),
        Some(wanted) => wanted.iter().all(|(key, value)| seen.persistence[key.as_str()] == *value),
    };
    if !same_persistence {
        fields.insert("session_persistence".into(), persistence.clone());
    }
    if !seen.admin_state_up {
        fields.insert("admin_state_up".into(), json!(true));
    }
    let tags = asked.changed(target.sharing, tags, !fields.is_empty());
    fields.extend(tags.map(|tags| ("tags".to_owned(), tags)));
    (!fields.is_empty()).then(|| CloudChange::UpdatePool { id: seen.id.clone(), fields: Value::Object(fields) })
}
