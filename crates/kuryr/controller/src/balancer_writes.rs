//! The next write to a KuryrLoadBalancer.

use std::time::{Duration, Instant};

use gimbal_kubernetes_objects::{BalancedService, LifecycleMeta, Meta, OwnerReference};
use gimbal_kuryr_crd::names::conditions::READY;
use gimbal_kuryr_crd::names::finalizers;
use gimbal_kuryr_crd::{KuryrLoadBalancer, KuryrLoadBalancerStatus, StatusCondition};
use gimbal_kuryr_model::{DesiredEntry, LoadBalancerReport, Phase, Text};
use gimbal_kuryr_translate::{Finding, NotStreamed, StatusInput, encoded_len, status};
use gimbal_model::SourceKey;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::item::has_finalizer;
use crate::notice::{ConditionsOf, of_conditions};
use crate::patch::{difference, fingerprint};
use crate::pauses::{InFlightWrite, Purpose};
use crate::situation::{BalancerOwner, OwnerFate, ServiceNeed, Situation};
use crate::{ClusterObject, ClusterWrite, KuryrController, KuryrKind, WriteBody};

/// What takes less time is not reported while it lasts: a status that says so would be out of date as soon as it is written.
const HOLD: Duration = Duration::from_secs(5);

/// A write, and what is remembered until it ends.
pub(crate) type PlannedWrite = (WriteBody, InFlightWrite);

impl<T> KuryrController<T> {
    /// Returns the next write to an object, if there is one and no pause is in its way.
    pub(crate) fn plan(&mut self, object: &ClusterObject, now: Instant, wall: Timestamp) -> Option<ClusterWrite> {
        let key = object.key();
        if !self.items.contains_key(&key) {
            return None;
        }
        let situation = self.situation(&key);
        let planned = if object.is_load_balancer {
            self.plan_balancer(&key, &situation, now, wall)
        } else {
            self.plan_service(&key, &situation, now, wall)
        };
        let Some((body, mut in_flight)) = planned else {
            self.note_unplanned(object, now);
            self.forget_idle(&key);
            return None;
        };
        let purpose = in_flight.purpose.as_str();
        let service = situation.service.as_ref().filter(|_| !object.is_load_balancer);
        in_flight.version = service.map(|service| service.metadata.meta.resource_version.clone());
        self.items.entry(key).or_default().pauses[usize::from(object.is_load_balancer)].in_flight = Some(in_flight);
        Some(ClusterWrite { object: object.clone(), body, purpose })
    }

    /// Ends the trouble of an object to which nothing is to be written. While a write waits, that is not known: the object is asked
    /// again when it could go.
    fn note_unplanned(&mut self, object: &ClusterObject, now: Instant) {
        let kind = if object.is_load_balancer { KuryrKind::LoadBalancer } else { KuryrKind::Service };
        let is_current = self.is_current(kind);
        let item = self.items.get_mut(&object.key());
        let Some(pauses) = item.map(|item| &mut item.pauses[usize::from(object.is_load_balancer)]) else { return };
        if !is_current || !pauses.is_failing() {
            return;
        }
        match pauses.longest(now) {
            Some(until) => self.queue.push_later(object, &object.namespace, until),
            None => pauses.nothing_to_write(),
        }
    }

    /// Whether a write may go now. If it has to wait, the object is asked again then.
    pub(crate) fn may_go(&mut self, key: &SourceKey, is_load_balancer: bool, purpose: Purpose, now: Instant) -> bool {
        let until = self.items.get(key).and_then(|item| item.pauses[usize::from(is_load_balancer)].until(purpose, now));
        if let Some(until) = until {
            self.queue.push_later(&ClusterObject::new(key, is_load_balancer), &key.namespace, until);
        }
        until.is_none()
    }

