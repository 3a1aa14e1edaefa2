//! Listeners, pools and monitors: new before old, the pool with its members before the listener that points to it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gimbal_kuryr_model::ListenerId;
use gimbal_model::Protocol;
use serde_json::{Map, Value, json};

use crate::actor::Actor;
use crate::change::CloudChange;
use crate::mark::{KEEP, is_port_tag, port_tag};
use crate::ranges::may_open;
use crate::seen::{Provisioning, SeenBalancer, SeenListener, SeenPool};
use crate::sharing::retagged;
use crate::step::BalancerStep;
use crate::target::{WantedBalancer, WantedListener, WantedPool};

impl Actor {
    /// Returns the next step about what is below the load balancer.
    pub(crate) fn parts(
        &self,
        target: &WantedBalancer<'_>,
        balancer: &SeenBalancer,
        now: Duration,
    ) -> Option<BalancerStep> {
        let all = target.wanted.header.listeners.iter().map(|wish| wish.id);
        let is_served = |id: &ListenerId| target.refusal(*id).is_none() && !self.memory.unsupported.contains_key(id);
        let wanted: Vec<ListenerId> = all.filter(is_served).collect();
        let pools = PoolsByPort::of(balancer);
        if let Some(step) = self.tightened(target, balancer, &wanted, now) {
            return Some(step);
        }
        // Members change more often than all else, and whoever waits for one waits for traffic.
        let of_served = |id: &ListenerId| {
            let listener = self.managed_listener(target, balancer, *id)?;
            let pool = pool_of(balancer, &pools, &target.pool(*id)?)
                .filter(|pool| listener.default_pool.as_ref() == Some(&pool.id))?;
            let step =
                self.members_step(pool, &target.members(*id), &target.abilities, self.member_changes(*id, now))?;
            self.unless_blocked(step, now)
        };
        if let Some(step) = members_first(wanted.iter().filter_map(of_served)) {
            return Some(step);
        }
        let next = |id: &ListenerId| {
            let step = self.port_step(target, (balancer, &pools), *id, now)?;
            self.unless_blocked(step, now)
        };
        let made = wanted.iter().find_map(next);
        made.or_else(|| self.unless_blocked(self.surplus((balancer, &pools), &wanted, target, now)?, now))
    }

