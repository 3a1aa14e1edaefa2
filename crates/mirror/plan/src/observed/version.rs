//! Compares resource versions, and remembers those of deleted objects.

use std::cmp::Reverse;
use std::sync::Arc;

use gimbal_kubernetes_objects::Kind;

/// The maximum number of deleted objects that a target remembers. They matter only while a write is in flight, and a
/// target has few writes in flight.
const GRAVES: usize = 32;

/// Whether `version` is certainly older than `than`. Versions of one kind are numbers that grow; a version that is
/// not a number is never certainly older.
pub(super) fn is_older(version: &str, than: &str) -> bool {
    match (version.parse::<u128>(), than.parse::<u128>()) {
        (Ok(version), Ok(than)) => version < than,
        _ => false,
    }
}

/// The last versions of deleted objects, so that a late answer or event does not bring them back.
#[derive(Debug, Clone, Default)]
pub(super) struct Graves(Vec<(Kind, Arc<str>, u128)>);

impl Graves {
    /// Remembers that an object was deleted at `version`, or at the observed version `held` if that is later.
    pub(super) fn dig(&mut self, kind: Kind, name: &str, version: &str, held: Option<&str>) {
        let versions = [Some(version), held].into_iter().flatten().filter_map(|version| version.parse().ok());
        let Some(version) = versions.max() else { return };
        let graves = &mut self.0;
        match graves.iter_mut().find(|grave| grave.0 == kind && *grave.1 == *name) {
            Some(grave) => grave.2 = grave.2.max(version),
            None => graves.push((kind, name.into(), version)),
        }
        if graves.len() > GRAVES {
            graves.sort_by_key(|grave| Reverse(grave.2));
            graves.truncate(GRAVES);
        }
    }

    /// Forgets the deletion of an object, because a new object has its name.
    pub(super) fn open(&mut self, kind: Kind, name: &str) {
        self.0.retain(|grave| grave.0 != kind || *grave.1 != *name);
    }

    /// Forgets all deletions of a kind.
    pub(super) fn open_all(&mut self, kind: Kind) {
        self.0.retain(|grave| grave.0 != kind);
    }

    /// Whether an object with this name and version is one that was deleted. A new object of the same name has a
    /// later version than the deletion. Our own delete is remembered with the last version seen, so an object that a
    /// finalizer keeps is accepted again with its next version.
    pub(super) fn cover(&self, kind: Kind, name: &str, version: &str) -> bool {
        let version = version.parse::<u128>();
        let mut graves = self.0.iter();
        version.is_ok_and(|version| graves.any(|grave| grave.0 == kind && *grave.1 == *name && version <= grave.2))
    }
}
