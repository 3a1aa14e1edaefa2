//! What is to be written for a target as it stands, and what its owner hears of that. Nothing is changed here.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Instant;

use gimbal_kubernetes_objects::{self as objects, Object as _};
use gimbal_model::{Service, TargetKey};
use gimbal_plan::{Action, Count, Plan, Removals, Unwanted, UnwantedReason, Wanted, limited, plan, plan_lost};
use gimbal_session::{Reject, RejectReason, service_len};

use crate::claims::Standing;
use crate::quota::{Amount, Exceeded};
use crate::refusals::Write;
use crate::target::Target;
use crate::{Backend, Claim, Reconciler};

/// See the module.
#[derive(Debug)]
pub(crate) struct Course {
    /// Who has the target, or is to have it; `None` where what is there goes, or is of a backend that is lost.
    pub(crate) owner: Option<Claim>,
    /// What is to be written now.
    pub(crate) plan: Plan,
    /// The guard keeps something that would otherwise go.
    pub(crate) held: bool,
    /// Why not all that the owner wants is written.
    pub(crate) reject: Option<Reject>,
    /// What it takes of the owner's quota.
    pub(crate) share: Share,
    /// When to try again what the API server refused.
    pub(crate) again: Option<Instant>,
    /// Of what was refused: what is not to be written any more, if that can be told now.
    pub(crate) outdated: Option<Vec<Write>>,
}

/// What a Service takes of its backend's quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    /// So much: it is written whole.
    Whole(Amount),
    /// It waits for room, and has so many endpoints until then.
    Part(u64),
    /// It cannot be written. What is there of it counts.
    Stands,
}

/// As much of a claim's Service as there is room for.
enum Room {
    All(Amount),
    Part(Service, Exceeded),
    /// Not even its header has room, so nothing can be added; what is gone goes.
    Less(Exceeded),
    None(Exceeded),
}

impl Course {
    fn of(plan: Plan, held: bool) -> Self {
        Self { owner: None, plan, held, reject: None, share: Share::Stands, again: None, outdated: None }
    }

    /// Whether nothing of what the owner wants can be written.
    pub(crate) fn is_rejected(&self) -> bool {
        self.reject.is_some() && self.share == Share::Stands
    }

    /// Leaves out what the API server refused a while ago.
    fn around_refusals(
        mut self,
        key: &TargetKey,
        wanted: Option<&Wanted>,
        target: &Target,
        removals: Removals,
        now: Instant,
    ) -> Self {
        if target.refusals.is_empty() {
            return self;
        }
        // What the guard holds may be planned again any moment.
        if removals == Removals::Allowed {
            self.outdated = Some(target.refusals.outdated(self.plan.actions()));
        }
        let Some((first, until)) = target.refusals.among(self.plan.actions(), now) else { return self };
        self.again = Some(until);
        // That it has no room is what it has to hear first.
        if !matches!(self.share, Share::Part(_)) {
            let concerned = self.owner.iter().chain(&target.leaving).next();
            self.reject = concerned.map(|claim| reject(claim, first.reason, true, first.message.clone()));
        }
        let refused = |action: &Action| target.refusals.of(action, now).is_some();
        self.plan = self.plan.around(key, wanted, &target.observed, removals, refused);
        self
    }
}

pub(crate) fn reject(claim: &Claim, reason: RejectReason, retryable: bool, message: String) -> Reject {
    Reject { key: Some(claim.key.clone()), reason, retryable, message }
}

impl Reconciler {
    /// `None` where nothing is done about the target.
    pub(crate) fn course(
        &self,
        key: &TargetKey,
        target: &Target,
        standing: &Standing,
        removals: Removals,
        now: Instant,
    ) -> Option<Course> {
        if let Some((plan, held)) = self.plan_of_lost(key, target, standing, removals) {
            return Some(Course::of(plan, held).around_refusals(key, None, target, removals, now));
        }
        match standing {
            Standing::Owned(claim) => self.course_of(key, target, claim, removals, now),
            Standing::Gone(_) => {
                let (plan, held) = guarded(key, None, target, removals);
                Some(Course::of(plan, held).around_refusals(key, None, target, removals, now))
            }
            Standing::Blocked(_) | Standing::Moving(..) | Standing::Frozen(_) => None,
            Standing::Kept(_) | Standing::Nothing => None,
        }
    }

