//! One owner's network.

use std::time::Instant;

use gimbal_kuryr_model::Text;
use gimbal_octavia_plan::{ChangeOutcome, ServiceRefusal};
use serde_json::Value;

use super::memory::NetworkMemory;
use super::seen::NetworkSeen;
use super::{NetworkChange, NetworkEntry, NetworkObstacle, NetworkWish, SeenNetwork, SeenSubnet};
use crate::ownership::PortOwnership;

/// What is wanted of one owner's network, what was seen of it, and what came of changes.
#[derive(Debug, Clone)]
pub struct NetworkActor {
    pub(crate) entry: NetworkEntry,
    pub(crate) ownership: PortOwnership,
    /// What the last look has found and changes have made of it, and when that look was. Unset: there was none, or not since something
    /// happened.
    pub(crate) seen: Option<(NetworkSeen, Instant)>,
    pub(crate) memory: NetworkMemory,
}

impl NetworkActor {
    /// Returns an actor that knows nothing yet: it begins with a look.
    #[must_use]
    pub fn new(cluster_uid: impl Into<Text>, cluster: impl Into<Text>, entry: NetworkEntry) -> Self {
        let ownership = PortOwnership::new(cluster_uid.into(), cluster.into());
        Self { entry, ownership, seen: None, memory: NetworkMemory::default() }
    }

    /// Says what is wanted.
    pub fn want(&mut self, entry: NetworkEntry) {
        if self.entry != entry {
            self.entry = entry;
            // What was refused before may not be now.
            self.memory.pause = None;
        }
    }

    /// Returns what is wanted.
    #[must_use]
    pub fn entry(&self) -> &NetworkEntry {
        &self.entry
    }

    /// Lets the next step be a look, as after some time.
    pub fn look_again(&mut self) {
        self.seen = None;
    }

    /// Returns the description by which the owner's networks are looked for.
    #[must_use]
    pub fn description(&self) -> String {
        self.ownership.description(self.entry.owner())
    }

    /// Takes what a look has found: networks with [`NetworkActor::description`], and the subnets and ports of these networks, whoever
    /// has made them.
    pub fn looked(&mut self, networks: &[Value], subnets: &[Value], ports: &[Value], now: Instant) {
        let owner = self.entry.owner();
        let is_ours = |description: &str| self.ownership.owner(description) == Some(&**owner);
        let seen = NetworkSeen::read(networks, subnets, ports, is_ours);
        if let Some(is_subnet) = self.memory.lost.as_ref().map(|lost| lost.is_subnet) {
            let is_found = seen.networks.iter().any(|network| !is_subnet || !network.subnets.is_empty());
            if is_found {
                self.memory.lost = None;
            } else {
                self.memory.not_found(now);
            }
        }
        if matches!(&self.memory.pause, Some((until, _)) if *until <= now) {
            self.memory.pause = None;
        }
        self.seen = Some((seen, now));
    }

    /// Takes what came of a change.
    pub fn answered(&mut self, change: &NetworkChange, outcome: ChangeOutcome, now: Instant) {
        match outcome {
            ChangeOutcome::Accepted(body) => {
                self.memory.succeed();
                if let Some((seen, _)) = &mut self.seen {
                    seen.apply(change, &body);
                }
                return;
            }
            // It is gone, whoever has removed it.
            ChangeOutcome::Refused(ServiceRefusal::NotFound(_)) if change.is_removal() => self.memory.succeed(),
            ChangeOutcome::Unknown(words) => self.lost(change, words, now),
            ChangeOutcome::Refused(ServiceRefusal::ProviderFailed) => self.lost(change, String::new(), now),
            ChangeOutcome::Refused(refusal) => self.memory.fail(NetworkObstacle::of(refusal), now),
        }
        self.seen = None;
    }

    fn lost(&mut self, change: &NetworkChange, words: String, now: Instant) {
        match change {
            NetworkChange::CreateNetwork { .. } => self.memory.lose(false, words, now),
            NetworkChange::CreateSubnet { .. } => self.memory.lose(true, words, now),
            // Made twice, it is refused; and what is gone is gone.
            _ => self.memory.fail(NetworkObstacle::Failing(words), now),
        }
    }

    pub(crate) fn wish(&self) -> Option<&NetworkWish> {
        match &self.entry {
            NetworkEntry::Wanted(wish) => Some(wish),
            NetworkEntry::Leaving { .. } => None,
        }
    }

    /// Returns the network that the owner has: the one that its status names, or the oldest.
    #[must_use]
    pub fn network(&self) -> Option<&SeenNetwork> {
        let (seen, _) = self.seen.as_ref()?;
        let named = self.wish().and_then(|wish| wish.network.as_ref());
        let named = seen.networks.iter().find(|network| Some(&network.id) == named);
        named.or_else(|| seen.networks.first())
    }

    /// Returns the subnet that the owner has: the one that its status names, or the oldest.
    #[must_use]
    pub fn subnet(&self) -> Option<&SeenSubnet> {
        let subnets = &self.network()?.subnets;
        let named = self.wish().and_then(|wish| wish.subnet.as_ref());
        let named = subnets.iter().find(|subnet| Some(&subnet.id) == named);
        named.or_else(|| subnets.first())
    }
}
