//! The next writes for a target, and what is reported to its owner about them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Instant;

use gimbal_kubernetes_objects::{self as objects, Object as _};
use gimbal_model::{Service, TargetKey};
use gimbal_plan::{Action, Count, Plan, Removals, Unwanted, UnwantedReason, Wanted, limited, plan, plan_lost};
use gimbal_session::{Reject, RejectReason, service_len};

use super::{Ownership, View};
use crate::quota::{Amount, Exceeded};
use crate::refusals::Write;
use crate::target::Target;
use crate::{Backend, Claim};

/// The next writes for a target, and what follows for its owner.
#[derive(Debug)]
pub(crate) struct Proposal {
    /// The claim that has the target or is to get it. `None` if the objects are deleted, or belong to a lost backend.
    pub(crate) owner: Option<Claim>,
    /// The writes.
    pub(crate) plan: Plan,
    /// Removals wait, for the guard or for a lost backend to come back. In an ordinary plan this is set only if nothing
    /// else is left to write.
    pub(crate) held: bool,
    /// Why the owner's Service is not written, or not as a whole.
    pub(crate) reject: Option<Reject>,
    /// What the Service takes of its owner's quota.
    pub(crate) share: QuotaShare,
    /// When to try the writes again that the API server refused.
    pub(crate) retry_at: Option<Instant>,
    /// The refused writes that are no longer needed. `None` if that is not known now.
    pub(crate) outdated: Option<Vec<Write>>,
}

/// What a Service takes of its backend's quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuotaShare {
    /// It is written as a whole and takes this amount.
    Whole(Amount),
    /// It waits for room and keeps this many endpoints until then.
    Part(u64),
    /// It cannot be written. Its existing objects count.
    Existing,
}

/// How much of a claim's Service its quota has room for.
enum Room {
    All(Amount),
    Part(Service, Exceeded),
    /// There is no room even for the part, for example because its header grew, so nothing can be added. Endpoints that
    /// are gone are still removed.
    Less(Exceeded),
    None(Exceeded),
}

impl Proposal {
    fn of(plan: Plan, held: bool) -> Self {
        Self { owner: None, plan, held, reject: None, share: QuotaShare::Existing, retry_at: None, outdated: None }
    }

    /// Whether nothing that the owner wants can be written.
    pub(crate) fn is_rejected(&self) -> bool {
        self.reject.is_some() && self.share == QuotaShare::Existing
    }

    /// Leaves out the writes that the API server refused recently.
    fn around_refusals(
        mut self,
        key: &TargetKey,
        wanted: Option<&Wanted>,
        target: &Target,
        removals: Removals,
        now: Instant,
    ) -> Self {
        if target.refusals().is_empty() {
            return self;
        }
        // Writes that the guard holds may be planned again at any moment, so their refusals stay.
        if removals == Removals::Allowed {
            self.outdated = Some(target.refusals().outdated(self.plan.actions()));
        }
        let Some((first, until)) = target.refusals().among(self.plan.actions(), now) else { return self };
        self.retry_at = Some(until);
        // A Service that waits for room is rejected for that reason, whatever else is refused.
        if !matches!(self.share, QuotaShare::Part(_)) {
            let concerned = self.owner.iter().chain(target.leaving()).next();
            self.reject = concerned.map(|claim| reject(claim, first.reason, true, first.message.clone()));
        }
        let refused = |action: &Action| target.refusals().of(action, now).is_some();
        self.plan = self.plan.around(key, wanted, target.observed(), removals, refused);
        self
    }
}

pub(crate) fn reject(claim: &Claim, reason: RejectReason, retryable: bool, message: String) -> Reject {
    Reject { key: Some(claim.key.clone()), reason, retryable, message }
}