    fn plan_balancer(
        &mut self,
        key: &SourceKey,
        situation: &Situation,
        now: Instant,
        wall: Timestamp,
    ) -> Option<PlannedWrite> {
        if !self.is_current(KuryrKind::LoadBalancer) {
            return None;
        }
        let Some(balancer) = &situation.balancer else {
            return self.create(key, situation).filter(|_| self.may_go(key, true, Purpose::Create, now));
        };
        let is_deleting = balancer.metadata.is_being_deleted();
        let owner = situation.owner_uid()?;
        let (goes, is_copy) = match self.fate(key, situation, owner) {
            OwnerFate::Stays => (false, false),
            OwnerFate::Goes => (true, false),
            OwnerFate::Elsewhere | OwnerFate::Lost => (true, true),
            OwnerFate::Doubtful => return None,
        };
        let is_gone = is_copy || self.items.get(key).is_some_and(|item| item.gone.as_ref() == Some(owner));
        // Deleted beside its living Service: it is made again, and nothing is removed.
        let made_again = !goes && situation.owner == BalancerOwner::Service && situation.service_is_protected();
        if is_deleting && has_finalizer(balancer) && (made_again || (goes && is_gone)) {
            return self
                .may_go(key, true, Purpose::Release, now)
                .then(|| release(&balancer.metadata, finalizers::LOAD_BALANCER));
        }
        if is_deleting && !goes {
            return None;
        }
        if goes && !is_deleting && self.may_go(key, true, Purpose::Delete, now) {
            let meta = target(&balancer.metadata);
            return Some((WriteBody::Delete { meta }, InFlightWrite::new(Purpose::Delete)));
        }
        let conform = if goes { None } else { self.conform(key, situation, balancer) };
        conform
            .filter(|_| self.may_go(key, true, Purpose::Conform, now))
            .or_else(|| self.balancer_status(key, balancer, owner, now, wall))
    }

    fn create(&self, key: &SourceKey, situation: &Situation) -> Option<PlannedWrite> {
        let service = situation.service.as_ref().filter(|_| situation.need == ServiceNeed::Wanted)?;
        // Without the writer nothing would take a finalizer away.
        let is_protected = self.facts.is_some();
        if !self.can_translate() || (is_protected && !situation.service_is_protected()) {
            return None;
        }
        let spec = self.items.get(key)?.wanted_spec.as_deref()?.clone();
        let meta = Meta { name: key.name.clone(), namespace: key.namespace.clone(), ..Meta::default() };
        let metadata = LifecycleMeta {
            meta,
            finalizers: if is_protected { vec![finalizers::LOAD_BALANCER.into()] } else { Vec::new() },
            owner_references: vec![reference(service)],
            ..LifecycleMeta::default()
        };
        let wanted = fingerprint(&spec);
        let object = KuryrLoadBalancer { metadata, spec, status: None };
        let in_flight = InFlightWrite { wanted, ..InFlightWrite::new(Purpose::Create) };
        Some((WriteBody::Create(Box::new(object)), in_flight))
    }

    /// Sets what differs: spec, finalizer, owner. All of it in one write.
    fn conform(&self, key: &SourceKey, situation: &Situation, balancer: &KuryrLoadBalancer) -> Option<PlannedWrite> {
        let item = self.items.get(key)?;
        let of_service = situation.owner == BalancerOwner::Service;
        let mut metadata = Map::new();
        let has_facts = self.facts.is_some();
        if of_service {
            let was_served = has_finalizer(balancer) || balancer.spec.project_id.is_some();
            // Without facts, less would be known of it than it says.
            if situation.need != ServiceNeed::Wanted || (!has_facts && was_served) {
                return None;
            }
            // The Service comes first.
            if has_facts && !situation.service_is_protected() {
                return None;
            }
            let service = situation.service.as_ref()?;
            let owners = &balancer.metadata.owner_references;
            let is_named = owners.iter().any(|one| one.uid == service.metadata.meta.uid);
            if !is_named {
                let others = owners.iter().filter(|one| &*one.kind != "Service").cloned();
                let owners: Vec<_> = others.chain([reference(service)]).collect();
                metadata.insert("ownerReferences".into(), json!(owners));
            }
        }
        if has_facts && !has_finalizer(balancer) {
            let others = balancer.metadata.finalizers.iter().map(|name| &**name);
            let all: Vec<&str> = others.chain([finalizers::LOAD_BALANCER]).collect();
            metadata.insert("finalizers".into(), json!(all));
        }
        let spec = item.wanted_spec.as_deref().filter(|_| of_service && self.can_translate());
        let wanted = spec.map_or(0, fingerprint);
        let spec =
            spec.filter(|_| !item.pauses[1].is_accepted(Purpose::Conform, wanted, || fingerprint(&balancer.spec)));
        let spec = spec.and_then(|spec| difference(&balancer.spec, spec));
        if metadata.is_empty() && spec.is_none() {
            return None;
        }
        let mut change = Map::new();
        if !metadata.is_empty() {
            change.insert("metadata".into(), Value::Object(metadata));
        }
        let wanted = if spec.is_some() { wanted } else { 0 };
        change.extend(spec.map(|spec| ("spec".to_owned(), spec)));
        let in_flight = InFlightWrite { wanted, ..InFlightWrite::new(Purpose::Conform) };
        Some((WriteBody::Patch { meta: target(&balancer.metadata), change: Value::Object(change) }, in_flight))
    }

