//! The status of a KuryrL7Router.

use std::time::Instant;

use gimbal_kuryr_crd::{KuryrL7Router, KuryrL7RouterStatus};
use gimbal_kuryr_resource::{
    ClusterObject, ConditionsOf, KuryrKind, PlannedWrite, Purpose, StatusSource, StatusStep, WriteBody, of_status,
    target,
};
use gimbal_kuryr_translate::{Finding, NotStreamed, RouterStatusInput, encoded_len, router_status};
use gimbal_kuryr_wire::PackedEntry;
use gimbal_model::SourceKey;
use gimbal_session::KeptEntry as _;
use jiff::Timestamp;

use crate::RouterController;
use crate::item::RouterItem;

impl<T> RouterController<T> {
    pub(crate) fn router_status(
        &mut self,
        key: &SourceKey,
        router: &KuryrL7Router,
        now: Instant,
        wall: Timestamp,
    ) -> Option<PlannedWrite> {
        let not_streamed = self.refused(key, router);
        let has_facts = self.facts.is_some();
        let meta = &router.metadata;
        let RouterItem { findings, offer_findings, offer, pauses, hold, stale, .. } = self.routers.get_mut(key)?;
        let report = offer.report_of(&meta.meta.uid);
        let report = report.as_deref();
        let findings: Vec<Finding> = findings.iter().chain(&*offer_findings).cloned().collect();
        let source = StatusSource {
            old: router.status.as_ref(),
            metadata: meta,
            report,
            heard_nothing: offer.heard_nothing(&meta.meta.uid),
            not_streamed: not_streamed.as_ref(),
            findings: &findings,
            // What was left out is not known before it is translated: it is not over.
            knows_findings: !*stale || !findings.is_empty(),
            has_facts,
        };
        let make = || {
            router_status(&RouterStatusInput {
                previous: router.status.as_ref(),
                generation: meta.generation,
                routes: router.spec.routes.len(),
                object_len: encoded_len(&router.spec),
                report,
                not_streamed: not_streamed.as_ref(),
                findings: &findings,
                now: &format!("{wall:.0}"),
            })
        };
        // What is of an Ingress is reported there.
        let (of_ingresses, of_router): (Vec<_>, Vec<_>) = findings.iter().partition(|one| one.ingress().is_some());
        let event = |reason: &str| of_router.iter().find(|one| one.reason() == reason).map(|one| one.event());
        let told = |old: &KuryrL7RouterStatus, new: &KuryrL7RouterStatus| {
            let offered = offer.offered.as_ref().map(PackedEntry::entry);
            let of = ConditionsOf { report, event: &event, offered: offered.as_deref() };
            let mut told = of_status(&old.balancer, &new.balancer, of);
            told.retain(|told| !of_ingresses.iter().any(|one| told.message.contains(&one.to_string())));
            told
        };
        match source.step(make, told, pauses, hold, now) {
            StatusStep::Kept => None,
            StatusStep::Shown => {
                if offer.gone.is_none() {
                    self.handled.extend(offer.token.take());
                }
                None
            }
            StatusStep::Later(until) => {
                self.queue.push_later(&ClusterObject::new(key, KuryrKind::Router), &key.namespace, until);
                None
            }
            StatusStep::Write(status, in_flight) => {
                let body = WriteBody::PatchStatus { meta: target(meta), status };
                self.may_go(key, KuryrKind::Router, Purpose::Status, now).then_some((body, in_flight))
            }
        }
    }

    /// Why a KuryrL7Router is not offered, or not tried, if that has a reason which its status shows.
    fn refused(&self, key: &SourceKey, router: &KuryrL7Router) -> Option<NotStreamed> {
        let rejected = || self.routers.get(key)?.offer.refusal();
        self.not_offered(key, router).or_else(rejected)
    }
}
