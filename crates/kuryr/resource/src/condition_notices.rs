//! What a change of a status tells.

use gimbal_kuryr_crd::names::{conditions, reasons};
use gimbal_kuryr_crd::{KuryrLoadBalancerStatus, StatusCondition};
use gimbal_kuryr_model::{DesiredEntry, LoadBalancerReport, Phase};
use gimbal_kuryr_translate::NotStreamed;

use crate::Told;
use crate::missing_notices::of_missing;

/// What is between two messages of one condition.
const JOINT: &str = "; ";

/// What a status was made from.
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

/// Returns what a change of the status tells. What is missing comes before what is done about it.
#[must_use]
pub fn of_status(old: &KuryrLoadBalancerStatus, new: &KuryrLoadBalancerStatus, of: ConditionsOf<'_>) -> Vec<Told> {
    let mut told = of_missing(old, new, of);
    told.extend(of_conditions(&old.conditions, &new.conditions, of));
    told
}

/// Returns what a change of the conditions tells. The conditions are the memory: after a restart nothing is reported twice.
fn of_conditions(old: &[StatusCondition], new: &[StatusCondition], of: ConditionsOf<'_>) -> Vec<Told> {
    let ConditionsOf { report, event, .. } = of;
    let find = |list: &[StatusCondition], kind: &str| list.iter().find(|one| &*one.type_ == kind).cloned();
    // What is wrong with one that can go on is no failure of the whole.
    let fails = report.is_none_or(|report| report.phase == Phase::Blocked);
    let mut told = Vec::new();
    for now in new {
        let before = find(old, &now.type_);
        let same = before.as_ref().filter(|before| before.status == now.status && before.reason == now.reason);
        // Something else for the same condition is said behind what was said before.
        let joined = same.and_then(|before| now.message.strip_prefix(&*before.message)?.strip_prefix(JOINT));
        if same.is_some() && joined.is_none() {
            continue;
        }
        let message = || match joined {
            Some(joined) => joined.to_owned(),
            None if now.message.is_empty() => now.reason.to_string(),
            None => now.message.to_string(),
        };
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
                let other = if fails { reasons::ENSURE_LB_ERROR } else { reasons::NOT_AS_ASKED };
                let reason = match joined {
                    // Its own reason is not known.
                    Some(_) => other,
                    None => known.or(by_port).or(found).unwrap_or(other),
                };
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
        // No one can do anything about it, a condition of its own tells, or the write that was refused did.
        "WaitingForWriter" | "Degraded" | "Held" | "Removing" | "Gone" | NotStreamed::NOT_TAKEN => None,
        _ if of.offered.is_some_and(DesiredEntry::is_deleting) => {
            Some(Told::warning(reasons::RELEASE_LB_ERROR, message))
        }
        _ => Some(Told::warning(reasons::ENSURE_LB_ERROR, message)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gimbal_kuryr_model::{FloatingAllocation, ReportedFloatingIp, ReportedLoadBalancer, ReportedObjects};
    use gimbal_kuryr_translate::owner_alone;

    use super::*;

    fn condition(kind: &str, status: &str, reason: &str) -> StatusCondition {
        StatusCondition {
            type_: kind.into(),
            status: status.into(),
            reason: reason.into(),
            ..StatusCondition::default()
        }
    }

    fn report(phase: Phase, objects: ReportedObjects) -> LoadBalancerReport {
        LoadBalancerReport {
            owner: "uid".into(),
            generation: 1,
            phase,
            conditions: Vec::new(),
            refused_ports: Vec::new(),
            objects,
            last_error: None,
            missing: None,
        }
    }

    fn told(phase: Phase, old: &[StatusCondition], new: &[StatusCondition]) -> Vec<(&'static str, String)> {
        let report = report(phase, ReportedObjects::default());
        let of = ConditionsOf { report: Some(&report), event: &|_| None, offered: None };
        of_conditions(old, new, of).into_iter().map(|told| (told.reason, told.message)).collect()
    }

    fn unsupported(reason: &str, message: &str) -> StatusCondition {
        StatusCondition { message: message.into(), ..condition(conditions::UNSUPPORTED, "True", reason) }
    }

    #[test]
    fn what_is_refused_of_one_that_goes_on_is_no_failure() {
        let new = [unsupported("NoUdp", "no UDP")];
        for (phase, reason) in [
            (Phase::Ready, reasons::NOT_AS_ASKED),
            (Phase::Making, reasons::NOT_AS_ASKED),
            (Phase::Degraded, reasons::NOT_AS_ASKED),
            (Phase::Blocked, reasons::ENSURE_LB_ERROR),
        ] {
            assert_eq!(told(phase, &[], &new), [(reason, "no UDP".to_owned())], "{phase:?}");
        }
    }

    #[test]
    fn what_joins_is_told_once_and_a_retry_in_other_words_is_not() {
        let told = |old: &str, new: &str| {
            told(Phase::Ready, &[unsupported("Annotation", old)], &[unsupported("Annotation", new)])
        };
        assert_eq!(told("left out", "left out; no UDP"), [(reasons::NOT_AS_ASKED, "no UDP".to_owned())]);
        for (old, new) in [
            ("left out; no UDP", "left out; no UDP"),
            ("left out; no UDP, try 1", "left out; no UDP, try 2"),
            ("left out; no UDP", "left out"),
            ("left out", "left outside"),
        ] {
            assert!(told(old, new).is_empty(), "{new}");
        }
    }
    fn objects(has_balancer: bool, has_floating: bool) -> ReportedObjects {
        let text = |id: &str| id.into();
        let load_balancer = ReportedLoadBalancer {
            id: text("l"),
            name: text("shop/web"),
            address: [10, 96, 0, 7].into(),
            port: text("p"),
            subnet: text("s"),
            project: text("project"),
            provider: text("amphora"),
            security_groups: Vec::new(),
        };
        let floating_ip = ReportedFloatingIp {
            id: text("f"),
            address: [203, 0, 113, 9].into(),
            allocation: FloatingAllocation::Pool,
        };
        ReportedObjects {
            load_balancer: has_balancer.then_some(load_balancer),
            floating_ip: has_floating.then_some(floating_ip),
            ..ReportedObjects::default()
        }
    }

    /// The load balancer comes first, and what is left to make is the floating IP.
    #[test]
    fn a_floating_ip_that_is_still_to_be_made_is_told_as_that() {
        let offered = |floats: bool| {
            let mut wanted = owner_alone(None, &"uid".into());
            Arc::make_mut(&mut wanted.header).floating = floats.then(Box::default);
            DesiredEntry::LoadBalancer(wanted)
        };
        let making = condition(conditions::READY, "False", "Making");
        for (floats, has_balancer, has_floating, reason) in [
            (true, true, false, reasons::ENSURE_FIP),
            (true, false, false, reasons::ENSURE_LB),
            (true, true, true, reasons::ENSURE_LB),
            (false, true, false, reasons::ENSURE_LB),
        ] {
            let (report, offered) = (report(Phase::Making, objects(has_balancer, has_floating)), offered(floats));
            let of = ConditionsOf { report: Some(&report), event: &|_| None, offered: Some(&offered) };
            let told: Vec<_> = of_conditions(&[], std::slice::from_ref(&making), of);
            let told: Vec<_> = told.into_iter().map(|told| (told.is_warning, told.reason)).collect();
            assert_eq!(told, [(false, reason)], "{floats} {has_balancer} {has_floating}");
        }
        // Once it is there, its address is the one that is named.
        let report = report(Phase::Ready, objects(true, true));
        let (ready, offered) = (condition(conditions::READY, "True", "Ready"), offered(true));
        let of = ConditionsOf { report: Some(&report), event: &|_| None, offered: Some(&offered) };
        let told = of_conditions(&[making], &[ready], of);
        assert_eq!(told, [Told::normal(reasons::ENSURED_LB, "the load balancer serves at 203.0.113.9")]);
    }
}