    fn course_of(
        &self,
        key: &TargetKey,
        target: &Target,
        claim: &Claim,
        removals: Removals,
        now: Instant,
    ) -> Option<Course> {
        let backend = self.backends.get(&claim.backend)?;
        let service = backend.end.service(&claim.key)?;
        let lost = self.lost_for(&claim.backend);
        // Whatever else is wrong with it: what stands there for a lost backend is not vouched for.
        let rejected = |reject: Reject| {
            let stage = self.lost(target);
            let plan = stage.map(|lost| plan_lost(key, &target.observed, lost)).unwrap_or_default();
            let course = Course { owner: Some(claim.clone()), reject: Some(reject), ..Course::of(plan, false) };
            course.around_refusals(key, None, target, removals, now)
        };
        let wanted = match self.wanted(backend, claim, key, service) {
            Ok(wanted) => wanted,
            Err(unwanted) => {
                let course = rejected(unwanted_reject(claim, &unwanted));
                if self.lost(target).is_some() || self.is_anothers(key, target, claim) {
                    return Some(course);
                }
                // What stands stays as it is, but for what is gone.
                let rules = backend.policy.rules(self.settings.api);
                let wanted = Wanted::unchecked(&claim.backend, &claim.key, key, service, &rules);
                let course = Course { plan: shrinking(key, &wanted, target, removals), ..course };
                return Some(course.around_refusals(key, Some(&wanted), target, removals, now));
            }
        };
        let refused = refused_addresses(claim, &wanted);
        let quota = |exceeded: Exceeded| reject(claim, RejectReason::Quota, true, exceeded.to_string());
        let mut shrinks = false;
        let (wanted, partly, share) = match self.room(claim, key, target) {
            Room::All(amount) => (wanted, refused, Share::Whole(amount)),
            Room::Part(part, exceeded) => match self.wanted(backend, claim, key, &part) {
                Ok(wanted) => {
                    let endpoints = wanted.endpoint_count() as u64;
                    (wanted, Some(quota(exceeded)), Share::Part(endpoints))
                }
                Err(unwanted) => return Some(rejected(unwanted_reject(claim, &unwanted))),
            },
            Room::Less(exceeded) => {
                shrinks = true;
                let stands = target.observed.endpoint_count() as u64;
                (wanted, Some(quota(exceeded)), Share::Part(stands))
            }
            Room::None(exceeded) => return Some(rejected(quota(exceeded))),
        };
        if !self.namespaces.contains(&key.namespace) {
            let (message, share) = match backend.policy.namespaces.create {
                // While it is being created there is room for it; else one after the other would have its own created.
                true if self.is_creatable(&key.namespace) => (self.why_missing(&key.namespace), share),
                true => (self.why_missing(&key.namespace), Share::Stands),
                false => {
                    let message = format!("namespace {} does not exist in the Gimbal cluster", key.namespace);
                    (message, Share::Stands)
                }
            };
            let missing = reject(claim, RejectReason::NamespaceMissing, true, message);
            return Some(Course { share, ..rejected(missing) });
        }
        let wanted = match lost {
            Some(lost) => wanted.lost(lost),
            None => wanted,
        };
        let (mut plan, held) = guarded(key, Some(&wanted), target, removals);
        if shrinks {
            plan = shrinking(key, &wanted, target, removals);
        }
        let course = Course { owner: Some(claim.clone()), reject: partly, share, ..Course::of(plan, held) };
        Some(course.around_refusals(key, Some(&wanted), target, removals, now))
    }

    fn wanted(&self, backend: &Backend, claim: &Claim, key: &TargetKey, service: &Service) -> Result<Wanted, Unwanted> {
        let rules = backend.policy.rules(self.settings.api);
        Wanted::new(&claim.backend, &claim.key, key, service, &rules)
    }

