//! Why a load balancer is offered as it is, or why not: counts and sentences.

use std::collections::BTreeMap;

use gimbal_model::SourceKey;

use crate::cloud::{Cloud, Standing};
use crate::rows::LoadBalancer;
use crate::safe_name::source_name;
use crate::{LeftOut, Skip};

impl Cloud {
    /// Everything that is left out now.
    pub fn left_out(&self) -> impl Iterator<Item = &LeftOut> {
        self.scopes.values().flat_map(|scope| scope.standings.values()).flat_map(|standing| &standing.left_out)
    }

    /// How much is left out now, by reason.
    #[must_use]
    pub fn skipped(&self) -> BTreeMap<Skip, u64> {
        let mut counts = BTreeMap::new();
        for left_out in self.left_out() {
            *counts.entry(left_out.skip).or_default() += 1;
        }
        counts
    }

    /// Why a source Service is offered as it is, or why not. A load balancer's ID will do for the name.
    #[must_use]
    pub fn explain(&self, key: &SourceKey) -> Vec<String> {
        if !self.projects.is_known() {
            return vec!["the cloud has not been read yet: nothing is offered until then".into()];
        }
        for scope in self.scopes.values() {
            for (id, standing) in &scope.standings {
                let row = scope.lists.load_balancers.get(id);
                if standing.services.iter().any(|(told, _)| told == key)
                    || row.is_some_and(|row| self.is_named(row, &key.name))
                {
                    return self.reasons(key, row.map(|row| &**row), standing);
                }
            }
        }
        let mut reasons = vec![format!("the cloud has no load balancer that would be Service {key}")];
        if !self.projects.assigned().any(|(_, namespace)| *namespace == key.namespace) {
            reasons.push(format!("no selected project has namespace {}", key.namespace));
        }
        reasons
    }

    fn is_named(&self, row: &LoadBalancer, name: &str) -> bool {
        name == row.id.as_str()
            || source_name(self.service_name(), row, None).as_ref() == name
            || name.starts_with(&format!("{}-", source_name(self.service_name(), row, None)))
    }

    fn reasons(&self, key: &SourceKey, row: Option<&LoadBalancer>, standing: &Standing) -> Vec<String> {
        let mut reasons = Vec::new();
        match row {
            Some(row) => reasons.push(format!("it stands for load balancer {} ({:?})", row.id, row.name)),
            None => reasons.push("its load balancer is not in the list any more".into()),
        }
        match self.projects.place(&standing.project) {
            Ok(place) => reasons.push(format!("project {} has namespace {}", standing.project, place.namespace)),
            Err(skip) => reasons.push(format!("it is not offered: {} ({})", skip.sentence(), skip.as_str())),
        }
        reasons.extend(self.projects.conflict(&standing.project).map(|trouble| trouble.to_string()));
        if let Some(held) = &standing.held {
            let what = if standing.services.is_empty() { "it waits" } else { "what was last known of it stands" };
            reasons.push(format!("{what}: {held}"));
        }
        if let Some((_, service)) = standing.services.iter().find(|(told, _)| told == key) {
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