impl View<'_> {
    /// Returns the next writes for a target. `None` if its ownership calls for none.
    pub(crate) fn propose(
        self,
        key: &TargetKey,
        target: &Target,
        ownership: &Ownership,
        removals: Removals,
        now: Instant,
    ) -> Option<Proposal> {
        if let Some((plan, held)) = self.plan_of_lost(key, target, ownership, removals) {
            return Some(Proposal::of(plan, held).around_refusals(key, None, target, removals, now));
        }
        match ownership {
            Ownership::Owned(claim) => self.propose_owned(key, target, claim, removals, now),
            Ownership::Gone(_) => {
                let (plan, held) = guarded(key, None, target, removals);
                Some(Proposal::of(plan, held).around_refusals(key, None, target, removals, now))
            }
            Ownership::Blocked(_) | Ownership::Moving(..) | Ownership::Frozen(_) => None,
            Ownership::Kept(_) | Ownership::Vacant => None,
        }
    }

    fn propose_owned(
        self,
        key: &TargetKey,
        target: &Target,
        claim: &Claim,
        removals: Removals,
        now: Instant,
    ) -> Option<Proposal> {
        let backend = self.desired.get(&claim.backend)?;
        let service = backend.end().service(&claim.key)?;
        let lost = self.lost_for(&claim.backend);
        // A rejected Service of a lost backend still loses its readiness or endpoints as the loss policy says.
        let rejected = |reject: Reject| {
            let stage = self.lost(target);
            let plan = stage.map(|lost| plan_lost(key, target.observed(), lost)).unwrap_or_default();
            let proposal = Proposal { owner: Some(claim.clone()), reject: Some(reject), ..Proposal::of(plan, false) };
            proposal.around_refusals(key, None, target, removals, now)
        };
        let wanted = match self.wanted(backend, claim, key, service) {
            Ok(wanted) => wanted,
            Err(unwanted) => {
                let proposal = rejected(unwanted_reject(claim, &unwanted));
                if self.lost(target).is_some() || target.belongs_to_other(key, claim) {
                    return Some(proposal);
                }
                // The existing objects stay, except for the endpoints that are gone.
                let rules = backend.policy().rules(self.desired.api());
                let wanted = Wanted::unchecked(&claim.backend, &claim.key, key, service, &rules);
                let proposal = Proposal { plan: shrinking(key, &wanted, target, removals), ..proposal };
                return Some(proposal.around_refusals(key, Some(&wanted), target, removals, now));
            }
        };
        let refused = refused_addresses(claim, &wanted);
        let quota = |exceeded: Exceeded| reject(claim, RejectReason::Quota, true, exceeded.to_string());
        let mut shrinks = false;
        let (wanted, partly, share) = match self.room(claim, key, target) {
            Room::All(amount) => (wanted, refused, QuotaShare::Whole(amount)),
            Room::Part(part, exceeded) => match self.wanted(backend, claim, key, &part) {
                Ok(wanted) => {
                    let endpoints = wanted.endpoint_count() as u64;
                    (wanted, Some(quota(exceeded)), QuotaShare::Part(endpoints))
                }
                Err(unwanted) => return Some(rejected(unwanted_reject(claim, &unwanted))),
            },
            Room::Less(exceeded) => {
                shrinks = true;
                let stands = target.observed().endpoint_count() as u64;
                (wanted, Some(quota(exceeded)), QuotaShare::Part(stands))
            }
            Room::None(exceeded) => return Some(rejected(quota(exceeded))),
        };
        if !self.cluster.has_namespace(&key.namespace) {
            let (message, share) = match backend.policy().namespaces.create {
                // It takes its room while the namespace is created. Otherwise each waiting Service could have a
                // namespace of its own created, whatever the quota.
                true if self.cluster.is_creatable(&key.namespace) => (self.cluster.why_missing(&key.namespace), share),
                true => (self.cluster.why_missing(&key.namespace), QuotaShare::Existing),
                false => {
                    let message = format!("namespace {} does not exist in the Gimbal cluster", key.namespace);
                    (message, QuotaShare::Existing)
                }
            };
            let missing = reject(claim, RejectReason::NamespaceMissing, true, message);
            return Some(Proposal { share, ..rejected(missing) });
        }
        let wanted = match lost {
            Some(lost) => wanted.lost(lost),
            None => wanted,
        };
        let (mut plan, held) = guarded(key, Some(&wanted), target, removals);
        if shrinks {
            plan = shrinking(key, &wanted, target, removals);
        }
        let proposal = Proposal { owner: Some(claim.clone()), reject: partly, share, ..Proposal::of(plan, held) };
        Some(proposal.around_refusals(key, Some(&wanted), target, removals, now))
    }

    fn wanted(self, backend: &Backend, claim: &Claim, key: &TargetKey, service: &Service) -> Result<Wanted, Unwanted> {
        let rules = backend.policy().rules(self.desired.api());
        Wanted::new(&claim.backend, &claim.key, key, service, &rules)
    }

    fn room(self, claim: &Claim, key: &TargetKey, target: &Target) -> Room {
        let exceeded = match self.desired.room_for(claim) {
            Ok(amount) => return Room::All(amount),
            Err(exceeded) => exceeded,
        };
        let Some(backend) = self.desired.get(&claim.backend) else { return Room::None(exceeded) };
        let Some(service) = backend.end().service(&claim.key) else { return Room::None(exceeded) };
        if target.observed().is_empty() || target.belongs_to_other(key, claim) {
            return Room::None(exceeded);
        }
        let stands = target.observed().endpoint_count() as u64;
        let most = backend.usage().without_growth(&claim.key, stands, &backend.policy().quota);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let part = limited(service, &backend.policy().addresses, most, target.observed(), self.desired.api());
        let amount = Amount { services: 1, endpoints: 0, bytes: service_len(&claim.key, &part) as u64 };
        match backend.usage().check(&claim.key, amount, &backend.policy().quota) {
            Ok(()) => Room::Part(part, exceeded),
            Err(_) => Room::Less(exceeded),
        }
    }

    /// Returns how many endpoints a claim's target can have, where `held` are counted now. Endpoints that the API
    /// server or a quota refuses do not make up for the ones that go.
    pub(crate) fn attainable(self, claim: &Claim, key: &TargetKey, target: &Target, held: Count) -> Count {
        let (wanted, valid) = (self.desired.publishable(claim), self.desired.is_valid(claim));
        if !valid && target.belongs_to_other(key, claim) {
            return held;
        }
        let refused = !valid
            || target.refusals().hinder_endpoints()
            || target.refusals().hinder() && !target.observed().has_service() && !target.observed().is_empty();
        match self.room(claim, key, target) {
            Room::None(_) => return held,
            Room::All(_) | Room::Part(..) if !refused => return wanted,
            Room::All(_) | Room::Part(..) | Room::Less(_) => {}
        }
        let backend = self.desired.get(&claim.backend);
        let Some(service) = backend.and_then(|backend| backend.end().service(&claim.key)) else { return held };
        target.observed().count_at(&readiness(service)).min(wanted)
    }

    /// Returns why a claim's Service cannot be written as `key`, if it cannot.
    pub(crate) fn unwanted(self, claim: &Claim, key: &TargetKey) -> Option<Reject> {
        let backend = self.desired.get(&claim.backend)?;
        let service = backend.end().service(&claim.key)?;
        let unwanted = self.wanted(backend, claim, key, service).err()?;
        Some(unwanted_reject(claim, &unwanted))
    }
}

