//! A Backend as the operator reads it, and which discoverer it asks for.

use gimbal_backend::{BackendResource, KubernetesSourceSection, OpenstackSourceSection, SourceSection};
use gimbal_kubernetes_objects::{Kind, LifecycleMeta, Meta, Object};
use gimbal_model::BackendName;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::OperatorSettings;
use crate::condition::DiscovererCondition;

/// An object of the kind Backend. Its spec and status are read apart from it, so that one that cannot be understood spoils no list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SourcedBackend {
    /// Metadata. Its name is the backend's.
    pub metadata: LifecycleMeta,
    /// The spec as it was written.
    pub spec: Value,
    /// What the writer and the operator said of it.
    #[serde(skip_serializing)]
    pub status: Value,
}

impl Object for SourcedBackend {
    const KIND: Kind = BackendResource::KIND;

    fn meta(&self) -> &Meta {
        &self.metadata.meta
    }
}

/// Why no discoverer can be run for a Backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceProblem {
    /// Its spec cannot be used.
    Invalid(String),
    /// Its identity is another one than its name says.
    Identity(String),
}

/// A discoverer that a Backend asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedDiscoverer {
    /// The backend.
    pub name: BackendName,
    /// UID of its object.
    pub uid: String,
    /// The identity in its certificate.
    pub identity: String,
    /// What it reads.
    pub source: SourceKind,
}

/// What a discoverer reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceKind {
    /// A Kubernetes cluster.
    Kubernetes(KubernetesSourceSection),
    /// An OpenStack cloud.
    Openstack(OpenstackSourceSection),
}

impl SourcedBackend {
    /// Whether it asks for a discoverer, as far as can be seen without its settings. One that is deleted stays in force until its
    /// removal is approved (docs/design.md#backend-removal), and so does its discoverer.
    #[must_use]
    pub fn has_source(&self) -> bool {
        self.spec.get("source").is_some_and(|source| !source.is_null())
    }

    /// Returns the discoverer that it asks for.
    ///
    /// # Errors
    /// Returns why there is to be none, although it asks for one.
    pub fn discoverer(&self, settings: &OperatorSettings) -> Result<WantedDiscoverer, SourceProblem> {
        let invalid = SourceProblem::Invalid;
        // The same reading as the writer's, so that both understand the same object.
        let resource = BackendResource { metadata: self.metadata.clone(), spec: self.spec.clone(), status: None };
        let name = resource.name().map_err(|error| invalid(error.to_string()))?;
        let spec = resource.read_spec().map_err(|error| invalid(error.to_string()))?;
        let source = match spec.source {
            Some(SourceSection { kubernetes: Some(cluster), openstack: None }) => SourceKind::Kubernetes(cluster),
            Some(SourceSection { kubernetes: None, openstack: Some(cloud) }) => SourceKind::Openstack(cloud),
            _ => return Err(invalid("spec.source: name exactly one source: kubernetes or openstack".into())),
        };
        let identity = spec.identity.0;
        let expected = format!("{}{name}", settings.identity_prefix);
        if identity != expected {
            let problem = format!("spec.identity is {identity}: the operator signs {expected} alone for this name");
            return Err(SourceProblem::Identity(problem));
        }
        let discoverer = WantedDiscoverer { name, uid: self.metadata.meta.uid.to_string(), identity, source };
        if discoverer.secret() == settings.authority_secret {
            return Err(invalid(format!("spec.source: {} is the Secret of the authority", discoverer.secret())));
        }
        Ok(discoverer)
    }

    /// Returns the Secret that its source names, whether or not the rest of it can be used.
    #[must_use]
    pub fn secret(&self) -> Option<&str> {
        let source = self.spec.get("source").filter(|_| self.has_source())?;
        let named = ["/kubernetes/kubeconfigSecret/name", "/openstack/credentialsSecret/name"];
        named.into_iter().find_map(|pointer| source.pointer(pointer)?.as_str())
    }

    /// Whether a certificate with an identity is its own, whether or not the rest of its spec can be used. Case is ignored, as the
    /// writer does.
    pub(crate) fn has_identity(&self, identity: &str) -> bool {
        self.spec.get("identity").and_then(Value::as_str).is_some_and(|own| own.eq_ignore_ascii_case(identity))
    }

    /// Returns what the operator said of it last.
    #[must_use]
    pub fn condition(&self) -> Option<DiscovererCondition> {
        let all = self.status.get("conditions")?.as_array()?;
        let own = all.iter().find(|condition| condition["type"] == crate::DISCOVERER_READY)?;
        DiscovererCondition::deserialize(own).ok()
    }
}

impl WantedDiscoverer {
    /// Returns the name of the program.
    #[must_use]
    pub fn program(&self) -> &'static str {
        match self.source {
            SourceKind::Kubernetes(_) => "gimbal-kubernetes-discoverer",
            SourceKind::Openstack(_) => "gimbal-openstack-discoverer",
        }
    }

    /// Returns the name of its objects.
    #[must_use]
    pub fn object_name(&self) -> String {
        format!("{}-{}", self.program(), self.name)
    }

    /// Returns the name of the Secret with its credentials.
    #[must_use]
    pub fn secret(&self) -> &str {
        match &self.source {
            SourceKind::Kubernetes(cluster) => &cluster.kubeconfig_secret.name.0,
            SourceKind::Openstack(cloud) => &cloud.credentials_secret.name.0,
        }
    }

    /// Returns the key without which that Secret is of no use, if there is one.
    #[must_use]
    pub fn needed_key(&self) -> Option<&'static str> {
        match self.source {
            SourceKind::Kubernetes(_) => Some("kubeconfig"),
            SourceKind::Openstack(_) => None,
        }
    }
}
