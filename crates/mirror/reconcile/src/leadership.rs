//! Whether this process may write, and the generation numbers of its streams.

/// Whether this process leads.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeaseTerm {
    /// The epoch of the lease, while this process holds it.
    epoch: Option<u64>,
    /// The lease could not be renewed for long: another process may lead.
    aside: bool,
    /// Generation of the newest stream.
    generation: u64,
}

impl LeaseTerm {
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.epoch
    }

    /// Whether this process holds the lease. It may [stand aside](Self::is_aside) nevertheless.
    pub(crate) fn holds_lease(&self) -> bool {
        self.epoch.is_some()
    }

    pub(crate) fn is_aside(&self) -> bool {
        self.aside
    }

    /// Gains the lease in an epoch, or loses it.
    pub(crate) fn set_epoch(&mut self, epoch: Option<u64>) {
        self.epoch = epoch;
        self.aside = false;
        if let Some(epoch) = epoch {
            // Generations of a later leader are larger than those of an earlier one.
            self.generation = self.generation.max(epoch << 32);
        }
    }

    /// Returns whether this changes anything.
    pub(crate) fn set_aside(&mut self, aside: bool) -> bool {
        std::mem::replace(&mut self.aside, aside) != aside
    }

    /// Returns the generation of a new stream, which is larger than every earlier one.
    pub(crate) fn next_generation(&mut self) -> u64 {
        self.generation += 1;
        self.generation
    }
}
