//! Which router an Ingress is served by.

use gimbal_kubernetes_objects::Ingress;
use gimbal_kuryr_crd::names::annotations;
use gimbal_kuryr_model::Text;
use gimbal_model::SourceKey;

use super::RouterAnnotationProblem;
use crate::finding::shown;

/// Where an Ingress is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RouterPlacement {
    /// Its router.
    pub(crate) router: SourceKey,
    /// Whether it wants that for itself.
    pub(crate) alone: bool,
    /// The annotation that could not be read, cut to 64 characters, and why.
    pub(crate) problem: Option<(Text, RouterAnnotationProblem)>,
}

/// Returns where an Ingress is: at the shared router, unless its annotation says otherwise. A group lives in the namespace of its
/// Ingresses.
pub(crate) fn placement(ingress: &Ingress, shared: &SourceKey) -> RouterPlacement {
    let meta = &ingress.metadata.meta;
    let at = |name: Text, alone| {
        let router = SourceKey { namespace: meta.namespace.clone(), name };
        RouterPlacement { router, alone, problem: None }
    };
    match meta.annotations.get(annotations::L7_ROUTER).map(read) {
        None => RouterPlacement { router: shared.clone(), alone: false, problem: None },
        Some(Ok(Asked::Own)) => at(meta.name.clone(), true),
        Some(Ok(Asked::Group(name))) => at(name.into(), false),
        Some(Err((value, problem))) => {
            RouterPlacement { router: shared.clone(), alone: false, problem: Some((shown(value), problem)) }
        }
    }
}

enum Asked<'a> {
    Own,
    Group(&'a str),
}

fn read(value: &Text) -> Result<Asked<'_>, (&str, RouterAnnotationProblem)> {
    let trimmed = value.trim();
    if trimmed == "own" {
        return Ok(Asked::Own);
    }
    let name = trimmed.strip_prefix("group:").ok_or((&**value, RouterAnnotationProblem::Unreadable))?;
    if is_object_name(name) { Ok(Asked::Group(name)) } else { Err((&**value, RouterAnnotationProblem::GroupName)) }
}

/// Whether the API server takes it as the name of a custom resource.
fn is_object_name(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(super::matching::is_label)
}
