//! Whether a Pod waits for a port, and what is said of it.

use std::time::Instant;

use gimbal_kuryr_model::Text;

use crate::plan::PortPlan;
use crate::table::KnownPort;
use crate::{Plugged, PortObstacle, PortReport};

impl PortPlan {
    /// Puts a Pod where it belongs after something about it has changed, and reports what is new.
    pub(crate) fn settle(&mut self, pod: &Text, now: Instant) {
        let has_port = self.keeper(pod).is_some();
        let has_any = self.table.of(pod).next().is_some();
        let several = self.usable_ports(pod).nth(1).is_some();
        let Some(cell) = self.pods.get_mut(pod) else { return };
        cell.twins = if several { Some(cell.twins.unwrap_or(now)) } else { None };
        if !has_any {
            cell.obstacle = None;
        }
        if several {
            self.wake_ports_of(pod);
        }
        let wanted = self.pods.get(pod).and_then(|cell| Some((cell.wanted()?, cell.making.is_none())));
        if let Some((wish, is_idle)) = wanted
            && let Some(pool) = self.pools.get_mut(&wish.place)
        {
            let waits = !has_port && is_idle;
            let has_changed = if waits { pool.waiting.insert(pod.clone()) } else { pool.waiting.remove(pod) };
            if waits || has_changed {
                self.due.pool(&wish.place);
            }
        }
        self.tell(pod);
    }

    /// The ports of a Pod that it can have: not those that are being removed, nor those that no node can plug.
    fn usable_ports<'a>(&'a self, pod: &Text) -> impl Iterator<Item = (&'a Text, &'a KnownPort)> + use<'a> {
        let plugged = self.plugged(pod);
        self.table.of(pod).filter(move |(id, port)| !port.is_going && (plugged == Some(*id) || !port.row.is_broken()))
    }

    /// Returns the port that the node has plugged: whatever Neutron says of it, the Pod uses it.
    pub(crate) fn plugged(&self, pod: &Text) -> Option<&Text> {
        let wish = self.pods.get(pod)?.wish.as_ref()?;
        wish.port.as_ref().filter(|_| wish.plugged == Plugged::Yes)
    }

    /// Returns the port that a Pod keeps if it has several: the one that its status names, or was reported, or the oldest. Two
    /// writers choose the same one as soon as there is a status.
    pub(crate) fn keeper(&self, pod: &Text) -> Option<&KnownPort> {
        let cell = self.pods.get(pod)?;
        let named = cell.wish.as_ref().and_then(|wish| wish.port.as_ref());
        let rank = |(id, port): &(&Text, &KnownPort)| {
            (named != Some(*id), cell.given() != Some(*id), port.row.created_at.clone(), (*id).clone())
        };
        self.usable_ports(pod).min_by_key(rank).map(|(_, port)| port)
    }

    /// Whether no writer can still be removing a port of a Pod: its status names it, so that each writer keeps it, or this writer holds
    /// it.
    pub(crate) fn is_sure(&self, pod: &Text, port: &KnownPort) -> bool {
        let named = self.pods.get(pod).and_then(|cell| cell.wish.as_ref()?.port.as_ref());
        port.is_held || named == Some(&port.row.id)
    }

    /// Reports what is new about a Pod.
    pub(crate) fn tell(&mut self, pod: &Text) {
        let Some(report) = self.report_on(pod) else { return };
        let Some(cell) = self.pods.get_mut(pod) else { return };
        let is_known = match (&cell.reported, &report) {
            (Some(PortReport::Ready { port: before, .. }), PortReport::Ready { port, .. }) => before.plugs_like(port),
            (before, report) => before.as_ref() == Some(report),
        };
        if !is_known {
            cell.reported = Some(report.clone());
            self.reports.insert(pod.clone(), report);
        }
    }

    fn report_on(&self, pod: &Text) -> Option<PortReport> {
        let cell = self.pods.get(pod)?;
        let pod = pod.clone();
        if let Some((end, _)) = &cell.end {
            let is_empty = self.table.of(&pod).next().is_none();
            if is_empty && cell.making.is_none() && self.projects.values().all(|project| project.is_listed) {
                return Some(PortReport::Gone { pod });
            }
            let waits = || (!is_empty && end.plugged != Plugged::No).then_some(PortObstacle::Plugged);
            let obstacle = cell.obstacle.clone().filter(|_| !is_empty).or_else(waits)?;
            return Some(PortReport::Leaving { pod, obstacle });
        }
        if let Some(port) = self.keeper(&pod).filter(|port| port.row.is_bound()) {
            // Groups that a port does not carry yet leave it open, or closed, to whom they should not.
            let (wish, is_sure) = (cell.wish.as_ref()?, self.is_sure(&pod, port));
            let is_unlike = port.row.groups != wish.place.groups || !is_sure;
            if let Some(obstacle) = cell.obstacle.clone().filter(|_| is_unlike) {
                return Some(PortReport::Waiting { pod, obstacle });
            }
            if !is_sure {
                return None;
            }
            return Some(PortReport::Ready { pod, port: Box::new(port.row.clone()) });
        }
        let pool = self.pools.get(&cell.wish.as_ref()?.place)?;
        let obstacle = cell.obstacle.clone().or_else(|| pool.obstacle.clone())?;
        Some(PortReport::Waiting { pod, obstacle })
    }

    /// Reports what is new about the Pods that wait in a pool.
    pub(crate) fn tell_waiting(&mut self, key: &crate::PortPoolKey) {
        let waiting: Vec<Text> =
            self.pools.get(key).into_iter().flat_map(|pool| pool.waiting.iter().cloned()).collect();
        waiting.iter().for_each(|pod| self.tell(pod));
    }
}
