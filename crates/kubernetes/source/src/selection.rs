//! Selects the Services of a source that are offered.

use gimbal_kubernetes_objects::{Service, keys};
use gimbal_model::NamespacePattern;

use crate::{LabelSelector, Omission};

/// The kind that endpoints are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flavour {
    /// `discovery.k8s.io/v1` `EndpointSlices`.
    #[default]
    Slices,
    /// `core/v1` Endpoints, on a cluster without slices.
    Endpoints,
}

impl Flavour {
    /// Returns the kind of the objects.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Slices => "EndpointSlice",
            Self::Endpoints => "Endpoints",
        }
    }
}

/// Whether Services are offered by default. The annotation `gimbal.projectcontour.io/export` of a Service overrides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Export {
    /// Services are offered unless the annotation is `"false"`.
    #[default]
    OptOut,
    /// Services are offered only if the annotation is `"true"`.
    OptIn,
}

/// Which Services of the source are offered, and how their endpoints are read. The default offers all of them.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Offered namespaces. Empty for all.
    pub namespaces: Vec<NamespacePattern>,
    /// Excluded namespaces. Takes precedence over `namespaces`.
    pub exclude: Vec<NamespacePattern>,
    /// Selects Services by their labels. The default matches all.
    pub services: LabelSelector,
    /// Whether Services are offered by default.
    pub export: Export,
    /// The kind that endpoints are read from.
    pub flavour: Flavour,
}

impl Selection {
    /// Returns the reason why a namespace is not offered, or `None` if it is.
    pub(crate) fn against_namespace(&self, namespace: &str) -> Option<Omission> {
        let any = |patterns: &[NamespacePattern]| patterns.iter().any(|pattern| pattern.matches(namespace));
        if namespace == "kube-system" {
            Some(Omission::KubeSystem)
        } else if any(&self.exclude) {
            Some(Omission::NamespaceExcluded)
        } else if !self.namespaces.is_empty() && !any(&self.namespaces) {
            Some(Omission::NamespaceNotSelected)
        } else {
            None
        }
    }

    /// Returns the reason why a Service is not offered, or `None` if it is.
    pub(crate) fn against_service(&self, service: &Service) -> Option<Omission> {
        let meta = &service.metadata;
        if let Some(skip) = self.against_namespace(&meta.namespace) {
            return Some(skip);
        }
        if &*meta.namespace == "default" && &*meta.name == "kubernetes" {
            Some(Omission::ApiServer)
        } else if meta.labels.contains_key(keys::BACKEND) {
            Some(Omission::Mirror)
        } else if service.spec.type_.as_deref() == Some("ExternalName") {
            Some(Omission::ExternalName)
        } else if !self.services.matches(&meta.labels) {
            Some(Omission::LabelsNotSelected)
        } else {
            self.against_annotation(meta.annotations.get(keys::EXPORT).map(|value| &**value))
        }
    }

    /// Any value but `"true"` and `"false"` is ignored.
    fn against_annotation(&self, value: Option<&str>) -> Option<Omission> {
        match (self.export, value) {
            (_, Some("false")) => Some(Omission::OptedOut),
            (Export::OptIn, Some("true")) | (Export::OptOut, _) => None,
            (Export::OptIn, _) => Some(Omission::NotOptedIn),
        }
    }
}
