//! Which namespace of the Gimbal cluster a backend's Services are published in.

use std::collections::BTreeMap;

use gimbal_model::NamespacePattern;

/// The rules for one backend's namespaces. In this module a *target* is a namespace of the Gimbal cluster. The default
/// admits every source namespace under its own name, except for `kube-*`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamespacePolicy {
    /// Patterns of which the target must match one; `None` allows all.
    pub allow: Option<Vec<NamespacePattern>>,
    /// Patterns that the target must not match, allowed or not.
    pub deny: Vec<NamespacePattern>,
    /// The targets, by source namespace or by the ID of an OpenStack project. The ID takes precedence, because it is
    /// more exact.
    pub map: BTreeMap<String, String>,
    /// Whether missing targets are created.
    pub create: bool,
}

/// Why a source namespace has no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceRefused {
    /// It is not a valid name of a namespace.
    #[error("{0:?} cannot be the name of a namespace; map it to one that can (namespaces.map)")]
    Invalid(String),
    /// It is one of the Gimbal cluster's own namespaces.
    #[error("namespace {0:?} is the Gimbal cluster's own (kube-*)")]
    System(String),
    /// It matches a pattern of `deny`.
    #[error("namespace {0:?} is denied to this backend (namespaces.deny)")]
    Denied(String),
    /// It matches no pattern of `allow`.
    #[error("namespace {0:?} is not allowed to this backend (namespaces.allow)")]
    NotAllowed(String),
    /// The project has no namespace, because another project has the same name and no `map` entry tells them apart.
    #[error("another project has the name of project {0}; give it a namespace by its ID (namespaces.map)")]
    NameTaken(String),
}

impl NamespacePolicy {
    /// Returns the target of a source namespace. `project` is the ID of the Service's OpenStack project, if it has
    /// one. A namespace that the source knows only by that ID needs an entry in `map`.
    ///
    /// # Errors
    /// Returns why there is none; the reason names the target, or the project.
    pub fn target(&self, source_namespace: &str, project: Option<&str>) -> Result<String, NamespaceRefused> {
        let mapped = project.and_then(|id| self.map.get(id)).or_else(|| self.map.get(source_namespace));
        let target = match mapped {
            Some(target) => target,
            None if project == Some(source_namespace) => {
                return Err(NamespaceRefused::NameTaken(source_namespace.to_owned()));
            }
            None => source_namespace,
        };
        if !is_namespace(target) {
            return Err(NamespaceRefused::Invalid(target.to_owned()));
        }
        self.permits(target).map(|()| target.to_owned())
    }

    /// Returns whether there may be a namespace that this policy and the other one permit both. `deny` is not looked at.
    #[must_use]
    pub fn may_meet(&self, other: &Self) -> bool {
        match (&self.allow, &other.allow) {
            (Some(own), Some(others)) => own.iter().any(|own| others.iter().any(|other| overlap(own, other))),
            (Some(only), None) | (None, Some(only)) => !only.is_empty(),
            (None, None) => true,
        }
    }

    /// Checks whether the backend may publish anything in a namespace of the Gimbal cluster.
    ///
    /// # Errors
    /// Returns why it may not.
    pub fn permits(&self, target: &str) -> Result<(), NamespaceRefused> {
        let matches = |patterns: &[NamespacePattern]| patterns.iter().any(|pattern| pattern.matches(target));
        let refusal = if target.starts_with("kube-") {
            NamespaceRefused::System
        } else if matches(&self.deny) {
            NamespaceRefused::Denied
        } else if self.allow.as_ref().is_some_and(|allow| !matches(allow)) {
            NamespaceRefused::NotAllowed
        } else {
            return Ok(());
        };
        Err(refusal(target.to_owned()))
    }
}

