//! What becomes of a port that exists.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use gimbal_kuryr_model::Text;
use gimbal_schedule::Backoff;
use serde_json::{Value, json};

use crate::call::{PortChange, PortErrand};
use crate::cells::PoolCell;
use crate::due::PortSubject;
use crate::next::PortStep;
use crate::ownership::name_another;
use crate::plan::PortPlan;
use crate::{Plugged, PodPortEnd, PortPoolKey};

/// For this long the port of a Pod that is over is kept for its node to say that it is unplugged.
const UNPLUGGED_WITHIN: Duration = Duration::from_secs(300);
/// For this long a second port of a Pod is kept: by then its status names the one that is used.
const TWINS: Duration = Duration::from_secs(60);
/// Between two reads of a port that is not wired yet.
const POLLS: Backoff = Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(30) };

impl PortPlan {
    /// Returns what is done about a port now.
    pub(crate) fn port_step(&mut self, id: &Text, now: Instant) -> Option<PortStep> {
        let port = self.table.get(id)?;
        if port.busy.is_some() {
            return None;
        }
        if port.stale.is_some() {
            self.want_row(id);
            return None;
        }
        if let Some(until) = port.pause.filter(|until| *until > now) {
            self.port_at(id, until);
            return None;
        }
        if port.is_going {
            let errand = PortErrand::Delete { port: id.clone() };
            return Some((port.row.project.clone(), errand, PortChange::Delete { id: id.clone() }));
        }
        let owner = port.owner.clone();
        if let Some(cell) = self.pods.get(&owner) {
            return match cell.end.clone() {
                Some((end, since)) => self.take_back(id, &end, since, now),
                None => self.keep(id, &owner, now),
            };
        }
        match self.node_names.get(&owner) {
            Some(Some(_)) if !port.row.is_broken() && !self.leaving.contains(&port.row.network) => {
                self.find_pool(id);
                None
            }
            Some(_) => self.retire(id),
            None if port.is_orphan && self.is_complete && !self.holds_orphans => self.retire(id),
            None => None,
        }
    }

    /// Returns the pool that a port is in.
    pub(crate) fn pool_of(&self, id: &Text) -> Option<PortPoolKey> {
        let port = self.table.get(id)?;
        let node = self.node_names.get(&port.owner)?.clone()?;
        let row = &port.row;
        let (project, network, groups) = (row.project.clone(), row.network.clone(), row.groups.clone());
        Some(PortPoolKey { project, network, node, groups })
    }

    /// Lets the pool of a port be known, so that it is seen to be too large.
    fn find_pool(&mut self, id: &Text) {
        let Some(key) = self.pool_of(id) else { return };
        if !self.pools.contains_key(&key) {
            self.pools.insert(key.clone(), PoolCell::default());
            self.due.pool(&key);
        }
    }

    /// The port of a Pod that lives.
    fn keep(&mut self, id: &Text, pod: &Text, now: Instant) -> Option<PortStep> {
        let port = self.table.get(id)?;
        let is_kept = self.keeper(pod).is_some_and(|kept| kept.row.id == *id);
        let cell = self.pods.get(pod)?;
        let wish = cell.wish.as_ref()?;
        if port.row.is_broken() && self.plugged(pod) != Some(id) {
            return self.retire(id);
        }
        if !is_kept {
            let until = cell.twins? + TWINS;
            if until <= now {
                return self.retire(id);
            }
            self.port_at(id, until);
            return None;
        }
        if port.row.groups != wish.place.groups {
            let groups: Vec<&str> = wish.place.groups.iter().map(|group| &**group).collect();
            return self.update(id, json!({"security_groups": groups}));
        }
        if !self.is_sure(pod, port) {
            // Somebody may be removing it, by a request that is still under way: after this change that one fails.
            return self.update(id, self.given(pod)?);
        }
        if !port.row.active {
            let delay = POLLS.delay(port.polls);
            self.due.at(now + delay, PortSubject::Row(id.clone()));
        }
        None
    }

    /// The port of a Pod that is over.
    fn take_back(&mut self, id: &Text, end: &PodPortEnd, since: Instant, now: Instant) -> Option<PortStep> {
        let port = self.table.get(id)?;
        let row = port.row.clone();
        let node = end.node.as_ref().and_then(|node| self.nodes.get_key_value(node));
        let node = node.map(|(name, uid)| (name.clone(), uid.clone()));
        let is_node_gone = node.is_none() && self.is_complete;
        if end.plugged == Plugged::No && node.is_none() && !is_node_gone {
            // It may go back to a pool of the node as soon as that is named.
            return None;
        }
        if let Some((node, uid)) = node.filter(|_| end.plugged == Plugged::No && !row.is_broken()) {
            let (project, network, groups) = (row.project.clone(), row.network.clone(), row.groups.clone());
            if let Some(key) = self.wanting(PortPoolKey { project, network, node, groups }, now) {
                return self.update(id, self.recycled(&row, &key, &uid));
            }
        }
        let until = since + UNPLUGGED_WITHIN;
        if end.plugged == Plugged::No || is_node_gone || until <= now {
            return self.retire(id);
        }
        self.port_at(id, until);
        None
    }

    /// Returns the pool that a port may go back to: its own, or else another one of its node and network, whose groups it gets.
    fn wanting(&mut self, own: PortPoolKey, now: Instant) -> Option<PortPoolKey> {
        let first = PortPoolKey { groups: BTreeSet::new(), ..own.clone() };
        let place = |key: &PortPoolKey| (key.project.clone(), key.network.clone(), key.node.clone());
        let beside = self.pools.range(first..).map(|(key, _)| key.clone()).take_while(|key| place(key) == place(&own));
        let beside: Vec<PortPoolKey> = std::iter::once(own.clone()).chain(beside).collect();
        beside.into_iter().find(|key| {
            let ready = self.ready(key);
            self.bounds(key, now).is_some_and(|(_, high)| ready < high)
        })
    }

    /// Says of a port that it is being removed, unless somebody has changed it: from then on no one takes it.
    pub(crate) fn retire(&self, id: &Text) -> Option<PortStep> {
        let going = self.ownership.going(&self.table.get(id)?.owner);
        self.change(id, PortErrand::Retire { port: id.clone() }, json!({"description": going}))
    }

    fn update(&self, id: &Text, fields: Value) -> Option<PortStep> {
        self.change(id, PortErrand::Update { port: id.clone() }, fields)
    }

    fn change(&self, id: &Text, errand: PortErrand, fields: Value) -> Option<PortStep> {
        let row = &self.table.get(id)?.row;
        let change = PortChange::Update { id: id.clone(), revision: row.revision, fields };
        Some((row.project.clone(), errand, change))
    }

    /// Returns the change of a port's tags, which people and other programs look for. A port that was never a Pod's needs none.
    pub(crate) fn tag_step(&mut self, id: &Text) -> Option<PortStep> {
        let port = self.table.get(id)?;
        let is_pods = self.pods.get(&port.owner).is_some_and(|cell| cell.end.is_none());
        let is_nodes = matches!(self.node_names.get(&port.owner), Some(Some(_)));
        if port.busy.is_some() || port.stale.is_some() || port.is_going {
            return None;
        }
        let is_misleading = is_nodes && name_another(&port.row.tags, &port.owner);
        if !is_pods && !is_misleading {
            return None;
        }
        let tags = self.ownership.missing_tags(&port.owner, &port.row.tags)?;
        let errand = PortErrand::Tag { port: id.clone(), tags: tags.clone() };
        Some((port.row.project.clone(), errand, PortChange::Tag { id: id.clone(), tags }))
    }
}