    fn balancer_status(
        &mut self,
        key: &SourceKey,
        balancer: &KuryrLoadBalancer,
        owner: &Text,
        now: Instant,
        wall: Timestamp,
    ) -> Option<PlannedWrite> {
        let not_streamed = self.refused(key, balancer);
        let has_facts = self.facts.is_some();
        let item = self.items.get_mut(key)?;
        let report = item.report_of(owner).cloned();
        let old = balancer.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let settled = not_streamed.is_some() || report.as_ref().is_some_and(|report| is_settled(report, balancer));
        let findings: Vec<_> = item.findings.iter().chain(&item.offer_findings).cloned().collect();
        let is_said = not_streamed.as_ref().is_some_and(|refused| says(old, refused, balancer.metadata.generation));
        let knows_findings = report.is_none() && is_said;
        let knows_less = match &not_streamed {
            // All that it could say anew is said.
            Some(_) => knows_findings && findings.iter().all(|finding| says_finding(old, finding)),
            None => item.heard_nothing(owner) && (!has_facts || !old.is_empty()),
        };
        // After a restart the status knows more than we do. A status that is about to go is of no use.
        if knows_less || report.as_ref().is_some_and(|report| report.phase == Phase::Gone) {
            return None;
        }
        let mut new = status(&StatusInput {
            previous: balancer.status.as_ref(),
            generation: balancer.metadata.generation,
            object_len: encoded_len(&balancer.spec),
            report: report.as_deref(),
            not_streamed: not_streamed.as_ref(),
            findings: &findings,
            now: &format!("{wall:.0}"),
        });
        if knows_findings {
            keep_true(old, &mut new.conditions);
        }
        let wanted = fingerprint(&without_times(&new));
        let is_accepted = || item.pauses[1].is_accepted(Purpose::Status, wanted, || fingerprint(&balancer.status));
        let unchanged = if settled {
            balancer.status.as_ref() == Some(&new) || is_accepted()
        } else {
            says_the_same(old, &new) || is_accepted()
        };
        if unchanged {
            (item.hold, item.status_done) = (None, true);
            self.end_report(key);
            return None;
        }
        if !settled {
            let until = *item.hold.get_or_insert(now + HOLD);
            if now < until {
                self.queue.push_later(&ClusterObject::new(key, true), &key.namespace, until);
                return None;
            }
        }
        let (floating, deleting) = match item.offered.as_deref() {
            Some(DesiredEntry::LoadBalancer(wanted)) => (wanted.header.floating.is_some(), false),
            Some(DesiredEntry::Deleting { .. }) => (false, true),
            None => (false, false),
        };
        let of = ConditionsOf { report: report.as_deref(), findings: &findings, floating, deleting };
        let notices = of_conditions(old, &new.conditions, of);
        let empty = KuryrLoadBalancerStatus::default();
        let change = difference(balancer.status.as_ref().unwrap_or(&empty), &new)?;
        item.hold = None;
        let in_flight = InFlightWrite { wanted, notices, ..InFlightWrite::new(Purpose::Status) };
        let body = WriteBody::PatchStatus { meta: target(&balancer.metadata), status: change };
        self.may_go(key, true, Purpose::Status, now).then_some((body, in_flight))
    }

