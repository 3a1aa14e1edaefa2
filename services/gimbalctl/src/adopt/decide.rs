//! Which objects of the original Gimbal may get the writer's mark now. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kubernetes_objects::{Endpoints, Kind, Meta, Object as _, Service, keys};
use gimbal_model::label_value;

use super::ready::{ReadyEndpoint, in_endpoints};

/// The labels in which versions of the original name the backend of an object: since 2020, until 0.4.0, and 0.1.0.
pub const BACKEND_LABELS: [&str; 3] = [keys::BACKEND, "gimbal.heptio.com/backend", "gimbal.heptio.com/cluster"];
/// The labels in which they name the source Service.
const SERVICE_LABELS: [&str; 2] = [keys::SERVICE, "gimbal.heptio.com/service"];

/// Namespace and name in the Gimbal cluster.
pub type ObjectPlace = (String, String);

/// What there is of one backend in the Gimbal cluster, whoever made it.
#[derive(Debug, Clone, Default)]
pub struct FoundObjects {
    /// Services with one of the labels.
    pub services: Vec<Service>,
    /// Endpoints objects with one of the labels.
    pub endpoints: Vec<Endpoints>,
    /// The ready endpoints in the writer's slices, by Service.
    pub published: BTreeMap<ObjectPlace, BTreeSet<ReadyEndpoint>>,
}

/// What the writer knows of a Service that the backend offers.
#[derive(Debug, Clone, Default)]
pub struct AdoptionOffer {
    /// Its name in the source.
    pub name: String,
    /// Why the writer would not publish it though the name were its own.
    pub refused: Option<String>,
    /// Whether it is published as the source has it.
    pub synced: bool,
}

/// The offers, by the Service of the Gimbal cluster that each leads to.
pub type AdoptionOffers = BTreeMap<ObjectPlace, Vec<AdoptionOffer>>;

/// What is to be done with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It gets the mark now.
    Take,
    /// It gets the mark when this is over.
    Wait(String),
    /// It stays as it is, for this reason.
    Leave(String),
}

/// An object without the mark, and what is to be done with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// Its kind: Service or Endpoints.
    pub kind: Kind,
    /// Its metadata as it was read.
    pub meta: Meta,
    /// What is to be done.
    pub verdict: Verdict,
}

/// What is known of the Service of an Endpoints object.
enum ItsService<'a> {
    Ours,
    Unmarked(&'a Verdict),
}

/// Decides about each object that has no mark. Endpoints get it only when the writer's slices have all their ready endpoints, so
/// that no consumer sees fewer; with `drop_gone` also where the source has no others any more.
pub fn decide(found: &FoundObjects, offers: &AdoptionOffers, drop_gone: bool) -> Vec<Decided> {
    let unmarked = found.services.iter().filter(|service| !has_mark(&service.metadata));
    let mut decided: Vec<Decided> = unmarked
        .map(|service| Decided {
            kind: Service::KIND,
            meta: service.metadata.clone(),
            verdict: of_service(service, offers),
        })
        .collect();
    let marked = found.services.iter().filter(|service| has_mark(&service.metadata));
    let mut services: BTreeMap<ObjectPlace, ItsService<'_>> =
        marked.map(|service| (place(&service.metadata), ItsService::Ours)).collect();
    services.extend(decided.iter().map(|one| (place(&one.meta), ItsService::Unmarked(&one.verdict))));
    let unmarked = found.endpoints.iter().filter(|endpoints| !has_mark(&endpoints.metadata));
    let endpoints: Vec<Decided> = unmarked
        .map(|endpoints| {
            let place = place(&endpoints.metadata);
            let verdict = match services.get(&place) {
                None => Verdict::Leave("it has no Service with the labels of this backend".to_owned()),
                Some(service) => of_endpoints(endpoints, service, found, offers, drop_gone),
            };
            Decided { kind: Endpoints::KIND, meta: endpoints.metadata.clone(), verdict }
        })
        .collect();
    decided.extend(endpoints);
    decided
}

/// Returns the namespace and the name of an object.
pub fn place(meta: &Meta) -> ObjectPlace {
    (meta.namespace.to_string(), meta.name.to_string())
}

fn has_mark(meta: &Meta) -> bool {
    meta.labels.get(keys::MANAGED_BY).is_some_and(|manager| **manager == *keys::MANAGER)
}

/// Returns why an object of any kind is to be left alone.
fn left_alone(meta: &Meta) -> Option<String> {
    if meta.deletion_timestamp.is_some() {
        return Some("it is being deleted".to_owned());
    }
    let manager = meta.labels.get(keys::MANAGED_BY)?;
    Some(format!("its label {} names {manager:?}", keys::MANAGED_BY))
}

fn of_service(service: &Service, offers: &AdoptionOffers) -> Verdict {
    let Service { metadata, spec } = service;
    if let Some(why) = left_alone(metadata) {
        return Verdict::Leave(why);
    }
    if !spec.selector.is_empty() {
        return Verdict::Leave("it has a selector, so the original did not make it".to_owned());
    }
    // The writer would have to delete it and make it anew.
    if spec.cluster_ip.as_deref() != Some("None") {
        return Verdict::Leave("it is not headless, so the original did not make it".to_owned());
    }
    let Some(offers) = offers.get(&place(metadata)) else {
        return Verdict::Leave("nothing that the backend offers leads to this name".to_owned());
    };
    let named = SERVICE_LABELS.iter().find_map(|label| metadata.labels.get(*label));
    let is_named = |offer: &&AdoptionOffer| named.is_some_and(|named| **named == *label_value(&offer.name));
    let Some(offer) = offers.iter().find(is_named) else {
        return Verdict::Leave(
            "its labels name another source Service than the one that leads to this name".to_owned(),
        );
    };
    match &offer.refused {
        Some(why) => Verdict::Leave(format!("the writer would not publish it: {why}")),
        None => Verdict::Take,
    }
}

fn of_endpoints(
    endpoints: &Endpoints,
    service: &ItsService<'_>,
    found: &FoundObjects,
    offers: &AdoptionOffers,
    drop_gone: bool,
) -> Verdict {
    if let Some(why) = left_alone(&endpoints.metadata) {
        return Verdict::Leave(why);
    }
    match service {
        ItsService::Unmarked(Verdict::Leave(_)) => return Verdict::Leave("its Service is not taken".to_owned()),
        ItsService::Unmarked(_) => return Verdict::Wait("its Service is first".to_owned()),
        ItsService::Ours => {}
    }
    let place = place(&endpoints.metadata);
    let nothing = BTreeSet::new();
    let published = found.published.get(&place).unwrap_or(&nothing);
    let ready = in_endpoints(endpoints);
    let mut lacking = ready.difference(published);
    let Some(first) = lacking.next() else { return Verdict::Take };
    let synced = offers.get(&place).is_some_and(|offers| offers.iter().any(|offer| offer.synced));
    if synced && drop_gone {
        return Verdict::Take;
    }
    let count = 1 + lacking.count();
    let mut why = format!("{count} of its {} ready endpoints are in no slice of the writer, as {first}", ready.len());
    if synced {
        why.push_str("; the source has them no more: --drop-gone takes it all the same");
    }
    Verdict::Wait(why)
}

#[cfg(test)]
mod tests;