/// Whether a name may match both patterns. Wrong only where both have a `*` and what is between their ends excludes each other.
fn overlap(one: &NamespacePattern, other: &NamespacePattern) -> bool {
    let ends = |pattern: &NamespacePattern| {
        let (head, rest) = pattern.as_str().split_once('*')?;
        Some((head.to_owned(), rest.rsplit('*').next().unwrap_or_default().to_owned()))
    };
    match (ends(one), ends(other)) {
        (None, _) => other.matches(one.as_str()),
        (_, None) => one.matches(other.as_str()),
        (Some((head, tail)), Some((other_head, other_tail))) => {
            (head.starts_with(&other_head) || other_head.starts_with(&head))
                && (tail.ends_with(&other_tail) || other_tail.ends_with(&tail))
        }
    }
}

/// Whether `name` is a valid name of a namespace, that is, a DNS label.
#[must_use]
pub fn is_namespace(name: &str) -> bool {
    gimbal_model::is_label(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Vec<NamespacePattern> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn namespaces_of_their_own_do_not_meet() {
        let policy = |allow: Option<&[&str]>| NamespacePolicy { allow: allow.map(patterns), ..Default::default() };
        for (one, other, meet) in [
            (None, None, true),
            (None, Some(&["a"][..]), true),
            (None, Some(&[]), false),
            (Some(&["a", "b"][..]), Some(&["c"][..]), false),
            (Some(&["a", "b"]), Some(&["b"]), true),
            (Some(&["team-*"]), Some(&["team-a"]), true),
            (Some(&["team-*"]), Some(&["other"]), false),
            (Some(&["team-*"]), Some(&["team-a-*"]), true),
            (Some(&["a-*"]), Some(&["b-*"]), false),
            (Some(&["*-a"]), Some(&["*-b"]), false),
            (Some(&["*"]), Some(&["b-*"]), true),
        ] {
            let (one, other) = (policy(one), policy(other));
            assert_eq!([one.may_meet(&other), other.may_meet(&one)], [meet; 2], "{one:?} {other:?}");
        }
    }

    #[test]
    fn matched_after_mapping_and_deny_wins() {
        let map = [("project-a", "team-a"), ("sneaky", "kube-system"), ("0f3a", "team-b"), ("twice", "team-x")];
        let policy = NamespacePolicy {
            allow: Some(patterns(&["team-*", "kube-*"])),
            deny: patterns(&["team-x"]),
            map: map.map(|(from, to)| (from.to_owned(), to.to_owned())).into(),
            create: false,
        };
        use NamespaceRefused::{Denied, Invalid, NameTaken, NotAllowed, System};
        type Refusal = fn(String) -> NamespaceRefused;
        let refused = |refusal: Refusal, namespace: &str| Err(refusal(namespace.to_owned()));
        for (source, project, expected) in [
            ("team-a", None, Ok("team-a".to_owned())),
            ("project-a", None, Ok("team-a".to_owned())),
            ("other", None, refused(NotAllowed, "other")),
            ("team-x", None, refused(Denied, "team-x")),
            ("twice", None, refused(Denied, "team-x")),
            ("kube-public", None, refused(System, "kube-public")),
            ("sneaky", None, refused(System, "kube-system")),
            ("../team-a", None, refused(Invalid, "../team-a")),
            ("", None, refused(Invalid, "")),
            // An OpenStack project: by its ID, then by its name.
            ("project-a", Some("0f3a"), Ok("team-b".to_owned())),
            ("project-a", Some("9999"), Ok("team-a".to_owned())),
            ("team-c", Some("9999"), Ok("team-c".to_owned())),
            ("0f3a", Some("0f3a"), Ok("team-b".to_owned())),
            ("9999", Some("9999"), refused(NameTaken, "9999")),
        ] {
            assert_eq!(policy.target(source, project), expected, "{source} {project:?}");
        }
        let all = NamespacePolicy::default();
        assert_eq!(all.target("anything", None).as_deref(), Ok("anything"));
        assert!(all.target("kube-system", None).is_err());
        let none = NamespacePolicy { allow: Some(vec![]), ..NamespacePolicy::default() };
        assert!(none.target("anything", None).is_err(), "an empty list allows nothing");
    }
}
