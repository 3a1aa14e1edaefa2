//! All ports of one cluster, and what is wanted of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gimbal_kuryr_model::Text;
use gimbal_schedule::{Pause, TokenBucket};

use crate::call::{PortCallId, PortErrand};
use crate::cells::{PodCell, PoolCell, ProjectCell};
use crate::due::DuePorts;
use crate::ownership::PortOwnership;
use crate::table::PortTable;
use crate::{PodPortEnd, PodPortWish, PortPoolKey, PortReport, PortSettings};

/// A call that is under way.
#[derive(Debug, Clone)]
pub(crate) struct PortFlight {
    pub(crate) project: Text,
    pub(crate) errand: PortErrand,
}

/// Decides which ports are made, given to Pods, taken back and removed. See the crate's page for how it is used.
#[derive(Debug, Clone)]
pub struct PortPlan {
    pub(crate) settings: PortSettings,
    pub(crate) ownership: PortOwnership,
    pub(crate) pods: BTreeMap<Text, PodCell>,
    /// UIDs of nodes by name.
    pub(crate) nodes: BTreeMap<Text, Text>,
    /// Names of nodes by UID; unset: the node is gone.
    pub(crate) node_names: BTreeMap<Text, Option<Text>>,
    /// Networks that are being removed.
    pub(crate) leaving: BTreeSet<Text>,
    pub(crate) table: PortTable,
    pub(crate) pools: BTreeMap<PortPoolKey, PoolCell>,
    pub(crate) projects: BTreeMap<Text, ProjectCell>,
    pub(crate) calls: BTreeMap<PortCallId, PortFlight>,
    /// Ports that a Pod is being given, until it is known what came of it.
    pub(crate) assigning: BTreeMap<Text, Text>,
    /// Networks in which no address was left, and until when that is taken for granted.
    pub(crate) exhausted: BTreeMap<Text, Instant>,
    /// Counts calls and answers.
    pub(crate) sequence: u64,
    pub(crate) bucket: TokenBucket,
    /// What Neutron asks for.
    pub(crate) pause: Pause,
    pub(crate) due: DuePorts,
    pub(crate) reports: BTreeMap<Text, PortReport>,
    pub(crate) is_complete: bool,
    pub(crate) is_live: bool,
    pub(crate) holds_orphans: bool,
}

impl PortPlan {
    /// Returns a plan that knows of no port yet: it begins with a list of each project.
    #[must_use]
    pub fn new(settings: PortSettings) -> Self {
        let ownership = PortOwnership::new(settings.cluster_uid.clone(), settings.cluster.clone());
        let projects = settings.projects.iter().map(|project| (project.clone(), ProjectCell::default())).collect();
        let bucket = TokenBucket::new(settings.ports_per_second.into(), Duration::from_secs(1));
        Self {
            settings,
            ownership,
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            node_names: BTreeMap::new(),
            leaving: BTreeSet::new(),
            table: PortTable::default(),
            pools: BTreeMap::new(),
            projects,
            calls: BTreeMap::new(),
            assigning: BTreeMap::new(),
            exhausted: BTreeMap::new(),
            sequence: 0,
            bucket,
            pause: Pause::default(),
            due: DuePorts::default(),
            reports: BTreeMap::new(),
            is_complete: false,
            is_live: true,
            holds_orphans: false,
        }
    }

    /// Says what a Pod wants.
    pub fn want(&mut self, wish: PodPortWish, now: Instant) {
        let pod = wish.pod.clone();
        let cell = self.pods.entry(pod.clone()).or_default();
        if cell.end.is_none() && cell.wish.as_ref() == Some(&wish) {
            return;
        }
        let before = cell.wish.replace(wish.clone()).map(|wish| wish.place);
        (cell.end, cell.obstacle) = (None, None);
        self.projects.entry(wish.place.project.clone()).or_default();
        if let Some(before) = before.filter(|before| *before != wish.place) {
            self.leave_pool(&pod, &before, now);
        }
        let pool = self.pools.entry(wish.place.clone()).or_default();
        pool.idle = None;
        if pool.living.insert(pod.clone()) {
            // Also for one that has its port: others may come.
            self.due.pool(&wish.place);
        }
        self.wake_ports_of(&pod);
        self.settle(&pod, now);
    }

    /// Says that a Pod is over: its port is taken back, or removed.
    pub fn release(&mut self, end: PodPortEnd, now: Instant) {
        let pod = end.pod.clone();
        let cell = self.pods.entry(pod.clone()).or_default();
        if cell.end.as_ref().is_some_and(|(before, _)| *before == end) {
            return;
        }
        let since = cell.end.as_ref().map_or(now, |(_, since)| *since);
        cell.end = Some((end, since));
        if let Some(place) = cell.wish.as_ref().map(|wish| wish.place.clone()) {
            self.leave_pool(&pod, &place, now);
        }
        self.wake_ports_of(&pod);
        self.settle(&pod, now);
    }

