//! Asks an API server whether it grants the rights that a program needs. Nothing is tried, and nothing is stored.

use std::fmt;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use gimbal_kubernetes_objects::{AccessReviewSpec, ResourceAttributes, SelfSubjectAccessReview};

use crate::{ApiError, Cluster};

/// How many rights are asked for side by side.
const AT_ONCE: usize = 8;

/// A right to do something to objects of one kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// What is done: `get`, `list`, `watch`, `create`, `update`, `patch` or `delete`.
    pub verb: String,
    /// Group of the API; empty: the core.
    pub group: String,
    /// Plural of the kind, with `/` and the subresource if it is for one.
    pub resource: String,
    /// Name of the only object; empty: any.
    pub name: String,
    /// The only namespace; empty: all of them, or the kind is in none.
    pub namespace: String,
}

impl Right {
    /// Returns the rights to do each of `verbs` to each of `resources` of a group, in a namespace (empty: in all).
    #[must_use]
    pub fn each(group: &str, resources: &[&str], verbs: &[&str], namespace: &str) -> Vec<Self> {
        let right = |resource: &str, verb: &str| Self {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: String::new(),
            namespace: namespace.to_owned(),
        };
        resources.iter().flat_map(|resource| verbs.iter().map(move |verb| right(resource, verb))).collect()
    }

    /// Returns the same right to one object only.
    #[must_use]
    pub fn of_object(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    fn review(&self) -> SelfSubjectAccessReview {
        let (resource, subresource) = self.resource.split_once('/').unwrap_or((&self.resource, ""));
        let resource_attributes = ResourceAttributes {
            namespace: self.namespace.clone(),
            verb: self.verb.clone(),
            group: self.group.clone(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            name: self.name.clone(),
        };
        let spec = AccessReviewSpec { resource_attributes };
        SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, resource, name, namespace } = self;
        write!(f, "{verb} {resource}")?;
        if !group.is_empty() {
            write!(f, ".{group}")?;
        }
        if !name.is_empty() {
            write!(f, " {name}")?;
        }
        if !namespace.is_empty() {
            write!(f, " in namespace {namespace}")?;
        }
        Ok(())
    }
}

impl Cluster {
    /// Returns those of `rights` that this client lacks, in the same order.
    ///
    /// # Errors
    /// See [`ApiError`]: the server did not answer each question.
    pub async fn missing_rights(&self, rights: &[Right]) -> Result<Vec<Right>, ApiError> {
        let questions = rights.iter().cloned().map(|right| async move {
            let answer = self.create(&right.review()).await?.status.unwrap_or_default();
            if !answer.allowed && !answer.evaluation_error.is_empty() {
                let message = format!("whether it may {right} is not known: {}", answer.evaluation_error);
                return Err(ApiError::Server { message, status: 500, retry_after: None });
            }
            Ok((!answer.allowed).then_some(right))
        });
        let answers: Vec<Option<Right>> = stream::iter(questions).buffered(AT_ONCE).try_collect().await?;
        Ok(answers.into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_is_asked_for_and_told_as_roles_have_it() {
        let right = Right::each("discovery.k8s.io", &["endpointslices/restricted"], &["create"], "").remove(0);
        assert_eq!(right.to_string(), "create endpointslices/restricted.discovery.k8s.io");
        let asked = right.review().spec.resource_attributes;
        assert_eq!((asked.resource.as_str(), asked.subresource.as_str()), ("endpointslices", "restricted"));
        let one = Right::each("", &["namespaces"], &["get"], "").remove(0).of_object("kube-system");
        assert_eq!(one.to_string(), "get namespaces kube-system");
        assert_eq!(serde_json::to_value(one.review().spec).unwrap()["resourceAttributes"]["name"], "kube-system");
        let own = Right::each("", &["configmaps"], &["get", "list"], "gimbal");
        assert_eq!(own.iter().map(ToString::to_string).collect::<Vec<_>>()[1], "list configmaps in namespace gimbal");
    }
}
