//! What answers have taught about providers.

use std::time::{Duration, Instant};

use gimbal_kuryr_model::{CloudFacts, Text};
use gimbal_octavia_plan::{Actor, CloudAbility, MissingAbility};

use crate::shared::RegistryCore;

/// How long it is remembered. A provider that was updated is tried again.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// What providers lack, and until when that is taken for granted.
#[derive(Debug, Default)]
pub(crate) struct Learned(Vec<(MissingAbility, Instant)>);

impl Learned {
    /// Takes note that something is missing.
    pub(crate) fn add(&mut self, missing: MissingAbility, now: Instant) {
        self.0.retain(|(known, _)| *known != missing);
        self.0.push((missing, now + REMEMBERED));
    }

    /// Forgets what is too old. Returns whether anything was.
    pub(crate) fn forget_old(&mut self, now: Instant) -> bool {
        let before = self.0.len();
        self.0.retain(|(_, until)| *until > now);
        self.0.len() != before
    }

    /// Lets an actor know where failover is missing.
    pub(crate) fn tell(&self, actor: &mut Actor, shared: &RegistryCore) {
        for (missing, until) in self.0.iter().filter(|(one, _)| one.ability == CloudAbility::Failover) {
            actor.lacks_too(missing, shared.at(*until));
        }
    }

    /// Returns what is known about the cloud, without what is missing.
    pub(crate) fn applied(&self, given: &CloudFacts) -> CloudFacts {
        let mut facts = given.clone();
        for (MissingAbility { provider, ability }, _) in &self.0 {
            // An owner that names none has the default one.
            let default = || given.provider.clone().unwrap_or_default();
            let name = if provider.is_empty() { default() } else { Text::from(provider.as_str()) };
            let abilities = facts.providers.entry(name).or_default();
            match ability {
                CloudAbility::PopulatedCreate => abilities.populated_create = false,
                CloudAbility::BatchMembers => abilities.batch_members = false,
                CloudAbility::Weights => abilities.weights = false,
                CloudAbility::ClientRanges => abilities.client_ranges = false,
                CloudAbility::L7 => abilities.l7 = false,
                CloudAbility::OwnPort => abilities.own_port = false,
                // No fact for controllers: [`Self::tell`] does that, for only the repair of a broken load balancer differs.
                CloudAbility::Failover => {}
                // Nor this one: load balancers without them say so.
                CloudAbility::SecurityGroups => {}
            }
        }
        facts
    }
}
