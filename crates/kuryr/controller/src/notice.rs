//! What a user is notified of.

use gimbal_kuryr_crd::StatusCondition;
use gimbal_kuryr_crd::names::{conditions, reasons};
use gimbal_kuryr_model::{LoadBalancerReport, Phase, Text};
use gimbal_kuryr_translate::Finding;

use crate::ClusterObject;

/// Something to be reported by an Event on a Service, or on a KuryrLoadBalancer that has none. There is one for each change of a
/// reason, none for a retry and none for a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceNotice {
    /// The object that it is about.
    pub object: ClusterObject,
    /// Its UID.
    pub uid: Text,
    /// Whether the Event is of type `Warning`, else it is `Normal`.
    pub is_warning: bool,
    /// One of [`reasons`](gimbal_kuryr_crd::names::reasons).
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

impl ServiceNotice {
    pub(crate) fn new(object: ClusterObject, uid: Text, told: Told) -> Self {
        let Told { is_warning, reason, message } = told;
        Self { object, uid, is_warning, reason, message }
    }
}

/// A notice without the object that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) is_warning: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Told {
    pub(crate) fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { is_warning: false, reason, message: message.into() }
    }

    pub(crate) fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { is_warning: true, reason, message: message.into() }
    }
}

/// What conditions were made from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConditionsOf<'a> {
    pub(crate) report: Option<&'a LoadBalancerReport>,
    pub(crate) findings: &'a [Finding],
    /// Whether a floating IP is wanted.
    pub(crate) floating: bool,
    /// Whether it is to be removed.
    pub(crate) deleting: bool,
}

/// Returns what a change of the conditions tells. The conditions are the memory: after a restart nothing is reported twice.
pub(crate) fn of_conditions(old: &[StatusCondition], new: &[StatusCondition], of: ConditionsOf<'_>) -> Vec<Told> {
    let ConditionsOf { report, findings, .. } = of;
    let find = |list: &[StatusCondition], kind: &str| list.iter().find(|one| &*one.type_ == kind).cloned();
    let mut told = Vec::new();
    for now in new {
        let before = find(old, &now.type_);
        let same = before.as_ref().is_some_and(|before| before.status == now.status && before.reason == now.reason);
        if same {
            continue;
        }
        let message = || if now.message.is_empty() { now.reason.to_string() } else { now.message.to_string() };
        match (&*now.type_, &*now.status) {
            (conditions::READY, "True") => told.push(Told::normal(reasons::ENSURED_LB, ensured(report))),
            (conditions::READY, _) => told.extend(not_ready(&now.reason, message(), of)),
            // `Ready` tells it.
            (_, _) if new.iter().any(|ready| &*ready.type_ == conditions::READY && same_words(ready, now)) => {}
            (conditions::SYNCED | conditions::DELETING, _) | (_, "False") => {}
            (_, _) => {
                let known = reasons::ALL.into_iter().find(|reason| **reason == *now.reason);
                let port = report.is_some_and(|report| report.refused_ports.iter().any(|one| one.reason == now.reason));
                let found = findings.iter().find(|finding| finding.reason() == &*now.reason).map(|one| one.event());
                let by_port = port.then_some(reasons::SKIP_LISTENER);
                let reason = known.or(by_port).or(found).unwrap_or(reasons::ENSURE_LB_ERROR);
                told.push(Told::warning(reason, message()));
            }
        }
    }
    told
}

fn same_words(one: &StatusCondition, other: &StatusCondition) -> bool {
    (&one.reason, &one.message) == (&other.reason, &other.message)
}

fn ensured(report: Option<&LoadBalancerReport>) -> String {
    let objects = report.map(|report| &report.objects);
    let floating = objects.and_then(|objects| objects.floating_ip.as_ref()).map(|floating| floating.address);
    let vip = objects.and_then(|objects| objects.load_balancer.as_ref()).map(|balancer| balancer.address);
    match floating.or(vip) {
        Some(address) => format!("the load balancer serves at {address}"),
        None => "the load balancer serves".to_owned(),
    }
}

fn not_ready(reason: &str, message: String, of: ConditionsOf<'_>) -> Option<Told> {
    if [Phase::Making, Phase::Waiting].iter().any(|phase| phase.as_str() == reason) {
        let objects = of.report.map(|report| &report.objects);
        let only_floating = of.floating
            && objects.is_some_and(|objects| objects.load_balancer.is_some() && objects.floating_ip.is_none());
        let (reason, what) = if only_floating {
            (reasons::ENSURE_FIP, "the floating IP is being made")
        } else {
            (reasons::ENSURE_LB, "the load balancer is being made")
        };
        return Some(Told::normal(reason, what));
    }
    match reason {
        // No one can do anything about it, or a condition of its own tells.
        "WaitingForWriter" | "Degraded" | "Held" | "Removing" | "Gone" => None,
        _ if of.deleting => Some(Told::warning(reasons::RELEASE_LB_ERROR, message)),
        _ => Some(Told::warning(reasons::ENSURE_LB_ERROR, message)),
    }
}
