//! What a read says.

use std::collections::BTreeSet;
use std::time::Instant;

use gimbal_kuryr_model::Text;

use crate::PortPoolKey;
use crate::call::{PortAnswer, PortCallId, PortErrand};
use crate::cells::RETRY;
use crate::plan::PortPlan;

impl PortPlan {
    pub(crate) fn read(
        &mut self,
        id: PortCallId,
        project: &Text,
        errand: PortErrand,
        answer: PortAnswer,
        now: Instant,
    ) {
        let cell = self.projects.entry(project.clone()).or_default();
        cell.reading = None;
        let PortAnswer::Rows(rows) = answer else {
            // What was to be read still is.
            cell.pause = Some(now + RETRY.delay(cell.failures));
            cell.failures += 1;
            match errand {
                PortErrand::Look { pool } => _ = cell.looks.insert(pool),
                PortErrand::Read { ids } => cell.to_read.extend(ids),
                _ => {}
            }
            return;
        };
        (cell.failures, cell.pause) = (0, None);
        let seen: BTreeSet<Text> = rows.iter().filter_map(|row| row["id"].as_str().map(Text::from)).collect();
        for row in &rows {
            self.take(row, id.0, id.0, now);
        }
        seen.iter().for_each(|port| self.end_doubt(port, now));
        match errand {
            PortErrand::List => {
                self.miss(project, id, &seen, |_| true, now);
                self.listed(project, now);
            }
            PortErrand::Read { ids: asked } => {
                self.miss(project, id, &seen, |port| asked.contains(port), now);
                for port in &asked {
                    if let Some(known) = self.table.get_mut(port) {
                        known.polls = known.polls.saturating_add(1);
                    }
                    self.due.port(port);
                    self.end_doubt(port, now);
                }
            }
            PortErrand::Look { pool } => self.looked(&pool, now),
            _ => {}
        }
    }

    /// After a read of a port: unless it is being changed, or must be read again, it is known whether a Pod was given it.
    fn end_doubt(&mut self, port: &Text, now: Instant) {
        if self.table.get(port).is_none_or(|known| known.busy.is_none() && known.stale.is_none()) {
            self.end_assignment(port, now);
        }
    }

    /// Forgets ports that a read has not found: those that it should have, for they were there when it began and nothing is done to
    /// them.
    fn miss(
        &mut self,
        project: &Text,
        began: PortCallId,
        seen: &BTreeSet<Text>,
        asked: impl Fn(&Text) -> bool,
        now: Instant,
    ) {
        let is_missing = |(id, port): &(&Text, &crate::table::KnownPort)| {
            let is_idle = port.busy.is_none() && port.seen < began.0 && port.stale.is_none_or(|since| since < began.0);
            port.row.project == *project && asked(id) && !seen.contains(*id) && is_idle
        };
        let missing = self.table.all().filter(is_missing).map(|(id, port)| (id.clone(), port.owner.clone()));
        for (id, owner) in missing.collect::<Vec<_>>() {
            self.wake_around(&id);
            self.table.forget(&id);
            self.end_assignment(&id, now);
            self.settle(&owner, now);
        }
    }

    /// After the whole list of a project: who has no owner, and for how long.
    fn listed(&mut self, project: &Text, now: Instant) {
        let cell = self.projects.entry(project.clone()).or_default();
        let is_first = !std::mem::replace(&mut cell.is_listed, true);
        cell.next_list = Some(now + self.settings.list_interval);
        let grace = self.settings.orphan_grace;
        let ids = self.table.all().filter(|(_, port)| port.row.project == *project);
        let ids: Vec<(Text, Text)> = ids.map(|(id, port)| (id.clone(), port.owner.clone())).collect();
        for (id, owner) in &ids {
            let has_owner = self.pods.contains_key(owner) || self.node_names.contains_key(owner);
            let Some(port) = self.table.get_mut(id) else { continue };
            if has_owner || !self.is_complete {
                (port.missing, port.is_orphan) = (None, false);
            } else {
                let since = *port.missing.get_or_insert(now);
                // One list is not enough: an owner may be on its way.
                port.is_orphan = since < now && now.saturating_duration_since(since) >= grace;
            }
            self.due.port(id);
        }
        let gone: Vec<Text> =
            self.node_names.iter().filter(|(_, name)| name.is_none()).map(|(uid, _)| uid.clone()).collect();
        for uid in gone {
            if self.table.of(&uid).next().is_none() {
                self.node_names.remove(&uid);
            }
        }
        if self.excess() > 0 {
            self.wake_pools(|_| true);
        }
        if is_first {
            self.wake_pools(|key| key.project == *project);
            let pods: Vec<Text> = self.pods.keys().cloned().collect();
            pods.iter().for_each(|pod| self.settle(pod, now));
        }
    }

    /// After a look for what a lost creation may have made.
    fn looked(&mut self, key: &PortPoolKey, now: Instant) {
        let Some(doubt) = self.pools.get(key).and_then(|pool| pool.doubt.clone()) else { return };
        let is_found = !doubt.pods.is_empty() && doubt.pods.iter().all(|pod| self.table.of(pod).next().is_some());
        // Ports in advance that come late are one more or less in a pool.
        let is_enough = is_found || doubt.pods.is_empty();
        if let Some(doubt) = self.pools.get_mut(key).and_then(|pool| pool.doubt.as_mut()) {
            doubt.looked(now);
        }
        let is_over =
            self.pools.get(key).and_then(|pool| pool.doubt.as_ref()).is_none_or(|doubt| doubt.next().is_none());
        if is_enough || is_over {
            self.end_creation(key, &doubt.pods, now);
        } else {
            self.look_for(key, now);
        }
    }
}