    /// Returns the next step about one port.
    fn port_step(
        &self,
        target: &WantedBalancer<'_>,
        (balancer, pools): (&SeenBalancer, &PoolsByPort<'_>),
        id: ListenerId,
        now: Duration,
    ) -> Option<BalancerStep> {
        let (listener, wanted_pool) = (target.listener(id)?, target.pool(id)?);
        let tags = target.part_tags(id);
        let present = listener_at(balancer, id);
        if present.is_some_and(|seen| self.is_in_the_way(seen, &listener)) {
            return None;
        }
        let may = self.member_changes(id, now);
        let repair = may.repair;
        let Some(pool) = pool_of(balancer, pools, &wanted_pool) else {
            if !repair && self.pool_in_use(balancer, id).is_some_and(|pool| pool.protocol == wanted_pool.protocol) {
                // Broken, and nothing in it can be changed.
                return None;
            }
            let mut body = wanted_pool.body(&tags);
            body["loadbalancer_id"] = json!(balancer.id);
            return Some(BalancerStep::Change(CloudChange::CreatePool { body }));
        };
        if let Some(step) = self.members_step(pool, &target.members(id), &target.abilities, may) {
            return Some(step);
        }
        if let Some(change) = self.monitor_change(pool, &wanted_pool, repair) {
            return Some(BalancerStep::Change(change));
        }
        let Some(seen) = present else {
            if !may.add {
                // Nothing points to a pool that lacks its members.
                return None;
            }
            let mut body = listener.body(&tags);
            body["loadbalancer_id"] = json!(balancer.id);
            body["default_pool_id"] = json!(pool.id);
            return Some(BalancerStep::Change(CloudChange::CreateListener { body }));
        };
        let broken = seen.provisioning == Provisioning::Error && repair;
        // A broken one gets everything once more, for it may serve what it had; then it is made anew.
        if seen.protocol != listener.protocol || (broken && !self.is_first_repair(id, now)) {
            return Some(BalancerStep::Change(CloudChange::DeleteListener { id: seen.id.clone() }));
        }
        if let Some(fields) = listener_fields(seen, &listener, &pool.id, &tags, target, broken) {
            return Some(BalancerStep::Change(CloudChange::UpdateListener { id: seen.id.clone(), fields }));
        }
        if let Some(step) = self.loosened(seen, target, id).and_then(|step| self.unless_blocked(step, now)) {
            return Some(step);
        }
        let fields = pool_fields(pool, &wanted_pool, &tags, target)?;
        Some(BalancerStep::Change(CloudChange::UpdatePool { id: pool.id.clone(), fields }))
    }

    /// Returns the listener of a port, if it is not somebody else's.
    pub(crate) fn managed_listener<'a>(
        &self,
        target: &WantedBalancer<'_>,
        balancer: &'a SeenBalancer,
        id: ListenerId,
    ) -> Option<&'a SeenListener> {
        let listener = target.listener(id)?;
        let seen = listener_at(balancer, id)?;
        (seen.protocol == listener.protocol && !self.is_in_the_way(seen, &listener)).then_some(seen)
    }

    /// Whether a listener has a port of ours and may not be touched: one that somebody added and keeps, or one of another
    /// protocol that somebody keeps, or has added only a short while ago.
    fn is_in_the_way(&self, seen: &SeenListener, wanted: &WantedListener) -> bool {
        let ours = self.mark.is_on(&seen.tags);
        let kept = seen.tags.iter().any(|tag| tag == KEEP);
        if seen.protocol == wanted.protocol { kept && !ours } else { !self.part_may_go(&seen.id, &seen.tags) }
    }

    /// Returns which port cannot be served because somebody else's listener has it.
    pub(crate) fn port_conflict(&self, target: &WantedBalancer<'_>, balancer: &SeenBalancer) -> Option<String> {
        target.wanted.header.listeners.iter().find_map(|wish| {
            let listener = target.listener(wish.id)?;
            let seen = listener_at(balancer, wish.id).filter(|seen| self.is_in_the_way(seen, &listener))?;
            Some(format!("listener {} has port {} and is not ours", seen.id, wish.id.port))
        })
    }

    /// Returns the pool of a port, broken or not: the one that its listener has, else one that is marked for it.
    pub(crate) fn pool_in_use<'a>(&self, balancer: &'a SeenBalancer, id: ListenerId) -> Option<&'a SeenPool> {
        let used = listener_at(balancer, id).and_then(|one| one.default_pool.as_ref());
        let tag = port_tag(id);
        let ours = balancer.pools.iter().filter(|pool| pool.tags.contains(&tag));
        ours.max_by_key(|pool| used == Some(&pool.id))
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

    /// Removes what is not wanted: listeners before the pools that they point to.
    fn surplus(
        &self,
        (balancer, pools): (&SeenBalancer, &PoolsByPort<'_>),
        wanted: &[ListenerId],
        target: &WantedBalancer<'_>,
        now: Duration,
    ) -> Option<BalancerStep> {
        // One that cannot be removed is in the way of no other.
        let may_go = |id: &str, tags: &[String]| self.part_may_go(id, tags) && self.may_remove(id, now);
        let kept: BTreeSet<&str> =
            wanted.iter().filter_map(|id| Some(listener_at(balancer, *id)?.id.as_str())).collect();
        let is_wanted = |one: &SeenListener| kept.contains(one.id.as_str());
        let listener = balancer.listeners.iter().find(|one| !is_wanted(one) && may_go(&one.id, &one.tags));
        if let Some(listener) = listener {
            return Some(BalancerStep::Change(CloudChange::DeleteListener { id: listener.id.clone() }));
        }
        let used: BTreeSet<&str> = balancer.listeners.iter().filter_map(|one| one.default_pool.as_deref()).collect();
        let needed: BTreeSet<&str> =
            wanted.iter().filter_map(|id| Some(pool_of(balancer, pools, &target.pool(*id)?)?.id.as_str())).collect();
        let pool = balancer.pools.iter().find(|pool| {
            let id = pool.id.as_str();
            !used.contains(id) && !needed.contains(id) && may_go(id, &pool.tags)
        })?;
        Some(BalancerStep::Change(CloudChange::DeletePool { id: pool.id.clone() }))
    }

    fn part_may_go(&self, id: &str, tags: &[String]) -> bool {
        let is_kept = self.is_spared(tags) || tags.iter().any(|tag| tag == KEEP);
        !is_kept && (self.mark.is_on(tags) || self.memory.is_condemned(id))
    }
}

/// Returns the first of these steps about members of several ports. One that only takes a member away comes last: where members
/// are changed one by one, the new ones of all ports come before the old ones of any go.
pub(crate) fn members_first(steps: impl Iterator<Item = BalancerStep>) -> Option<BalancerStep> {
    let mut removal = None;
    for step in steps {
        if !matches!(step, BalancerStep::Change(CloudChange::DeleteMember { .. })) {
            return Some(step);
        }
        removal.get_or_insert(step);
    }
    removal
}

