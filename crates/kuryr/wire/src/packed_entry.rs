//! Entries that are offered, nearly all of which rest nearly always.

use std::fmt;
use std::sync::Arc;

use gimbal_kuryr_model::{DesiredEntry, Text};
use gimbal_kuryr_packed::PackedValue;
use gimbal_session::KeptEntry;

use crate::{Kuryr, MessageForm};

/// An entry, packed, and beside that what is asked of all of them. Clones share it: whoever offers it and the session keep one.
#[derive(Clone)]
pub struct PackedEntry(Arc<PackedParts>);

#[derive(PartialEq, Eq)]
struct PackedParts {
    about: EntryFacts,
    /// The last: entries that differ mostly differ in the former.
    entry: PackedValue<DesiredEntry, MessageForm>,
}

#[derive(PartialEq, Eq)]
struct EntryFacts {
    owner: Text,
    /// Generation of what is wanted; unset for what is being deleted.
    generation: Option<i64>,
    is_alone: bool,
    known: bool,
    members: usize,
}

impl EntryFacts {
    fn of(entry: &DesiredEntry) -> Self {
        let (owner, is_alone) = (entry.owner().clone(), entry.is_alone());
        match entry {
            DesiredEntry::LoadBalancer(wanted) => Self {
                owner,
                generation: Some(wanted.generation),
                is_alone,
                known: wanted.header.known,
                members: wanted.members.as_slice().len(),
            },
            DesiredEntry::Deleting { .. } => Self { owner, generation: None, is_alone, known: false, members: 0 },
        }
    }
}

impl PackedEntry {
    /// The UID of the owner.
    #[must_use]
    pub fn owner(&self) -> &Text {
        &self.0.about.owner
    }

    /// Whether its owner is going.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.0.about.generation.is_none()
    }

    /// The generation of what is wanted; `None` if its owner is going.
    #[must_use]
    pub fn generation(&self) -> Option<i64> {
        self.0.about.generation
    }

    /// Whether it names its owner, and wants nothing.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.0.about.is_alone
    }

    /// Whether it says that the status names what exists; `None` if its owner is going.
    #[must_use]
    pub fn known(&self) -> Option<bool> {
        self.0.about.generation.map(|_| self.0.about.known)
    }

    /// Whether it is this one.
    #[must_use]
    pub fn is(&self, entry: &DesiredEntry) -> bool {
        self.0.about == EntryFacts::of(entry) && *self.entry() == *entry
    }
}

impl KeptEntry<Kuryr> for PackedEntry {
    fn entry(&self) -> Arc<DesiredEntry> {
        self.0.entry.get()
    }

    fn part_count(&self) -> usize {
        self.0.about.members
    }
}

impl From<Arc<DesiredEntry>> for PackedEntry {
    fn from(entry: Arc<DesiredEntry>) -> Self {
        let about = EntryFacts::of(&entry);
        Self(Arc::new(PackedParts { about, entry: PackedValue::new(entry) }))
    }
}

impl From<DesiredEntry> for PackedEntry {
    fn from(entry: DesiredEntry) -> Self {
        Arc::new(entry).into()
    }
}

impl PartialEq for PackedEntry {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for PackedEntry {}

/// Shows the entry.
impl fmt::Debug for PackedEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.entry(), f)
    }
}