    /// Forgets a Pod: nothing is known of it any more. What Neutron still has of it is removed when it has been missing for long.
    pub fn forget(&mut self, pod: &Text, now: Instant) {
        let Some(cell) = self.pods.remove(pod) else { return };
        if let Some(wish) = cell.wish {
            self.leave_pool(pod, &wish.place, now);
        }
        self.reports.remove(pod);
        self.wake_ports_of(pod);
    }

    /// Says which node has a name.
    pub fn set_node(&mut self, name: impl Into<Text>, uid: impl Into<Text>, now: Instant) {
        let (name, uid) = (name.into(), uid.into());
        if self.nodes.get(&name) == Some(&uid) {
            return;
        }
        self.remove_node(&name, now);
        self.nodes.insert(name.clone(), uid.clone());
        self.node_names.insert(uid.clone(), Some(name.clone()));
        self.wake_ports_of(&uid);
        self.wake_pools(|key| key.node == name);
    }

    /// Says that a node was deleted. One that is not ready is not.
    pub fn remove_node(&mut self, name: &str, now: Instant) {
        if let Some(uid) = self.nodes.remove(name) {
            self.wake_ports_of(&uid);
            self.node_names.insert(uid, None);
        }
        let ended: Vec<Text> =
            self.pods.iter().filter(|(_, cell)| cell.end.is_some()).map(|(pod, _)| pod.clone()).collect();
        for pod in ended {
            self.wake_ports_of(&pod);
            self.settle(&pod, now);
        }
    }

    /// Says that a network is being removed: no port is kept ready there.
    pub fn set_leaving(&mut self, network: &Text, is_leaving: bool) {
        let has_changed = if is_leaving { self.leaving.insert(network.clone()) } else { self.leaving.remove(network) };
        if has_changed {
            let ports = self.table.all().filter(|(_, port)| port.row.network == *network);
            let ports: Vec<Text> = ports.map(|(id, _)| id.clone()).collect();
            ports.iter().for_each(|id| self.due.port(id));
            self.wake_pools(|key| key.network == *network);
        }
    }

    /// Says whether all Pods and nodes of the cluster have been named: only then is anything missing.
    pub fn set_complete(&mut self, is_complete: bool) {
        if std::mem::replace(&mut self.is_complete, is_complete) != is_complete {
            self.wake_everything();
        }
    }

    /// Says whether the cluster's stream is alive: without it nothing changes.
    pub fn set_live(&mut self, is_live: bool) {
        self.is_live = is_live;
    }

    /// Says whether the guard holds the ports of owners that are missing.
    pub fn hold_orphans(&mut self, holds: bool) {
        if std::mem::replace(&mut self.holds_orphans, holds) != holds {
            self.wake_everything();
        }
    }

    /// Returns the number of ports whose owner has been missing for long enough.
    #[must_use]
    pub fn orphans(&self) -> usize {
        self.table.all().filter(|(_, port)| port.is_orphan && !port.is_going).count()
    }

    /// Returns a report that was not returned before.
    pub fn take_report(&mut self) -> Option<PortReport> {
        self.reports.pop_first().map(|(_, report)| report)
    }

    /// Returns how many ports of a pool are ready.
    #[must_use]
    pub fn ready(&self, key: &PortPoolKey) -> usize {
        self.ready_in(key).count()
    }

    /// Whether no Pod in a network waits for a port, and each pool in use there has its least number ready: what a KuryrNetwork calls
    /// populated.
    #[must_use]
    pub fn is_warm(&self, network: &str) -> bool {
        let least = self.least();
        let mut used = self.pools.iter().filter(|(key, pool)| *key.network == *network && !pool.living.is_empty());
        used.all(|(key, pool)| pool.waiting.is_empty() && self.ready(key) >= least)
    }

    pub(crate) fn wake_ports_of(&mut self, owner: &Text) {
        let ids: Vec<Text> = self.table.of(owner).map(|(id, _)| id.clone()).collect();
        ids.iter().for_each(|id| self.due.port(id));
    }

    pub(crate) fn wake_pools(&mut self, which: impl Fn(&PortPoolKey) -> bool) {
        for key in self.pools.keys().filter(|key| which(key)) {
            self.due.pool(key);
        }
    }

    fn wake_everything(&mut self) {
        let ids: Vec<Text> = self.table.all().map(|(id, _)| id.clone()).collect();
        ids.iter().for_each(|id| self.due.port(id));
        self.wake_pools(|_| true);
    }

    fn leave_pool(&mut self, pod: &Text, place: &PortPoolKey, now: Instant) {
        if let Some(pool) = self.pools.get_mut(place) {
            pool.living.remove(pod);
            pool.waiting.remove(pod);
            if pool.living.is_empty() {
                pool.idle = Some(now);
            }
            self.due.pool(place);
        }
    }
}
