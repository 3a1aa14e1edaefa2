//! What a status that names other objects of OpenStack than before tells.

use std::borrow::Cow;

use gimbal_kuryr_crd::names::reasons;
use gimbal_kuryr_crd::{KuryrLoadBalancerStatus, StatusMember};
use gimbal_kuryr_model::{DesiredEntry, ReportedMissing, Text};

use crate::{ConditionsOf, Told};

/// Objects of one kind that a status names: their IDs and names.
type NamedObjects<'a> = Vec<(&'a Text, Cow<'a, str>)>;
/// Returns them.
type NamedIn = for<'a> fn(&'a KuryrLoadBalancerStatus) -> NamedObjects<'a>;

/// Returns the notices of what someone else has removed: one for each kind, when the status ceases to name it. The status is the
/// memory: neither a report that says the same again nor a restart repeats one.
pub(crate) fn of_missing(
    old: &KuryrLoadBalancerStatus,
    new: &KuryrLoadBalancerStatus,
    of: ConditionsOf<'_>,
) -> Vec<Told> {
    let is_going = of.offered.is_some_and(DesiredEntry::is_deleting);
    let missing = of.report.and_then(|report| report.missing.as_deref()).filter(|_| !is_going);
    let Some(ReportedMissing { load_balancers, listeners, pools, members }) = missing else { return Vec::new() };
    let kinds: [(_, _, _, NamedIn); 4] = [
        (reasons::LOAD_BALANCER_MISSING, "load balancer", load_balancers, named_balancers),
        (reasons::LISTENER_MISSING, "listener", listeners, named_listeners),
        (reasons::POOL_MISSING, "pool", pools, named_pools),
        (reasons::MEMBER_MISSING, "member", members, named_members),
    ];
    let told = kinds.into_iter().filter_map(|(reason, kind, missing, named)| {
        let still = named(new);
        let is_news = |id: &Text| missing.contains(id) && !still.iter().any(|(other, _)| *other == id);
        let mut gone = named(old).into_iter().filter(|(id, _)| is_news(id));
        let (id, name) = gone.next()?;
        let message = match gone.count() {
            0 => format!("someone else removed {kind} {name} ({id}); it is made again"),
            others => format!("someone else removed {kind} {name} ({id}) and {others} more; they are made again"),
        };
        Some(Told::warning(reason, message))
    });
    told.collect()
}

fn named_balancers(status: &KuryrLoadBalancerStatus) -> NamedObjects<'_> {
    status.loadbalancer.iter().map(|one| (&one.id, Cow::from(&*one.name))).collect()
}

fn named_listeners(status: &KuryrLoadBalancerStatus) -> NamedObjects<'_> {
    status.listeners.iter().map(|one| (&one.id, Cow::from(&*one.name))).collect()
}

fn named_pools(status: &KuryrLoadBalancerStatus) -> NamedObjects<'_> {
    status.pools.iter().map(|one| (&one.id, Cow::from(&*one.name))).collect()
}

fn named_members(status: &KuryrLoadBalancerStatus) -> NamedObjects<'_> {
    // One that is no Pod has no name.
    let name = |one: &StatusMember| match &*one.name {
        "" => format!("{}:{}", one.ip, one.port),
        name => name.to_owned(),
    };
    status.members.iter().map(|one| (&one.id, Cow::from(name(one)))).collect()
}

#[cfg(test)]
mod tests {
    use gimbal_kuryr_crd::{StatusListener, StatusLoadBalancer, StatusPool};
    use gimbal_kuryr_model::{LoadBalancerReport, Phase, ReportedObjects};

    use super::*;

