//! Members of pools.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use gimbal_model::Protocol;

use crate::{PoolId, Text};

/// Names a listener within a load balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId {
    /// Transport protocol.
    pub protocol: Protocol,
    /// Number that clients connect to.
    pub port: u16,
}

/// Names a member within a load balancer. Octavia cannot change address and port of a member.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId {
    /// The pool that it is in.
    pub pool: PoolId,
    /// Its address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
}

/// A member of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredMember {
    /// Which member.
    pub id: MemberId,
    /// 1, or 0 while it serves only the connections that it has.
    pub weight: u8,
    /// Name for people.
    pub name: Option<Text>,
    /// Subnet that it is reached in; unset: that of the VIP.
    pub subnet: Option<Text>,
}

/// The members of all pools of a load balancer, each once, in the order of their [`MemberId`]s. Clones share them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DesiredMembers(Arc<[DesiredMember]>);

impl DesiredMembers {
    /// Returns members that come in any order. Of two with one identity the last one counts.
    #[must_use]
    pub fn new(mut members: Vec<DesiredMember>) -> Self {
        members.reverse();
        members.sort_by(|one, other| one.id.cmp(&other.id));
        members.dedup_by(|one, other| one.id == other.id);
        Self(members.into())
    }

    /// Returns them in order.
    #[must_use]
    pub fn as_slice(&self) -> &[DesiredMember] {
        &self.0
    }

    /// Returns those of one pool.
    #[must_use]
    pub fn of(&self, pool: &PoolId) -> &[DesiredMember] {
        let from = self.0.partition_point(|member| member.id.pool < *pool);
        let to = self.0.partition_point(|member| member.id.pool <= *pool);
        &self.0[from..to]
    }

    /// Returns one member.
    #[must_use]
    pub fn get(&self, id: &MemberId) -> Option<&DesiredMember> {
        self.0.binary_search_by(|member| member.id.cmp(id)).ok().map(|at| &self.0[at])
    }

    /// Returns at most `most` of these, and those that are left: of each pool alike, those first that take new connections, and among
    /// equals those that are there, so that one that serves does not give way to one that is new.
    #[must_use]
    pub fn split_at_most(&self, most: usize, is_there: impl Fn(&MemberId) -> bool) -> (Self, Self) {
        if self.0.len() <= most {
            return (self.clone(), Self::default());
        }
        let mut in_pools: Vec<&DesiredMember> = self.0.iter().collect();
        in_pools.sort_by_cached_key(|member| (member.weight == 0, !is_there(&member.id)));
        let mut places: BTreeMap<&PoolId, usize> = BTreeMap::new();
        let mut placed: Vec<(usize, &DesiredMember)> = Vec::with_capacity(in_pools.len());
        for member in in_pools {
            let place = places.entry(&member.id.pool).or_default();
            *place += 1;
            placed.push((*place, member));
        }
        placed.sort_by_key(|(place, _)| *place);
        let (first, left) = placed.split_at(most);
        let members =
            |part: &[(usize, &DesiredMember)]| Self::new(part.iter().map(|(_, one)| (*one).clone()).collect());
        (members(first), members(left))
    }

    /// Keeps once what is equal in these and in those before them.
    pub fn share(&mut self, before: &Self) {
        if *self == *before {
            self.0 = before.0.clone();
            return;
        }
        let same = |one: &DesiredMember| before.get(&one.id).filter(|before| *before == one).cloned();
        self.0 = self.0.iter().map(|one| same(one).unwrap_or_else(|| one.clone())).collect();
    }

    /// Sets these members and removes those, each at most once.
    pub(crate) fn apply(&mut self, changes: impl Iterator<Item = (MemberId, Option<DesiredMember>)>) {
        let mut members: BTreeMap<MemberId, DesiredMember> =
            self.0.iter().map(|member| (member.id.clone(), member.clone())).collect();
        for (id, member) in changes {
            match member {
                Some(member) => drop(members.insert(id, member)),
                None => drop(members.remove(&id)),
            }
        }
        self.0 = members.into_values().collect();
    }
}