    fn room(&self, claim: &Claim, key: &TargetKey, target: &Target) -> Room {
        let exceeded = match self.room_for(claim) {
            Ok(amount) => return Room::All(amount),
            Err(exceeded) => exceeded,
        };
        let Some(backend) = self.backends.get(&claim.backend) else { return Room::None(exceeded) };
        let Some(service) = backend.end.service(&claim.key) else { return Room::None(exceeded) };
        if target.observed.is_empty() || self.is_anothers(key, target, claim) {
            return Room::None(exceeded);
        }
        let stands = target.observed.endpoint_count() as u64;
        let most = backend.usage.without_growth(&claim.key, stands, &backend.policy.quota);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let part = limited(service, &backend.policy.addresses, most, &target.observed, self.settings.api);
        let amount = Amount { services: 1, endpoints: 0, bytes: service_len(&claim.key, &part) as u64 };
        match backend.usage.check(&claim.key, amount, &backend.policy.quota) {
            Ok(()) => Room::Part(part, exceeded),
            Err(_) => Room::Less(exceeded),
        }
    }

    /// How many endpoints there can be of what a claim wants, where `held` are counted now: what the API server or a quota
    /// does not let in takes the place of nothing that goes.
    pub(crate) fn attainable(&self, claim: &Claim, key: &TargetKey, target: &Target, held: Count) -> Count {
        let (wanted, valid) = (self.publishable(claim), self.is_valid(claim));
        if !valid && self.is_anothers(key, target, claim) {
            return held;
        }
        let refused = !valid
            || target.refusals.hinder_endpoints()
            || target.refusals.hinder() && !target.observed.has_service() && !target.observed.is_empty();
        match self.room(claim, key, target) {
            Room::None(_) => return held,
            Room::All(_) | Room::Part(..) if !refused => return wanted,
            Room::All(_) | Room::Part(..) | Room::Less(_) => {}
        }
        let backend = self.backends.get(&claim.backend);
        let Some(service) = backend.and_then(|backend| backend.end.service(&claim.key)) else { return held };
        let mut addresses: BTreeMap<IpAddr, bool> = BTreeMap::new();
        for (_, endpoint) in service.endpoints() {
            *addresses.entry(endpoint.address).or_default() |= endpoint.conditions.ready;
        }
        target.observed.count_at(&addresses).min(wanted)
    }

    /// Why a claim's Service can be nothing in the Gimbal cluster, if that is so.
    pub(crate) fn unwanted(&self, claim: &Claim, key: &TargetKey) -> Option<Reject> {
        let backend = self.backends.get(&claim.backend)?;
        let service = backend.end.service(&claim.key)?;
        let unwanted = self.wanted(backend, claim, key, service).err()?;
        Some(unwanted_reject(claim, &unwanted))
    }
}

fn unwanted_reject(claim: &Claim, unwanted: &Unwanted) -> Reject {
    let reason = match unwanted.reason {
        UnwantedReason::Invalid => RejectReason::Invalid,
        UnwantedReason::TooLarge => RejectReason::TooLarge,
    };
    reject(claim, reason, false, unwanted.to_string())
}

/// What of a plan adds nothing: what is gone goes, and the Service stays as it is.
fn shrinking(key: &TargetKey, wanted: &Wanted, target: &Target, removals: Removals) -> Plan {
    let stays = |action: &Action| {
        action.kind() == objects::Service::KIND || matches!(action, Action::Create(_) | Action::Replace(_))
    };
    let (plan, _) = guarded(key, Some(wanted), target, removals);
    plan.around(key, Some(wanted), &target.observed, removals, stays)
}

/// The plan, and whether the guard keeps a part of what would be done without it.
fn guarded(key: &TargetKey, wanted: Option<&Wanted>, target: &Target, removals: Removals) -> (Plan, bool) {
    let made = plan(key, wanted, &target.observed, removals, &target.taken);
    let held = removals != Removals::Allowed
        && made.phases.is_empty()
        && !plan(key, wanted, &target.observed, Removals::Allowed, &target.taken).phases.is_empty();
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
