//! What another controller uses of the Services that this one reads.

use gimbal_kuryr_resource::{ChangedServices, KnownServices};

use crate::KuryrController;

impl<T> KuryrController<T> {
    /// Keeps from now on what changes of the Services, for [`drain_followed`](Self::drain_followed).
    pub fn follow_services(&mut self) {
        self.followed.get_or_insert_with(|| ChangedServices { all: true, ..ChangedServices::default() });
    }

    /// Returns the Services as they are known.
    #[must_use]
    pub fn known_services(&self) -> KnownServices<'_> {
        KnownServices { index: &self.index, nodes: &self.nodes, are_current: self.can_translate() }
    }

    /// Returns what has changed of the Services since the last call.
    pub fn drain_followed(&mut self) -> ChangedServices {
        self.note_changed();
        self.followed.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// What has changed is decided anew.
    pub(crate) fn note_changed(&mut self) {
        let changed = self.index.drain();
        if let Some(followed) = &mut self.followed {
            followed.keys.extend(changed.iter().map(|(key, _)| key.clone()));
        }
        self.dirty.extend(changed.into_iter().map(|(key, _)| key));
    }

    /// Which members a Service has may depend on any of them.
    pub(crate) fn note_changed_nodes(&mut self) {
        if let Some(followed) = &mut self.followed {
            followed.all = true;
        }
    }
}
