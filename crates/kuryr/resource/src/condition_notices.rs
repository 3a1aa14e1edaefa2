//! What a change of conditions tells.

use gimbal_kuryr_crd::StatusCondition;
use gimbal_kuryr_crd::names::{conditions, reasons};
use gimbal_kuryr_model::{DesiredEntry, LoadBalancerReport, Phase};

use crate::Told;

/// What conditions were made from.
#[derive(Clone, Copy)]
pub struct ConditionsOf<'a> {
    /// The report.
    pub report: Option<&'a LoadBalancerReport>,
    /// The reason of the Event for what was left out for this reason.
    pub event: &'a dyn Fn(&str) -> Option<&'static str>,
    /// What is offered.
    pub offered: Option<&'a DesiredEntry>,
}

impl ConditionsOf<'_> {
    /// Whether a floating IP is wanted.
    fn wants_floating(&self) -> bool {
        matches!(self.offered, Some(DesiredEntry::LoadBalancer(wanted)) if wanted.header.floating.is_some())
    }
}

/// Returns what a change of the conditions tells. The conditions are the memory: after a restart nothing is reported twice.
#[must_use]
pub fn of_conditions(old: &[StatusCondition], new: &[StatusCondition], of: ConditionsOf<'_>) -> Vec<Told> {
    let ConditionsOf { report, event, .. } = of;
    let find = |list: &[StatusCondition], kind: &str| list.iter().find(|one| &*one.type_ == kind).cloned();
    let serves = new.iter().any(|one| &*one.type_ == conditions::READY && &*one.status == "True");
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
                let found = event(&now.reason);
                let by_port = port.then_some(reasons::SKIP_LISTENER);
                let other = if serves { reasons::NOT_AS_ASKED } else { reasons::ENSURE_LB_ERROR };
                let reason = known.or(by_port).or(found).unwrap_or(other);
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
        let only_floating = of.wants_floating()
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
        _ if of.offered.is_some_and(DesiredEntry::is_deleting) => {
            Some(Told::warning(reasons::RELEASE_LB_ERROR, message))
        }
        _ => Some(Told::warning(reasons::ENSURE_LB_ERROR, message)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(kind: &str, status: &str, reason: &str) -> StatusCondition {
        StatusCondition {
            type_: kind.into(),
            status: status.into(),
            reason: reason.into(),
            ..StatusCondition::default()
        }
    }

    fn told(old: &[StatusCondition], new: &[StatusCondition]) -> Vec<&'static str> {
        let of = ConditionsOf { report: None, event: &|_| None, offered: None };
        of_conditions(old, new, of).into_iter().map(|told| told.reason).collect()
    }

    #[test]
    fn what_is_refused_of_one_that_serves_is_no_failure() {
        let unsupported = |reason| condition(conditions::UNSUPPORTED, "True", reason);
        let ready = |status| condition(conditions::READY, status, "Held");
        assert_eq!(told(&[ready("True")], &[ready("True"), unsupported("NoUdp")]), [reasons::NOT_AS_ASKED]);
        assert_eq!(told(&[ready("False")], &[ready("False"), unsupported("NoUdp")]), [reasons::ENSURE_LB_ERROR]);
    }

    #[test]
    fn another_reason_is_told_and_the_same_one_is_not() {
        let ready = condition(conditions::READY, "True", "Ready");
        let all = |reason| [ready.clone(), condition(conditions::UNSUPPORTED, "True", reason)];
        assert_eq!(told(&all("InvalidAnnotation"), &all("NoUdp")), [reasons::NOT_AS_ASKED]);
        assert!(told(&all("NoUdp"), &all("NoUdp")).is_empty());
    }
}