    /// A status whose IDs and names end in this.
    fn status(end: &str) -> KuryrLoadBalancerStatus {
        let text = |kind: &str| -> Text { format!("{kind}-{end}").into() };
        KuryrLoadBalancerStatus {
            loadbalancer: Some(StatusLoadBalancer { id: text("l"), name: "shop/web".into(), ..Default::default() }),
            listeners: vec![StatusListener { id: text("i"), name: "shop/web:TCP:80".into(), ..Default::default() }],
            pools: vec![StatusPool { id: text("p"), name: "shop/web:TCP:80".into(), ..Default::default() }],
            members: ["m", "n"]
                .map(|kind| StatusMember { id: text(kind), name: "shop/a:80".into(), ..Default::default() })
                .into(),
            ..KuryrLoadBalancerStatus::default()
        }
    }

    fn missing(load_balancers: &[&str], listeners: &[&str], pools: &[&str], members: &[&str]) -> ReportedMissing {
        let [load_balancers, listeners, pools, members] = [load_balancers, listeners, pools, members]
            .map(|ids| ids.iter().map(|id| Text::from(*id)).collect::<Vec<_>>());
        ReportedMissing { load_balancers, listeners, pools, members }
    }

    fn told(
        old: &KuryrLoadBalancerStatus,
        new: &KuryrLoadBalancerStatus,
        missing: Option<ReportedMissing>,
        offered: Option<&DesiredEntry>,
    ) -> Vec<(&'static str, String)> {
        let report = LoadBalancerReport {
            owner: "uid".into(),
            generation: 1,
            phase: Phase::Ready,
            conditions: Vec::new(),
            refused_ports: Vec::new(),
            objects: ReportedObjects::default(),
            last_error: None,
            missing: missing.map(Box::new),
        };
        let of = ConditionsOf { report: Some(&report), event: &|_| None, offered };
        of_missing(old, new, of).into_iter().map(|told| (told.reason, told.message)).collect()
    }

    #[test]
    fn each_kind_that_the_status_ceases_to_name_is_told() {
        let all = missing(&["l-1"], &["i-1"], &["p-1"], &["m-1", "n-1"]);
        let again = "it is made again";
        let expected = [
            (reasons::LOAD_BALANCER_MISSING, format!("someone else removed load balancer shop/web (l-1); {again}")),
            (reasons::LISTENER_MISSING, format!("someone else removed listener shop/web:TCP:80 (i-1); {again}")),
            (reasons::POOL_MISSING, format!("someone else removed pool shop/web:TCP:80 (p-1); {again}")),
            (
                reasons::MEMBER_MISSING,
                "someone else removed member shop/a:80 (m-1) and 1 more; they are made again".to_owned(),
            ),
        ];
        assert_eq!(told(&status("1"), &status("2"), Some(all.clone()), None), expected);
        let nothing = KuryrLoadBalancerStatus::default();
        assert_eq!(told(&status("1"), &nothing, Some(all.clone()), None), expected, "before it is made again");
        assert_eq!(told(&nothing, &status("2"), Some(all.clone()), None), [], "once");
        assert_eq!(told(&status("1"), &status("1"), Some(all), None), [], "not while the status names it");
    }

    #[test]
    fn a_member_without_a_name_is_told_by_its_address() {
        let mut old = status("1");
        let member = StatusMember { id: "m-1".into(), ip: "10.0.0.9".into(), port: 80, ..StatusMember::default() };
        old.members = vec![member];
        let told = told(&old, &status("2"), Some(missing(&[], &[], &[], &["m-1"])), None);
        let words = "someone else removed member 10.0.0.9:80 (m-1); it is made again";
        assert_eq!(told, [(reasons::MEMBER_MISSING, words.to_owned())]);
    }

    #[test]
    fn what_was_removed_on_purpose_is_not_told() {
        let (old, new) = (status("1"), status("2"));
        assert_eq!(told(&old, &new, None, None), [], "a writer of an older release says nothing");
        assert_eq!(told(&old, &new, Some(missing(&["l-0"], &[], &[], &["m-0"])), None), [], "found missing before");
        let deleting = DesiredEntry::Deleting { owner: "uid".into() };
        assert_eq!(told(&old, &new, Some(missing(&["l-1"], &[], &[], &[])), Some(&deleting)), []);
    }
}
