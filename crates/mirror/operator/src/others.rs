//! What a Backend may not have because it is another's: an identity, a Secret.

use std::collections::{BTreeMap, BTreeSet};

use crate::{OperatorSettings, SourceProblem, SourcedBackend, WantedDiscoverer};

/// Returns the discoverer that each Backend with a source asks for, by the UID of its object, or why there is to be none. `own` has
/// the names of the Secrets that the operator made.
#[must_use]
pub fn discoverers(
    backends: &[SourcedBackend],
    own: &BTreeSet<String>,
    settings: &OperatorSettings,
) -> BTreeMap<String, Result<WantedDiscoverer, SourceProblem>> {
    let of = |backend: &SourcedBackend| {
        let discoverer = backend.discoverer(settings)?;
        let others = || backends.iter().filter(|other| name(other) != name(backend));
        // A certificate with it would be that of the other one, whose agent runs elsewhere. Whoever makes a Backend later must not stop
        // the discoverer of another one.
        let has_it = |other: &&SourcedBackend| age(other) < age(backend) && other.has_identity(&discoverer.identity);
        if let Some(other) = others().find(has_it) {
            let why = format!("spec.identity is that of backend {}, too: each needs its own", name(other));
            return Err(SourceProblem::Identity(why));
        }
        let secret = discoverer.secret();
        if own.contains(secret) {
            let why = format!("spec.source: Secret {secret} has the certificate of a discoverer");
            return Err(SourceProblem::Invalid(why));
        }
        let is_earlier = |other: &&SourcedBackend| age(other) < age(backend) && other.secret() == Some(secret);
        if let Some(other) = others().find(is_earlier) {
            let why = format!("spec.source: Secret {secret} is that of backend {}: make one for each", name(other));
            return Err(SourceProblem::Invalid(why));
        }
        Ok(discoverer)
    };
    let with_source = backends.iter().filter(|backend| backend.has_source());
    with_source.map(|backend| (backend.metadata.meta.uid.to_string(), of(backend))).collect()
}

fn name(backend: &SourcedBackend) -> &str {
    &backend.metadata.meta.name
}

/// Orders Backends as they were made.
fn age(backend: &SourcedBackend) -> (Option<&str>, &str) {
    (backend.metadata.creation_timestamp.as_deref(), name(backend))
}
