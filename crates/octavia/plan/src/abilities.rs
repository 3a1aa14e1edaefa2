//! What the cloud can do: what the facts say, without what this actor was shown to be missing.

use std::time::Duration;

use gimbal_kuryr_model::{ApiVersion, CloudFacts, DesiredEntry, DesiredLoadBalancer, ListenerId, ProviderAbilities};

use crate::actor::Actor;
use crate::change::CloudChange;
use crate::memory::PlanPart;
use crate::outcome::{CloudAbility, MissingAbility};
use crate::seen::SeenBalancer;
use crate::target::ROUND_ROBIN;

/// How long an ability stays missing: providers are upgraded.
pub(crate) const MISSING_FOR: Duration = Duration::from_secs(24 * 3600);

/// What can be done for one load balancer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UsableAbilities {
    pub(crate) provider: ProviderAbilities,
    /// Whether Octavia's API knows ranges of clients.
    pub(crate) speaks_ranges: bool,
    /// Whether a batch of members may leave the others alone.
    pub(crate) additive_members: bool,
    pub(crate) additional_vips: bool,
    pub(crate) failover: bool,
    /// Whether Octavia gives the port of the VIP security groups.
    pub(crate) vip_groups: bool,
}

impl Actor {
    pub(crate) fn abilities(&self, wanted: &DesiredLoadBalancer, facts: &CloudFacts, now: Duration) -> UsableAbilities {
        let name = wanted.header.placement.provider.as_deref().or(facts.provider.as_deref());
        let ProviderAbilities { batch_members, populated_create, weights, client_ranges, l7, own_port } =
            facts.abilities(name);
        let has = |ability| !self.memory.lacks(ability, now);
        // A version that was not read yet stops nothing.
        let speaks = |version: ApiVersion| facts.api_version == ApiVersion::default() || facts.api_version >= version;
        UsableAbilities {
            provider: ProviderAbilities {
                batch_members: batch_members && has(CloudAbility::BatchMembers),
                populated_create: populated_create
                    && has(CloudAbility::PopulatedCreate)
                    && !self.memory.is_made_apart(now),
                weights: weights && has(CloudAbility::Weights),
                client_ranges: client_ranges && has(CloudAbility::ClientRanges),
                l7: l7 && has(CloudAbility::L7),
                own_port: own_port && has(CloudAbility::OwnPort),
            },
            speaks_ranges: speaks(ApiVersion::CLIENT_RANGES),
            additive_members: speaks(ApiVersion::ADDITIVE_MEMBERS),
            additional_vips: speaks(ApiVersion::ADDITIONAL_VIPS),
            failover: has(CloudAbility::Failover),
            // A version that does not know them refuses the whole request.
            vip_groups: facts.api_version >= ApiVersion::VIP_GROUPS && has(CloudAbility::SecurityGroups),
        }
    }

    /// Takes note of a missing ability, and returns it for the others that use the provider.
    pub(crate) fn learn(&mut self, ability: CloudAbility, now: Duration) -> Option<MissingAbility> {
        self.memory.miss(ability, now + MISSING_FOR);
        Some(self.missing(ability))
    }

    /// Takes note of what the provider of another load balancer was shown to lack, and until when that is believed, if this one uses
    /// it too.
    pub fn lacks_too(&mut self, missing: &MissingAbility, until: Duration) {
        if self.missing(missing.ability).provider == missing.provider {
            self.memory.miss(missing.ability, until);
        }
    }

    /// Whether another provider is wanted than that of a load balancer.
    pub(crate) fn is_of_former_provider(&self, balancer: &SeenBalancer) -> bool {
        let DesiredEntry::LoadBalancer(wanted) = &self.desired else { return false };
        let wanted = wanted.header.placement.provider.as_deref();
        !balancer.provider.is_empty() && wanted.is_some_and(|wanted| wanted != &*balancer.provider)
    }

    /// The same of the load balancer that has a listener.
    pub(crate) fn has_former_provider(&self, listener: &str) -> bool {
        let has = |one: &&SeenBalancer| one.listeners.iter().any(|seen| seen.id == listener);
        self.seen.balancers.iter().find(has).is_some_and(|one| self.is_of_former_provider(one))
    }

    /// Whether a change sets the usual algorithm of pools for which none was asked.
    pub(crate) fn leaves_algorithms_open(&self, change: &CloudChange, part: &PlanPart) -> bool {
        let DesiredEntry::LoadBalancer(wanted) = &self.desired else { return false };
        let pools = match change {
            CloudChange::CreateBalancer { body } => body["pools"].as_array().map(Vec::as_slice).unwrap_or_default(),
            CloudChange::CreatePool { body } | CloudChange::UpdatePool { fields: body, .. } => {
                std::slice::from_ref(body)
            }
            _ => return false,
        };
        let ids: Vec<ListenerId> = match part {
            PlanPart::Port(Some(id)) => vec![*id],
            _ => wanted.header.listeners.iter().map(|wish| wish.id).collect(),
        };
        let parts = self.sharing.as_deref().map(|sharing| &sharing.parts);
        let header =
            |id: &ListenerId| parts.and_then(|parts| parts.get(id)).map_or(&wanted.header, |part| &part.header);
        !pools.is_empty()
            && pools.iter().all(|pool| pool["lb_algorithm"] == ROUND_ROBIN)
            && ids.iter().all(|id| header(id).balancing.algorithm.is_none())
    }

    /// The provider has no security groups. That it refused the whole in one request was for their sake.
    pub(crate) fn learn_groups_missing(&mut self, now: Duration) -> Option<MissingAbility> {
        self.memory.unlearn(CloudAbility::PopulatedCreate);
        self.learn(CloudAbility::SecurityGroups, now)
    }

    pub(crate) fn missing(&self, ability: CloudAbility) -> MissingAbility {
        let DesiredEntry::LoadBalancer(wanted) = &self.desired else {
            return MissingAbility { provider: String::new(), ability };
        };
        let seen = self.balancer().map(|one| one.provider.clone());
        let provider = wanted.header.placement.provider.as_deref().map(str::to_owned).or(seen).unwrap_or_default();
        MissingAbility { provider, ability }
    }
}
