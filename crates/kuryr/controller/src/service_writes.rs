//! The next write to a Service.

use std::time::Instant;

use gimbal_kubernetes_objects::{BalancedService, BalancedServiceStatus, LoadBalancerStatus, ServiceCondition};
use gimbal_kuryr_crd::names::finalizers;
use gimbal_kuryr_crd::names::service_conditions::{PORTS_ERROR, REFUSED};
use gimbal_kuryr_crd::{KuryrLoadBalancer, KuryrLoadBalancerSpec};
use gimbal_kuryr_model::Text;
use gimbal_kuryr_resource::{
    InFlightWrite, KuryrKind, PlannedWrite, Purpose, WriteBody, difference, fingerprint, protect, release, target,
};
use gimbal_kuryr_translate::{
    Annotations, NotBalanced, NotStreamed, ServiceOutcome, service_status, without_addresses,
};
use gimbal_model::SourceKey;
use jiff::Timestamp;

use crate::KuryrController;
use crate::item::{has_finalizer, service_has_finalizer};
use crate::situation::{BalancerOwner, OwnerFate, ServiceNeed, Situation};

/// The longest message of a condition.
const LONGEST: usize = 4_096;

impl<T> KuryrController<T> {
    pub(crate) fn plan_service(
        &mut self,
        key: &SourceKey,
        situation: &Situation,
        now: Instant,
        wall: Timestamp,
    ) -> Option<PlannedWrite> {
        let needs_proof = self.items.get(key).is_some_and(|item| item.needs_proof);
        if needs_proof {
            let in_flight = InFlightWrite::new(Purpose::Read);
            return self.may_go(key, KuryrKind::Service, Purpose::Read, now).then_some((WriteBody::Read, in_flight));
        }
        let Some(service) = &situation.service else {
            self.service_shown(key);
            return None;
        };
        if !service_has_finalizer(service) {
            // Nothing of it is ours before.
            self.service_shown(key);
            let wanted = situation.need == ServiceNeed::Wanted && self.facts.is_some();
            if !wanted || !self.is_current(KuryrKind::LoadBalancer) {
                return None;
            }
            return self
                .may_go(key, KuryrKind::Service, Purpose::Protect, now)
                .then(|| protect(&service.metadata, finalizers::SERVICE));
        }
        let uid = &service.metadata.meta.uid;
        let goes = match (situation.need, self.fate(key, situation, uid)) {
            (_, OwnerFate::Doubtful) => return None,
            (_, fate) => fate == OwnerFate::Goes,
        };
        let of_service = situation.owner_uid() == Some(uid);
        let is_gone = self.items.get(key).is_some_and(|item| item.offer.is_gone(uid));
        let balancer = situation.balancer.as_ref().filter(|_| of_service);
        let may_release = goes && is_gone && balancer.is_none_or(|balancer| !has_finalizer(balancer));
        // A Service that is being deleted shows nothing to anybody any more.
        if may_release && service.metadata.is_being_deleted() {
            return self
                .may_go(key, KuryrKind::Service, Purpose::Release, now)
                .then(|| release(&service.metadata, finalizers::SERVICE));
        }
        if let Some(write) = self.service_status(key, situation, service, goes, wall)
            && self.may_go(key, KuryrKind::Service, Purpose::Status, now)
        {
            return Some(write);
        }
        (may_release && self.may_go(key, KuryrKind::Service, Purpose::Release, now))
            .then(|| release(&service.metadata, finalizers::SERVICE))
    }

    /// Whether the status of a Service that another controller serves by now still has to be rid of what is ours, which only the status
    /// of its KuryrLoadBalancer tells. Where the API server refuses that, nothing waits for it.
    pub(crate) fn is_to_be_rid(&mut self, key: &SourceKey, situation: &Situation, wall: Timestamp) -> bool {
        let is_others = situation.need == ServiceNeed::Unwanted(NotBalanced::Class);
        let of_service = situation.owner == BalancerOwner::Service;
        let Some(service) = situation.service.clone().filter(|_| is_others && of_service) else { return false };
        let is_refused = self.items.get(key).is_some_and(|item| item.pauses[0].is_refused(Purpose::Status));
        service_has_finalizer(&service)
            && !service.metadata.is_being_deleted()
            && !is_refused
            && self.service_status(key, situation, &service, true, wall).is_some()
    }

    /// The Service has nothing to show.
    fn service_shown(&mut self, key: &SourceKey) {
        if let Some(item) = self.items.get_mut(key) {
            item.service_done = true;
        }
        self.end_report(key);
    }

