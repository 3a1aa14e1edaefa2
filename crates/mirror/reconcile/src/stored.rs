//! The versions of a backend's stored state.

/// Which states of a backend were given to be stored, and which of them are.
///
/// A backend that takes the name of a removed one continues its numbers: what is stored late was the other one's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StoredVersions {
    /// The last version of an earlier backend.
    earlier: u64,
    /// The last version that was given to be stored.
    given: u64,
    /// The last version that was stored.
    stored: u64,
}

impl StoredVersions {
    /// Continues after the versions of another backend.
    pub(crate) fn after(last: u64) -> Self {
        Self { earlier: last, given: last, stored: last }
    }

    /// Returns the version of a state that is given to be stored now.
    pub(crate) fn give(&mut self) -> u64 {
        self.given += 1;
        self.given
    }

    /// Returns the last version that was given.
    pub(crate) fn last(&self) -> u64 {
        self.given
    }

    /// Whether a state of this backend was ever given.
    pub(crate) fn were_given(&self) -> bool {
        self.given > self.earlier
    }

    /// A version is stored, and all before it.
    pub(crate) fn store(&mut self, version: u64) {
        self.stored = self.stored.max(version);
    }

    pub(crate) fn is_stored(&self, version: u64) -> bool {
        version <= self.stored
    }
}
