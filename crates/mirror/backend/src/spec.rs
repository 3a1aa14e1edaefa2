//! The whole of a backend, but for its name.

use std::collections::BTreeMap;

use gimbal_model::AddressRules;
use gimbal_reconcile::Policy;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::sections::{
    AddressSection, DropGuardSection, KeyListSection, LimitSection, LossSection, ModeSection, NamespaceSection,
    RemovalSection, app_protocols,
};
use crate::source::SourceSection;
use crate::values::{CertificateName, RenamedProtocol};

/// Why a spec, or a section of one, cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSpec(pub String);

/// Who a backend is, what it may publish, and what happens when it is lost.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackendSpec {
    /// URI or DNS name in the certificate of its agent. No two backends have the same.
    pub identity: CertificateName,
    /// Namespaces that its Services are published in.
    #[serde(default)]
    pub namespaces: NamespaceSection,
    /// Addresses that its endpoints may have.
    #[serde(default)]
    pub addresses: AddressSection,
    /// Keys of labels and annotations that are left out, instead of the default lists.
    #[serde(default)]
    pub strip: KeyListSection,
    /// Where set, only these keys are kept; what `strip` names is left out even so.
    #[serde(default)]
    pub keep: KeyListSection,
    /// Values of appProtocol that are written otherwise; an empty text: not at all.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 256))]
    pub app_protocol: BTreeMap<String, RenamedProtocol>,
    /// Limits on what it publishes.
    #[serde(default)]
    pub quota: LimitSection,
    /// What happens when it is lost.
    #[serde(default)]
    pub on_loss: LossSection,
    /// What happens when its removal was approved.
    #[serde(default)]
    pub on_removal: RemovalSection,
    /// Its mass-change guard.
    #[serde(default)]
    pub guard: DropGuardSection,
    /// Whether anything is written: admit, or quarantine, where it is only planned and shown; left out: admit.
    #[serde(default)]
    pub mode: ModeSection,
    /// Where gimbal-operator runs its discoverer for; left out: its discoverer is run by somebody else.
    #[serde(default)]
    pub source: Option<SourceSection>,
}

impl BackendSpec {
    /// Returns the policy. `refused` are the ranges that no backend may publish.
    #[must_use]
    pub fn policy(self, refused: &[IpNet]) -> Policy {
        let allowed = self.addresses.allow.map(|ranges| ranges.into_iter().map(|range| range.0).collect());
        Policy {
            namespaces: self.namespaces.into_policy(),
            addresses: AddressRules { refused: refused.to_vec(), allowed },
            strip: self.strip.into_strip(),
            keep: self.keep.into_keep(),
            app_protocols: app_protocols(self.app_protocol),
            quota: self.quota.into_quota(),
            guard: self.guard.into_config(),
            on_loss: self.on_loss.into_policy(),
            on_removal: self.on_removal.into_policy(),
            mode: self.mode.into_mode(),
            // Said by the deletion of an object, not by its spec.
            leaving: false,
        }
    }
}
