//! Whether lists show what answers have shown, so that nothing need be read after a change of ours.

use std::collections::BTreeSet;

use gimbal_kuryr_model::{DesiredEntry, Text};
use gimbal_octavia_plan::{Provisioning, SeenBalancer, SeenListener, SeenPolicy, SeenPool, SeenPort};

use crate::cell::Cell;
use crate::fingerprint::{row_print, seen_floating_print};
use crate::owner_look::{OwnerRows, ids};

/// Whether rows of an owner show what the answers to its changes have shown. Members are in no list: they were read after its load
/// balancer had settled, and the row of that is still the same. Any change below a load balancer moves its row.
pub(crate) fn agrees(cell: &Cell, rows: &OwnerRows, floating: Option<u64>, projects: &[Text]) -> bool {
    let seen = cell.actor.seen();
    let ([balancer], [row]) = (seen.balancers.as_slice(), rows.balancers.as_slice()) else { return false };
    balancer.provisioning == Provisioning::Active
        && cell.settled == Some(row_print(row))
        && usize::from(cell.proven) == balancer.pools.len()
        && balancer.pools.iter().all(is_proven)
        && parts_agree(balancer, row, rows)
        && floating.is_none_or(|print| print == seen_floating_print(&seen.floating, projects))
}

/// Whether every part of a pool is known from lists or from a read of its members.
fn is_proven(pool: &SeenPool) -> bool {
    pool.monitor.is_none() && pool.members.iter().all(|one| one.provisioning == Provisioning::Active)
}

fn parts_agree(balancer: &SeenBalancer, row: &serde_json::Value, rows: &OwnerRows) -> bool {
    let listeners = ids(&row["listeners"]);
    let same_listener = |id: &String| {
        let seen = balancer.listeners.iter().find(|one| one.id == *id);
        seen.zip(rows.listeners.get(id)).is_some_and(|(seen, row)| {
            let listed = SeenListener { policies: seen.policies.clone(), ..SeenListener::read(row) };
            listed == *seen && policies_agree(seen, row, rows)
        })
    };
    let pools = ids(&row["pools"]);
    let same_pool = |id: &String| {
        let seen = balancer.pools.iter().find(|one| one.id == *id);
        seen.zip(rows.pools.get(id)).is_some_and(|(seen, row)| {
            let members: BTreeSet<String> = ids(&row["members"]).into_iter().collect();
            let listed = SeenPool { members: seen.members.clone(), ..SeenPool::read(row) };
            row["healthmonitor_id"].is_null()
                && listed == *seen
                && members.len() == seen.members.len()
                && seen.members.iter().all(|one| members.contains(&one.id))
        })
    };
    listeners.len() == balancer.listeners.len()
        && listeners.iter().all(same_listener)
        && pools.len() == balancer.pools.len()
        && pools.iter().all(same_pool)
}

/// Whether the policies of a listener are those that answers have shown. Rules are in no list but by their IDs.
fn policies_agree(seen: &SeenListener, row: &serde_json::Value, rows: &OwnerRows) -> bool {
    let named: BTreeSet<String> = ids(&row["l7policies"]).into_iter().collect();
    let same_policy = |seen: &SeenPolicy| {
        rows.policies.get(&seen.id).is_some_and(|row| {
            let rules: BTreeSet<String> = ids(&row["rules"]).into_iter().collect();
            named.contains(&seen.id)
                && SeenPolicy { rules: seen.rules.clone(), ..SeenPolicy::read(row) } == *seen
                && rules.len() == seen.rules.len()
                && seen.rules.iter().all(|one| rules.contains(&one.id))
        })
    };
    named.len() == seen.policies.len() && seen.policies.iter().all(same_policy)
}

/// Returns the owner's ports where a look after a change of ours need not search for them: answers have shown them since the last
/// search. Octavia gives the port of a load balancer its groups without saying so.
pub(crate) fn told_ports(cell: &Cell) -> Option<Vec<SeenPort>> {
    let ports = &cell.actor.seen().ports;
    let has_groups = match cell.wanted() {
        DesiredEntry::LoadBalancer(wanted) => !wanted.header.vip.security_groups.is_empty(),
        DesiredEntry::Deleting { .. } => true,
    };
    (ports.is_empty() || !has_groups).then(|| ports.clone())
}
