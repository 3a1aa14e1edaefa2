//! Which of two versions is the newer.

use std::cmp::Reverse;
use std::sync::Arc;

use gimbal_kubernetes_objects::Kind;

/// How many gone objects a target remembers. Their order matters only while a write is in flight, and a target has few of
/// those at once.
const GRAVES: usize = 32;

/// Whether `version` is surely older than `than`. Versions of one kind are numbers that grow; one that is no number may
/// be anything.
pub(super) fn is_older(version: &str, than: &str) -> bool {
    match (version.parse::<u128>(), than.parse::<u128>()) {
        (Ok(version), Ok(than)) => version < than,
        _ => false,
    }
}

/// The last versions of objects that are gone, so that a late answer or event does not bring them back.
#[derive(Debug, Clone, Default)]
pub(super) struct Graves(Vec<(Kind, Arc<str>, u128)>);

impl Graves {
    /// Remembers an object that went at `version`, or at the later one that was held.
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

    /// Forgets one that is gone: there is a new one of that name.
    pub(super) fn open(&mut self, kind: Kind, name: &str) {
        self.0.retain(|grave| grave.0 != kind || *grave.1 != *name);
    }

    /// Forgets all of a kind.
    pub(super) fn open_all(&mut self, kind: Kind) {
        self.0.retain(|grave| grave.0 != kind);
    }

    /// Whether an object of this name at this version is one that is gone. A new one of the same name has a later version
    /// than the one at which the old one went; a delete of ours names the last version seen, so what a finalizer keeps
    /// comes back with the next.
    pub(super) fn cover(&self, kind: Kind, name: &str, version: &str) -> bool {
        let version = version.parse::<u128>();
        let mut graves = self.0.iter();
        version.is_ok_and(|version| graves.any(|grave| grave.0 == kind && *grave.1 == *name && version <= grave.2))
    }
}
