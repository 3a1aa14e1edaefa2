//! What the provider was shown not to be able to do, and until when that is believed.

use std::time::Duration;

use gimbal_kuryr_model::ListenerId;

use crate::memory::{Memory, PlanPart};
use crate::outcome::CloudAbility;
use crate::step::Block;

impl Memory {
    pub(crate) fn lacks(&self, ability: CloudAbility, now: Duration) -> bool {
        self.missing.get(&ability).is_some_and(|until| *until > now)
    }

    pub(crate) fn make_apart(&mut self, until: Duration) {
        self.apart = Some(until);
    }

    pub(crate) fn is_made_apart(&self, now: Duration) -> bool {
        self.apart.is_some_and(|until| until > now)
    }

    pub(crate) fn unlearn(&mut self, ability: CloudAbility) {
        self.missing.remove(&ability);
    }

    /// Tries again what was refused for good or shown to be missing: another version of Octavia knows other things, and brings other
    /// drivers.
    pub(crate) fn octavia_changed(&mut self) {
        self.forget_invalid();
        self.blocks.retain(|_, one| !matches!(one.block, Block::Unsupported(_)));
        self.unsupported.clear();
        self.missing.clear();
        self.apart = None;
    }

    pub(crate) fn miss(&mut self, ability: CloudAbility, until: Duration) {
        self.missing.insert(ability, until);
    }

    /// Leaves a port alone that the provider cannot serve.
    pub(crate) fn refuse_port(&mut self, id: ListenerId, words: String, until: Duration) {
        self.unsupported.insert(id, (words, until));
    }

    /// Forgets what was refused about who may connect: it was so by a load balancer that is gone.
    pub(crate) fn forget_ranges(&mut self) {
        self.blocks.retain(|part, _| !matches!(part, PlanPart::Ranges(_) | PlanPart::Closing(_)));
    }

    /// Returns why the provider cannot serve a port, in its words.
    pub(crate) fn refusal_of(&self, id: ListenerId, now: Duration) -> Option<&str> {
        let (words, until) = self.unsupported.get(&id)?;
        (*until > now).then_some(words)
    }
}
