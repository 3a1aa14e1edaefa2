//! Who may connect. Ranges are set in a request of their own, so that a range which Octavia refuses takes nothing else along,
//! and before anything else where fewer clients than before may connect.

use std::time::Duration;

use gimbal_kuryr_model::{ClientRanges, ListenerId};
use serde_json::{Value, json};

use crate::actor::Actor;
use crate::change::CloudChange;
use crate::children::listener_at;
use crate::memory::PlanPart;
use crate::seen::{SeenBalancer, SeenListener};
use crate::step::{BalancerStep, Block};
use crate::target::WantedBalancer;

impl Actor {
    /// Returns the next change that lets fewer clients connect.
    pub(crate) fn tightened(
        &self,
        target: &WantedBalancer<'_>,
        balancer: &SeenBalancer,
        wanted: &[ListenerId],
        now: Duration,
    ) -> Option<BalancerStep> {
        wanted.iter().find_map(|id| {
            // One of ours is closed before it is made anew for another protocol, which may have to wait.
            let ours = || listener_at(balancer, *id).filter(|seen| self.mark.is_on(&seen.tags));
            let seen = self.managed_listener(target, balancer, *id).or_else(ours)?;
            let ranges = target.clients(*id);
            let closed = || self.unless_blocked(update(seen, json!({"admin_state_up": false})), now);
            if *ranges == ClientRanges::NoOne {
                return if seen.admin_state_up { closed() } else { None };
            }
            if covers(&ranges, &seen.allowed_cidrs) {
                return None;
            }
            // What is refused must not stay open for those who may not connect any more.
            match self.memory.block_of(&PlanPart::Ranges(*id), now) {
                Some(Block::Invalid(_) | Block::Unsupported(_)) if seen.admin_state_up => closed(),
                Some(_) => None,
                None => Some(update(seen, json!({"allowed_cidrs": cidrs(&ranges)}))),
            }
        })
    }

    /// Returns the change that lets more clients connect.
    pub(crate) fn loosened(
        &self,
        seen: &SeenListener,
        target: &WantedBalancer<'_>,
        id: ListenerId,
    ) -> Option<BalancerStep> {
        let ranges = target.clients(id);
        if target.is_exposed || *ranges == ClientRanges::NoOne || is_same(&ranges, &seen.allowed_cidrs) {
            return None;
        }
        Some(update(seen, json!({"allowed_cidrs": cidrs(&ranges)})))
    }
}

/// Whether a listener may be open: exactly those who are wanted can connect.
pub(crate) fn may_open(ranges: &ClientRanges, seen: &SeenListener) -> bool {
    *ranges != ClientRanges::NoOne && is_same(ranges, &seen.allowed_cidrs)
}

fn update(seen: &SeenListener, fields: Value) -> BalancerStep {
    BalancerStep::Change(CloudChange::UpdateListener { id: seen.id.clone(), fields })
}

fn cidrs(ranges: &ClientRanges) -> Vec<String> {
    match ranges {
        ClientRanges::Only(ranges) => ranges.iter().map(ToString::to_string).collect(),
        ClientRanges::Everyone | ClientRanges::NoOne => Vec::new(),
    }
}

fn is_same(ranges: &ClientRanges, seen: &[String]) -> bool {
    let (mut wanted, mut seen) = (cidrs(ranges), seen.to_vec());
    wanted.sort();
    seen.sort();
    wanted == seen
}

/// Whether everybody who can connect now is wanted. An empty list means everybody, for Octavia.
pub(crate) fn covers(ranges: &ClientRanges, seen: &[String]) -> bool {
    let ClientRanges::Only(ranges) = ranges else { return *ranges == ClientRanges::Everyone };
    let is_wanted = |cidr: &String| {
        let net = cidr.parse::<ipnet::IpNet>();
        net.is_ok_and(|net| ranges.iter().any(|range| range.contains(&net)))
    };
    !seen.is_empty() && seen.iter().all(is_wanted)
}
