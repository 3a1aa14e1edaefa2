//! A port of ours with a load balancer that is not ours.
//!
//! Somebody has taken the mark off the load balancer, or made another one on the port. What is not marked is never touched, and
//! without its port it would answer no client. So nothing is made on that port, and it is not deleted: it stays where it is until the
//! load balancer goes or has its mark again, and when the owner goes it loses the mark as well.

use std::time::Duration;

use serde_json::{Value, json};

use crate::actor::Actor;
use crate::change::CloudChange;
use crate::mark::is_word_of_mark;
use crate::memory::PlanPart;
use crate::seen::{Seen, SeenPort};
use crate::step::{BalancerStep, Block, CloudLook, Wait};

/// How long to wait before looking again whether the port is free.
const GIVEN_AWAY_FOR: Duration = Duration::from_secs(300);
/// How long to wait before looking again whether a load balancer that is being deleted is gone.
const GOES_WITHIN: Duration = Duration::from_secs(10);

impl Actor {
    /// Takes note that nothing can be made because of such a port, or that it can be.
    pub(crate) fn find_given_away(&mut self, now: Duration) {
        let was_in_the_way = std::mem::take(&mut self.memory.given_away);
        let Some(port) = self.port_in_the_way() else {
            if was_in_the_way {
                self.memory.address_found();
            }
            return;
        };
        let words = format!(
            "load balancer {} has port {} of this owner and does not carry the mark of the owner: adopt it, or delete it",
            port.user, port.id
        );
        self.memory.given_away = true;
        self.memory.block(PlanPart::Balancer, Block::Conflict(words), now + GIVEN_AWAY_FOR);
    }

    /// Returns such a port if it is to be waited for: where there is a load balancer, or another port for one, it is not.
    fn port_in_the_way(&self) -> Option<&SeenPort> {
        let Seen { balancers, ports, .. } = &*self.seen;
        let waits = !self.desired.is_deleting() && balancers.is_empty() && ports.iter().all(SeenPort::is_anothers);
        ports.first().filter(|_| waits)
    }

    fn given_away(&self) -> Option<&SeenPort> {
        self.seen.ports.iter().find(|port| port.is_anothers())
    }

    /// Returns what there is to do before a load balancer is made, if such a port is known: what the last look has found, or
    /// another look where that is long ago.
    pub(crate) fn port_given_away(&self, now: Duration) -> Option<BalancerStep> {
        self.port_in_the_way()?;
        let blocked = self.memory.left_alone(&PlanPart::Balancer, now);
        Some(blocked.unwrap_or(BalancerStep::Look(CloudLook::Owner)))
    }

    /// Returns the step that takes the mark off such a port: first the tags, for it is found by its description. A look comes right
    /// before, since the port of a load balancer that has gone meanwhile would stay without a mark; so would that of one that goes.
    pub(crate) fn port_left_behind(&self, now: Duration) -> Option<BalancerStep> {
        let port = self.given_away()?;
        if !self.memory.has_just_looked(now) {
            return Some(BalancerStep::Look(CloudLook::Owner));
        }
        if port.user_goes {
            return Some(BalancerStep::Wait(Wait::Until(now + GOES_WITHIN)));
        }
        let is_mark = |word: &str| is_word_of_mark(word, &self.mark.cluster_uid, &self.mark.cluster);
        let id = port.id.clone();
        let change = match port.tags.iter().any(|tag| is_mark(tag)) {
            true => {
                let tags = port.tags.iter().filter(|tag| !is_mark(tag)).map(|tag| json!(tag)).collect();
                CloudChange::TagPort { id, tags }
            }
            false => {
                // What a person has written there stays.
                let words: Vec<&str> = port.description.split_whitespace().filter(|word| !is_mark(word)).collect();
                CloudChange::UpdatePort { id, revision: port.revision, fields: json!({"description": words.join(" ")}) }
            }
        };
        Some(BalancerStep::Change(change))
    }

    /// A port without the mark is not the owner's any more.
    pub(crate) fn forget_released(&mut self, fields: &Value, id: &str) {
        if fields["description"].as_str().is_some_and(|words| !self.mark.is_in(words)) {
            self.seen.ports.retain(|port| port.id != *id);
        }
    }
}
