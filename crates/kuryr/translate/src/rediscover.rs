//! Whether a status names what exists.

use gimbal_kuryr_crd::{KuryrLoadBalancer, KuryrLoadBalancerStatus};

/// What a status knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StatusKnowledge {
    /// It names what exists.
    Known,
    /// There is none, or it is empty: a new object, or someone has wiped it.
    Wiped,
    /// It has no load balancer.
    NoLoadBalancer,
    /// Its members were removed, all or some.
    MembersRemoved,
}

impl StatusKnowledge {
    /// Whether OpenStack has to be asked what exists before anything is made.
    #[must_use]
    pub fn needs_discovery(self) -> bool {
        self != Self::Known
    }
}

/// Returns what the status of an object knows. Someone who empties a status, or removes its members, asks for them to be
/// looked for in OpenStack, made again if they are not there, and filled in.
#[must_use]
pub fn status_knowledge(object: &KuryrLoadBalancer) -> StatusKnowledge {
    let slices = &object.spec.endpoint_slices;
    knowledge(object.status.as_ref(), || slices.iter().any(|slice| !slice.endpoints.is_empty()))
}

pub(crate) fn knowledge(
    status: Option<&KuryrLoadBalancerStatus>,
    has_endpoints: impl FnOnce() -> bool,
) -> StatusKnowledge {
    let Some(status) = status else { return StatusKnowledge::Wiped };
    if *status == KuryrLoadBalancerStatus::default() {
        return StatusKnowledge::Wiped;
    }
    if status.loadbalancer.is_none() {
        return StatusKnowledge::NoLoadBalancer;
    }
    let listed = i64::try_from(status.members.len()).unwrap_or(i64::MAX);
    let removed = match status.member_count {
        Some(count) if status.members_truncated == Some(true) => listed == 0 && count > 0,
        Some(count) => listed < count,
        // Kuryr did not count. Looking once too often changes nothing.
        None => listed == 0 && has_endpoints(),
    };
    if removed { StatusKnowledge::MembersRemoved } else { StatusKnowledge::Known }
}
