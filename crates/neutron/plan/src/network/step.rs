//! The next step: the first that applies.

use std::time::Instant;

use serde_json::json;

use super::memory::IN_THE_WAY;
use super::seen::{NetworkSeen, SeenInterface};
use super::{NetworkActor, NetworkChange, NetworkEntry, NetworkObstacle, NetworkWish, PortInTheWay, SeenNetwork};

/// What to do next about a network.
#[derive(Debug, Clone, PartialEq)]
pub enum NetworkStep {
    /// Read the networks with [`NetworkActor::description`], and the subnets and ports of these: [`NetworkActor::looked`].
    Look,
    /// Send one change, once: [`NetworkActor::answered`].
    Change(NetworkChange),
    /// Nothing until then.
    Wait(Instant),
    /// Everything is as it is wanted.
    Done,
    /// Nothing can be done until then, for this reason.
    Blocked(NetworkObstacle, Instant),
    /// Nothing of the owner is left.
    Gone,
}

impl NetworkActor {
    /// Returns the next step.
    #[must_use]
    pub fn step(&self, now: Instant) -> NetworkStep {
        if let Some((until, obstacle)) = self.memory.pause.as_ref().filter(|(until, _)| *until > now) {
            return NetworkStep::Blocked(obstacle.clone(), *until);
        }
        let (Some((seen, looked)), None) = (&self.seen, &self.memory.pause) else { return NetworkStep::Look };
        if let Some(at) = self.memory.next_look() {
            return if at > now { NetworkStep::Wait(at) } else { NetworkStep::Look };
        }
        match &self.entry {
            NetworkEntry::Wanted(wish) => self.make(wish, seen),
            NetworkEntry::Leaving { .. } => {
                let Some(network) = seen.networks.last() else { return NetworkStep::Gone };
                let in_the_way = self.in_the_way(network);
                if in_the_way.is_empty() {
                    return NetworkStep::Change(removal(network));
                }
                let until = *looked + IN_THE_WAY;
                if until <= now {
                    NetworkStep::Look
                } else {
                    NetworkStep::Blocked(NetworkObstacle::Ports(in_the_way), until)
                }
            }
        }
    }

    fn make(&self, wish: &NetworkWish, seen: &NetworkSeen) -> NetworkStep {
        let mark = self.description();
        let Some(network) = self.network() else {
            let body = json!({
                "project_id": &*wish.project, "name": &*wish.name, "description": mark, "admin_state_up": true,
            });
            return NetworkStep::Change(NetworkChange::CreateNetwork { body });
        };
        let Some(subnet) = self.subnet() else {
            let body = json!({
                "project_id": &*wish.project, "name": &*wish.name, "description": mark, "network_id": &*network.id,
                "subnetpool_id": &*wish.subnet_pool, "ip_version": 4, "enable_dhcp": false,
            });
            return NetworkStep::Change(NetworkChange::CreateSubnet { body });
        };
        if let Some(router) = &wish.router {
            let is_it = |one: &SeenInterface| one.router == *router && one.subnet == subnet.id;
            if !network.interfaces.iter().any(is_it) {
                let (router, subnet) = (router.clone(), subnet.id.clone());
                return NetworkStep::Change(NetworkChange::AddInterface { router, subnet });
            }
        }
        // What a lost answer has made a second time goes once the first one serves, unless somebody uses it.
        let twin = seen.networks.iter().find(|other| other.id != network.id && self.in_the_way(other).is_empty());
        if let Some(twin) = twin {
            return NetworkStep::Change(removal(twin));
        }
        let twin = network.subnets.iter().find(|other| other.id != subnet.id);
        let Some(twin) = twin.filter(|_| self.in_the_way(network).is_empty()) else { return NetworkStep::Done };
        NetworkStep::Change(match network.interfaces.iter().find(|one| one.subnet == twin.id) {
            Some(one) => NetworkChange::RemoveInterface { router: one.router.clone(), subnet: one.subnet.clone() },
            None => NetworkChange::DeleteSubnet { id: twin.id.clone() },
        })
    }

    /// Returns the ports that a network is removed after: each belongs to somebody, who removes it.
    fn in_the_way(&self, network: &SeenNetwork) -> Vec<PortInTheWay> {
        let router = self.entry.router();
        let others = network.interfaces.iter().filter(|one| Some(&one.router) != router);
        network.users.iter().chain(others.map(|one| &one.port)).cloned().collect()
    }
}

/// The next change of a network's removal: interfaces of the router, subnets, network.
fn removal(network: &SeenNetwork) -> NetworkChange {
    if let Some(SeenInterface { router, subnet, .. }) = network.interfaces.first().cloned() {
        NetworkChange::RemoveInterface { router, subnet }
    } else if let Some(subnet) = network.subnets.last() {
        NetworkChange::DeleteSubnet { id: subnet.id.clone() }
    } else {
        NetworkChange::DeleteNetwork { id: network.id.clone() }
    }
}
