//! Tags that everything carries besides the mark: `resource_tags` of the configuration.
//!
//! Neutron's objects are found by their description and get tags in a request of their own, after they are made.

use std::time::Duration;

use gimbal_kuryr_model::{DesiredEntry, Text};

use crate::actor::Actor;
use crate::change::CloudChange;
use crate::mark::{Mark, with_missing};
use crate::seen::SeenBalancer;
use crate::step::BalancerStep;

/// Returns the tags of a member.
pub(crate) fn member_tags(mark: &Mark, resource_tags: &[Text]) -> Vec<String> {
    std::iter::once(mark.owner_tag()).chain(resource_tags.iter().map(ToString::to_string)).collect()
}

impl Actor {
    /// Returns the change that gives an object of Neutron a tag that it lacks.
    pub(crate) fn neutron_tags_step(&self, balancer: &SeenBalancer, now: Duration) -> Option<BalancerStep> {
        if self.resource_tags.is_empty() {
            return None;
        }
        let own: Vec<String> = self.resource_tags.iter().map(ToString::to_string).collect();
        let wanted: Vec<String> = self.mark.tags().into_iter().chain(own).collect();
        let port = self.own_port(balancer).and_then(|port| {
            let tags = with_missing(&port.tags, &wanted)?;
            Some(CloudChange::TagPort { id: port.id.clone(), tags })
        });
        let is_wanted = matches!(&self.desired, DesiredEntry::LoadBalancer(wanted) if wanted.header.floating.is_some());
        let ours = self.seen.floating.iter().filter(|one| is_wanted && self.mark.is_in(&one.description));
        let mut floating = ours.filter_map(|one| {
            let tags = with_missing(&one.tags, &wanted)?;
            Some(CloudChange::TagFloatingIp { id: one.id.clone(), tags })
        });
        let change = port.or_else(|| floating.next())?;
        self.unless_blocked(BalancerStep::Change(change), now)
    }
}
