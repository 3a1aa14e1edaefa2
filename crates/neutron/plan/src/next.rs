//! Which call is made next.

use std::collections::BTreeSet;
use std::time::Instant;

use gimbal_kuryr_model::Text;

use crate::call::{PortCall, PortCallId, PortChange, PortErrand, PortRead, PortWork};
use crate::due::PortSubject;
use crate::plan::{PortFlight, PortPlan};

/// Ports that are read by one request: their IDs are in its URL.
const READ_TOGETHER: usize = 40;

/// A change that is to be made, and what for.
pub(crate) type PortStep = (Text, PortErrand, PortChange);

impl PortPlan {
    /// Returns a call that is to be made now, or `None` until something is said or the time of [`PortPlan::wake_at`] has come. Each
    /// call is returned once; more may follow before it is answered.
    pub fn next(&mut self, now: Instant) -> Option<PortCall> {
        for id in self.due.wake(now) {
            self.want_row(&id);
        }
        if self.calls.len() >= self.settings.most_calls {
            return None;
        }
        if let Some((project, errand, read)) = self.next_read(now) {
            return Some(self.begin(project, errand, PortWork::Read(read), now));
        }
        if !self.is_live || self.pause.until(now).is_some() || self.bucket.rests_until(now).is_some() {
            return None;
        }
        let (project, errand, change) = self.next_change(now)?;
        let cost = if let PortErrand::Create { count, .. } = &errand { *count as u64 } else { 1 };
        self.bucket.spend(cost);
        Some(self.begin(project, errand, PortWork::Change(change), now))
    }

    /// Returns when [`PortPlan::next`] is to be asked again although nothing is said until then.
    #[must_use]
    pub fn wake_at(&self, now: Instant) -> Option<Instant> {
        if self.calls.len() >= self.settings.most_calls {
            return None;
        }
        let reads = self.projects.values().filter_map(|project| project.read_at(now));
        let tokens = self.bucket.next().unwrap_or(now);
        let changes = self.pause.until(now).unwrap_or(now).max(tokens);
        let changes = (self.is_live && self.due.is_any()).then_some(changes);
        reads.chain(changes).chain(self.due.next()).min()
    }

    fn begin(&mut self, project: Text, errand: PortErrand, what: PortWork, now: Instant) -> PortCall {
        self.sequence += 1;
        let id = PortCallId(self.sequence);
        match &errand {
            PortErrand::List | PortErrand::Read { .. } | PortErrand::Look { .. } => {
                if let Some(project) = self.projects.get_mut(&project) {
                    project.reading = Some(id);
                }
            }
            PortErrand::Create { pool, pods, .. } => {
                if let Some(pool) = self.pools.get_mut(pool) {
                    pool.making = Some(id);
                    for pod in pods {
                        pool.waiting.remove(pod);
                        pool.demand.add(now);
                    }
                }
                self.set_making(pods.iter(), Some(id));
            }
            PortErrand::Assign { port, pod } => {
                self.assigning.insert(port.clone(), pod.clone());
                self.set_making([pod].into_iter(), Some(id));
                let place = self.pods.get(pod).and_then(|cell| cell.wish.as_ref()).map(|wish| wish.place.clone());
                if let Some(pool) = place.and_then(|place| self.pools.get_mut(&place)) {
                    pool.waiting.remove(pod);
                    pool.demand.add(now);
                }
            }
            PortErrand::Retire { port } => self.set_held(port, false),
            PortErrand::Update { .. } | PortErrand::Tag { .. } | PortErrand::Delete { .. } => {}
        }
        if let Some(port) = errand.port().and_then(|port| self.table.get_mut(port)) {
            port.busy = Some(id);
        }
        self.calls.insert(id, PortFlight { project: project.clone(), errand });
        PortCall { id, project, what }
    }

    pub(crate) fn set_making<'a>(&mut self, pods: impl Iterator<Item = &'a Text>, making: Option<PortCallId>) {
        for pod in pods {
            if let Some(cell) = self.pods.get_mut(pod) {
                cell.making = making;
            }
        }
    }

    pub(crate) fn set_held(&mut self, port: &Text, is_held: bool) {
        if let Some(port) = self.table.get_mut(port) {
            port.is_held = is_held;
        }
    }

    fn next_read(&mut self, now: Instant) -> Option<(Text, PortErrand, PortRead)> {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let (name, project) = self.projects.iter_mut().find(|(_, project)| due(project.read_at(now)))?;
        if !project.is_listed || project.next_list.is_none_or(|at| at <= now) {
            return Some((name.clone(), PortErrand::List, PortRead::All));
        }
        while let Some(key) = project.looks.pop_first() {
            let doubt = self.pools.get(&key).and_then(|pool| pool.doubt.as_ref());
            let owners = doubt.into_iter().flat_map(|doubt| doubt.owners());
            let descriptions: BTreeSet<Text> = owners.map(|owner| self.ownership.description(owner).into()).collect();
            if descriptions.is_empty() {
                continue;
            }
            return Some((name.clone(), PortErrand::Look { pool: key }, PortRead::Marked(descriptions)));
        }
        let ids: BTreeSet<Text> = project.to_read.iter().take(READ_TOGETHER).cloned().collect();
        if ids.is_empty() {
            return None;
        }
        project.to_read.retain(|id| !ids.contains(id));
        Some((name.clone(), PortErrand::Read { ids: ids.clone() }, PortRead::Some(ids)))
    }

    /// Pods first, then what was theirs, then what is made in advance, then what only people read.
    fn next_change(&mut self, now: Instant) -> Option<PortStep> {
        while let Some(key) = self.due.urgent.first().cloned() {
            if let Some(step) = self.pool_step(&key, now) {
                return Some(step);
            }
            self.due.urgent.remove(&key);
        }
        while let Some(id) = self.due.ports.pop_first() {
            if let Some(step) = self.port_step(&id, now) {
                return Some(step);
            }
        }
        while let Some(key) = self.due.calm.first().cloned() {
            if let Some(step) = self.pool_size_step(&key, now) {
                return Some(step);
            }
            self.due.calm.remove(&key);
        }
        while let Some(id) = self.due.tags.pop_first() {
            if let Some(step) = self.tag_step(&id) {
                return Some(step);
            }
        }
        None
    }

    /// Lets the row of a port be read.
    pub(crate) fn want_row(&mut self, id: &Text) {
        let Some(port) = self.table.get(id) else { return };
        if let Some(project) = self.projects.get_mut(&port.row.project) {
            project.to_read.insert(id.clone());
        }
    }

    pub(crate) fn port_at(&mut self, id: &Text, at: Instant) {
        self.due.at(at, PortSubject::Port(id.clone()));
    }
}