    /// Hands back the token of a report that shows in both statuses.
    pub(crate) fn end_report(&mut self, key: &SourceKey) {
        if let Some(item) = self.items.get_mut(key)
            && item.status_done
            && item.service_done
            && item.gone.is_none()
        {
            self.handled.extend(item.token.take());
        }
    }
}

/// Whether a report is the last word about what is wanted now.
fn is_settled(report: &LoadBalancerReport, balancer: &KuryrLoadBalancer) -> bool {
    let transient = matches!(report.phase, Phase::Waiting | Phase::Making | Phase::Removing);
    !transient && (report.generation == balancer.metadata.generation || balancer.metadata.is_being_deleted())
}

/// Whether nothing has changed for a reader, while something is being done: conditions are as they were.
fn says_the_same(old: &[StatusCondition], new: &KuryrLoadBalancerStatus) -> bool {
    let same = |(old, new): (&StatusCondition, &StatusCondition)| {
        (&old.type_, &old.status, &old.reason) == (&new.type_, &new.status, &new.reason)
    };
    old.len() == new.conditions.len() && old.iter().zip(&new.conditions).all(same)
}

/// Whether it is said of this generation already why an object is not streamed, or not tried.
fn says(conditions: &[StatusCondition], refused: &NotStreamed, generation: i64) -> bool {
    let ready = conditions.iter().find(|one| &*one.type_ == READY);
    ready.is_some_and(|ready| {
        (&*ready.status, &*ready.reason, ready.observed_generation) == ("False", refused.reason(), Some(generation))
            && refused.to_string().starts_with(&*ready.message)
    })
}

/// Whether it is said already what is left out.
fn says_finding(conditions: &[StatusCondition], finding: &Finding) -> bool {
    let of = |one: &&StatusCondition| &*one.type_ == finding.condition() && &*one.status == "True";
    conditions.iter().find(of).is_some_and(|one| one.message.contains(&finding.to_string()))
}

/// Lets stay what a report has said: without one nothing is known to have passed.
fn keep_true(old: &[StatusCondition], new: &mut [StatusCondition]) {
    for one in new.iter_mut().filter(|one| &*one.status == "False") {
        let before = old.iter().find(|before| before.type_ == one.type_ && &*before.status == "True");
        if let Some(before) = before {
            *one = before.clone();
        }
    }
}

/// The times of conditions differ in every attempt to write them.
pub(crate) fn without_times(status: &KuryrLoadBalancerStatus) -> KuryrLoadBalancerStatus {
    let mut status = status.clone();
    for condition in &mut status.conditions {
        condition.last_transition_time = "".into();
    }
    status
}

fn reference(service: &BalancedService) -> OwnerReference {
    let meta = &service.metadata.meta;
    OwnerReference {
        api_version: "v1".into(),
        kind: "Service".into(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

/// Names the object that a write is for, as it is known.
pub(crate) fn target(metadata: &LifecycleMeta) -> Meta {
    let Meta { name, namespace, uid, resource_version, .. } = metadata.meta.clone();
    Meta { name, namespace, uid, resource_version, ..Meta::default() }
}

/// Removes a finalizer.
pub(crate) fn release(metadata: &LifecycleMeta, finalizer: &str) -> PlannedWrite {
    let others: Vec<&str> = metadata.finalizers.iter().map(|name| &**name).filter(|name| *name != finalizer).collect();
    let change = json!({"metadata": {"finalizers": others}});
    let in_flight = InFlightWrite::new(Purpose::Release);
    (WriteBody::Patch { meta: target(metadata), change }, in_flight)
}
