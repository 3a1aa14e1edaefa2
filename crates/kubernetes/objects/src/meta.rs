//! Metadata, kinds, lists and errors, which are the same for all objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// `ObjectMeta` without `managedFields`, which are most of an object's bytes. See [`LifecycleMeta`](crate::LifecycleMeta) for
/// finalizers, owner references and the like.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// Name.
    #[serde(deserialize_with = "crate::text::text")]
    pub name: Arc<str>,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "crate::text::text")]
    pub namespace: Arc<str>,
    /// UID; empty in an object that is to be created.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "crate::text::text")]
    pub uid: Arc<str>,
    /// Version; empty in an object that is to be created.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "crate::text::text")]
    pub resource_version: Arc<str>,
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "crate::text::map")]
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "crate::text::map")]
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// Set while the object is being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Arc<str>>,
}

fn is_empty(text: &Arc<str>) -> bool {
    text.is_empty()
}

/// An object reduced to its metadata.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnedMeta {
    /// Metadata.
    pub metadata: Meta,
}

/// Where a kind is found in the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// `kind`.
    pub kind: &'static str,
    /// `apiVersion`.
    pub api_version: &'static str,
    /// Plural, as in the path.
    pub plural: &'static str,
}

impl Kind {
    /// `/api/v1` or `/apis/<group>/<version>`.
    #[must_use]
    pub fn root(self) -> String {
        if self.api_version.contains('/') {
            format!("/apis/{}", self.api_version)
        } else {
            format!("/api/{}", self.api_version)
        }
    }
}

/// An object that can be read and written.
pub trait Object: Serialize + for<'de> Deserialize<'de> + Clone + std::fmt::Debug + Send + Sync + 'static {
    /// Its kind.
    const KIND: Kind;
    /// Its metadata.
    fn meta(&self) -> &Meta;
}

macro_rules! object {
    ($name:ty, $kind:literal, $api:literal, $plural:literal) => {
        impl crate::Object for $name {
            const KIND: crate::Kind = crate::Kind { kind: $kind, api_version: $api, plural: $plural };
            fn meta(&self) -> &crate::Meta {
                &self.metadata
            }
        }
    };
}
pub(crate) use object;

/// A list, or a page of one.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "T: Deserialize<'de>"))]
pub struct List<T> {
    /// `<Kind>List`.
    #[serde(default, deserialize_with = "crate::text::null_is_default")]
    pub kind: String,
    /// `apiVersion` of the list and its objects.
    #[serde(default, deserialize_with = "crate::text::null_is_default")]
    pub api_version: String,
    /// Version and continuation.
    #[serde(default)]
    pub metadata: ListMeta,
    /// Objects.
    #[serde(default = "Vec::new", deserialize_with = "null_is_empty")]
    pub items: Vec<T>,
}

/// A list that was never filled is null in Go. `T` need not have a default.
fn null_is_empty<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::<Vec<T>>::deserialize(from)?.unwrap_or_default())
}

/// `ListMeta`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListMeta {
    /// Version to watch from.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub resource_version: String,
    /// Token for the next page; empty on the last.
    #[serde(rename = "continue", deserialize_with = "crate::text::null_is_default")]
    pub continue_token: String,
}

/// `metav1.Status`: an error of the API server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// HTTP code.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub code: u16,
    /// Machine-readable reason.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub reason: String,
    /// Human-readable message.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub message: String,
    /// What the error is about.
    pub details: Option<StatusDetails>,
}

/// Details of a [`Status`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusDetails {
    /// Name of the object.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub name: String,
    /// Plural of its kind.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub kind: String,
    /// When to try again, in seconds.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub retry_after_seconds: u32,
    /// Causes, for instance `NamespaceTerminating`.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub causes: Vec<StatusCause>,
}

/// One cause of a [`Status`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    /// Machine-readable.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub reason: String,
    /// Human-readable message.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub message: String,
    /// Field.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub field: String,
}
