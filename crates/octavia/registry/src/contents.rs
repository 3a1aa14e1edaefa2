//! Contents of certificates: who wants which, and the answers of the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use gimbal_kuryr_model::{CertificateHash, DesiredKind, Text};
use gimbal_octavia_plan::FoundContent;

use crate::cell::Cell;
use crate::cluster::ManagedCluster;
use crate::event::RegistryEvent;
use crate::shared::RegistryCore;

/// The contents that a cluster is asked for, and the owners that want each.
#[derive(Debug, Default)]
pub(crate) struct WantedContents {
    asked: BTreeMap<CertificateHash, BTreeSet<Text>>,
    /// Those that nothing wants any more.
    unwanted: BTreeSet<CertificateHash>,
}

impl WantedContents {
    pub(crate) fn forget(&mut self, owner: &Text) {
        self.set(owner, &BTreeSet::new());
    }

    /// Sets what an owner wants. Returns what nothing was asked for before.
    fn set(&mut self, owner: &Text, wanted: &BTreeSet<CertificateHash>) -> Vec<CertificateHash> {
        for (hash, owners) in &mut self.asked {
            if !wanted.contains(hash) && owners.remove(owner) && owners.is_empty() {
                self.unwanted.insert(*hash);
            }
        }
        self.asked.retain(|_, owners| !owners.is_empty());
        let is_new = |hash: &&CertificateHash| !self.asked.contains_key(hash);
        let new: Vec<CertificateHash> = wanted.iter().filter(is_new).copied().collect();
        for hash in wanted {
            self.asked.entry(*hash).or_default().insert(owner.clone());
            self.unwanted.remove(hash);
        }
        new
    }
}

impl ManagedCluster {
    /// Asks for the contents that an owner wants. They are of use only where changes may be made.
    pub(crate) fn ask_for_contents(&mut self, owner: &Text, cell: &mut Cell, shared: &mut RegistryCore, now: Instant) {
        if cell.key.kind != DesiredKind::L7Router || !self.may_change(shared, now) {
            return;
        }
        let Some(wanted) = cell.actor.wanted_contents(shared.at(now)) else { return };
        wanted.iter().for_each(|hash| cell.actor.content_asked(*hash, shared.at(now)));
        for hash in self.contents.set(owner, &wanted) {
            shared.events.push(RegistryEvent::ContentWanted { cluster: self.settings.name.clone(), hash });
        }
    }

    /// Takes the content of a certificate, for whoever wants it.
    pub(crate) fn found_content(
        &mut self,
        hash: CertificateHash,
        found: &FoundContent,
        shared: &RegistryCore,
        now: Instant,
    ) {
        self.contents.unwanted.remove(&hash);
        for owner in self.contents.asked.remove(&hash).unwrap_or_default() {
            if let Some(cell) = self.cells.get_mut(&owner) {
                cell.actor.found_content(hash, found.clone(), shared.at(now));
            }
            self.wake(&owner);
        }
    }

    /// Wipes what is held: nothing can be stored until a stream is there, and it is asked for again then.
    pub(crate) fn wipe_contents(&mut self) {
        let asked = std::mem::take(&mut self.contents.asked);
        self.contents.unwanted.extend(asked.into_keys());
        let routers = self.cells.values_mut().filter(|cell| cell.key.kind == DesiredKind::L7Router);
        routers.for_each(|cell| cell.actor.forget_contents());
    }

    /// Says which contents nothing wants any more.
    pub(crate) fn tell_unwanted(&mut self, shared: &mut RegistryCore) {
        for hash in std::mem::take(&mut self.contents.unwanted) {
            shared.events.push(RegistryEvent::ContentUnwanted { cluster: self.settings.name.clone(), hash });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_is_asked_for_once_and_until_nothing_wants_it() {
        let hash = |byte| CertificateHash::from_bytes([byte; 32]);
        let (one, other) = (Text::from("r1"), Text::from("r2"));
        let mut contents = WantedContents::default();
        assert_eq!(contents.set(&one, &[hash(1), hash(2)].into()), [hash(1), hash(2)]);
        assert_eq!(contents.set(&other, &[hash(2), hash(3)].into()), [hash(3)]);
        assert_eq!(contents.set(&one, &[hash(1)].into()), []);
        assert_eq!(contents.unwanted, BTreeSet::new());
        contents.forget(&other);
        assert_eq!(contents.unwanted, [hash(2), hash(3)].into());
        assert_eq!(contents.set(&one, &[hash(2)].into()), [hash(2)]);
        assert_eq!(contents.unwanted, [hash(1), hash(3)].into());
    }
}
