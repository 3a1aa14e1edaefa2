//! The objects that the operator keeps, and what it knows of them.

use std::collections::BTreeMap;
use std::fmt;

use gimbal_backend::BackendResource;
use gimbal_kubernetes_objects::{Kind, LifecycleMeta, Meta, Object, OwnerReference};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use zeroize::Zeroizing;

/// Who the operator is, in labels and as a manager of fields.
pub const MANAGER: &str = "gimbal-operator";
/// Label: who keeps an object. Its value is [`MANAGER`].
pub const OWNER_LABEL: &str = "app.kubernetes.io/managed-by";

macro_rules! object {
    ($name:ty, $kind:literal, $api:literal, $plural:literal) => {
        impl Object for $name {
            const KIND: Kind = Kind { kind: $kind, api_version: $api, plural: $plural };

            fn meta(&self) -> &Meta {
                &self.metadata.meta
            }
        }
    };
}

/// `ServiceAccount`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceAccount {
    /// Metadata.
    pub metadata: LifecycleMeta,
    /// Whether pods have its token unasked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub automount_service_account_token: Option<bool>,
}
object!(ServiceAccount, "ServiceAccount", "v1", "serviceaccounts");

/// `NetworkPolicy`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkPolicy {
    /// Metadata.
    pub metadata: LifecycleMeta,
    /// Spec.
    pub spec: Value,
}
object!(NetworkPolicy, "NetworkPolicy", "networking.k8s.io/v1", "networkpolicies");

/// `Deployment`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Deployment {
    /// Metadata.
    pub metadata: LifecycleMeta,
    /// Spec.
    pub spec: Value,
    /// How far it is.
    #[serde(skip_serializing)]
    pub status: DeploymentStatus,
}
object!(Deployment, "Deployment", "apps/v1", "deployments");

/// `DeploymentStatus`, as far as it says whether the pod runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStatus {
    /// Generation that it is about.
    pub observed_generation: i64,
    /// Pods of the newest template.
    pub updated_replicas: i64,
    /// Pods that are available.
    pub available_replicas: i64,
}

/// What a Secret holds, in Base64. It does not show itself, and is wiped from memory when it is dropped.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SecretData(pub BTreeMap<String, Zeroizing<String>>);

impl Serialize for SecretData {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(key, value)| (key, value.as_str())))
    }
}

impl<'de> Deserialize<'de> for SecretData {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let data = Option::<BTreeMap<String, String>>::deserialize(from)?.unwrap_or_default();
        Ok(Self(data.into_iter().map(|(key, value)| (key, Zeroizing::new(value))).collect()))
    }
}

impl fmt::Debug for SecretData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// `Secret` with the pair of a discoverer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PairSecret {
    /// Metadata.
    pub metadata: LifecycleMeta,
    /// `kubernetes.io/tls`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `tls.crt`, `tls.key` and `ca.crt`, and what the digest of the credentials depends on.
    pub data: SecretData,
}
object!(PairSecret, "Secret", "v1", "secrets");

/// `Secret` of somebody else: with credentials, or of the authority. Its labels and annotations are not read: one of these is a copy
/// of the content that `kubectl apply` makes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceSecret {
    /// Metadata.
    pub metadata: BareMeta,
    /// What it holds.
    #[serde(skip_serializing)]
    pub data: SecretData,
}

/// Metadata without labels and annotations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct BareMeta(pub Meta);

impl<'de> Deserialize<'de> for BareMeta {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let meta = Meta::deserialize(from)?;
        Ok(Self(Meta { labels: BTreeMap::new(), annotations: BTreeMap::new(), ..meta }))
    }
}

impl Object for SourceSecret {
    const KIND: Kind = PairSecret::KIND;

    fn meta(&self) -> &Meta {
        &self.metadata.0
    }
}

/// The kinds that the operator keeps, in the order in which they are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ManagedKind {
    /// `ServiceAccount`.
    ServiceAccount,
    /// `NetworkPolicy`.
    NetworkPolicy,
    /// `Secret` with a pair.
    Secret,
    /// `Deployment`.
    Deployment,
}

impl ManagedKind {
    /// Returns where it is found in the API.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::ServiceAccount => ServiceAccount::KIND,
            Self::NetworkPolicy => NetworkPolicy::KIND,
            Self::Secret => PairSecret::KIND,
            Self::Deployment => Deployment::KIND,
        }
    }
}

/// Kind and name of an object in the operator's namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// Kind.
    pub kind: ManagedKind,
    /// Name.
    pub name: String,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.kind().kind, self.name)
    }
}

/// An object of ours that exists.
#[derive(Debug, Clone, PartialEq)]
pub struct MarkedObject {
    /// Metadata.
    pub metadata: LifecycleMeta,
    /// What is compared with what is wanted: all but the server's counts, and its owner.
    pub body: Value,
}

impl MarkedObject {
    /// Takes an object as it was read.
    #[must_use]
    pub fn of<T: Object>(metadata: &LifecycleMeta, object: &T) -> Self {
        // What was read as JSON can be written as such.
        let mut body = serde_json::to_value(object).unwrap_or_default();
        if let Some(fields) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["uid", "resourceVersion", "generation", "creationTimestamp", "ownerReferences"] {
                fields.remove(field);
            }
        }
        Self { metadata: metadata.clone(), body }
    }

    /// Takes the metadata alone: of an object of which nothing else is compared.
    #[must_use]
    pub fn mark(metadata: &LifecycleMeta) -> Self {
        Self { metadata: metadata.clone(), body: Value::Null }
    }

    /// Whether the object belongs to the Backend with this UID.
    pub(crate) fn belongs_to(&self, uid: &str) -> bool {
        self.metadata.owner_references.iter().any(|owner| &*owner.uid == uid)
    }
}

/// Whether an object carries the operator's mark: its label, and a Backend as owner. A label alone may have been copied.
#[must_use]
pub fn is_ours(metadata: &LifecycleMeta) -> bool {
    let is_labelled = metadata.meta.labels.get(OWNER_LABEL).is_some_and(|value| &**value == MANAGER);
    is_labelled && backend_owner(metadata).is_some()
}

/// Returns the Backend that owns an object.
pub(crate) fn backend_owner(metadata: &LifecycleMeta) -> Option<&OwnerReference> {
    let kind = BackendResource::KIND;
    let group = |version: &str| version.split('/').next().map(str::to_owned);
    let is_backend =
        |owner: &&OwnerReference| &*owner.kind == kind.kind && group(&owner.api_version) == group(kind.api_version);
    metadata.owner_references.iter().find(is_backend)
}
