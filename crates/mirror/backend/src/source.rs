//! Where the source of a backend is, for gimbal-operator, which runs its discoverer. The writer does not look at it.

use gimbal_duration::HumanDuration;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::values::{LabelSelectorText, LongTime, NamespaceRule, ProjectRule, SecretName};

/// Where the source is. gimbal-operator runs a discoverer for it in the Gimbal cluster.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.kubernetes) != has(self.openstack)",
    "message": "name exactly one source: kubernetes or openstack",
}]))]
pub struct SourceSection {
    /// A Kubernetes cluster.
    #[serde(default)]
    pub kubernetes: Option<KubernetesSourceSection>,
    /// An OpenStack cloud.
    #[serde(default)]
    pub openstack: Option<OpenstackSourceSection>,
}

/// A Secret in the namespace of gimbal-operator.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretSection {
    /// Its name.
    pub name: SecretName,
}

/// A Kubernetes cluster as a source; what is left out is as in gimbal-kubernetes-discoverer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubernetesSourceSection {
    /// The Secret that has its kubeconfig, in the key kubeconfig.
    pub kubeconfig_secret: SecretSection,
    /// Patterns of namespaces that are offered; * matches any letters. Left out: all.
    #[serde(default)]
    #[schemars(extend("maxItems" = 256))]
    pub namespaces: Vec<NamespaceRule>,
    /// Patterns of namespaces that are not offered; they outrank `namespaces`.
    #[serde(default)]
    #[schemars(extend("maxItems" = 256))]
    pub exclude_namespaces: Vec<NamespaceRule>,
    /// Services that are offered, by their labels, as in kubectl -l. Left out: all.
    #[serde(default)]
    #[schemars(with = "Option<LabelSelectorText>")]
    pub service_selector: Option<String>,
    /// Whether a Service is offered unless its annotation says otherwise (opt-out), or only where it says so (opt-in); left out: opt-out.
    #[serde(default)]
    pub export: ExportSection,
}

/// Which Services are offered: `opt-out` or `opt-in`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExportSection {
    /// All but those whose annotation says no.
    #[default]
    OptOut,
    /// Those whose annotation says yes.
    OptIn,
}

/// An OpenStack cloud as a source; what is left out is as in gimbal-openstack-discoverer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OpenstackSourceSection {
    /// The Secret that has its credentials, as in deploy/examples/openstack-discoverer-credentials.yaml.
    pub credentials_secret: SecretSection,
    /// Time from the beginning of one poll to that of the next; left out: 30s.
    #[serde(default)]
    #[schemars(with = "Option<LongTime>")]
    pub poll_interval: Option<HumanDuration>,
    /// Projects that are offered, by name or ID; * matches any letters. Left out: all.
    #[serde(default)]
    #[schemars(extend("maxItems" = 256))]
    pub projects: Vec<ProjectRule>,
    /// Projects that are not offered; they outrank `projects`.
    #[serde(default)]
    #[schemars(extend("maxItems" = 256))]
    pub exclude_projects: Vec<ProjectRule>,
    /// How lists are asked for: auto, bulk or per-project; left out: auto.
    #[serde(default)]
    pub mode: CloudModeSection,
    /// What Services are named by: name-and-id or id; left out: name-and-id.
    #[serde(default)]
    pub service_name: ServiceNameSection,
}

/// How lists are asked for: `auto`, `bulk` or `per-project`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CloudModeSection {
    /// As the token allows.
    #[default]
    Auto,
    /// With one token for all projects.
    Bulk,
    /// With a token for each project.
    PerProject,
}

/// What Services are named by: `name-and-id` or `id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceNameSection {
    /// Name and ID of the load balancer.
    #[default]
    NameAndId,
    /// Its ID alone.
    Id,
}

impl ExportSection {
    /// Returns the value of the discoverer's flag.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OptOut => "opt-out",
            Self::OptIn => "opt-in",
        }
    }
}

impl CloudModeSection {
    /// Returns the value of the discoverer's flag.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Bulk => "bulk",
            Self::PerProject => "per-project",
        }
    }
}

impl ServiceNameSection {
    /// Returns the value of the discoverer's flag.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NameAndId => "name-and-id",
            Self::Id => "id",
        }
    }
}
