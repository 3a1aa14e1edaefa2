//! Members of routers that wait for room in a quota of the policy, until it is known which of them serve.

use std::collections::BTreeSet;

use gimbal_kuryr_model::{DesiredEntry, DesiredKey, DesiredLoadBalancer, DesiredMembers, MemberId};
use gimbal_octavia_plan::Seen;

use crate::cell::Cell;
use crate::registry::Registry;
use crate::removals::id_of;

impl Registry {
    /// Takes note that these members are not in the entry that was wanted last under a key, for there is room for no more than it has.
    /// Who is looked at for the first time may have some of them: these come in the place of others that it has not. Else each restart
    /// would take some away that serve.
    pub fn members_wait(&mut self, cluster: &str, key: &DesiredKey, waiting: DesiredMembers) {
        let Some(cluster) = self.clusters.get_mut(cluster).filter(|_| !waiting.as_slice().is_empty()) else { return };
        let cell = cluster.keys.get(key).and_then(|owner| cluster.cells.get_mut(owner));
        if let Some(cell) = cell.filter(|cell| cell.key == *key && cell.looked_at.is_none()) {
            cell.waiting = Some(waiting);
        }
    }
}

impl Cell {
    /// Lets members that a first look finds come before those that it does not find, as many as before.
    pub(crate) fn keep_those_there(&mut self, seen: &Seen) {
        let (Some(waiting), DesiredEntry::LoadBalancer(wanted)) = (self.waiting.take(), self.actor.desired()) else {
            return;
        };
        let mut there: BTreeSet<MemberId> = BTreeSet::new();
        for balancer in &seen.balancers {
            for pool in &balancer.pools {
                let Some(id) = id_of(balancer, pool) else { continue };
                let of =
                    |address: &str, port| Some(MemberId { pool: id.clone(), address: address.parse().ok()?, port });
                there.extend(pool.members.iter().filter_map(|one| of(&one.address, one.port)));
            }
        }
        let most = wanted.members.as_slice().len();
        let all = waiting.as_slice().iter().chain(wanted.members.as_slice()).cloned().collect();
        let (members, _) = DesiredMembers::new(all).split_at_most(most, |id| there.contains(id));
        if members != wanted.members {
            let wanted = DesiredLoadBalancer { members, ..wanted.clone() };
            self.actor.want(DesiredEntry::LoadBalancer(wanted));
        }
    }
}
