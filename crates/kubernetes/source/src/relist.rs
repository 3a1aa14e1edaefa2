//! A list is a set: what it does not name is gone, but only once the list is whole.

use gimbal_model::SourceKey;

use crate::KubernetesIndex;

/// How far listings of one kind have come. Each object remembers the listing that last named it.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    epoch: u32,
    listed: bool,
}

impl Listing {
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.listed
    }

    fn begin(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }
}

impl KubernetesIndex {
    /// A list of Services begins. Its objects are applied as any others; a list that is broken off is simply begun anew.
    pub fn begin_services(&mut self) {
        self.services.begin();
    }

    /// The list is whole: Services that were not applied since [`begin_services`](Self::begin_services) are gone.
    pub fn end_services(&mut self) {
        self.services.listed = true;
        let epoch = self.services.epoch;
        let stale = |(key, entry): (&SourceKey, &crate::index::Entry)| {
            entry.service.as_ref().is_some_and(|held| held.epoch != epoch).then(|| key.clone())
        };
        let gone: Vec<SourceKey> = self.entries.iter().filter_map(stale).collect();
        for key in gone {
            self.remove_service(&key);
        }
        // A table that once was full of what came and went stays twice as large as it need be.
        self.entries.shrink_to_fit();
    }

    /// A list of slices (or Endpoints) begins.
    pub fn begin_slices(&mut self) {
        self.parts.begin();
    }

    /// The list is whole: slices (or Endpoints) that were not applied since [`begin_slices`](Self::begin_slices) are gone.
    pub fn end_slices(&mut self) {
        self.parts.listed = true;
        let epoch = self.parts.epoch;
        let mut gone = Vec::new();
        for (service, entry) in &self.entries {
            for held in entry.parts.iter().filter(|held| held.epoch != epoch) {
                gone.push(SourceKey { namespace: service.namespace.clone(), name: held.name.clone() });
            }
        }
        for key in gone {
            self.remove_part(&key);
        }
        self.owners.shrink_to_fit();
    }
}
