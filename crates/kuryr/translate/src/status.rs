//! A report as the status of a KuryrLoadBalancer.

use std::collections::BTreeMap;

use gimbal_kuryr_crd::names::conditions;
use gimbal_kuryr_crd::{
    KuryrLoadBalancerStatus, PublicIpInfo, StatusCondition, StatusListener, StatusLoadBalancer, StatusMember,
    StatusPool,
};
use gimbal_kuryr_model::{FloatingAllocation, LoadBalancerReport, Phase, ReportedObjects, Text};

use crate::bounds::{MOST_MEMBERS, MOST_WITH_STATUS, encoded_len};
use crate::{Finding, NotStreamed};

/// Why a port is refused that an older owner of a shared load balancer has.
const PORT_TAKEN: &str = "PortTaken";

/// What a status is made from.
#[derive(Debug, Clone, Copy)]
pub struct StatusInput<'a> {
    /// The status as it is.
    pub previous: Option<&'a KuryrLoadBalancerStatus>,
    /// Generation of the object.
    pub generation: i64,
    /// Bytes of the object without its status, see [`encoded_len`].
    pub object_len: usize,
    /// The latest report about its owner; `None` before there is one.
    pub report: Option<&'a LoadBalancerReport>,
    /// Why it is not streamed, or not tried, if it is not.
    pub not_streamed: Option<&'a NotStreamed>,
    /// What was left out of it.
    pub findings: &'a [Finding],
    /// The time, in RFC 3339, for conditions that change.
    pub now: &'a str,
}

/// Returns the status. If nothing has changed it equals the previous one, and need not be written.
#[must_use]
pub fn status(input: &StatusInput<'_>) -> KuryrLoadBalancerStatus {
    let previous = input.previous.cloned().unwrap_or_default();
    let mut status = KuryrLoadBalancerStatus { conditions: Vec::new(), ..previous };
    if let Some(report) = input.report {
        // A writer that has not looked yet knows less than the status does.
        if report.phase != Phase::Waiting {
            fill(&mut status, &report.objects, input.object_len);
        }
        status.observed_generation = Some(report.generation);
        status.last_error = report.last_error.clone();
    }
    let old = input.previous.map(|status| status.conditions.as_slice()).unwrap_or_default();
    status.conditions = all_conditions(input, old);
    status
}

fn fill(status: &mut KuryrLoadBalancerStatus, objects: &ReportedObjects, object_len: usize) {
    let balancer = objects.load_balancer.as_ref();
    let project = balancer.map(|balancer| balancer.project.clone()).unwrap_or_default();
    let balancer_id = balancer.map(|balancer| balancer.id.clone()).unwrap_or_default();
    status.loadbalancer = balancer.map(|balancer| StatusLoadBalancer {
        id: balancer.id.clone(),
        ip: balancer.address.to_string().into(),
        name: balancer.name.clone(),
        port_id: balancer.port.clone(),
        project_id: project.clone(),
        provider: balancer.provider.clone(),
        security_groups: balancer.security_groups.clone(),
        subnet_id: balancer.subnet.clone(),
    });
    let listener = |listener: &gimbal_kuryr_model::ReportedListener| StatusListener {
        id: listener.id.clone(),
        loadbalancer_id: balancer_id.clone(),
        name: listener.name.clone(),
        port: listener.port.into(),
        project_id: project.clone(),
        protocol: listener.protocol.clone(),
        timeout_client_data: listener.timeout_client_data.map(i64::from),
        timeout_member_data: listener.timeout_member_data.map(i64::from),
    };
    status.listeners = objects.listeners.iter().map(listener).collect();
    let pool = |pool: &gimbal_kuryr_model::ReportedPool| StatusPool {
        id: pool.id.clone(),
        listener_id: pool.listener.clone(),
        loadbalancer_id: balancer_id.clone(),
        name: pool.name.clone(),
        project_id: project.clone(),
        protocol: pool.protocol.clone(),
    };
    status.pools = objects.pools.iter().map(pool).collect();
    status.service_pub_ip_info = objects.floating_ip.as_ref().map(|floating| PublicIpInfo {
        ip_id: floating.id.clone(),
        ip_addr: floating.address.to_string().into(),
        alloc_method: match floating.allocation {
            FloatingAllocation::User => PublicIpInfo::USER.into(),
            FloatingAllocation::Pool => PublicIpInfo::POOL.into(),
        },
    });
    let member = |member: &gimbal_kuryr_model::ReportedMember| StatusMember {
        id: member.id.clone(),
        ip: member.address.to_string().into(),
        name: member.name.clone(),
        pool_id: member.pool.clone(),
        port: member.port.into(),
        project_id: project.clone(),
        subnet_id: member.subnet.clone(),
    };
    status.members = Vec::new();
    let mut room = MOST_WITH_STATUS.saturating_sub(object_len + encoded_len(status) + MARGIN);
    let fits = |member: &StatusMember| {
        let len = encoded_len(member) + 1;
        let fits = len <= room;
        room = room.saturating_sub(len);
        fits
    };
    let members: Vec<_> = objects.members.iter().take(MOST_MEMBERS).map(member).take_while(fits).collect();
    status.members = members;
    let count = usize::try_from(objects.member_count).unwrap_or(usize::MAX).max(objects.members.len());
    status.member_count = i64::try_from(count).ok();
    status.members_truncated = Some(status.members.len() < count);
}

/// Conditions and what is written after the members.
pub(crate) const MARGIN: usize = 20_000;

