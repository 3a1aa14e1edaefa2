//! How much has been read of a kind.

use crate::KuryrKind;

/// How much has been read of a kind.
#[derive(Debug, Clone, Default)]
pub struct KindReading {
    /// Whether it was listed completely at least once.
    complete: bool,
    /// Why it cannot be read now.
    trouble: Option<String>,
    /// Number of its lists.
    lists: u32,
    /// Whether the store went back, and it has not been listed since.
    went_back: bool,
}

/// A list that is complete.
#[derive(Debug, Clone, Copy)]
pub struct EndedList {
    /// Its number.
    pub number: u32,
    /// Whether what was known before could be acted upon.
    pub was_current: bool,
    /// Whether the store went back since the list before it.
    pub went_back: bool,
}

impl KindReading {
    /// A list begins.
    pub fn list_began(&mut self) {
        self.lists += 1;
    }

    /// The list is complete.
    pub fn list_done(&mut self) -> EndedList {
        let list = EndedList {
            number: self.lists,
            was_current: self.is_current(),
            went_back: std::mem::take(&mut self.went_back),
        };
        (self.complete, self.trouble) = (true, None);
        list
    }

    /// It cannot be read, for this reason.
    pub fn cannot_be_read(&mut self, reason: String) {
        self.trouble = Some(reason);
    }

    /// The cluster's store went back: until the next complete list this is not current.
    pub fn must_be_read_anew(&mut self) {
        if self.lists > 0 {
            self.went_back = true;
            self.trouble = Some("the cluster's store went back to an older state".to_owned());
        }
    }

    /// Number of its lists.
    #[must_use]
    pub fn lists(&self) -> u32 {
        self.lists
    }

    /// Whether the store went back, and this has not been listed since.
    #[must_use]
    pub fn went_back(&self) -> bool {
        self.went_back
    }

    /// Whether it was listed completely at least once.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether what is known of it may be acted upon.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.complete && self.trouble.is_none()
    }

    /// Why it cannot be read now.
    #[must_use]
    pub fn unreadable(&self, kind: KuryrKind) -> Option<String> {
        let trouble = self.trouble.as_ref()?;
        Some(format!("{} cannot be read: {trouble}", kind.as_str()))
    }

    /// Why it was not listed yet; `None` if it was.
    #[must_use]
    pub fn unread(&self, kind: KuryrKind) -> Option<String> {
        let not_listed = || format!("{} has not been listed yet", kind.as_str());
        (!self.complete).then(|| self.unreadable(kind).unwrap_or_else(not_listed))
    }
}