    fn service_status(
        &mut self,
        key: &SourceKey,
        situation: &Situation,
        service: &BalancedService,
        goes: bool,
        wall: Timestamp,
    ) -> Option<PlannedWrite> {
        let balancer = situation.balancer.as_ref().filter(|_| !goes);
        let refused = balancer.and_then(|balancer| self.refused(key, situation, balancer));
        let refused = refused.filter(|refused| *refused != NotStreamed::WaitingForWriter);
        let item = self.items.get_mut(key)?;
        let uid = &service.metadata.meta.uid;
        let report = item.offer.report_of(uid);
        let none = KuryrLoadBalancerSpec::default();
        let spec = situation.balancer.as_ref().map_or(&none, |balancer| &balancer.spec);
        let findings: Vec<_> = item.findings.iter().chain(&item.offer_findings).cloned().collect();
        let outcome = if goes {
            let load_balancer = match situation.need {
                ServiceNeed::Unwanted(NotBalanced::Class) => {
                    of_others(service, situation.balancer.as_deref(), &item.shown)
                }
                _ => LoadBalancerStatus::default(),
            };
            ServiceOutcome { load_balancer, ports_error: None }
        } else {
            service_status(service, spec, item.hostname.as_ref(), report.as_deref(), &findings)
        };
        let mut new = service.status.clone();
        // Without a report nothing is known of addresses and ports.
        if goes || report.is_some() {
            let ServiceOutcome { load_balancer, ports_error } = outcome;
            new.load_balancer = load_balancer;
            set_condition(&mut new, PORTS_ERROR, ports_error.map(|message| ("PortsNotServed", message)), wall);
        }
        if goes || refused.is_some() || !item.offer.heard_nothing(uid) {
            let refused = refused.map(|refused| (refused.reason(), refused.to_string()));
            set_condition(&mut new, REFUSED, refused, wall);
        }
        let wanted = print_of_ours(&new);
        let is_accepted = || item.pauses[0].is_accepted(Purpose::Status, wanted, || print_of_ours(&service.status));
        if new == service.status || is_accepted() {
            self.service_shown(key);
            return None;
        }
        if !goes {
            // Its status comes when all of it is as wanted, and the Service may be another controller's before.
            let made = situation.balancer.as_ref().and_then(|balancer| balancer.status.as_ref());
            let untold = without_addresses(&new.load_balancer, made.into_iter()).ingress;
            item.shown = untold.into_iter().filter_map(|one| one.ip).collect();
        }
        let status = difference(&service.status, &new)?;
        let in_flight = InFlightWrite { wanted, ..InFlightWrite::new(Purpose::Status) };
        Some((WriteBody::PatchStatus { meta: target(&service.metadata), status }, in_flight))
    }
}

/// Returns what a Service shows that another controller may serve by now: what is not ours.
fn of_others(service: &BalancedService, balancer: Option<&KuryrLoadBalancer>, untold: &[Text]) -> LoadBalancerStatus {
    let made = balancer.and_then(|balancer| balancer.status.as_ref());
    let mut shown = without_addresses(&service.status.load_balancer, made.into_iter());
    shown.ingress.retain(|one| one.ip.as_ref().is_none_or(|address| !untold.contains(address)));
    let (Annotations { hostname, .. }, _) = Annotations::parse(service.annotations());
    shown.ingress.retain(|one| hostname.is_none() || one.hostname != hostname);
    shown
}

/// Returns the fingerprint of what of a status is ours. The times of conditions differ in every attempt to write them.
pub(crate) fn print_of_ours(status: &BalancedServiceStatus) -> u64 {
    let ours = status.conditions.iter().filter(|one| [PORTS_ERROR, REFUSED].contains(&&*one.type_));
    let conditions: Vec<_> = ours.map(|one| (&one.type_, &one.status, &one.reason, &one.message)).collect();
    fingerprint(&(&status.load_balancer, conditions))
}

/// Sets a condition, with its reason and message, or takes it away. The conditions of others stay, and so do their places.
fn set_condition(status: &mut BalancedServiceStatus, kind: &str, now: Option<(&str, String)>, wall: Timestamp) {
    let at = status.conditions.iter().position(|one| &*one.type_ == kind);
    let Some((reason, mut message)) = now else {
        status.conditions.retain(|one| &*one.type_ != kind);
        return;
    };
    message.truncate(message.floor_char_boundary(LONGEST));
    let before = at.map(|at| &status.conditions[at]).filter(|before| &*before.status == "True");
    let since = before.map_or_else(|| format!("{wall:.0}").into(), |before| before.last_transition_time.clone());
    let condition = ServiceCondition {
        type_: kind.into(),
        status: "True".into(),
        observed_generation: None,
        last_transition_time: since,
        reason: reason.into(),
        message: message.into(),
    };
    match at {
        Some(at) => status.conditions[at] = condition,
        None => status.conditions.push(condition),
    }
}
