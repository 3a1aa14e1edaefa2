//! The next write to a KuryrLoadBalancer.

use std::time::Instant;

use gimbal_kubernetes_objects::{BalancedService, LifecycleMeta, Meta, OwnerReference};
use gimbal_kuryr_crd::names::finalizers;
use gimbal_kuryr_crd::{KuryrLoadBalancer, KuryrLoadBalancerSpec, KuryrLoadBalancerStatus};
use gimbal_kuryr_resource::{
    ClusterObject, ClusterWrite, ConditionsOf, InFlightWrite, KuryrKind, NewObject, PlannedWrite, Purpose,
    StatusSource, StatusStep, WriteBody, difference, fingerprint, of_status, release, target, with_finalizer,
};
use gimbal_kuryr_translate::{StatusInput, encoded_len, status};
use gimbal_kuryr_wire::PackedEntry;
use gimbal_model::SourceKey;
use gimbal_session::KeptEntry as _;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::KuryrController;
use crate::item::{BalancerItem, has_finalizer, which};
use crate::situation::{BalancerOwner, OwnerFate, ServiceNeed, Situation};

impl<T> KuryrController<T> {
    /// Returns the next write to an object, if there is one and no pause is in its way.
    pub(crate) fn plan(&mut self, object: &ClusterObject, now: Instant, wall: Timestamp) -> Option<ClusterWrite> {
        let key = object.key();
        if !self.items.contains_key(&key) {
            return None;
        }
        let situation = self.situation(&key);
        let planned = if object.kind == KuryrKind::LoadBalancer {
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
        let metadata = match object.kind {
            KuryrKind::Service => situation.service.as_ref().map(|service| &service.metadata),
            _ => situation.balancer.as_ref().map(|balancer| &balancer.metadata),
        };
        in_flight.version = metadata.map(|metadata| metadata.meta.resource_version.clone());
        self.items.entry(key).or_default().pauses[which(object.kind)].in_flight = Some(in_flight);
        Some(ClusterWrite { object: object.clone(), body, purpose })
    }

    /// Ends the trouble of an object to which nothing is to be written. While a write waits, that is not known: the object is asked
    /// again when it could go.
    fn note_unplanned(&mut self, object: &ClusterObject, now: Instant) {
        let is_current = self.is_current(object.kind);
        let item = self.items.get_mut(&object.key());
        let Some(pauses) = item.map(|item| &mut item.pauses[which(object.kind)]) else { return };
        if !is_current || !pauses.is_failing() {
            return;
        }
        match pauses.longest(now) {
            Some(until) => self.queue.push_later(object, &object.namespace, until),
            None => pauses.nothing_to_write(),
        }
    }

    /// Whether a write may go now. If it has to wait, the object is asked again then.
    pub(crate) fn may_go(&mut self, key: &SourceKey, kind: KuryrKind, purpose: Purpose, now: Instant) -> bool {
        let until = self.items.get(key).and_then(|item| item.pauses[which(kind)].until(purpose, now));
        if let Some(until) = until {
            self.queue.push_later(&ClusterObject::new(key, kind), &key.namespace, until);
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
            return self
                .create(key, situation)
                .filter(|_| self.may_go(key, KuryrKind::LoadBalancer, Purpose::Create, now));
        };
        let is_deleting = balancer.metadata.is_being_deleted();
        let owner = situation.owner_uid()?;
        let (goes, is_copy) = match self.fate(key, situation, owner) {
            OwnerFate::Stays => (false, false),
            OwnerFate::Goes => (true, false),
            OwnerFate::Elsewhere | OwnerFate::Lost => (true, true),
            OwnerFate::Doubtful => return None,
        };
        let is_needed = goes && self.is_to_be_rid(key, situation, wall);
        let is_gone = is_copy || self.items.get(key).is_some_and(|item| item.offer.is_gone(owner));
        // Deleted beside its living Service: it is made again, and nothing is removed.
        let made_again = !goes && situation.owner == BalancerOwner::Service && situation.service_is_protected();
        if is_deleting && has_finalizer(balancer) && (made_again || (goes && is_gone && !is_needed)) {
            return self
                .may_go(key, KuryrKind::LoadBalancer, Purpose::Release, now)
                .then(|| release(&balancer.metadata, finalizers::LOAD_BALANCER));
        }
        if is_deleting && !goes {
            return None;
        }
        if goes && !is_deleting && self.may_go(key, KuryrKind::LoadBalancer, Purpose::Delete, now) {
            let meta = target(&balancer.metadata);
            return Some((WriteBody::Delete { meta }, InFlightWrite::new(Purpose::Delete)));
        }
        if is_needed {
            return None;
        }
        let conform = if goes { None } else { self.conform(key, situation, balancer, now) };
        conform
            .filter(|(_, write)| self.may_go(key, KuryrKind::LoadBalancer, write.purpose, now))
            .or_else(|| self.balancer_status(key, situation, balancer, now, wall))
    }

    fn create(&self, key: &SourceKey, situation: &Situation) -> Option<PlannedWrite> {
        let service = situation.service.as_ref().filter(|_| situation.need == ServiceNeed::Wanted)?;
        // Without the writer nothing would take a finalizer away.
        let is_protected = self.facts.is_some();
        if !self.can_translate() || (is_protected && !situation.service_is_protected()) {
            return None;
        }
        // Only the writer says whether cluster IPs are balanced. Where they are not, one would be made for nothing for each of them.
        if self.settings.has_writer && self.facts.is_none() && service.spec.type_.as_deref() != Some("LoadBalancer") {
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
        Some((WriteBody::Create(NewObject::LoadBalancer(Box::new(object))), in_flight))
    }

    /// Whether the KuryrLoadBalancer of a Service is set right only after that has its finalizer.
    pub(crate) fn waits_for_service(&self, situation: &Situation) -> bool {
        let of_service = situation.owner == BalancerOwner::Service && situation.need == ServiceNeed::Wanted;
        of_service && self.facts.is_some() && !situation.service_is_protected()
    }

    /// Returns the spec that is wanted, with its fingerprint, unless it is held or the API server has made what is held of it.
    pub(crate) fn spec_to_set<'a>(
        &self,
        item: &'a BalancerItem<T>,
        situation: &Situation,
        balancer: &KuryrLoadBalancer,
    ) -> Option<(&'a KuryrLoadBalancerSpec, u64)> {
        let of_service = situation.owner == BalancerOwner::Service;
        let spec = item.wanted_spec.as_deref().filter(|_| of_service && self.can_translate())?;
        let wanted = fingerprint(spec);
        let is_accepted = item.pauses[1].is_accepted(Purpose::Conform, wanted, || fingerprint(&balancer.spec));
        (!is_accepted).then_some((spec, wanted))
    }

    /// Sets what differs: spec, finalizer, owner. All of it in one write.
    fn conform(
        &self,
        key: &SourceKey,
        situation: &Situation,
        balancer: &KuryrLoadBalancer,
        now: Instant,
    ) -> Option<PlannedWrite> {
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
            if self.waits_for_service(situation) {
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
            metadata.insert("finalizers".into(), json!(with_finalizer(&balancer.metadata, finalizers::LOAD_BALANCER)));
        }
        if item.pauses[1].refused_until(Purpose::Protect, now).is_some() {
            // The spec does not wait for it.
            metadata.clear();
        }
        let spec = self.spec_to_set(item, situation, balancer);
        let wanted = spec.map_or(0, |(_, wanted)| wanted);
        let spec = spec.and_then(|(spec, _)| difference(&balancer.spec, spec));
        if metadata.is_empty() && spec.is_none() {
            return None;
        }
        let finalizer = metadata.contains_key("finalizers").then_some(finalizers::LOAD_BALANCER);
        let mut change = Map::new();
        if !metadata.is_empty() {
            change.insert("metadata".into(), Value::Object(metadata));
        }
        let (purpose, wanted) = if spec.is_some() { (Purpose::Conform, wanted) } else { (Purpose::Protect, 0) };
        change.extend(spec.map(|spec| ("spec".to_owned(), spec)));
        let in_flight = InFlightWrite { wanted, finalizer, ..InFlightWrite::new(purpose) };
        Some((WriteBody::Patch { meta: target(&balancer.metadata), change: Value::Object(change) }, in_flight))
    }

    fn balancer_status(
        &mut self,
        key: &SourceKey,
        situation: &Situation,
        balancer: &KuryrLoadBalancer,
        now: Instant,
        wall: Timestamp,
    ) -> Option<PlannedWrite> {
        let owner = situation.owner_uid()?;
        let not_streamed = self.refused(key, situation, balancer);
        let has_facts = self.facts.is_some();
        let BalancerItem { findings, offer_findings, offer, pauses, hold, status_done, .. } =
            &mut **self.items.get_mut(key)?;
        let report = offer.report_of(owner);
        let report = report.as_deref();
        let findings: Vec<_> = findings.iter().chain(&*offer_findings).cloned().collect();
        let source = StatusSource {
            old: balancer.status.as_ref(),
            metadata: &balancer.metadata,
            report,
            heard_nothing: offer.heard_nothing(owner),
            not_streamed: not_streamed.as_ref(),
            findings: &findings,
            knows_findings: true,
            has_facts,
        };
        let make = || {
            status(&StatusInput {
                previous: balancer.status.as_ref(),
                generation: balancer.metadata.generation,
                object_len: encoded_len(&balancer.spec),
                report,
                not_streamed: not_streamed.as_ref(),
                findings: &findings,
                now: &format!("{wall:.0}"),
            })
        };
        let event = |reason: &str| findings.iter().find(|one| one.reason() == reason).map(|one| one.event());
        let told = |old: &KuryrLoadBalancerStatus, new: &KuryrLoadBalancerStatus| {
            let offered = offer.offered.as_ref().map(PackedEntry::entry);
            of_status(old, new, ConditionsOf { report, event: &event, offered: offered.as_deref() })
        };
        match source.step(make, told, &pauses[1], hold, now) {
            StatusStep::Kept => None,
            StatusStep::Shown => {
                *status_done = true;
                self.end_report(key);
                None
            }
            StatusStep::Later(until) => {
                self.queue.push_later(&ClusterObject::new(key, KuryrKind::LoadBalancer), &key.namespace, until);
                None
            }
            StatusStep::Write(status, in_flight) => {
                let body = WriteBody::PatchStatus { meta: target(&balancer.metadata), status };
                let may_go = self.may_go(key, KuryrKind::LoadBalancer, Purpose::Status, now);
                may_go.then_some((body, in_flight))
            }
        }
    }

    /// Hands back the token of a report that shows in both statuses.
    pub(crate) fn end_report(&mut self, key: &SourceKey) {
        if let Some(item) = self.items.get_mut(key)
            && item.status_done
            && item.service_done
            && item.offer.gone.is_none()
        {
            self.handled.extend(item.offer.report_shown());
        }
    }
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
