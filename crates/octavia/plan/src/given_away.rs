//! A port of ours with a load balancer that is not ours.
//!
//! Somebody has taken the mark off the load balancer, or made another one on the port. What is not marked is never touched, and
//! without its port it would answer nobody. So nothing is made on that port, and it is not deleted: it stays where it is until the
//! load balancer goes or has its mark again, and when the owner goes it loses the mark as well.

use std::time::Duration;

use serde_json::{Value, json};

use crate::actor::Actor;
use crate::change::CloudChange;
use crate::mark::is_word_of_mark;
use crate::memory::PlanPart;
use crate::seen::SeenPort;
use crate::step::{BalancerStep, Block, CloudLook};

/// How long to wait before looking again whether the port is free.
const GIVEN_AWAY_FOR: Duration = Duration::from_secs(300);

impl Actor {
    /// Takes note that nothing can be made because of such a port. Where there is a load balancer, it has another port.
    pub(crate) fn find_given_away(&mut self, now: Duration) {
        if self.desired.is_deleting() || !self.seen.balancers.is_empty() {
            return;
        }
        let Some(port) = self.given_away() else { return };
        let words = format!(
            "load balancer {} has port {} of this owner and does not carry the mark of the owner: adopt it, or delete it",
            port.user, port.id
        );
        self.memory.block(PlanPart::Balancer, Block::Conflict(words), Some(now + GIVEN_AWAY_FOR));
    }

    fn given_away(&self) -> Option<&SeenPort> {
        self.seen.ports.iter().find(|port| port.is_anothers())
    }

    /// Returns what there is to do before a load balancer is made, if such a port is known: what the last look has found, or
    /// another look where that is long ago.
    pub(crate) fn port_given_away(&self, now: Duration) -> Option<BalancerStep> {
        self.given_away()?;
        let blocked = self.memory.left_alone(&PlanPart::Balancer, now);
        Some(blocked.unwrap_or(BalancerStep::Look(CloudLook::Owner)))
    }

    /// Returns the change that takes the mark off such a port: first the tags, for it is found by its description.
    pub(crate) fn port_left_behind(&self) -> Option<CloudChange> {
        let port = self.given_away()?;
        let is_mark = |word: &str| is_word_of_mark(word, &self.mark.cluster_uid, &self.mark.cluster);
        if port.tags.iter().any(|tag| is_mark(tag)) {
            let tags: Value = port.tags.iter().filter(|tag| !is_mark(tag)).map(|tag| json!(tag)).collect();
            return Some(CloudChange::TagPort { id: port.id.clone(), tags });
        }
        let fields = json!({"description": ""});
        Some(CloudChange::UpdatePort { id: port.id.clone(), revision: port.revision, fields })
    }

    /// A port without the mark is not the owner's any more.
    pub(crate) fn forget_released(&mut self, fields: &Value, id: &str) {
        if fields.get("description").is_some() {
            self.seen.ports.retain(|port| port.id != *id);
        }
    }
}
