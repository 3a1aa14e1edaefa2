//! Which of several load balancers of one owner is which.

use crate::actor::Actor;
use crate::mark::replaces_tag;
use crate::seen::{Provisioning, SeenBalancer};

/// The load balancers of one owner.
#[derive(Debug)]
pub(crate) struct Lineup<'a> {
    /// The one that serves.
    pub(crate) current: &'a SeenBalancer,
    /// Those that were made to take its place, the oldest first: of several wishes, and twins.
    pub(crate) successors: Vec<&'a SeenBalancer>,
    /// Those that serve no more, and the twins of lost creations.
    pub(crate) others: Vec<&'a SeenBalancer>,
}

impl Actor {
    /// Returns who serves: the oldest to which the floating IP leads, else the oldest; or its successor, once that one is being
    /// deleted. `None` without any.
    pub(crate) fn lineup(&self) -> Option<Lineup<'_>> {
        let mut all: Vec<&SeenBalancer> = self.seen.balancers.iter().collect();
        all.sort_by_key(|one| (&one.created_at, &one.id));
        let leads_to =
            |one: &SeenBalancer| self.seen.floating.iter().any(|ip| ip.port.as_deref() == Some(&*one.vip_port));
        // A twin whose creation came late may be older than the one that clients reach.
        let serving = all.iter().copied().find(|one| leads_to(one)).or_else(|| all.first().copied())?;
        let tag = replaces_tag(&serving.id);
        let (mut successors, mut others): (Vec<_>, Vec<_>) =
            all.into_iter().filter(|one| one.id != serving.id).partition(|one| one.tags.contains(&tag));
        if serving.provisioning == Provisioning::PendingDelete && !successors.is_empty() {
            let current = successors.remove(0);
            others.append(&mut successors);
            others.push(serving);
            return Some(Lineup { current, successors, others });
        }
        Some(Lineup { current: serving, successors, others })
    }
}
