//! What another configuration would change: its text, and the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gimbal_backend::{BackendProblem, BackendResource};
use gimbal_kubernetes_objects::Object as _;
use gimbal_model::BackendName;
use gimbal_reconcile::{Policy, PolicyDifference, Rehearsal, RehearsedWrite, Tally};
use gimbal_wire::pb;
use serde::Deserialize as _;
use serde_json::Value;

use crate::args::BackendsIn;
use crate::config::{BackendConfig, Config};
use crate::inspection_service::planned;

/// Writes that are listed for each backend.
pub(crate) const LISTED: usize = 20;
/// How errors name what was sent.
const TEXT: &str = "the configuration";

/// Returns the policies that a text would put in force in the place of those of `now`.
///
/// # Errors
/// Returns why it would be refused.
pub(crate) fn policies(
    now: &Config,
    backends: BackendsIn,
    text: &str,
) -> Result<BTreeMap<BackendName, Policy>, String> {
    match backends {
        BackendsIn::File => {
            Config::parse(Path::new(TEXT), text).map(|config| config.policies()).map_err(|error| error.to_string())
        }
        BackendsIn::Objects => with_objects(now, text),
    }
}

/// Returns the policies with these Backends instead of those that have their names.
fn with_objects(now: &Config, text: &str) -> Result<BTreeMap<BackendName, Policy>, String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| format!("{TEXT}: {error}"))?;
    let mut policies = now.policies();
    let key = |identity: &str| identity.to_ascii_lowercase();
    let mut identities: BTreeMap<BackendName, String> =
        now.backends.iter().filter_map(|known| Some((known.name.clone(), key(known.identity.as_deref()?)))).collect();
    let mut read = BTreeSet::new();
    for document in documents.iter().filter(|document| !document.is_null()) {
        let (kind, group) = (&document["kind"], &document["apiVersion"]);
        if kind != BackendResource::KIND.kind || group != BackendResource::KIND.api_version {
            return Err(format!(
                "{TEXT}: a document is {group} {kind}, and no {} {}: backends are objects (--backends objects)",
                BackendResource::KIND.api_version,
                BackendResource::KIND.kind
            ));
        }
        let object = BackendResource::deserialize(document).map_err(|error| format!("{TEXT}: {error}"))?;
        let name = object.name().map_err(|error| format!("{TEXT}: {error}"))?;
        if !read.insert(name.clone()) {
            return Err(format!("{TEXT}: two documents are Backend {name}: leave one of them out"));
        }
        let spec = object.read_spec().map_err(|error| format!("{TEXT}: Backend {name}: {error}"))?;
        identities.insert(name.clone(), key(&spec.identity.0));
        let mut next = BackendConfig::new(name.clone(), spec, &now.refused_addresses).policy;
        next.leaving = policies.get(&name).is_some_and(|policy| policy.leaving);
        policies.insert(name, next);
    }
    // Whoever has an identity keeps it, so that nothing of such an object would come into force.
    for name in &read {
        if let Some((other, _)) =
            identities.iter().find(|(other, has)| *other != name && Some(*has) == identities.get(name))
        {
            return Err(format!("{TEXT}: Backend {name}: {}", BackendProblem::Identity(other.clone())));
        }
    }
    Ok(policies)
}

/// Returns the answer.
pub(crate) fn answer(rehearsed: BTreeMap<BackendName, Rehearsal>) -> pb::PreviewConfigurationResponse {
    let backend = |(name, rehearsal): (BackendName, Rehearsal)| {
        let difference = match rehearsal.difference {
            PolicyDifference::Added => pb::BackendDifference::Added,
            PolicyDifference::Changed => pb::BackendDifference::Changed,
            PolicyDifference::Removed => pb::BackendDifference::Removed,
        };
        let Tally { created, changed, deleted } = rehearsal.tally;
        let write = |write: &RehearsedWrite| {
            let namespace = write.target.namespace.as_ref();
            planned(&(write.action.clone(), write.difference.clone()), namespace)
        };
        pb::BackendPreview {
            name: name.to_string(),
            difference: difference.into(),
            planned: Some(pb::PlannedCounts { created, changed, deleted }),
            held_endpoints: rehearsal.held,
            first: rehearsal.first.iter().map(write).collect(),
        }
    };
    pb::PreviewConfigurationResponse { backends: rehearsed.into_iter().map(backend).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let text = "refusedAddresses: [10.9.0.0/16]\nbackends: [{name: a, identity: a}, {name: b, identity: b}]";
        Config::parse(Path::new("writer.yaml"), text).unwrap()
    }

    fn names(policies: &BTreeMap<BackendName, Policy>) -> Vec<&str> {
        policies.keys().map(BackendName::as_str).collect()
    }

    #[test]
    fn a_file_is_the_whole_and_an_object_is_one_more_or_another() {
        let file = policies(&config(), BackendsIn::File, "backends: [{name: a, identity: a}]").unwrap();
        assert_eq!(names(&file), ["a"]);
        let object = |name: &str, spec: &str| {
            format!(
                "apiVersion: gimbal.projectcontour.io/v1alpha1\nkind: Backend\nmetadata: {{name: {name}}}\nspec: {{identity: {name}{spec}}}\n"
            )
        };
        let text = format!("{}---\n{}", object("b", ", mode: quarantine"), object("c", ""));
        let now = config();
        let objects = policies(&now, BackendsIn::Objects, &text).unwrap();
        assert_eq!(names(&objects), ["a", "b", "c"]);
        let changed: Vec<_> = now.policies().into_iter().filter(|(name, policy)| objects[name] != *policy).collect();
        assert_eq!(changed.len(), 1);
        assert_eq!(
            objects["c"].addresses,
            now.policies()["a"].addresses,
            "refused addresses are refused there as well"
        );
    }

    #[test]
    fn what_would_be_refused_is_refused_with_its_reason() {
        let refused = |backends, text: &str| policies(&config(), backends, text).unwrap_err();
        let error = refused(BackendsIn::File, "backend: []");
        assert!(error.starts_with("the configuration") && error.contains("`backend`"), "{error}");
        let error = refused(BackendsIn::Objects, "backends: []");
        assert!(error.contains("no gimbal.projectcontour.io/v1alpha1 Backend"), "{error}");
        let of = |spec: &str| {
            format!(
                "apiVersion: gimbal.projectcontour.io/v1alpha1\nkind: Backend\nmetadata: {{name: a}}\nspec: {spec}\n"
            )
        };
        let error = refused(BackendsIn::Objects, &of("{identity: a, mode: off}"));
        assert!(error.contains("Backend a: spec"), "{error}");
        // As an object in the cluster, whose identity another one has in whatever case, or that is there twice.
        let error = refused(BackendsIn::Objects, &of("{identity: B}"));
        assert!(error.contains("Backend a: spec.identity: backend b has the same"), "{error}");
        let twice = format!("{}---\n{}", of("{identity: a}"), of("{identity: c}"));
        let error = refused(BackendsIn::Objects, &twice);
        assert!(error.contains("two documents are Backend a"), "{error}");
        // Two that change places are taken as they end.
        let swapped = format!("{}---\n{}", of("{identity: b}"), of("{identity: a}").replace("name: a}", "name: b}"));
        assert_eq!(policies(&config(), BackendsIn::Objects, &swapped).unwrap().len(), 2);
    }
}
