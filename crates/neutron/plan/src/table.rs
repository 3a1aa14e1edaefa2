//! The ports of a cluster that are known to exist.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use gimbal_kuryr_model::Text;

use crate::PodPort;
use crate::call::PortCallId;
use crate::ownership::{PortOwnership, is_going};

/// A port that exists.
#[derive(Debug, Clone)]
pub(crate) struct KnownPort {
    pub(crate) row: PodPort,
    /// UID of the Pod or of the node that it belongs to.
    pub(crate) owner: Text,
    /// Whether it is being removed.
    pub(crate) is_going: bool,
    /// Whether this writer has made it, or has changed it since it has its owner, and has not tried to remove it after that: then
    /// every removal that was decided on before names another revision.
    pub(crate) is_held: bool,
    /// The change that is under way.
    pub(crate) busy: Option<PortCallId>,
    /// When something happened to it that its row may not show; a read that began later does. In numbers of calls.
    pub(crate) stale: Option<u64>,
    /// When it was last known to exist, in numbers of calls.
    pub(crate) seen: u64,
    /// Since when it has its owner.
    pub(crate) since: Instant,
    /// Since when its owner is missing.
    pub(crate) missing: Option<Instant>,
    /// Whether its owner has been missing for long enough.
    pub(crate) is_orphan: bool,
    /// How often a change failed, one after the other, and until when it is left alone.
    pub(crate) failures: u32,
    pub(crate) pause: Option<Instant>,
    /// How often it was read since it should become active.
    pub(crate) polls: u32,
}

impl KnownPort {
    /// Whether it may be changed now.
    pub(crate) fn is_free(&self, now: Instant) -> bool {
        self.busy.is_none() && self.stale.is_none() && self.pause.is_none_or(|until| until <= now)
    }
}

/// Ports by ID and by owner.
#[derive(Debug, Clone, Default)]
pub(crate) struct PortTable {
    ports: BTreeMap<Text, KnownPort>,
    owned: BTreeMap<Text, BTreeSet<Text>>,
    /// Ports that were removed, and when, in numbers of calls: a list that began before may still have them.
    removed: BTreeMap<Text, u64>,
}

impl PortTable {
    pub(crate) fn len(&self) -> usize {
        self.ports.len()
    }

    pub(crate) fn get(&self, id: &str) -> Option<&KnownPort> {
        self.ports.get(id)
    }

    /// The port, for whatever does not change its row.
    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut KnownPort> {
        self.ports.get_mut(id)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&Text, &KnownPort)> {
        self.ports.iter()
    }

    /// The ports of an owner.
    pub(crate) fn of<'a>(&'a self, owner: &str) -> impl Iterator<Item = (&'a Text, &'a KnownPort)> + use<'a> {
        let ids = self.owned.get(owner).into_iter().flatten();
        ids.filter_map(|id| self.ports.get_key_value(id))
    }

    /// Takes a row that a call has brought which began as number `began`. Returns whether it is a port of this cluster.
    pub(crate) fn take(
        &mut self,
        row: PodPort,
        began: u64,
        number: u64,
        ownership: &PortOwnership,
        now: Instant,
    ) -> bool {
        let id = row.id.clone();
        if self.removed.contains_key(&id) {
            return false;
        }
        let Some(owner) = ownership.owner(&row.description).map(Text::from) else {
            // Somebody has taken the mark off, or it is another cluster's.
            if self.ports.get(&id).is_some_and(|port| port.busy.is_none() && port.seen < began) {
                self.forget(&id);
            }
            return false;
        };
        let is_going = is_going(&row.description);
        let Some(port) = self.ports.get_mut(&id) else {
            self.owned.entry(owner.clone()).or_default().insert(id.clone());
            let port = KnownPort {
                row,
                owner,
                is_going,
                is_held: false,
                busy: None,
                stale: None,
                seen: number,
                since: now,
                missing: None,
                is_orphan: false,
                failures: 0,
                pause: None,
                polls: 0,
            };
            self.ports.insert(id, port);
            return true;
        };
        port.seen = port.seen.max(number);
        let is_newer = port.stale.map_or(row.revision >= port.row.revision, |since| began > since);
        if !is_newer || port.busy.is_some() {
            return true;
        }
        (port.stale, port.is_going) = (None, is_going);
        if port.owner != owner {
            let before = std::mem::replace(&mut port.owner, owner.clone());
            (port.since, port.missing, port.is_orphan, port.is_held, port.polls) = (now, None, false, false, 0);
            unlink(&mut self.owned, &before, &id);
            self.owned.entry(owner).or_default().insert(id);
        }
        port.row = row;
        true
    }

    /// Forgets a port that is gone for good: lists that are under way may still have it.
    pub(crate) fn remove(&mut self, id: &Text, number: u64) {
        self.forget(id);
        self.removed.insert(id.clone(), number);
    }

    /// Forgets a port that is not there.
    pub(crate) fn forget(&mut self, id: &Text) {
        if let Some(port) = self.ports.remove(id) {
            unlink(&mut self.owned, &port.owner, id);
        }
    }

    /// Forgets what was removed before the call with this number: none that is under way is older.
    pub(crate) fn forget_removed(&mut self, before: u64) {
        self.removed.retain(|_, number| *number >= before);
    }
}

fn unlink(owned: &mut BTreeMap<Text, BTreeSet<Text>>, owner: &Text, id: &Text) {
    if let Some(ids) = owned.get_mut(owner) {
        ids.remove(id);
        if ids.is_empty() {
            owned.remove(owner);
        }
    }
}
