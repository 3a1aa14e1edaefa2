//! What a backend may publish. The configuration file that says so is the writer's.

use gimbal_kubernetes_objects::keys;
use gimbal_model::{AddressRules, BackendName, Service, SourceKey, TargetKey, service_name};
use gimbal_plan::{AppProtocols, EndpointsApi, GuardConfig, Keep, Rules, Strip};

use crate::{LossPolicy, NamespacePolicy, NamespaceRefused};

/// The policy for one backend. The default is DESIGN 6's for what a file leaves out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Policy {
    /// Where its Services go.
    pub namespaces: NamespacePolicy,
    /// Which addresses it may publish.
    pub addresses: AddressRules,
    /// Labels and annotations that are left out.
    pub strip: Strip,
    /// Labels and annotations that alone are kept.
    pub keep: Keep,
    /// Application protocols that are renamed or dropped.
    pub app_protocols: AppProtocols,
    /// How much it may publish.
    pub quota: Quota,
    /// Mass-change guard.
    pub guard: GuardConfig,
    /// What happens when it is lost.
    pub on_loss: LossPolicy,
    /// Whether anything is written for it.
    pub mode: Mode,
}

/// How much a backend may publish; what is not set has no limit. The first three refuse growth and nothing else: what
/// stands when a limit is lowered stays, and may shrink or change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Services.
    pub services: Option<u64>,
    /// Endpoints over all of its Services.
    pub endpoints: Option<u64>,
    /// Bytes over all of its Services, as their headers and endpoints travel.
    pub bytes: Option<u64>,
    /// Changes a second: what is over it waits, and is replaced by what is newer.
    pub changes_per_second: Option<u64>,
}

/// Whether anything is written for a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Yes.
    #[default]
    Admit,
    /// No: plan and show only. What is there stays as it is.
    Quarantine,
}

impl Policy {
    /// The part of it that shapes objects.
    #[must_use]
    pub fn rules(&self, api: EndpointsApi) -> Rules<'_> {
        let Self { strip, keep, app_protocols, addresses, .. } = self;
        Rules { strip, keep, app_protocols, addresses, api }
    }

    /// The object that stands for a source Service, whose content is known if an agent said so.
    ///
    /// # Errors
    /// Why there can be none.
    pub fn target(
        &self,
        backend: &BackendName,
        key: &SourceKey,
        service: Option<&Service>,
    ) -> Result<TargetKey, NamespaceRefused> {
        let project = service.and_then(|service| service.header.annotations.get(keys::PROJECT));
        let namespace = self.namespaces.target(&key.namespace, project.map(|id| &**id))?;
        Ok(TargetKey::new(namespace, service_name(backend, &key.name)))
    }
}
