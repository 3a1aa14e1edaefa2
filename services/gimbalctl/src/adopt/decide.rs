//! Which objects of the original Gimbal may get the writer's mark now. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kubernetes_objects::{Endpoints, Kind, Meta, Object as _, Service, keys};
use gimbal_model::{BackendName, label_value};

use super::ports::{Ports, changes, there};
use super::ready::{Lack, PublishedEndpoints, in_endpoints};

/// The labels in which versions of the original name the backend of an object: since 2020, until 0.4.0, and 0.1.0.
const BACKEND_LABELS: [&str; 3] = [keys::BACKEND, "gimbal.heptio.com/backend", "gimbal.heptio.com/cluster"];
/// The labels in which they name the source Service.
const SERVICE_LABELS: [&str; 2] = [keys::SERVICE, "gimbal.heptio.com/service"];

/// Returns the selectors of the objects that name a backend by any of the labels.
pub fn selectors(backend: &BackendName) -> [String; 3] {
    BACKEND_LABELS.map(|label| format!("{label}={}", label_value(backend.as_str())))
}

/// Namespace and name in the Gimbal cluster.
pub type ObjectPlace = (String, String);

/// What there is of one backend in the Gimbal cluster, whoever made it.
#[derive(Debug, Clone, Default)]
pub struct FoundObjects {
    /// Services with one of the labels.
    pub services: Vec<Service>,
    /// Endpoints objects with one of the labels.
    pub endpoints: Vec<Endpoints>,
    /// The endpoints in the writer's slices, by Service.
    pub published: BTreeMap<ObjectPlace, PublishedEndpoints>,
}

/// What the writer knows of a Service that the backend offers.
#[derive(Debug, Clone, Default)]
pub struct AdoptionOffer {
    /// Its namespace in the source.
    pub namespace: String,
    /// Its name there.
    pub name: String,
    /// Why the writer would not publish it though the name were its own.
    pub refused: Option<String>,
    /// Whether it is published as the writer knows it.
    pub synced: bool,
    /// Why the writer may not know it as the source has it now.
    pub unknown: Option<String>,
    /// The ports that the writer gives it.
    pub ports: Ports,
}

/// What a person agrees to beyond what changes nothing for consumers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Consent {
    /// That ready endpoints go that the source does not have so any more.
    pub drop_gone: bool,
    /// That ports get another appProtocol.
    pub change_app_protocol: bool,
}

/// The offers, by the Service of the Gimbal cluster that each leads to.
pub type AdoptionOffers = BTreeMap<ObjectPlace, Vec<AdoptionOffer>>;

/// What is to be done with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It gets the mark now.
    Take(Taking),
    /// It gets the mark when this is over.
    Wait(String),
    /// It stays as it is, for this reason.
    Leave(String),
}

