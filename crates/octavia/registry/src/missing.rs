//! What somebody else has removed.

use std::collections::BTreeSet;

use gimbal_kuryr_model::{ReportedMissing, Text};
use gimbal_octavia_plan::{Provisioning, Seen, SeenBalancer, SeenPool};

use crate::cell::Cell;

/// The most IDs of a kind that are kept, the latest: each leads to no more than one Event.
const MOST: usize = 32;

impl Cell {
    /// Takes note of what somebody else has removed since the last look: call it before what is seen `now` takes the place of that.
    pub(crate) fn note_missing(&mut self, now: &Seen, owner_tag: &str) {
        let found = removed(self.actor.seen(), now, owner_tag);
        if found == ReportedMissing::default() {
            return;
        }
        // What was found before is reported as long as the work on it goes on.
        let mut all = self.missing.take().filter(|_| self.working_since.is_some()).unwrap_or_default();
        for (kept, found) in [
            (&mut all.load_balancers, found.load_balancers),
            (&mut all.listeners, found.listeners),
            (&mut all.pools, found.pools),
            (&mut all.members, found.members),
        ] {
            kept.extend(found);
            kept.drain(..kept.len().saturating_sub(MOST));
            kept.shrink_to_fit();
        }
        self.missing = Some(all);
    }
}

/// Returns what carries the owner's tag, was seen before, and is gone or being deleted. What went with something larger is not named
/// beside that.
fn removed(before: &Seen, now: &Seen, owner_tag: &str) -> ReportedMissing {
    let mut missing = ReportedMissing::default();
    for balancer in before.balancers.iter().filter(|one| stays(one.provisioning)) {
        let found = now.balancers.iter().find(|one| one.id == balancer.id && stays(one.provisioning));
        // Somebody has taken the mark off, and it is where it was.
        let is_there = || now.ports.iter().any(|port| port.user == balancer.id);
        match found {
            Some(found) => parts(balancer, found, owner_tag, &mut missing),
            None if is_there() => {}
            None => missing.load_balancers.push(balancer.id.as_str().into()),
        }
    }
    missing
}

fn parts(before: &SeenBalancer, now: &SeenBalancer, owner_tag: &str, missing: &mut ReportedMissing) {
    let is_ours = |provisioning, tags: &[String]| stays(provisioning) && tags.iter().any(|tag| tag == owner_tag);
    for one in before.listeners.iter().filter(|one| is_ours(one.provisioning, &one.tags)) {
        if !now.listeners.iter().any(|found| found.id == one.id && stays(found.provisioning)) {
            missing.listeners.push(one.id.as_str().into());
        }
    }
    for pool in before.pools.iter().filter(|one| is_ours(one.provisioning, &one.tags)) {
        let Some(found) = now.pools.iter().find(|found| found.id == pool.id && stays(found.provisioning)) else {
            missing.pools.push(pool.id.as_str().into());
            continue;
        };
        let there = members(found);
        let gone = pool.members.iter().filter(|one| is_ours(one.provisioning, &one.tags) && !one.id.is_empty());
        // One that was removed and added again has another ID, and is there.
        let gone = gone.filter(|one| !there.contains(&(&*one.address, one.port)));
        missing.members.extend(gone.map(|one| Text::from(one.id.as_str())));
    }
}

fn members(pool: &SeenPool) -> BTreeSet<(&str, u16)> {
    pool.members.iter().filter(|one| stays(one.provisioning)).map(|one| (&*one.address, one.port)).collect()
}

fn stays(provisioning: Provisioning) -> bool {
    provisioning != Provisioning::PendingDelete
}

#[cfg(test)]
mod tests {
    use gimbal_octavia_plan::{SeenListener, SeenMember, SeenPort};

    use super::*;

    const OURS: &str = "k8s-svc-uid:u1";

    fn tags() -> Vec<String> {
        vec![OURS.to_owned()]
    }

    fn member(id: &str, port: u16) -> SeenMember {
        SeenMember { id: id.into(), address: "10.0.0.1".into(), port, tags: tags(), ..SeenMember::default() }
    }

    fn seen() -> Seen {
        let listener = |id: &str| SeenListener { id: id.into(), tags: tags(), ..SeenListener::default() };
        let pool = |id: &str, members| SeenPool { id: id.into(), tags: tags(), members, ..SeenPool::default() };
        let balancer = SeenBalancer {
            id: "lb".into(),
            listeners: vec![listener("listener-1"), listener("listener-2")],
            pools: vec![pool("pool-1", vec![member("member-1", 80), member("member-2", 81)]), pool("pool-2", vec![])],
            ..SeenBalancer::default()
        };
        Seen { balancers: vec![balancer], ..Seen::default() }
    }

    /// Returns the IDs of what is missing after this.
    fn after(change: impl FnOnce(&mut Seen)) -> Vec<String> {
        let mut now = seen();
        change(&mut now);
        let ReportedMissing { load_balancers, listeners, pools, members } = removed(&seen(), &now, OURS);
        [load_balancers, listeners, pools, members].concat().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_kind_is_named_and_nothing_that_went_with_it() {
        assert_eq!(after(|_| {}), [""; 0]);
        assert_eq!(after(|now| now.balancers.clear()), ["lb"]);
        assert_eq!(after(|now| drop(now.balancers[0].listeners.remove(0))), ["listener-1"]);
        assert_eq!(after(|now| drop(now.balancers[0].pools.remove(0))), ["pool-1"]);
        assert_eq!(after(|now| drop(now.balancers[0].pools[0].members.remove(1))), ["member-2"]);
    }

    #[test]
    fn what_is_being_deleted_is_gone() {
        let going = Provisioning::PendingDelete;
        assert_eq!(after(|now| now.balancers[0].provisioning = going), ["lb"]);
        assert_eq!(after(|now| now.balancers[0].pools[1].provisioning = going), ["pool-2"]);
        // It is not found missing once more when it has gone.
        let mut before = seen();
        before.balancers[0].provisioning = going;
        assert_eq!(removed(&before, &Seen::default(), OURS), ReportedMissing::default());
    }

    #[test]
    fn what_is_not_ours_or_is_still_there_is_not_missing() {
        let mut before = seen();
        before.balancers[0].listeners[0].tags.clear();
        let mut now = seen();
        now.balancers[0].listeners.remove(0);
        assert_eq!(removed(&before, &now, OURS), ReportedMissing::default(), "somebody else's listener");
        let again = |now: &mut Seen| now.balancers[0].pools[0].members[0] = member("another", 80);
        assert_eq!(after(again), [""; 0], "a member that was added again");
        let used = SeenPort { user: "lb".into(), ..SeenPort::default() };
        let unmarked = |now: &mut Seen| *now = Seen { ports: vec![used], ..Seen::default() };
        assert_eq!(after(unmarked), [""; 0], "the mark was taken off");
    }
}
