//! A leader that has not been able to write for long. It knows of no other, and there may be one: its agents are to look.

use crate::Reconciler;

/// To agents of a leader that stands aside.
pub(crate) const ASIDE: &str = "this writer cannot renew its lease: another may lead";

impl Reconciler {
    /// Stands aside, or leads on. Who stands aside has no streams, and takes none; it forgets nothing of what agents said, for
    /// it may lead on, and then most of them have nothing new to tell. That they are away meanwhile is its own doing: nothing
    /// is made of it, and once it leads on they have as long to come back as to one that begins to lead.
    pub fn stand_aside(&mut self, aside: bool) {
        if std::mem::replace(&mut self.aside, aside) == aside {
            return;
        }
        if aside {
            self.end_all_streams(ASIDE);
        } else {
            self.backends.values_mut().for_each(|backend| backend.loss.begin_grace());
        }
    }
}
