//! Whose routes policies have: their names say so, and nothing else does when they are not wanted any more. A policy that others have
//! taken over has the name of those before them until it is renamed.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kuryr_model::{DesiredEntry, Text};

use crate::actor::Actor;
use crate::routing::content::{content, wanted_content};
use crate::routing::early::without_redirects;
use crate::routing::fold::{WantedPolicy, fold};
use crate::seen_policy::SeenPolicy;

impl Actor {
    /// Returns whose routes a policy has or had; an empty name for others that nothing says.
    pub(crate) fn names_of(&self, seen: &SeenPolicy) -> BTreeSet<Text> {
        let others = self.memory.also_named.get(&seen.id);
        WantedPolicy::names_in(&seen.name).into_iter().chain(others.into_iter().flatten().cloned()).collect()
    }

    /// Takes note, before something else is wanted, of who has policies that still have another name.
    pub(crate) fn note_names(&mut self, next: &DesiredEntry) {
        let (DesiredEntry::LoadBalancer(wanted), DesiredEntry::LoadBalancer(next)) = (&self.desired, next) else {
            return;
        };
        let routing = wanted.header.routing.as_deref();
        let routes = next.header.routing.as_deref().map(|routing| &routing.routes);
        let Some(routing) = routing.filter(|routing| Some(&routing.routes) != routes) else { return };
        let routing = without_redirects(routing, &self.redirects_for_now(wanted));
        let ids = wanted.header.listeners.iter().map(|wish| wish.id);
        let policies = ids.flat_map(|id| fold(&routing, id).policies);
        let wanted: BTreeMap<String, WantedPolicy> = policies.map(|one| (wanted_content(&one), one)).collect();
        let listeners = self.seen.balancers.iter().flat_map(|one| &one.listeners);
        let mut named: BTreeMap<String, BTreeSet<Text>> = BTreeMap::new();
        for seen in listeners.flat_map(|one| &one.policies).filter(|one| self.mark.is_on(&one.tags)) {
            let holder = wanted.get(&content(&seen.action, &seen.rules));
            let mut names = self.memory.also_named.get(&seen.id).cloned().unwrap_or_default();
            match holder {
                // It has the names of all that it belongs to.
                Some(policy) if policy.name() == seen.name => continue,
                Some(policy) => names.extend(policy.names.iter().cloned()),
                None => {}
            }
            if !names.is_empty() {
                named.insert(seen.id.clone(), names);
            }
        }
        self.memory.also_named = named;
    }
}