/// Returns the addresses of a Service, each with whether an endpoint there is ready.
pub(super) fn readiness(service: &Service) -> BTreeMap<IpAddr, bool> {
    let mut addresses: BTreeMap<IpAddr, bool> = BTreeMap::new();
    for (_, endpoint) in service.endpoints() {
        *addresses.entry(endpoint.address).or_default() |= endpoint.conditions.ready;
    }
    addresses
}

fn unwanted_reject(claim: &Claim, unwanted: &Unwanted) -> Reject {
    let reason = match unwanted.reason {
        UnwantedReason::Invalid => RejectReason::Invalid,
        UnwantedReason::TooLarge => RejectReason::TooLarge,
    };
    reject(claim, reason, false, unwanted.to_string())
}

/// Returns the part of a plan that only removes endpoints and leaves the Service as it is.
fn shrinking(key: &TargetKey, wanted: &Wanted, target: &Target, removals: Removals) -> Plan {
    let stays = |action: &Action| {
        action.kind() == objects::Service::KIND || matches!(action, Action::Create(_) | Action::Replace(_))
    };
    let (plan, _) = guarded(key, Some(wanted), target, removals);
    plan.around(key, Some(wanted), target.observed(), removals, stays)
}

/// Returns the plan, and whether the guard holds all that would be done without it.
fn guarded(key: &TargetKey, wanted: Option<&Wanted>, target: &Target, removals: Removals) -> (Plan, bool) {
    let made = plan(key, wanted, target.observed(), removals, target.taken());
    let held = removals != Removals::Allowed
        && made.phases.is_empty()
        && !plan(key, wanted, target.observed(), Removals::Allowed, target.taken()).phases.is_empty();
    (made, held)
}

fn refused_addresses(claim: &Claim, wanted: &Wanted) -> Option<Reject> {
    let (address, why) = wanted.refused.first()?;
    let more = match wanted.refused.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more are refused"),
    };
    let message = format!("address {address} {why}{more}; the other endpoints are published");
    Some(reject(claim, RejectReason::AddressRefused, false, message))
}
