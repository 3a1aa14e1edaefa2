//! Ports for the Pods that wait, and ports in advance.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use gimbal_kuryr_model::Text;
use serde_json::{Value, json};

use crate::call::{DEVICE_OWNER, PortChange, PortErrand};
use crate::due::PortSubject;
use crate::next::PortStep;
use crate::plan::PortPlan;
use crate::table::KnownPort;
use crate::{PodPort, PortObstacle, PortPoolKey, PortSettings};

/// The name of a port in a pool, for people.
const POOL_PORT: &str = "kuryr-pool-port";
/// For this long a pool keeps its least number of ports without any Pod.
const IDLE: Duration = Duration::from_secs(300);
/// How often the size of a pool is compared with what is asked of it.
const COMPARED: Duration = Duration::from_secs(10);

impl PortPlan {
    /// Returns the ports of a pool that a Pod can be given, the longest ready first.
    pub(crate) fn ready_in<'a>(&'a self, key: &'a PortPoolKey) -> impl Iterator<Item = (&'a Text, &'a KnownPort)> {
        let owned = self.nodes.get(&key.node).into_iter().flat_map(|node| self.table.of(node));
        let is_ready = |port: &KnownPort| {
            let row = &port.row;
            let is_whole = !port.is_going && port.busy.is_none() && port.stale.is_none() && !row.is_broken();
            is_whole && row.project == key.project && row.network == key.network && row.groups == key.groups
        };
        let mut ready: Vec<_> = owned.filter(|(_, port)| is_ready(port)).collect();
        ready.sort_by_key(|(_, port)| port.since);
        ready.into_iter()
    }

    /// Gives a port to a Pod that waits, or makes some.
    pub(crate) fn pool_step(&mut self, key: &PortPoolKey, now: Instant) -> Option<PortStep> {
        if !self.projects.get(&key.project).is_some_and(|project| project.is_listed) {
            return None;
        }
        self.look_for(key, now);
        let pod = self.pools.get(key)?.waiting.first().cloned()?;
        if self.leaving.contains(&key.network) {
            self.refuse(key, PortObstacle::Missing("the network of its namespace is being removed".to_owned()));
            return None;
        }
        let free =
            self.ready_in(key).find(|(_, port)| port.is_free(now)).map(|(id, port)| (id.clone(), port.row.revision));
        if let Some((id, revision)) = free {
            let fields = self.given(&pod)?;
            let errand = PortErrand::Assign { port: id.clone(), pod };
            return Some((key.project.clone(), errand, PortChange::Update { id, revision, fields }));
        }
        self.create(key, true, now)
    }

    /// Returns the change that gives a port to a Pod.
    pub(crate) fn given(&self, pod: &Text) -> Option<Value> {
        let wish = self.pods.get(pod)?.wish.as_ref()?;
        let mut fields = json!({"description": self.ownership.description(pod), "name": &*wish.name});
        if let Some(name) = &wish.dns_name {
            fields["dns_name"] = json!(&**name);
        }
        Some(fields)
    }

    /// Makes a pool larger or smaller.
    pub(crate) fn pool_size_step(&mut self, key: &PortPoolKey, now: Instant) -> Option<PortStep> {
        if !self.projects.get(&key.project).is_some_and(|project| project.is_listed) {
            return None;
        }
        let (low, high) = self.bounds(key, now)?;
        let ready = self.ready(key);
        let pool = self.pools.get(key)?;
        if pool.living.is_empty() && (ready, high) == (0, 0) && pool.making.is_none() && pool.doubt.is_none() {
            self.pools.remove(key);
            return None;
        }
        // At rest nothing happens by itself; else room may come, or demand may go.
        let rest = if pool.living.is_empty() { 0 } else { self.least() };
        let too_many = self.excess() > 0 && ready > 0;
        if too_many || (ready, low, high) != (rest, rest, rest) {
            self.due.at(now + COMPARED, PortSubject::Pool(key.clone()));
        }
        if (too_many || ready > high) && self.is_complete {
            let last = self.ready_in(key).filter(|(_, port)| port.is_free(now)).last().map(|(id, _)| id.clone())?;
            return self.retire(&last);
        }
        if ready < low {
            return self.create(key, false, now);
        }
        None
    }

    /// Returns how many ports of a pool are ready that is in use and has little to do.
    pub(crate) fn least(&self) -> usize {
        let PortSettings { pool_min, pool_max, .. } = self.settings;
        (if pool_max == 0 { pool_min } else { pool_min.min(pool_max) }) as usize
    }

    /// Returns how many ports of a pool are to be ready at least and at most.
    pub(crate) fn bounds(&mut self, key: &PortPoolKey, now: Instant) -> Option<(usize, usize)> {
        let is_short = self.is_short(key, now);
        let (min, max) = (self.settings.pool_min, self.settings.pool_max);
        let (is_leaving, has_node) = (self.leaving.contains(&key.network), self.nodes.contains_key(&key.node));
        let pool = self.pools.get_mut(key)?;
        let is_idle = pool.living.is_empty() && pool.idle.is_none_or(|since| now >= since + IDLE);
        if is_leaving || !has_node || is_idle || (is_short && pool.waiting.is_empty()) {
            return Some((0, 0));
        }
        let most = if max == 0 { u32::MAX } else { max };
        let low = pool.demand.expected(now).max(min).min(most);
        let high = pool.demand.peak(now).max(min).min(most);
        Some((low as usize, high.max(low) as usize))
    }

    /// Whether there is too little room for the Pods that wait elsewhere, so that no port may be ready for nothing.
    fn is_short(&self, key: &PortPoolKey, now: Instant) -> bool {
        let is_now = |until: Option<Instant>| until.is_some_and(|until| now < until);
        let of_project = is_now(self.projects.get(&key.project).and_then(|project| project.scarce));
        let of_network = is_now(self.exhausted.get(&key.network).copied());
        let of_cluster = self.room() == 0;
        let concerns = |other: &PortPoolKey| {
            of_cluster || (of_project && other.project == key.project) || (of_network && other.network == key.network)
        };
        (of_project || of_network || of_cluster)
            && self.pools.iter().any(|(other, pool)| concerns(other) && !pool.waiting.is_empty())
    }

    /// Returns how many more ports the cluster may have.
    fn room(&self) -> usize {
        let making = self.calls.values().map(|flight| match &flight.errand {
            PortErrand::Create { count, .. } => *count,
            _ => 0,
        });
        let most = self.settings.most_ports.map_or(usize::MAX, |most| most as usize);
        most.saturating_sub(self.table.len() + making.sum::<usize>())
    }

    /// Returns how many ports the cluster has beyond those that it may have, and that no writer is removing: a creation that was given
    /// up may arrive after others were made in its place.
    pub(crate) fn excess(&self) -> usize {
        let most = self.settings.most_ports.map_or(usize::MAX, |most| most as usize);
        if self.table.len() <= most {
            return 0;
        }
        let retired = self.calls.values().filter(|flight| matches!(flight.errand, PortErrand::Retire { .. })).count();
        let stay = self.table.all().filter(|(_, port)| !port.is_going).count();
        stay.saturating_sub(retired + most)
    }

    /// Makes ports: for the Pods that wait, each marked as its own, and as many as the pool lacks.
    fn create(&mut self, key: &PortPoolKey, for_pods: bool, now: Instant) -> Option<PortStep> {
        let pool = self.pools.get(key)?;
        if pool.making.is_some() || pool.doubt.is_some() {
            return None;
        }
        if let Some(until) = pool.pause.filter(|until| *until > now) {
            self.due.at(until, PortSubject::Pool(key.clone()));
            return None;
        }
        if let Some((words, until)) = self.projects.get(&key.project)?.full.clone().filter(|(_, until)| *until > now) {
            self.due.at(until, PortSubject::Pool(key.clone()));
            if for_pods {
                self.refuse(key, PortObstacle::Quota(words));
                self.due.calm.extend(self.pools.keys().filter(|one| one.project == key.project).cloned());
            }
            return None;
        }
        let room = self.room();
        if room == 0 {
            if for_pods {
                self.refuse(key, PortObstacle::Limit(self.settings.most_ports.unwrap_or(u32::MAX)));
                // What others have ready makes room.
                self.due.calm.extend(self.pools.keys().cloned());
            }
            return None;
        }
        let most = (self.settings.pool_batch.max(1) as usize).min(pool.most.unwrap_or(usize::MAX)).min(room);
        let waiting = pool.waiting.iter().filter(|_| for_pods);
        let pods: BTreeSet<Text> = waiting.take(most).cloned().collect();
        let is_scarce = self.projects.get(&key.project)?.scarce.is_some_and(|until| until > now)
            || self.exhausted.get(&key.network).is_some_and(|until| *until > now);
        let (low, _) = self.bounds(key, now)?;
        let lacking = if is_scarce { 0 } else { low.saturating_sub(self.ready(key)) };
        let mut bodies: Vec<Value> = pods.iter().filter_map(|pod| self.body_for_pod(key, pod)).collect();
        let node = self.nodes.get(&key.node).cloned();
        let ready = node.map(|node| self.body(key, &node, POOL_PORT));
        bodies.extend(ready.into_iter().flat_map(|body| std::iter::repeat_n(body, lacking.min(most - pods.len()))));
        if bodies.is_empty() {
            return None;
        }
        let errand = PortErrand::Create { pool: key.clone(), pods, count: bodies.len() };
        Some((key.project.clone(), errand, PortChange::Create { bodies }))
    }

    fn body_for_pod(&self, key: &PortPoolKey, pod: &Text) -> Option<Value> {
        let wish = self.pods.get(pod)?.wish.as_ref()?;
        let mut body = self.body(key, pod, &wish.name);
        if let Some(name) = &wish.dns_name {
            body["dns_name"] = json!(&**name);
        }
        Some(body)
    }

    fn body(&self, key: &PortPoolKey, owner: &Text, name: &str) -> Value {
        json!({
            "project_id": &*key.project,
            "network_id": &*key.network,
            "name": name,
            "description": self.ownership.description(owner),
            "admin_state_up": true,
            "device_owner": DEVICE_OWNER,
            "binding:host_id": &*key.node,
            "security_groups": key.groups.iter().map(|group| &**group).collect::<Vec<_>>(),
        })
    }

    /// Returns the change that puts a port back into a pool, with the pool's groups.
    pub(crate) fn recycled(&self, row: &PodPort, key: &PortPoolKey, node: &Text) -> Value {
        let groups: Vec<&str> = key.groups.iter().map(|group| &**group).collect();
        let description = self.ownership.description(node);
        let mut fields = json!({"description": description, "name": POOL_PORT, "security_groups": groups});
        if row.dns_name.as_ref().is_some_and(|name| !name.is_empty()) {
            fields["dns_name"] = json!("");
        }
        fields
    }

    /// Notes why no port can be made for the Pods that wait in a pool.
    fn refuse(&mut self, key: &PortPoolKey, obstacle: PortObstacle) {
        if let Some(pool) = self.pools.get_mut(key) {
            pool.obstacle = Some(obstacle);
        }
        self.tell_waiting(key);
    }
}
