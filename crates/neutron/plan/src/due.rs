//! What is to be looked at now, and what later.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use gimbal_kuryr_model::Text;

use crate::PortPoolKey;

/// Something that is decided about by itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PortSubject {
    /// Changes of a port.
    Port(Text),
    /// Tags of a port.
    Tags(Text),
    /// The row of a port.
    Row(Text),
    /// A pool.
    Pool(PortPoolKey),
}

/// What is due.
#[derive(Debug, Clone, Default)]
pub(crate) struct DuePorts {
    /// Pools with Pods that wait.
    pub(crate) urgent: BTreeSet<PortPoolKey>,
    pub(crate) ports: BTreeSet<Text>,
    /// Pools that may be too small or too large.
    pub(crate) calm: BTreeSet<PortPoolKey>,
    pub(crate) tags: BTreeSet<Text>,
    timers: BTreeSet<(Instant, PortSubject)>,
    /// The first time of each.
    times: BTreeMap<PortSubject, Instant>,
}

impl DuePorts {
    pub(crate) fn port(&mut self, id: &Text) {
        self.ports.insert(id.clone());
        self.tags.insert(id.clone());
    }

    pub(crate) fn pool(&mut self, key: &PortPoolKey) {
        self.urgent.insert(key.clone());
        self.calm.insert(key.clone());
    }

    /// Lets something be looked at again then, or before.
    pub(crate) fn at(&mut self, at: Instant, what: PortSubject) {
        match self.times.get(&what) {
            Some(before) if *before <= at => return,
            Some(before) => _ = self.timers.remove(&(*before, what.clone())),
            None => {}
        }
        self.times.insert(what.clone(), at);
        self.timers.insert((at, what));
    }

    /// Makes due whose time has come; returns the ports whose rows are to be read.
    pub(crate) fn wake(&mut self, now: Instant) -> Vec<Text> {
        let mut rows = Vec::new();
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, what)) = self.timers.pop_first() else { break };
            self.times.remove(&what);
            match what {
                PortSubject::Port(id) => _ = self.ports.insert(id),
                PortSubject::Tags(id) => _ = self.tags.insert(id),
                PortSubject::Row(id) => rows.push(id),
                PortSubject::Pool(key) => self.pool(&key),
            }
        }
        rows
    }

    /// Whether a change may be wanted now.
    pub(crate) fn is_any(&self) -> bool {
        !(self.urgent.is_empty() && self.ports.is_empty() && self.calm.is_empty() && self.tags.is_empty())
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }
}
