//! A report as the status of a router, and of its Ingresses.

use gimbal_kubernetes_objects::{Ingress, LoadBalancerIngress, LoadBalancerStatus};
use gimbal_kuryr_crd::{KuryrL7Router, KuryrL7RouterStatus, StatusPolicy, StatusSecret};
use gimbal_kuryr_model::{LoadBalancerHeader, LoadBalancerReport, Phase, ReportedCertificate};

use crate::bounds::{MOST_WITH_STATUS, encoded_len};
use crate::rediscover::knowledge;
use crate::status::MARGIN;
use crate::{Finding, NotStreamed, StatusInput, StatusKnowledge, status};

/// Octavia's word for what listeners with certificates speak.
const TLS: &str = "TERMINATED_HTTPS";

/// What the status of a router is made from.
#[derive(Debug, Clone, Copy)]
pub struct RouterStatusInput<'a> {
    /// The status as it is.
    pub previous: Option<&'a KuryrL7RouterStatus>,
    /// Generation of the object.
    pub generation: i64,
    /// Number of routes in its spec.
    pub routes: usize,
    /// Bytes of the object without its status, see [`encoded_len`].
    pub object_len: usize,
    /// The latest report about it; `None` before there is one.
    pub report: Option<&'a LoadBalancerReport>,
    /// Why it is not streamed, or not tried, if it is not.
    pub not_streamed: Option<&'a NotStreamed>,
    /// What was left out of it.
    pub findings: &'a [Finding],
    /// The time, in RFC 3339, for conditions that change.
    pub now: &'a str,
}

/// Returns the status of a router. If nothing has changed it equals the previous one, and need not be written.
#[must_use]
pub fn router_status(input: &RouterStatusInput<'_>) -> KuryrL7RouterStatus {
    let RouterStatusInput { previous, generation, routes, object_len, report, not_streamed, findings, now } = *input;
    let mut router = previous.cloned().unwrap_or_default();
    // A writer that has not looked yet knows less than the status does.
    if let Some(report) = report.filter(|report| report.phase != Phase::Waiting) {
        router.policies = policies(report, object_len);
        let secrets = secrets(report);
        // A writer that was started anew, and does not find the key manager, cannot say what its listener still serves.
        let is_unseen = secrets.is_empty() && report.objects.listeners.iter().any(|one| *one.protocol == *TLS);
        if !is_unseen {
            router.secrets = secrets;
        }
    }
    let beside = encoded_len(&router.policies) + encoded_len(&router.secrets);
    router.balancer = status(&StatusInput {
        previous: previous.map(|previous| &previous.balancer),
        generation,
        object_len: object_len + beside,
        report,
        not_streamed,
        findings,
        now,
    });
    router.route_count = i64::try_from(routes).ok();
    router
}

/// Whether clients are answered over HTTPS, as far as a status says.
pub(super) fn serves_https(status: &KuryrL7RouterStatus) -> bool {
    !status.secrets.is_empty() || status.balancer.listeners.iter().any(|one| *one.protocol == *TLS)
}

/// The writer has one for each that the spec has, which is bounded.
fn secrets(report: &LoadBalancerReport) -> Vec<StatusSecret> {
    let secret = |made: &ReportedCertificate| StatusSecret {
        reference: made.reference.clone(),
        content_hash: made.hash.to_string().into(),
    };
    report.objects.certificates.iter().map(secret).collect()
}

/// As many as there is room for: Octavia is the truth, not the status.
fn policies(report: &LoadBalancerReport, object_len: usize) -> Vec<StatusPolicy> {
    let mut room = MOST_WITH_STATUS.saturating_sub(object_len + MARGIN) / 2;
    let fits = |policy: &StatusPolicy| {
        let len = encoded_len(policy) + 1;
        let fits = len <= room;
        room = room.saturating_sub(len);
        fits
    };
    let policies = report.objects.policies.iter().map(|policy| StatusPolicy {
        id: policy.id.clone(),
        listener_id: policy.listener.clone(),
        position: policy.position.into(),
        name: policy.name.clone(),
    });
    policies.take_while(fits).collect()
}

/// Returns what the status of a router knows, as [`status_knowledge`](crate::status_knowledge) does for a KuryrLoadBalancer.
#[must_use]
pub fn router_knowledge(object: &KuryrL7Router) -> StatusKnowledge {
    let slices = || object.spec.pools.iter().flat_map(|pool| &pool.endpoint_slices);
    // How many routes were wanted says nothing of what exists.
    let status = object.status.as_ref().map(|status| &status.balancer);
    knowledge(status, || slices().any(|slice| !slice.endpoints.is_empty()))
}

/// Returns the `status.loadBalancer` of an Ingress. The address of its router, the floating IP or else that of the VIP, appears when
/// that serves a route of the Ingress, whatever becomes of the others, stays while the router is changed, and is gone before the
/// router goes.
/// `report` is the latest one about the router; `serves` the router's generation, if that has a route of the Ingress. Without a
/// router, or while the Ingress goes, there is none.
#[must_use]
pub fn ingress_status(
    ingress: &Ingress,
    serves: Option<i64>,
    report: Option<&LoadBalancerReport>,
) -> LoadBalancerStatus {
    let previous = &ingress.status.load_balancer;
    if ingress.metadata.is_being_deleted() {
        return LoadBalancerStatus::default();
    }
    let Some(report) = report else { return previous.clone() };
    match report.phase {
        Phase::Removing | Phase::Gone => LoadBalancerStatus::default(),
        _ if report.objects.load_balancer.is_some() && serves.is_some_and(|from| has_routes(ingress, from, report)) => {
            address(report)
        }
        Phase::Ready | Phase::Degraded | Phase::Waiting | Phase::Making | Phase::Blocked | Phase::Held => {
            previous.clone()
        }
    }
}

fn has_routes(ingress: &Ingress, generation: i64, report: &LoadBalancerReport) -> bool {
    let meta = &ingress.metadata.meta;
    let name = LoadBalancerHeader::clean_name(&format!("{}/{}", meta.namespace, meta.name));
    report.objects.routes.as_ref().is_some_and(|routes| routes.serve(&name, generation))
}

fn address(report: &LoadBalancerReport) -> LoadBalancerStatus {
    let floating = report.objects.floating_ip.as_ref().map(|floating| floating.address);
    let address = floating.or_else(|| report.objects.load_balancer.as_ref().map(|balancer| balancer.address));
    let ingress = address
        .map(|address| LoadBalancerIngress { ip: Some(address.to_string().into()), ..LoadBalancerIngress::default() });
    LoadBalancerStatus { ingress: ingress.into_iter().collect() }
}
