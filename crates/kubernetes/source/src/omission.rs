//! Reasons why parts of the source are left out, and counts of them.

use std::collections::BTreeMap;

/// The reason why a Service, or a part of one, is not offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Omission {
    /// A Service in `kube-system`.
    KubeSystem,
    /// A Service in a namespace that `exclude` matches.
    NamespaceExcluded,
    /// A Service in a namespace that `namespaces` does not match.
    NamespaceNotSelected,
    /// The Service `default/kubernetes`: the source's own API server.
    ApiServer,
    /// A Service of type `ExternalName`: it has no endpoints.
    ExternalName,
    /// A Service with Gimbal's backend label. Offering it back to the cluster that it comes from would create a loop.
    Mirror,
    /// A Service whose labels the selector does not match.
    LabelsNotSelected,
    /// A Service with the annotation `gimbal.projectcontour.io/export: "false"`.
    OptedOut,
    /// A Service without the annotation that [`Export::OptIn`](crate::Export::OptIn) asks for.
    NotOptedIn,
    /// A slice or an Endpoints object with Gimbal's backend label.
    MirrorSlice,
    /// A slice of host names, which address policies cannot be applied to.
    Fqdn,
    /// A slice of an unknown address type, or with a port that cannot be represented.
    Unsupported,
    /// An endpoint without a valid address.
    BadAddress,
    /// A port of a Service that cannot be represented.
    BadPort,
    /// The session affinity of a Service, which is offered without it.
    SessionAffinity,
}

impl Omission {
    /// Returns the name used in metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::KubeSystem => "KubeSystem",
            Self::NamespaceExcluded => "NamespaceExcluded",
            Self::NamespaceNotSelected => "NamespaceNotSelected",
            Self::ApiServer => "ApiServer",
            Self::ExternalName => "ExternalName",
            Self::Mirror => "Mirror",
            Self::LabelsNotSelected => "LabelsNotSelected",
            Self::OptedOut => "OptedOut",
            Self::NotOptedIn => "NotOptedIn",
            Self::MirrorSlice => "MirrorSlice",
            Self::Fqdn => "Fqdn",
            Self::Unsupported => "Unsupported",
            Self::BadAddress => "BadAddress",
            Self::BadPort => "BadPort",
            Self::SessionAffinity => "SessionAffinity",
        }
    }

    /// Returns the reason as the end of a sentence.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::KubeSystem => "namespace kube-system is never offered",
            Self::NamespaceExcluded => "its namespace is excluded (--exclude-namespaces)",
            Self::NamespaceNotSelected => "its namespace is not selected (--namespaces)",
            Self::ApiServer => "it is the source's own API server",
            Self::ExternalName => "it is of type ExternalName, which has no endpoints",
            Self::Mirror => "it carries the label gimbal.projectcontour.io/backend: it is itself a mirror",
            Self::LabelsNotSelected => "its labels are not those of --service-selector",
            Self::OptedOut => "its annotation gimbal.projectcontour.io/export is \"false\"",
            Self::NotOptedIn => "it has no annotation gimbal.projectcontour.io/export: \"true\" (--export opt-in)",
            Self::MirrorSlice => "it carries the label gimbal.projectcontour.io/backend: it is itself a mirror",
            Self::Fqdn => "its addresses are host names (FQDN), which no address policy can judge",
            Self::Unsupported => "its address type or one of its ports cannot be represented (Unsupported)",
            Self::BadAddress => "it has no address that can be read",
            Self::BadPort => "it has a port that cannot be represented",
            Self::SessionAffinity => "sessionAffinity is not carried: whoever routes to it decides on affinity",
        }
    }
}

/// Counts what is left out now, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OmissionCounts(BTreeMap<Omission, u64>);

impl OmissionCounts {
    pub(crate) fn add(&mut self, skip: Omission, count: u64) {
        if count > 0 {
            *self.0.entry(skip).or_default() += count;
        }
    }

    pub(crate) fn subtract(&mut self, skip: Omission, count: u64) {
        if let Some(held) = self.0.get_mut(&skip) {
            *held = held.saturating_sub(count);
            if *held == 0 {
                self.0.remove(&skip);
            }
        }
    }

    pub(crate) fn counts(&self) -> &BTreeMap<Omission, u64> {
        &self.0
    }
}