/// What follows when an object gets the mark.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Taking {
    /// The Service of the source that it stands for from then on, as `namespace/name`.
    pub source: String,
    /// What consumers may notice: changes of ports, ready endpoints that go.
    pub changes: BTreeSet<String>,
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
/// that no consumer sees fewer; with [`Consent::drop_gone`] also where the source is known to have no others any more.
pub fn decide(found: &FoundObjects, offers: &AdoptionOffers, consent: Consent) -> Vec<Decided> {
    let unmarked = found.services.iter().filter(|service| !has_mark(&service.metadata));
    let mut decided: Vec<Decided> = unmarked
        .map(|service| Decided {
            kind: Service::KIND,
            meta: service.metadata.clone(),
            verdict: of_service(service, offers, consent),
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
                Some(service) => of_endpoints(endpoints, service, found, offers, consent),
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
    if let Some(manager) = meta.labels.get(keys::MANAGED_BY) {
        return Some(format!("its label {} names {manager:?}", keys::MANAGED_BY));
    }
    // Of two versions of the original that wrote it, the writer would ask neither.
    let two = |noun: &str, labels: &[&str]| {
        let mut named = labels.iter().filter_map(|label| meta.labels.get(*label));
        let first = named.next()?;
        let other = named.find(|other| *other != first)?;
        Some(format!("its labels name two {noun}, {first} and {other}: remove the one that is not true"))
    };
    two("backends", &BACKEND_LABELS).or_else(|| two("source Services", &SERVICE_LABELS))
}

fn of_service(service: &Service, offers: &AdoptionOffers, consent: Consent) -> Verdict {
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
    let offer = match offer_for(metadata, offers) {
        Ok(offer) => offer,
        Err(why) => return Verdict::Leave(why),
    };
    if let Some(why) = &offer.refused {
        return Verdict::Leave(format!("the writer would not publish it: {why}"));
    }
    let changes = changes(&there(&spec.ports), &offer.ports);
    match changes.of_protocol.first() {
        // Consumers go by it before they look at annotations, which the original copied.
        Some(change) if !consent.change_app_protocol => Verdict::Leave(format!(
            "{change}: set appProtocol in the policy of the backend, or --change-app-protocol takes it all the same"
        )),
        _ => {
            let mut named = changes.changes;
            // The original kept namespaces, so another Service may have been meant, which is not offered or not known yet.
            if *offer.namespace != *metadata.namespace {
                let (source, namespace) = (source(offer), &metadata.namespace);
                named.insert(format!("it stands for {source} from then on, and is in namespace {namespace}"));
            }
            Verdict::Take(Taking { source: source(offer), changes: named })
        }
    }
}

/// Returns what the backend offers for an object, by its place and by the label that names the source Service.
fn offer_for<'a>(meta: &Meta, offers: &'a AdoptionOffers) -> Result<&'a AdoptionOffer, String> {
    let Some(offers) = offers.get(&place(meta)) else {
        return Err("nothing that the backend offers leads to this name".to_owned());
    };
    let named = SERVICE_LABELS.iter().find_map(|label| meta.labels.get(*label));
    let is_named = |offer: &&AdoptionOffer| named.is_some_and(|named| **named == *label_value(&offer.name));
    let all: Vec<&AdoptionOffer> = offers.iter().filter(is_named).collect();
    match all.as_slice() {
        [] => Err("its labels name another source Service than the one that leads to this name".to_owned()),
        [one] => Ok(one),
        // The policy has brought namespaces together, and the original kept each.
        _ => all.iter().find(|offer| *offer.namespace == *meta.namespace).copied().ok_or_else(|| {
            let names: Vec<String> = all.iter().map(|offer| source(offer)).collect();
            format!("{} all lead to this name", names.join(", "))
        }),
    }
}

fn source(offer: &AdoptionOffer) -> String {
    format!("{}/{}", offer.namespace, offer.name)
}

fn of_endpoints(
    endpoints: &Endpoints,
    service: &ItsService<'_>,
    found: &FoundObjects,
    offers: &AdoptionOffers,
    consent: Consent,
) -> Verdict {
    if let Some(why) = left_alone(&endpoints.metadata) {
        return Verdict::Leave(why);
    }
    match service {
        ItsService::Unmarked(Verdict::Leave(_)) => return Verdict::Leave("its Service is not taken".to_owned()),
        ItsService::Unmarked(_) => return Verdict::Wait("its Service is first".to_owned()),
        ItsService::Ours => {}
    }
    let offer = match offer_for(&endpoints.metadata, offers) {
        Ok(offer) => offer,
        Err(why) => return Verdict::Wait(why),
    };
    // An agent that is gone, or blind, says nothing about what its source has now.
    if let Some(why) = &offer.unknown {
        return Verdict::Wait(format!("the writer does not know the source now: {why}"));
    }
    let published = found.published.get(&place(&endpoints.metadata)).cloned().unwrap_or_default();
    let ready = in_endpoints(endpoints);
    let lacking: Vec<(Lack, String)> =
        ready.iter().filter_map(|one| Some((published.lack(one)?, one.to_string()))).collect();
    if lacking.is_empty() || offer.synced && consent.drop_gone {
        let changes = lacking.into_iter().map(|(lack, one)| format!("{one} goes: it is {}", lack.place())).collect();
        return Verdict::Take(Taking { source: source(offer), changes });
    }
    Verdict::Wait(why_lacking(&lacking, ready.len(), offer.synced))
}

/// Returns how many endpoints are lacking in which way, each with an example.
fn why_lacking(lacking: &[(Lack, String)], all: usize, synced: bool) -> String {
    let mut ways: BTreeMap<Lack, Vec<&str>> = BTreeMap::new();
    for (lack, one) in lacking {
        ways.entry(*lack).or_default().push(one);
    }
    let way = |(lack, ones): (&Lack, &Vec<&str>)| {
        format!("{} of its {all} ready endpoints are {}, as {}", ones.len(), lack.place(), ones[0])
    };
    let mut parts: Vec<String> = ways.iter().map(way).collect();
    if synced {
        parts.push("so the source has it: --drop-gone takes it all the same".to_owned());
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests;
