//! Metadata for controllers that own the objects they read.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Meta;

/// [`Meta`] and the fields that a controller needs to own an object until the end: finalizers, owner references, the
/// generation of the spec and the time of creation.
///
/// This is a type of its own because [`Meta`] is parsed for every object of every list, and these fields would cost all of
/// its users time and memory. A kind chooses by the type of its `metadata` field; [`crate::Object::meta`] returns
/// [`LifecycleMeta::meta`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "Fields")]
pub struct LifecycleMeta {
    /// Name, UID, version, labels, annotations and the deletion timestamp.
    #[serde(flatten)]
    pub meta: Meta,
    /// Names of those who must be done before the object goes. The server refuses additions once the object is being
    /// deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<Arc<str>>,
    /// Counts the changes of the spec; 0 for kinds that do not count them. Set by the server.
    #[serde(skip_serializing_if = "is_zero")]
    pub generation: i64,
    /// Objects that this one is garbage-collected with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    /// When the object was created, in RFC 3339. Set by the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Arc<str>>,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl LifecycleMeta {
    /// Whether the object waits for its finalizers before it goes.
    #[must_use]
    pub fn is_being_deleted(&self) -> bool {
        self.meta.deletion_timestamp.is_some()
    }

    /// Whether `finalizer` is set.
    #[must_use]
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|name| &**name == finalizer)
    }
}

/// `OwnerReference`. The owner is in the same namespace, or cluster-scoped.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// `apiVersion` of the owner.
    #[serde(deserialize_with = "crate::text::text")]
    pub api_version: Arc<str>,
    /// `kind` of the owner.
    #[serde(deserialize_with = "crate::text::text")]
    pub kind: Arc<str>,
    /// Name of the owner.
    #[serde(deserialize_with = "crate::text::text")]
    pub name: Arc<str>,
    /// UID of the owner: a new object of the same name does not own this one.
    #[serde(deserialize_with = "crate::text::text")]
    pub uid: Arc<str>,
    /// Whether the owner manages the object. At most one owner of an object does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether the owner can be deleted in the foreground only after this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// All fields on one level, as they are in JSON. Deserialising through `flatten` would first copy every unknown field, and
/// `managedFields` is most of an object.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Fields {
    #[serde(deserialize_with = "crate::text::text")]
    name: Arc<str>,
    #[serde(deserialize_with = "crate::text::text")]
    namespace: Arc<str>,
    #[serde(deserialize_with = "crate::text::text")]
    uid: Arc<str>,
    #[serde(deserialize_with = "crate::text::text")]
    resource_version: Arc<str>,
    #[serde(deserialize_with = "crate::text::map")]
    labels: BTreeMap<Arc<str>, Arc<str>>,
    #[serde(deserialize_with = "crate::text::map")]
    annotations: BTreeMap<Arc<str>, Arc<str>>,
    deletion_timestamp: Option<Arc<str>>,
    #[serde(deserialize_with = "crate::text::list")]
    finalizers: Vec<Arc<str>>,
    #[serde(deserialize_with = "crate::text::null_is_default")]
    generation: i64,
    #[serde(deserialize_with = "crate::text::null_is_default")]
    owner_references: Vec<OwnerReference>,
    creation_timestamp: Option<Arc<str>>,
}

impl From<Fields> for LifecycleMeta {
    fn from(fields: Fields) -> Self {
        let Fields {
            name,
            namespace,
            uid,
            resource_version,
            labels,
            annotations,
            deletion_timestamp,
            finalizers,
            generation,
            owner_references,
            creation_timestamp,
        } = fields;
        let meta = Meta { name, namespace, uid, resource_version, labels, annotations, deletion_timestamp };
        Self { meta, finalizers, generation, owner_references, creation_timestamp }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_read_and_written() {
        let json = serde_json::json!({
            "name": "web", "namespace": "team", "uid": "u", "resourceVersion": "7",
            "labels": {"a": "b"}, "annotations": {"c": "d"},
            "deletionTimestamp": "2026-01-02T00:00:00Z", "creationTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["example.org/hold"], "generation": 3,
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Service", "name": "s", "uid": "v", "controller": true, "blockOwnerDeletion": true},
            ],
        });
        let meta: LifecycleMeta = serde_json::from_value(json.clone()).unwrap();
        assert!(meta.is_being_deleted() && meta.has_finalizer("example.org/hold") && !meta.has_finalizer("hold"));
        assert_eq!(serde_json::to_value(&meta).unwrap(), json);
    }

    #[test]
    fn a_plain_object_reads_as_its_plain_metadata() {
        let json = r#"{"name":"web","managedFields":[{"manager":"x"}]}"#;
        let meta: LifecycleMeta = serde_json::from_str(json).unwrap();
        assert_eq!(meta.meta, serde_json::from_str::<Meta>(json).unwrap());
        assert_eq!(serde_json::to_string(&meta).unwrap(), r#"{"name":"web"}"#);
    }
}
