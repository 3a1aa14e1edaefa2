//! Which Services of a source are offered at all.

use gimbal_kubernetes_objects::{Service, keys};
use gimbal_model::NamespacePattern;

use crate::{LabelSelector, Skip};

/// Where endpoints are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flavour {
    /// `discovery.k8s.io/v1` `EndpointSlices`.
    #[default]
    Slices,
    /// `core/v1` Endpoints, on a cluster without slices.
    Endpoints,
}

/// Which Services are offered where their annotation does not decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Export {
    /// All but those whose annotation `gimbal.projectcontour.io/export` is `"false"`.
    #[default]
    OptOut,
    /// Only those whose annotation is `"true"`.
    OptIn,
}

/// Which part of the source is offered, and how its endpoints are read.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Namespaces offered; empty: all.
    pub namespaces: Vec<NamespacePattern>,
    /// Namespaces left out; outranks `namespaces`.
    pub exclude: Vec<NamespacePattern>,
    /// What a Service's labels have to be.
    pub services: LabelSelector,
    /// What a Service's annotation has to be.
    pub export: Export,
    /// Where endpoints are read from.
    pub flavour: Flavour,
}

impl Selection {
    /// Why nothing of this namespace is offered, if so.
    pub(crate) fn against_namespace(&self, namespace: &str) -> Option<Skip> {
        let any = |patterns: &[NamespacePattern]| patterns.iter().any(|pattern| pattern.matches(namespace));
        if namespace == "kube-system" {
            Some(Skip::KubeSystem)
        } else if any(&self.exclude) {
            Some(Skip::NamespaceExcluded)
        } else if !self.namespaces.is_empty() && !any(&self.namespaces) {
            Some(Skip::NamespaceNotSelected)
        } else {
            None
        }
    }

    /// Why this Service is not offered, if so.
    pub(crate) fn against_service(&self, service: &Service) -> Option<Skip> {
        let meta = &service.metadata;
        if let Some(skip) = self.against_namespace(&meta.namespace) {
            return Some(skip);
        }
        if &*meta.namespace == "default" && &*meta.name == "kubernetes" {
            Some(Skip::ApiServer)
        } else if meta.labels.contains_key(keys::BACKEND) {
            Some(Skip::Mirror)
        } else if service.spec.type_.as_deref() == Some("ExternalName") {
            Some(Skip::ExternalName)
        } else if !self.services.matches(&meta.labels) {
            Some(Skip::LabelsNotSelected)
        } else {
            self.against_annotation(meta.annotations.get(keys::EXPORT).map(|value| &**value))
        }
    }

    /// A value that is neither `"true"` nor `"false"` decides nothing.
    fn against_annotation(&self, value: Option<&str>) -> Option<Skip> {
        match (self.export, value) {
            (_, Some("false")) => Some(Skip::OptedOut),
            (Export::OptIn, Some("true")) | (Export::OptOut, _) => None,
            (Export::OptIn, _) => Some(Skip::NotOptedIn),
        }
    }
}
