//! `authorization.k8s.io/v1`.

use serde::{Deserialize, Serialize};

use crate::Meta;
use crate::meta::object;

/// `SelfSubjectAccessReview`: the question whether the one who asks has a right. The answer is in its status; nothing is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SelfSubjectAccessReview {
    /// Metadata.
    pub metadata: Meta,
    /// The question.
    pub spec: AccessReviewSpec,
    /// The answer; unset in a question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<AccessReviewStatus>,
}
object!(SelfSubjectAccessReview, "SelfSubjectAccessReview", "authorization.k8s.io/v1", "selfsubjectaccessreviews");

/// `SelfSubjectAccessReviewSpec`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AccessReviewSpec {
    /// The right.
    pub resource_attributes: ResourceAttributes,
}

/// `ResourceAttributes`: a right to do something to objects. An empty field means all, and no subresource.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceAttributes {
    /// Namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// What is done: `get`, `list` and so on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub verb: String,
    /// Group of the API.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Plural of the kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// Subresource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// Name of the only object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// `SubjectAccessReviewStatus`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AccessReviewStatus {
    /// Whether it has the right.
    pub allowed: bool,
    /// Why it is not known; empty: it is.
    #[serde(deserialize_with = "crate::text::null_is_default", skip_serializing_if = "String::is_empty")]
    pub evaluation_error: String,
}
