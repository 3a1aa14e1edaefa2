//! Mark and sweep: what a complete list does not contain is gone.

/// The lists of one kind. Each object carries the epoch of the list that last contained it.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    epoch: u32,
    complete: bool,
}

impl Listing {
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Whether any list was complete.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    pub(crate) fn begin(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// Returns the epoch that every object of the list carries.
    pub(crate) fn end(&mut self) -> u32 {
        self.complete = true;
        self.epoch
    }
}
