//! Why a Service is offered as it is, or why not, in sentences.

use gimbal_model::SourceKey;

use crate::index::Entry;
use crate::selection::Flavour;
use crate::{KubernetesIndex, Skip};

impl KubernetesIndex {
    /// Why a source Service is offered as it is, or why not.
    #[must_use]
    pub fn explain(&self, key: &SourceKey) -> Vec<String> {
        let mut reasons = Vec::new();
        if !self.is_complete() {
            reasons.push("the source has not been read completely yet: nothing is offered until then".into());
        }
        if let Some(skip) = self.selection.against_namespace(&key.namespace) {
            reasons.push(format!("Service {key} is not offered: {}", skip.sentence()));
            return reasons;
        }
        let entry = self.entries.get(key);
        let Some(held) = entry.and_then(|entry| entry.service.as_ref()) else {
            reasons.push(format!("the source has no Service {key}"));
            return reasons;
        };
        if let Err(skip) = held.header {
            reasons.push(format!("Service {key} is not offered: {}", skip.sentence()));
            return reasons;
        }
        if held.bad_ports > 0 {
            reasons.push(format!("{} of its ports cannot be represented and are left out", held.bad_ports));
        }
        if held.affinity {
            reasons.push(Skip::SessionAffinity.sentence().into());
        }
        if let Some(entry) = entry {
            reasons.extend(self.endpoint_reasons(key, entry));
        }
        reasons
    }

    fn endpoint_reasons(&self, key: &SourceKey, entry: &Entry) -> Vec<String> {
        let what = match self.selection.flavour {
            Flavour::Slices => "EndpointSlice",
            Flavour::Endpoints => "Endpoints",
        };
        let mut reasons = Vec::new();
        if entry.parts.is_empty() {
            reasons.push(format!("Service {key} has no endpoints: the source has no {what} for it"));
        } else if let Some(service) = entry.service() {
            let ready = service.endpoints().filter(|(_, endpoint)| endpoint.conditions.ready).count();
            let count = service.endpoint_count();
            let objects = entry.parts.len();
            reasons.push(format!(
                "Service {key} has {count} endpoints, {ready} of them ready, from {objects} {what} objects"
            ));
        }
        for held in &entry.parts {
            if let Some(skip) = held.part.skip {
                reasons.push(format!("{what} {} is left out: {}", held.name, skip.sentence()));
            }
            if held.part.bad_addresses > 0 {
                let count = held.part.bad_addresses;
                reasons
                    .push(format!("{what} {}: {count} endpoints without a readable address are left out", held.name));
            }
        }
        reasons
    }
}
