//! Takes in how writes ended.

use std::time::Instant;

use gimbal_kuryr_crd::names::reasons;
use gimbal_kuryr_resource::{
    ClusterObject, InFlightWrite, KuryrKind, ObjectNotice, Purpose, Told, WriteOutcome, WrittenObject, fingerprint,
    note_accepted_status,
};
use gimbal_model::SourceKey;

use crate::KuryrController;
use crate::held::HeldBalancer;
use crate::item::{ServiceProof, spec_version, which};
use crate::service_writes::print_of_ours;

impl<T> KuryrController<T> {
    pub(crate) fn take_outcome(&mut self, object: &ClusterObject, outcome: WriteOutcome, now: Instant) {
        let key = object.key();
        let which = which(object.kind);
        let Some(item) = self.items.get_mut(&key) else { return };
        let pauses = &mut item.pauses[which];
        let Some(write) = pauses.in_flight.take() else { return };
        let purpose = write.purpose;
        let outcome = if write.is_void { WriteOutcome::NotSent } else { outcome };
        // The words of a refusal that is news.
        let mut refused = None;
        match outcome {
            WriteOutcome::Done(answer) => {
                if write.is_undone(&answer) {
                    refused = pauses.undone(purpose, now).map(str::to_owned);
                } else {
                    pauses.done(purpose, now);
                }
                self.carried_out(&key, object, write, answer);
            }
            WriteOutcome::NotFound => {
                // What was shown by an answer alone was deleted before the watch could show it. Its own load balancer is not, for that
                // cannot go without us: the store may have gone back to before it.
                if object.kind == KuryrKind::LoadBalancer {
                    pauses.conflicted(now);
                    let offered = item.offer.owner();
                    item.held.take_if(|held| held.ahead && offered != Some(&held.uid));
                } else {
                    // Where it is known, its watch shows whether it was deleted, or the store went back to before it.
                    let is_known = self.index.service(&key).is_some();
                    if purpose == Purpose::Read && !is_known {
                        pauses.done(purpose, now);
                    } else {
                        pauses.conflicted(now);
                    }
                    if !is_known && write.version.is_none() {
                        if let Some(uid) = item.held.as_ref().and_then(HeldBalancer::named_owner) {
                            let lists = self.readings[KuryrKind::Service as usize].lists();
                            (item.dead, item.dead_in) = (Some(uid.clone()), lists);
                        }
                        item.proof = Some(ServiceProof::Absent);
                        item.service_ahead = false;
                    }
                }
            }
            WriteOutcome::Conflict => pauses.conflicted(now),
            WriteOutcome::Throttled(after) => pauses.throttled(after, now),
            WriteOutcome::Unknown(_) | WriteOutcome::NotSent => pauses.unanswered(now),
            WriteOutcome::Refused(reason) => {
                let is_first = pauses.refuse(purpose, reason.clone(), now);
                refused = is_first.then_some(reason);
            }
        }
        if let (Some(words), Some(reason)) = (refused, refusal(purpose, object.kind)) {
            let message = format!("the API server refuses to {}: {words}", purpose.as_str());
            self.tell(&key, vec![Told::warning(reason, message)]);
        }
        self.shared_owner_news |= object.kind == KuryrKind::Service;
        self.forget_idle(&key);
    }

    fn carried_out(&mut self, key: &SourceKey, object: &ClusterObject, write: InFlightWrite, answer: WrittenObject) {
        let InFlightWrite { purpose, wanted, notices, .. } = write;
        let which = which(object.kind);
        let mut notices = notices;
        match answer {
            WrittenObject::Service(service) => {
                if let Some(item) = self.items.get_mut(key) {
                    // The answer to a write is as good as that to a question.
                    item.proof = Some(ServiceProof::Version(service.metadata.meta.resource_version.clone()));
                }
                if purpose == Purpose::Status {
                    let stored = print_of_ours(&service.status);
                    self.note_accepted(key, which, purpose, wanted, stored);
                }
                self.service_answered(*service);
            }
            WrittenObject::LoadBalancer(balancer) => {
                match purpose {
                    Purpose::Conform | Purpose::Create if wanted != 0 => {
                        self.note_accepted(key, which, Purpose::Conform, wanted, fingerprint(&balancer.spec));
                        if let Some(item) = self.items.get_mut(key) {
                            item.ours = Some(spec_version(&balancer));
                        }
                    }
                    Purpose::Status => {
                        if let Some(item) = self.items.get_mut(key) {
                            note_accepted_status(&mut item.pauses[which], wanted, balancer.status.as_ref());
                        }
                    }
                    _ => {}
                }
                self.balancer_answered(*balancer);
            }
            WrittenObject::Ingress(_) | WrittenObject::Router(_) => {}
            WrittenObject::Deleted => {
                notices.push(Told::normal(reasons::RELEASE_LB, "the load balancer is being removed"))
            }
        }
        self.tell(key, notices);
    }

    fn note_accepted(&mut self, key: &SourceKey, which: usize, purpose: Purpose, wanted: u64, stored: u64) {
        if let Some(item) = self.items.get_mut(key) {
            item.pauses[which].accepted(purpose, wanted, stored);
        }
    }

    /// Tells it on the Service; on the KuryrLoadBalancer where there is none.
    pub(crate) fn tell(&mut self, key: &SourceKey, notices: Vec<Told>) {
        let service = self.index.service(key).map(|service| service.uid.clone());
        let balancer = self.items.get(key).and_then(|item| item.held.as_ref()).map(|held| held.uid.clone());
        let kind = if service.is_some() { KuryrKind::Service } else { KuryrKind::LoadBalancer };
        let Some(uid) = service.or(balancer) else { return };
        for told in notices {
            let object = ClusterObject::new(key, kind);
            self.notices.push(ObjectNotice { object, uid: uid.clone(), told });
        }
    }
}

fn refusal(purpose: Purpose, kind: KuryrKind) -> Option<&'static str> {
    match purpose {
        Purpose::Read => None,
        Purpose::Protect if kind == KuryrKind::Service => Some(reasons::ADD_SERVICE_FINALIZER_ERROR),
        Purpose::Protect | Purpose::Create | Purpose::Conform | Purpose::Status => Some(reasons::ENSURE_LB_ERROR),
        Purpose::Delete | Purpose::Release => Some(reasons::RELEASE_LB_ERROR),
    }
}