/// `Ready` and `Synced` are always there; the others once they were true.
fn all_conditions(input: &StatusInput<'_>, old: &[StatusCondition]) -> Vec<StatusCondition> {
    let mut found = BTreeMap::new();
    for (kind, reason, message) in true_conditions(input) {
        let (_, messages): &mut (Text, Vec<String>) = found.entry(kind).or_insert_with(|| (reason, Vec::new()));
        // There may be tens of thousands, of which what does not fit is cut off anyway.
        let has_room = messages.iter().map(String::len).sum::<usize>() < MOST_MESSAGE;
        if has_room && !messages.contains(&message) {
            messages.push(message);
        }
    }
    // What is said of an object that is not streamed is said of it as it is now.
    let reported = input.report.filter(|_| input.not_streamed.is_none()).map(|report| report.generation);
    let observed = reported.unwrap_or(input.generation);
    let mut conditions = Vec::new();
    for kind in conditions::ALL {
        let before = old.iter().find(|condition| &*condition.type_ == kind);
        let (is_true, reason, message) = match (kind, found.remove(kind)) {
            (conditions::READY, _) => ready(input),
            (conditions::SYNCED, _) => synced(input),
            (_, Some((reason, messages))) => (true, reason, messages.join("; ").into()),
            (_, None) if before.is_some() => (false, "Passed".into(), "".into()),
            (_, None) => continue,
        };
        let status = if is_true { "True" } else { "False" };
        let since = before.filter(|before| &*before.status == status);
        conditions.push(StatusCondition {
            type_: kind.into(),
            status: status.into(),
            reason,
            message: shorten(message),
            last_transition_time: since.map_or_else(|| input.now.into(), |before| before.last_transition_time.clone()),
            observed_generation: Some(observed),
        });
    }
    // Those of others stay as they are.
    conditions.extend(old.iter().filter(|one| !conditions::ALL.contains(&&*one.type_)).cloned());
    conditions
}

fn true_conditions(input: &StatusInput<'_>) -> Vec<(&'static str, Text, String)> {
    let mut found = Vec::new();
    if let Some(not_streamed) = input.not_streamed
        && let Some(kind) = not_streamed.condition()
    {
        found.push((kind, not_streamed.reason().into(), not_streamed.to_string()));
    }
    found.extend(input.findings.iter().map(|one| (one.condition(), one.reason().into(), one.to_string())));
    found.extend(input.report.into_iter().flat_map(of_report));
    let by_phase = input.report.and_then(|report| match report.phase {
        Phase::Degraded => Some((conditions::DEGRADED, report.phase)),
        Phase::Held => Some((conditions::HELD, report.phase)),
        Phase::Removing | Phase::Gone => Some((conditions::DELETING, report.phase)),
        Phase::Waiting | Phase::Making | Phase::Ready | Phase::Blocked => None,
    });
    if let Some((kind, phase)) = by_phase
        && found.iter().all(|(other, ..)| *other != kind)
    {
        found.push((kind, phase.as_str().into(), String::new()));
    }
    found
}

fn of_report(report: &LoadBalancerReport) -> Vec<(&'static str, Text, String)> {
    let mut found = Vec::new();
    for reported in &report.conditions {
        let known = conditions::ALL.into_iter().find(|kind| **kind == *reported.kind);
        found.extend(known.map(|kind| (kind, reported.reason.clone(), reported.message.to_string())));
    }
    for port in &report.refused_ports {
        let id = port.listener;
        let message = format!("port {}/{}: {}", id.port, id.protocol.as_str(), port.message);
        let kind = if *port.reason == *PORT_TAKEN { conditions::CONFLICT } else { conditions::UNSUPPORTED };
        found.push((kind, port.reason.clone(), message));
    }
    // Whoever reads it has to know whose route it is.
    for route in report.objects.routes.iter().flat_map(|routes| &routes.differences) {
        let Some(why) = &route.why else { continue };
        let known = conditions::ALL.into_iter().find(|kind| **kind == *why.kind);
        found.extend(known.map(|kind| (kind, why.reason.clone(), format!("{}: {}", route.route, why.message))));
    }
    found
}

fn ready(input: &StatusInput<'_>) -> (bool, Text, Text) {
    if let Some(not_streamed) = input.not_streamed {
        return (false, not_streamed.reason().into(), not_streamed.to_string().into());
    }
    match input.report {
        None => (false, "WaitingForWriter".into(), "the writer has not said anything yet".into()),
        Some(report) => {
            let is_ready = report.phase == Phase::Ready && report.generation == input.generation;
            // What is in the way is not always what OpenStack has answered last.
            let cause = report.conditions.iter().map(|one| &one.message).find(|message| !message.is_empty());
            let cause = cause.filter(|_| matches!(report.phase, Phase::Blocked | Phase::Degraded));
            let message = cause.or(report.last_error.as_ref()).filter(|_| !is_ready).cloned();
            let reason = if report.phase == Phase::Ready && !is_ready { Phase::Waiting } else { report.phase };
            (is_ready, reason.as_str().into(), message.unwrap_or_default())
        }
    }
}

fn synced(input: &StatusInput<'_>) -> (bool, Text, Text) {
    let applied = |report: &LoadBalancerReport| {
        report.generation == input.generation && matches!(report.phase, Phase::Ready | Phase::Degraded)
    };
    let is_synced = input.not_streamed.is_none() && input.report.is_some_and(applied);
    (is_synced, if is_synced { "Applied" } else { "Pending" }.into(), "".into())
}

/// The longest message of a condition.
const MOST_MESSAGE: usize = 4_096;

/// What the API server takes as a message of a condition.
fn shorten(message: Text) -> Text {
    if message.len() <= MOST_MESSAGE { message } else { message[..message.floor_char_boundary(MOST_MESSAGE)].into() }
}
