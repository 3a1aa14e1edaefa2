//! A port or floating IP of ours that somebody has taken the mark off, by another description for instance: a search does not find it
//! any more, and it would be left behind when its owner goes. As long as it is remembered it gets its mark again.

use std::time::Duration;

use serde_json::json;

use crate::actor::Actor;
use crate::change::CloudChange;
use crate::mark::is_marked;
use crate::seen::{Seen, SeenFloatingIp, SeenPort};
use crate::step::BalancerStep;

impl Actor {
    /// Keeps the ports that were seen before and are not found now, without the mark: those that load balancers of ours have, and
    /// all of an owner that goes.
    pub(crate) fn keep_unmarked(&self, seen: &mut Seen) {
        let is_kept = |port: &&SeenPort| {
            let is_vip = seen.balancers.iter().any(|one| one.vip_port == port.id);
            let is_found = seen.ports.iter().any(|one| one.id == port.id);
            !is_found && !port.is_anothers() && (is_vip || self.desired.is_deleting())
        };
        let unmarked = |port: &SeenPort| SeenPort { description: String::new(), revision: None, ..port.clone() };
        let kept: Vec<SeenPort> = self.seen.ports.iter().filter(is_kept).map(unmarked).collect();
        seen.ports.extend(kept);
    }

    /// Remembers the floating IPs that had the mark and are found without it, by the port that they lead to. One that is kept, or has
    /// the mark of another owner, is left to whoever has written that.
    pub(crate) fn find_unmarked(&mut self, seen: &Seen) {
        let had = |one: &SeenFloatingIp| {
            let before = self.seen.floating.iter().find(|before| before.id == one.id).map(|before| &before.description);
            before.filter(|words| self.mark.is_in(words)).or_else(|| self.memory.unmarked.get(&one.id)).cloned()
        };
        let unmarked = seen.floating.iter().filter(|one| !is_marked(&one.description) && !one.is_kept());
        self.memory.unmarked = unmarked.filter_map(|one| Some((one.id.clone(), had(one)?))).collect();
    }

    /// Returns the step that gives such a port its mark again.
    pub(crate) fn marked_again(&self, now: Duration) -> Option<BalancerStep> {
        let port = self.seen.ports.iter().find(|port| port.description.is_empty())?;
        let fields = json!({"description": self.mark.description()});
        let change = CloudChange::UpdatePort { id: port.id.clone(), revision: None, fields };
        self.unless_blocked(BalancerStep::Change(change), now)
    }
}