/// Returns the pool that serves a port: marked for it, of the right protocol, and not broken. A listener that points to the pool
/// of another port was led there by somebody: two ports would change that pool in turn, for ever.
fn pool_of<'a>(balancer: &'a SeenBalancer, pools: &PoolsByPort<'a>, wanted: &WantedPool) -> Option<&'a SeenPool> {
    let listener = listener_at(balancer, wanted.id);
    let points_to = |pool: &SeenPool| listener.and_then(|one| one.default_pool.as_ref()) == Some(&pool.id);
    let fits = |pool: &&SeenPool| pool.protocol == wanted.protocol && pool.provisioning != Provisioning::Error;
    let marked = pools.marked.get(port_tag(wanted.id).as_str()).map(Vec::as_slice).unwrap_or_default();
    let others = pools.unmarked.iter().filter(|pool| points_to(pool));
    // Of several the one that is in use.
    others.chain(marked).copied().filter(fits).max_by_key(|pool| points_to(pool))
}

/// The pools of a load balancer by what they are marked for. With hundreds of ports, looking through all of them for each port
/// would take longer than everything else.
struct PoolsByPort<'a> {
    /// By the tag of their port.
    marked: BTreeMap<&'a str, Vec<&'a SeenPool>>,
    unmarked: Vec<&'a SeenPool>,
}

impl<'a> PoolsByPort<'a> {
    fn of(balancer: &'a SeenBalancer) -> Self {
        let (mut marked, mut unmarked) = (BTreeMap::<&str, Vec<&SeenPool>>::new(), Vec::new());
        for pool in &balancer.pools {
            let mut ports = pool.tags.iter().filter(|tag| is_port_tag(tag)).peekable();
            if ports.peek().is_none() {
                unmarked.push(pool);
            }
            ports.for_each(|tag| marked.entry(tag.as_str()).or_default().push(pool));
        }
        Self { marked, unmarked }
    }
}

/// Returns the listener that has a port.
pub(crate) fn listener_at(balancer: &SeenBalancer, id: ListenerId) -> Option<&SeenListener> {
    let transport = |protocol: &str| match protocol {
        "UDP" => Protocol::Udp,
        "SCTP" => Protocol::Sctp,
        _ => Protocol::Tcp,
    };
    balancer.listeners.iter().find(|one| one.port == id.port && transport(&one.protocol) == id.protocol)
}

/// Returns what has to be changed about a listener, but for who may connect; `whole`: everything that is wanted.
fn listener_fields(
    seen: &SeenListener,
    wanted: &WantedListener,
    pool: &str,
    tags: &[String],
    target: &WantedBalancer<'_>,
    whole: bool,
) -> Option<Value> {
    let WantedListener { id: _, name, protocol: _, up, allowed: _, options } = wanted;
    let mut fields = Map::new();
    if whole || seen.name != *name {
        fields.insert("name".into(), json!(name));
    }
    if whole || seen.default_pool.as_deref() != Some(pool) {
        fields.insert("default_pool_id".into(), json!(pool));
    }
    if *up && !seen.admin_state_up && may_open(target.clients(wanted.id), seen) {
        fields.insert("admin_state_up".into(), json!(true));
    }
    fields.extend(retagged(target.sharing, &seen.tags, tags).map(|tags| ("tags".to_owned(), tags)));
    fields.extend(if whole { options.clone() } else { differing(&seen.row, options) });
    (!fields.is_empty()).then_some(Value::Object(fields))
}

/// Returns the wanted fields that a row does not have so. Octavia returns lists in an order of its own.
fn differing(row: &Value, wanted: &Map<String, Value>) -> Map<String, Value> {
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

fn pool_fields(seen: &SeenPool, wanted: &WantedPool, tags: &[String], target: &WantedBalancer<'_>) -> Option<Value> {
    let WantedPool { id: _, name, protocol: _, algorithm, persistence, monitor: _ } = wanted;
    let mut fields = Map::new();
    if seen.name != *name {
        fields.insert("name".into(), json!(name));
    }
    if let Some(algorithm) = algorithm.filter(|algorithm| seen.algorithm != *algorithm) {
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
    fields.extend(retagged(target.sharing, &seen.tags, tags).map(|tags| ("tags".to_owned(), tags)));
    (!fields.is_empty()).then_some(Value::Object(fields))
}
