//! Takes in how writes ended.

use std::time::Instant;

use gimbal_kuryr_crd::KuryrL7Router;
use gimbal_kuryr_crd::names::{ingress_reasons, reasons};
use gimbal_kuryr_resource::{
    ClusterObject, InFlightWrite, KuryrKind, Purpose, Told, WriteOutcome, WrittenObject, fingerprint,
    note_accepted_status,
};
use gimbal_model::SourceKey;

use crate::RouterController;
use crate::item::{IngressProof, spec_version};

impl<T> RouterController<T> {
    pub(crate) fn take_outcome(&mut self, object: &ClusterObject, outcome: WriteOutcome, now: Instant) {
        let key = object.key();
        let Some(pauses) = self.pauses_mut(object) else { return };
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
                self.carried_out(&key, object.kind, write, answer);
            }
            // Where one is known, its watch is behind, and says soon what it is.
            WriteOutcome::NotFound if purpose == Purpose::Read && write.version.is_none() => {
                pauses.done(purpose, now);
                self.ingress_absent(&key);
            }
            WriteOutcome::NotFound => {
                pauses.conflicted(now);
                match object.kind {
                    KuryrKind::Ingress => self.ingress_absent(&key),
                    _ => self.router_absent(&key),
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
        if let (Some(words), Some(kind)) = (refused, refusal(purpose, object.kind)) {
            let message = format!("the API server refuses to {}: {words}", purpose.as_str());
            self.tell(object, vec![Told::warning(kind, message)]);
        }
        if object.kind == KuryrKind::Ingress {
            // They may wait for what is known of it now.
            let on = self.ingresses.get(&key).map(|item| &item.on);
            self.dirty.extend(on.into_iter().flatten().cloned());
        }
    }

    /// The API server has no Ingress of this name. Where one is known, its watch shows whether it was deleted, or the store went back
    /// to before it; one that was going is not wanted either way.
    fn ingress_absent(&mut self, key: &SourceKey) {
        let Some(item) = self.ingresses.get_mut(key) else { return };
        item.needs_proof = false;
        if item.kept.answered_absent() {
            self.index.delete_ingress(&key.namespace, &key.name);
        }
        if item.kept.object().is_none_or(|ingress| ingress.metadata.is_being_deleted()) {
            item.proof = Some(IngressProof::Absent);
        }
    }

    /// The API server has no router of this name. What was shown by an answer alone was deleted before the watch could show it; but for
    /// one that is offered, which cannot go without us: the store may have gone back to before it.
    fn router_absent(&mut self, key: &SourceKey) {
        let Some(item) = self.routers.get_mut(key) else { return };
        let is_offered = |router: &KuryrL7Router| item.offer.owner() == Some(&router.metadata.meta.uid);
        if !item.kept.object().is_some_and(|router| is_offered(router)) {
            item.kept.answered_absent();
        }
    }

    fn carried_out(&mut self, key: &SourceKey, kind: KuryrKind, write: InFlightWrite, answer: WrittenObject) {
        let InFlightWrite { purpose, wanted, mut notices, .. } = write;
        match answer {
            WrittenObject::Ingress(ingress) => {
                if let Some(item) = self.ingresses.get_mut(key) {
                    item.needs_proof = false;
                    if purpose == Purpose::Status {
                        item.pauses.accepted(purpose, wanted, fingerprint(&ingress.status.load_balancer));
                    }
                }
                self.ingress_answered(*ingress);
            }
            WrittenObject::Router(router) => {
                if let Some(item) = self.routers.get_mut(key) {
                    match purpose {
                        Purpose::Conform | Purpose::Create if wanted != 0 => {
                            item.pauses.accepted(Purpose::Conform, wanted, fingerprint(&router.spec));
                            item.ours = Some(spec_version(&router));
                        }
                        Purpose::Status => {
                            note_accepted_status(&mut item.pauses, wanted, router.status.as_ref());
                        }
                        _ => {}
                    }
                }
                self.router_answered(*router);
            }
            WrittenObject::Deleted => {
                notices.push(Told::normal(reasons::RELEASE_LB, "the load balancer is being removed"));
            }
            WrittenObject::Service(_) | WrittenObject::LoadBalancer(_) => {}
        }
        self.tell(&ClusterObject::new(key, kind), notices);
    }
}

fn refusal(purpose: Purpose, kind: KuryrKind) -> Option<&'static str> {
    match (purpose, kind) {
        (Purpose::Read, _) | (Purpose::Release, KuryrKind::Ingress) => None,
        (Purpose::Protect, KuryrKind::Ingress) => Some(ingress_reasons::ADD_INGRESS_FINALIZER_ERROR),
        (Purpose::Protect | Purpose::Create | Purpose::Conform | Purpose::Status, _) => Some(reasons::ENSURE_LB_ERROR),
        (Purpose::Delete | Purpose::Release, _) => Some(reasons::RELEASE_LB_ERROR),
    }
}
