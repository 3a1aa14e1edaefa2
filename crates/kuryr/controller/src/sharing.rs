//! Texts that are kept once. Members are most of what is kept of a load balancer, and they have much in common: with each other,
//! and with what was reported of them, from which their status was made.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kuryr_crd::{KuryrLoadBalancerStatus, StatusMember};
use gimbal_kuryr_model::{DesiredEntry, LoadBalancerReport, ReportedMember, Text};

/// Shares what the members of a report have in common with each other, with the entry that it is about, and with the status that
/// shows them already.
pub(crate) fn share_in_report(
    report: &mut LoadBalancerReport,
    entry: Option<&DesiredEntry>,
    status: Option<&KuryrLoadBalancerStatus>,
) {
    let names = names(entry);
    let shown = status.map(|status| status.members.as_slice()).unwrap_or_default();
    let shown: BTreeMap<&str, &StatusMember> = shown.iter().map(|member| (&*member.id, member)).collect();
    let mut before: Option<[Text; 2]> = None;
    for ReportedMember { id, pool, name, subnet, .. } in &mut report.objects.members {
        if let Some(same) = shown.get(&**id) {
            share(id, &same.id);
            share(name, &same.name);
            share(pool, &same.pool_id);
            share(subnet, &same.subnet_id);
        }
        if let Some(same) = names.get(name) {
            share(name, same);
        }
        if let Some([pool_before, subnet_before]) = &before {
            share(pool, pool_before);
            share(subnet, subnet_before);
        }
        before = Some([pool.clone(), subnet.clone()]);
    }
}

/// Shares what the members of a status have in common with each other, with what is offered, and with the report that it shows.
pub(crate) fn share_in_status(
    status: &mut KuryrLoadBalancerStatus,
    entry: Option<&DesiredEntry>,
    report: Option<&LoadBalancerReport>,
) {
    let names = names(entry);
    let reported = report.map(|report| report.objects.members.as_slice()).unwrap_or_default();
    let reported: BTreeMap<&str, &ReportedMember> = reported.iter().map(|member| (&*member.id, member)).collect();
    let mut before: Option<StatusMember> = None;
    // What was parsed has room for more.
    status.members.shrink_to_fit();
    status.listeners.shrink_to_fit();
    status.pools.shrink_to_fit();
    status.conditions.shrink_to_fit();
    for member in &mut status.members {
        if let Some(ReportedMember { id, pool, name, subnet, .. }) = reported.get(&*member.id) {
            share(&mut member.id, id);
            share(&mut member.name, name);
            share(&mut member.pool_id, pool);
            share(&mut member.subnet_id, subnet);
        }
        if let Some(same) = names.get(&member.name) {
            share(&mut member.name, same);
        }
        if let Some(before) = &before {
            share(&mut member.pool_id, &before.pool_id);
            share(&mut member.project_id, &before.project_id);
            share(&mut member.subnet_id, &before.subnet_id);
        }
        before = Some(member.clone());
    }
}

/// The names that an entry wants its members to have.
fn names(entry: Option<&DesiredEntry>) -> BTreeSet<&Text> {
    match entry {
        Some(DesiredEntry::LoadBalancer(wanted)) => {
            wanted.members.as_slice().iter().filter_map(|member| member.name.as_ref()).collect()
        }
        Some(DesiredEntry::Deleting { .. }) | None => BTreeSet::new(),
    }
}

fn share(text: &mut Text, same: &Text) {
    if *text == *same {
        text.clone_from(same);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gimbal_kuryr_model::{Phase, ReportedObjects};

    use super::*;

    fn report() -> LoadBalancerReport {
        let member = |n: u8| ReportedMember {
            id: format!("member-{n}").into(),
            pool: "pool".to_owned().into(),
            name: format!("name-{n}").into(),
            address: [10, 1, 0, n].into(),
            port: 80,
            subnet: "subnet".to_owned().into(),
        };
        LoadBalancerReport {
            owner: "uid".into(),
            generation: 1,
            phase: Phase::Ready,
            conditions: Vec::new(),
            refused_ports: Vec::new(),
            objects: ReportedObjects { members: vec![member(1), member(2)], ..ReportedObjects::default() },
            last_error: None,
            missing: None,
        }
    }

    #[test]
    fn texts_of_members_are_kept_once() {
        let mut report = report();
        share_in_report(&mut report, None, None);
        let of_status = |member: &ReportedMember| StatusMember {
            id: member.id.to_string().into(),
            name: member.name.to_string().into(),
            pool_id: member.pool.to_string().into(),
            subnet_id: member.subnet.to_string().into(),
            project_id: "project".to_owned().into(),
            ..StatusMember::default()
        };
        let members = report.objects.members.iter().map(of_status).collect();
        let mut status = KuryrLoadBalancerStatus { members, ..KuryrLoadBalancerStatus::default() };
        let before = status.clone();
        share_in_status(&mut status, None, Some(&report));
        assert_eq!(status, before);
        let [first, second] = &report.objects.members[..] else { panic!("two members") };
        let [shown, next] = &status.members[..] else { panic!("two members") };
        for (one, other) in [
            (&first.pool, &second.pool),
            (&first.subnet, &second.subnet),
            (&first.id, &shown.id),
            (&second.id, &next.id),
            (&second.name, &next.name),
            (&first.pool, &next.pool_id),
            (&first.subnet, &next.subnet_id),
            (&shown.project_id, &next.project_id),
        ] {
            assert!(Arc::ptr_eq(one, other), "{one}");
        }
        // A report that comes after its status, as after a restart, shares it.
        let mut again = self::report();
        share_in_report(&mut again, None, Some(&status));
        assert!(Arc::ptr_eq(&again.objects.members[1].name, &status.members[1].name));
        // Another report shares nothing that is not equal.
        let mut other = report;
        other.objects.members.reverse();
        share_in_status(&mut status, None, Some(&other));
        assert_eq!(status, before);
    }
}
