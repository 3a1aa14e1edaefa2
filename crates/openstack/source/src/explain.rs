//! Explains why a load balancer is published as it is, or why not, with counts and sentences.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_model::SourceKey;
use gimbal_octavia_rows::LoadBalancer;

use crate::poller::{CloudPoller, PublishedBalancer, ScopePoller};
use crate::safe_name::source_name;
use crate::skip::{LeftOut, SkipReason};

impl CloudPoller {
    /// Returns every object that is left out now.
    pub fn left_out(&self) -> impl Iterator<Item = &LeftOut> {
        self.scopes().flat_map(|scope| scope.standings().values()).flat_map(|standing| &standing.left_out)
    }

    /// Returns the number of objects that are left out now, by reason.
    #[must_use]
    pub fn skipped(&self) -> BTreeMap<SkipReason, u64> {
        let mut counts = BTreeMap::new();
        for left_out in self.left_out() {
            *counts.entry(left_out.skip).or_default() += 1;
        }
        counts
    }

    /// Explains why a source Service is published as it is, or why not. The key's name may also be a load balancer's
    /// ID.
    #[must_use]
    pub fn explain(&self, key: &SourceKey) -> Vec<String> {
        if !self.projects().is_known() {
            return vec!["the cloud has not been read yet: nothing is offered until then".into()];
        }
        for scope in self.scopes() {
            for (id, standing) in scope.standings() {
                let row = scope.lists().load_balancers.get(id);
                if standing.services.iter().any(|(published, _)| published == key)
                    || row.is_some_and(|row| self.is_named(row, &key.name))
                {
                    let mut reasons = self.reasons(key, row.map(|row| &**row), standing);
                    reasons.extend(row.into_iter().flat_map(|row| not_carried(scope, row)));
                    return reasons;
                }
            }
        }
        let mut reasons = vec![format!("the cloud has no load balancer that would be Service {key}")];
        if !self.projects().assigned().any(|(_, namespace)| *namespace == key.namespace) {
            reasons.push(format!("no selected project has namespace {}", key.namespace));
        }
        reasons
    }

    fn is_named(&self, row: &LoadBalancer, name: &str) -> bool {
        name == row.id.as_str()
            || source_name(self.service_name(), row, None).as_ref() == name
            || name.starts_with(&format!("{}-", source_name(self.service_name(), row, None)))
    }

    fn reasons(&self, key: &SourceKey, row: Option<&LoadBalancer>, standing: &PublishedBalancer) -> Vec<String> {
        let mut reasons = Vec::new();
        match row {
            Some(row) => reasons.push(format!("it is published for load balancer {} ({:?})", row.id, row.name)),
            None => reasons.push("its load balancer is not in the list any more".into()),
        }
        match self.projects().place(&standing.project) {
            Ok(place) => reasons.push(format!("project {} has namespace {}", standing.project, place.namespace)),
            Err(skip) => reasons.push(format!("it is not offered: {} ({})", skip.sentence(), skip.as_str())),
        }
        reasons.extend(self.projects().conflict(&standing.project).map(|trouble| trouble.to_string()));
        if let Some(held) = &standing.held {
            let what =
                if standing.services.is_empty() { "it waits" } else { "what was last known of it stays published" };
            reasons.push(format!("{what}: {held}"));
        }
        if let Some((_, service)) = standing.services.iter().find(|(published, _)| published == key) {
            let ready = service.endpoints().filter(|(_, endpoint)| endpoint.conditions.ready).count();
            reasons.push(format!(
                "Service {key} has {} ports and {} endpoints, {ready} of them ready",
                service.header.ports.len(),
                service.endpoint_count()
            ));
        }
        reasons.extend(standing.left_out.iter().map(ToString::to_string));
        reasons
    }
}

/// Returns what a load balancer does and its Service does not, because Gimbal sends traffic to the members directly.
fn not_carried(scope: &ScopePoller, row: &LoadBalancer) -> Vec<String> {
    let belongings = scope.lists().belongings();
    let mut sentences = Vec::new();
    let mut pools = BTreeSet::new();
    for listener in belongings.listeners.get(&row.id).into_iter().flatten() {
        if listener.restricted {
            sentences.push(format!(
                "listener {} takes connections of some addresses only (allowed_cidrs); traffic through Gimbal is not \
                 restricted so",
                listener.id
            ));
        }
        pools.extend(listener.default_pool_id.as_ref().and_then(|id| scope.lists().pools.get(id)).map(|pool| &pool.id));
    }
    for pool in pools.into_iter().filter_map(|id| scope.lists().pools.get(id)) {
        let members = scope.members_of(pool);
        let weights: BTreeSet<u32> = members.map(|member| member.weight).filter(|weight| *weight > 0).collect();
        if weights.len() > 1 {
            let weights: Vec<String> = weights.iter().map(ToString::to_string).collect();
            let weights = weights.join(", ");
            sentences.push(format!(
                "the weights of the members of pool {} ({weights}) are not carried: each gets the same share",
                pool.id
            ));
        }
        if pool.sticky {
            sentences.push(format!("the session_persistence of pool {} is not carried", pool.id));
        }
    }
    sentences
}
