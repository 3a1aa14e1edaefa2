//! Where one address of a Service is in the source, and why it is offered as it is.

use std::net::IpAddr;
use std::sync::Arc;

use gimbal_kubernetes_join::Join;
use gimbal_model::{AddressInSource, AddressObject, Conditions, SourceKey};

use crate::join_output::Offers;
use crate::selection::Selection;
use crate::slice_content::SliceContent;

pub(crate) fn explain_address(
    selection: &Selection,
    join: &Join<Offers>,
    key: &SourceKey,
    address: IpAddr,
) -> AddressInSource {
    let kind = selection.flavour.kind();
    // Why there is no such Service, and nothing of it, is said of the Service itself.
    let Some(record) = join.entry(key).filter(|record| record.header().is_some()) else {
        return AddressInSource::default();
    };
    let object = |(name, part): (&Arc<str>, &SliceContent)| {
        let of_groups = part.groups.iter().filter_map(|(_, endpoints)| endpoints.get(address));
        let conditions = of_groups.map(|endpoint| endpoint.conditions).reduce(Conditions::better)?;
        Some(AddressObject { kind, name: name.clone(), conditions })
    };
    let objects: Vec<AddressObject> = record.parts().filter_map(object).collect();
    let mut reasons = Vec::new();
    if objects.is_empty() {
        let read = record.parts().filter(|(_, part)| part.skip.is_none()).count();
        reasons.push(match read {
            0 => format!("the source has no {kind} for Service {key} that can be read"),
            1 => format!("the only {kind} of Service {key} has no endpoint with it"),
            read => format!("none of the {read} {kind} objects of Service {key} has an endpoint with it"),
        });
    }
    let not_ready = objects.iter().filter(|object| !object.conditions.ready);
    reasons.extend(not_ready.map(|AddressObject { name, conditions, .. }| match conditions.terminating {
        true => format!("{kind} {name} has it as terminating, and not ready"),
        false => format!("{kind} {name} has it as not ready"),
    }));
    if objects.len() > 1 {
        reasons.push("several objects have it: where they have the same ports, the better endpoint is offered".into());
    }
    AddressInSource { objects, reasons }
}
