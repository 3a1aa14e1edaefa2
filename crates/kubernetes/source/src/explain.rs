//! Why a Service is offered as it is, or why not, in sentences.

use gimbal_kubernetes_join::{Join, JoinOutput as _, ServiceRecord};
use gimbal_model::SourceKey;

use crate::Omission;
use crate::join_output::{Offers, ServiceHeader};
use crate::selection::{Flavour, Selection};
use crate::slice_content::SliceContent;

/// Most objects that a sentence names.
const NAMED: usize = 3;

pub(crate) fn explain(selection: &Selection, join: &Join<Offers>, key: &SourceKey) -> Vec<String> {
    let mut reasons = Vec::new();
    if !join.is_complete() {
        reasons.push("the source has not been read completely yet: nothing is offered until then".into());
    }
    let not_offered = |skip: Omission| format!("Service {key} is not offered: {}", skip.sentence());
    if let Some(skip) = selection.against_namespace(&key.namespace) {
        reasons.push(not_offered(skip));
        return reasons;
    }
    let Some((entry, header)) = join.entry(key).and_then(|entry| Some((entry, entry.header()?))) else {
        reasons.push(format!("the source has no Service {key}"));
        return reasons;
    };
    if let Err(skip) = header.header {
        reasons.push(not_offered(skip));
        return reasons;
    }
    if header.bad_ports > 0 {
        reasons.push(format!("{} of its ports cannot be represented and are left out", header.bad_ports));
    }
    if header.affinity {
        reasons.push(Omission::SessionAffinity.sentence().into());
    }
    reasons.extend(endpoint_reasons(selection.flavour, key, header, entry));
    reasons
}

fn endpoint_reasons(
    flavour: Flavour,
    key: &SourceKey,
    header: &ServiceHeader,
    entry: &ServiceRecord<ServiceHeader, SliceContent>,
) -> Vec<String> {
    let kind = flavour.kind();
    let mut reasons = Vec::new();
    let objects = entry.parts().len();
    if objects == 0 {
        reasons.push(format!("Service {key} has no endpoints: the source has no {kind} for it"));
    } else if let Some(service) = Offers::join(header, entry.parts().map(|(_, part)| part)) {
        let ready = service.endpoints().filter(|(_, endpoint)| endpoint.conditions.ready).count();
        let count = service.endpoint_count();
        let named: Vec<&str> = entry.parts().map(|(name, _)| &**name).take(NAMED).collect();
        let more = if objects > NAMED { format!(" and {} more", objects - NAMED) } else { String::new() };
        reasons.push(format!(
            "Service {key} has {count} endpoints, {ready} of them ready, from {objects} {kind} objects: {}{more}",
            named.join(", ")
        ));
    }
    for (name, part) in entry.parts() {
        if let Some(skip) = part.skip {
            reasons.push(format!("{kind} {name} is left out: {}", skip.sentence()));
        }
        if part.bad_addresses > 0 {
            reasons.push(format!(
                "{kind} {name}: {} endpoints without a readable address are left out",
                part.bad_addresses
            ));
        }
    }
    reasons
}
