//! The objects of a discoverer, but for the Secret of its pair.

use std::sync::Arc;

use gimbal_backend::BackendResource;
use gimbal_kubernetes_objects::{LifecycleMeta, Meta, Object as _, OwnerReference};
use serde_json::{Value, json};

use crate::objects::{MANAGER, OWNER_LABEL};
use crate::pod::deployment_spec;
use crate::policy::policy_spec;
use crate::{
    Deployment, ManagedKind, MarkedObject, NetworkPolicy, ObjectId, OperatorSettings, ServiceAccount, WantedDiscoverer,
};

/// An object that is to be as it says.
#[derive(Debug, Clone, PartialEq)]
pub enum WantedObject {
    /// The account of the pod. It has no rights in the Gimbal cluster: nothing of the pod asks for any.
    ServiceAccount(ServiceAccount),
    /// Whom the pod may reach.
    NetworkPolicy(NetworkPolicy),
    /// The pod.
    Deployment(Deployment),
}

/// Returns the labels by which the pods of a discoverer are found.
pub(crate) fn selector(discoverer: &WantedDiscoverer) -> Value {
    json!({"app.kubernetes.io/name": discoverer.program(), "app.kubernetes.io/instance": discoverer.name.as_str()})
}

/// Returns the metadata of an object of a discoverer, with the operator's mark.
pub(crate) fn metadata(discoverer: &WantedDiscoverer, settings: &OperatorSettings, name: &str) -> LifecycleMeta {
    let labels: [(&str, &str); 4] = [
        ("app.kubernetes.io/name", discoverer.program()),
        ("app.kubernetes.io/instance", discoverer.name.as_str()),
        ("app.kubernetes.io/part-of", "gimbal"),
        (OWNER_LABEL, MANAGER),
    ];
    let kind = BackendResource::KIND;
    let owner = OwnerReference {
        api_version: kind.api_version.into(),
        kind: kind.kind.into(),
        name: discoverer.name.as_str().into(),
        uid: discoverer.uid.as_str().into(),
        ..OwnerReference::default()
    };
    let text = |text: &str| Arc::<str>::from(text);
    let meta = Meta {
        name: name.into(),
        namespace: settings.namespace.as_str().into(),
        labels: labels.into_iter().map(|(key, value)| (text(key), text(value))).collect(),
        ..Meta::default()
    };
    LifecycleMeta { meta, owner_references: vec![owner], ..LifecycleMeta::default() }
}

/// Returns the objects of a discoverer, in the order in which they are made. `content` is the hash of the credentials that its pod
/// mounts; without it there is no pod yet.
#[must_use]
pub fn wanted(discoverer: &WantedDiscoverer, settings: &OperatorSettings, content: Option<&str>) -> Vec<WantedObject> {
    let metadata = || metadata(discoverer, settings, &discoverer.object_name());
    // Pods ask for a token where they need one, and these do not.
    let account = ServiceAccount { metadata: metadata(), automount_service_account_token: Some(false) };
    let mut all = vec![WantedObject::ServiceAccount(account)];
    if settings.network_policies {
        let spec = policy_spec(discoverer, settings);
        all.push(WantedObject::NetworkPolicy(NetworkPolicy { metadata: metadata(), spec }));
    }
    if let Some(content) = content {
        let spec = deployment_spec(discoverer, settings, content);
        all.push(WantedObject::Deployment(Deployment { metadata: metadata(), spec, ..Deployment::default() }));
    }
    all
}

impl WantedObject {
    /// Returns its kind and name.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        let (kind, metadata) = match self {
            Self::ServiceAccount(object) => (ManagedKind::ServiceAccount, &object.metadata),
            Self::NetworkPolicy(object) => (ManagedKind::NetworkPolicy, &object.metadata),
            Self::Deployment(object) => (ManagedKind::Deployment, &object.metadata),
        };
        ObjectId { kind, name: metadata.meta.name.to_string() }
    }

    pub(crate) fn metadata_mut(&mut self) -> &mut LifecycleMeta {
        match self {
            Self::ServiceAccount(object) => &mut object.metadata,
            Self::NetworkPolicy(object) => &mut object.metadata,
            Self::Deployment(object) => &mut object.metadata,
        }
    }

    /// Returns what is compared with the object that exists. Its owner is compared apart.
    #[must_use]
    pub fn body(&self) -> Value {
        match self {
            Self::ServiceAccount(object) => MarkedObject::of(&object.metadata, object),
            Self::NetworkPolicy(object) => MarkedObject::of(&object.metadata, object),
            Self::Deployment(object) => MarkedObject::of(&object.metadata, object),
        }
        .body
    }
}
