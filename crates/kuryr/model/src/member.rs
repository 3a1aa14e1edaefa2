//! Members of pools.

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
        let mut members: std::collections::BTreeMap<MemberId, DesiredMember> =
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
